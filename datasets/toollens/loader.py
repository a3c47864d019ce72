"""ToolLens, as COLT's repository has it: a corpus and queries in JSON lines, judgements in two TSV files.

A tool's place in the hierarchy, its description and its parameters are inside the corpus text:
`category_name:…, tool_name:…, api_name:…, api_description:…, required_params: […], optional_params: […],
return_schema: {…}`. What upstream calls a tool is the parent here, and its API the tool.

Three more datasets are made from it: `toollens-unseen` holds parents out of train; `toollens-domains` keeps the tools
and queries that the query-generation paper would keep, and some of the parents for an out-of-domain test;
`toollens-ptr` has parents for tools, as PTR's released library has them.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.base.records import first_fault
from bench.data.card import Card
from bench.data.derive import DomainOptions, HoldOutOptions, hold_out, split_domains
from bench.data.files import Files
from bench.data.tables import Parameter, Query, Split, Tables, Tool

FOLDER = "datasets/ToolLens"
#: PTR's library: one entry for each parent.
PTR_LIBRARY = "src/Datasets/ToolLens_tool.json"
SPLIT_FILES: dict[Split, str] = {"train": f"{FOLDER}/qrels/train.tsv", "test": f"{FOLDER}/qrels/test.tsv"}
HEADER = "query-id\tcorpus-id\tscore"

_HEAD = re.compile(r"category_name:(.*?), tool_name:(.*?), api_name:(.*?), api_description:", re.DOTALL)
_JSON_LABELS = (", required_params: ", ", optional_params: ", ", return_schema: ")
_DECODER = json.JSONDecoder()


Options = {"unseen": HoldOutOptions, "domains": DomainOptions}


class _Line(BaseModel):
    id: str = Field(alias="_id", min_length=1)
    text: str = Field(min_length=1)


class _Parameter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    type: str
    description: str


_PARAMETERS = TypeAdapter(list[_Parameter])


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The tools and queries under upstream's ids: in upstream's split, or in the one that the options derive."""
    tables = _upstream(files)
    if isinstance(options, HoldOutOptions):
        return hold_out(tables, options)
    if isinstance(options, DomainOptions):
        return split_domains(tables, options)
    return _over_parents(tables, files) if card.variant == "ptr" else tables


def _over_parents(tables: Tables, files: Files) -> Tables:
    """The tables with PTR's library: a parent is a tool, and a query needs the parents of its gold.

    PTR's names end before the first comma or colon of the parent's.
    """
    tools = [
        Tool(tool_id=name, name=name, description=description, parent=name)
        for name, description in files.read_as(dict[str, str], PTR_LIBRARY).items()
    ]
    parents = {tool.tool_id: re.split("[,:]", tool.parent)[0].strip() for tool in tables.tools}
    queries = [
        replace(query, gold=dict.fromkeys((parents[tool] for tool in query.gold), 1)) for query in tables.queries
    ]
    return Tables(tools, queries)


def _upstream(files: Files) -> Tables:
    tools = [_tool(line, where) for line, where in files.lines_as(_Line, f"{FOLDER}/corpus.jsonl")]
    judged = {split: _gold(files, name) for split, name in SPLIT_FILES.items()}
    queries = []
    name = f"{FOLDER}/queries.jsonl"
    for line, where in files.lines_as(_Line, name):
        splits = [split for split, gold in judged.items() if line.id in gold]
        if len(splits) != 1:
            which = "both" if splits else "none"
            raise DataError(f"{where}: query {line.id} is in {which} of {' and '.join(SPLIT_FILES.values())}.")
        queries.append(Query(line.id, line.text, judged[splits[0]].pop(line.id), splits[0]))
    for split, rest in judged.items():
        if rest:
            raise DataError(f"{SPLIT_FILES[split]}: query {min(rest)} is not in {name}.")
    return Tables(tools, queries)


def _gold(files: Files, name: str) -> dict[str, dict[str, int]]:
    header, *lines = files.text(name).split("\n")
    if header != HEADER:
        raise DataError(f"{name} does not begin with the columns {HEADER.split()}.")
    gold: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        match = re.fullmatch(r"([^\t]+)\t([^\t]+)\t([1-9][0-9]?)", line)
        if match is None:
            raise DataError(f"{name}, line {number}: not a query, a tool and a relevance of 1 to 99.")
        query, tool, grade = match.groups()
        # Upstream repeats a line where a bundle names a tool twice; a gold set has it once.
        if gold.setdefault(query, {}).setdefault(tool, int(grade)) != int(grade):
            raise DataError(f"{name}, line {number}: query {query} has tool {tool} with another relevance above.")
    return gold


def _tool(line: _Line, where: str) -> Tool:
    """Take a corpus text apart.

    Names end at the next label. The description may hold labels, commas and brackets, so it ends at the
    first place from which everything to the end of the text is the three JSON values under their labels.
    """
    head = _HEAD.match(line.text)
    if head is None:
        raise DataError(f"{where}: the text does not begin with category_name, tool_name, api_name, api_description.")
    starts = (match.start() for match in re.finditer(re.escape(_JSON_LABELS[0]), line.text))
    ends = ((start, _json_values(line.text, start)) for start in starts if start >= head.end())
    end, values = next(((start, values) for start, values in ends if values), (0, []))
    if not values:
        raise DataError(f"{where}: the text does not end with required_params, optional_params, return_schema as JSON.")
    required, optional, returns = values
    category, parent, name = head.groups()
    return Tool(
        tool_id=line.id,
        name=name,
        description=line.text[head.end() : end],
        category=category,
        parent=parent,
        parameters=(*_parameters(required, True, where), *_parameters(optional, False, where)),
        # An empty string is how upstream says that it knows no schema.
        returns=None if returns == '""' else returns,
        source=line.text,
    )


def _json_values(text: str, start: int) -> list[str]:
    """The JSON text under each label from `start` on; empty unless they reach exactly to the end."""
    values = []
    for label in _JSON_LABELS:
        if not text.startswith(label, start):
            return []
        begin = start + len(label)
        try:
            _, start = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return []
        values.append(text[begin:start])
    return values if start == len(text) else []


def _parameters(text: str, required: bool, where: str) -> list[Parameter]:
    try:
        parameters = _PARAMETERS.validate_json(text, strict=True)
    except ValidationError as error:
        raise DataError(
            f"{where}: {'required' if required else 'optional'}_params: {first_fault(error, '')}."
        ) from None
    return [Parameter(p.name, p.type, p.description, required) for p in parameters]

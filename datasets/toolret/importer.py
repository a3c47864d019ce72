"""ToolRet from the user's copy of mteb/ToolRetrieval on the Hugging Face hub.

The folder has, for each of 35 subsets, `SUBSET-queries`, `SUBSET-qrels` and `SUBSET-corpus`, each with Parquet files
`test-*.parquet`: queries with id, text and instruction; qrels with query-id, corpus-id and score; a corpus with id and
text. Every corpus is the same 44,453 tools, so one is enough. mteb evaluates the queries as they are (ToolRetrieval)
and with the instruction behind the text and a blank (ToolRetrievalInstruction); so do the two datasets.

The text of a tool is a JSON object in the form of the dataset that it comes from. It is kept as the source, which the
template `source` indexes, as mteb does; name, description and names of parameters are read out of its usual places.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from bench.base.errors import DataError
from bench.base.records import validate_record
from bench.base.text import one_line
from bench.data.tables import Parameter, Query, Tables, Tool
from bench.importing.reading import parse_documents
from bench.importing.tools.schemas import parameters_of

TOOLS = 44_453
PLAIN, INSTRUCTED = "toolret", "toolret-instructed"
_DESCRIPTIONS = ("description", "functionality", "func_description", "description_for_human", "api_description")
_PARAMETERS = ("parameters", "doc_arguments", "required_parameters", "optional_parameters", "inputs", "api_arguments")
#: `toolbench_tool_17` comes from toolbench.
_ORIGIN = re.compile(r"(.+)_tool_\d+")


class _Document(BaseModel):
    id: str
    text: str


class _Request(_Document):
    instruction: str | None


class _Judgement(BaseModel):
    query: str = Field(alias="query-id")
    tool: str = Field(alias="corpus-id")
    score: int


R = TypeVar("R", bound=BaseModel)


def published() -> dict[str, tuple[int, int, int]]:
    """Subset -> queries, judgements and judged tools, as mteb's descriptive statistics of ToolRetrieval have them."""
    with (Path(__file__).parent / "statistics.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["subset"]: (int(row["queries"]), int(row["judgements"]), int(row["judged_tools"])) for row in rows}


def read(folder: Path) -> dict[str, Tables]:
    """The tables of both datasets.

    Raises:
        DataError: a subset is missing, a file is malformed, or the counts are not those that mteb publishes.
    """
    statistics = published()
    missing = [name for name in statistics if not (folder / f"{name}-queries").is_dir()]
    if missing:
        raise DataError(
            f"{folder} lacks the queries of {len(missing)} of {len(statistics)} subsets, first {missing[0]}-queries: "
            "download mteb/ToolRetrieval as `bench data info toolret` says."
        )
    tools = _corpus(folder, list(statistics))
    if len(tools) != TOOLS:
        raise DataError(f"{folder} has {len(tools):,} tools, and mteb's statistics have {TOOLS:,}: get its revision.")
    plain, instructed = list[Query](), list[Query]()
    for name, stated in statistics.items():
        queries, gold = _subset(folder, name, tools)
        sizes = (len(queries), sum(map(len, gold.values())), len({tool for judged in gold.values() for tool in judged}))
        if sizes != stated:
            raise DataError(
                f"{name} has {sizes[0]:,} queries, {sizes[1]:,} judgements and {sizes[2]:,} judged tools, and mteb's "
                f"statistics have {stated[0]:,}, {stated[1]:,} and {stated[2]:,}: get its revision."
            )
        for query in queries:
            slices = {"subset": name}
            plain.append(Query(query.id, query.text, gold[query.id], slices=slices))
            request = query.text if query.instruction is None else f"{query.text} {query.instruction}"
            instructed.append(Query(query.id, request, gold[query.id], slices=slices))
    library = list(tools.values())
    return {PLAIN: Tables(library, plain), INSTRUCTED: Tables(library, instructed)}


def _corpus(folder: Path, subsets: list[str]) -> dict[str, Tool]:
    place = next((folder / f"{name}-corpus" for name in subsets if (folder / f"{name}-corpus").is_dir()), None)
    if place is None:
        raise DataError(f"{folder} has no corpus: download one of the folders SUBSET-corpus, such as apibank-corpus.")
    tools: dict[str, Tool] = {}
    for where, row in _rows(place, _Document):
        if row.id in tools:
            raise DataError(f"{where}: the tool {one_line(row.id, 60)!r} occurs twice.")
        tools[row.id] = _tool(row.id, row.text, where)
    return tools


def _subset(folder: Path, name: str, tools: dict[str, Tool]) -> tuple[list[_Request], dict[str, dict[str, int]]]:
    """The queries, and the gold of each."""
    queries = [row for _, row in _rows(folder / f"{name}-queries", _Request)]
    gold: dict[str, dict[str, int]] = {query.id: {} for query in queries}
    for where, row in _rows(folder / f"{name}-qrels", _Judgement):
        if row.query not in gold or row.tool not in tools:
            what = f"the query {row.query!r}" if row.query not in gold else f"the tool {row.tool!r}"
            raise DataError(f"{where}: there is no such thing as {one_line(what, 80)}.")
        if row.score > 0:
            gold[row.query][row.tool] = row.score
    return queries, gold


def _tool(tool_id: str, text: str, where: str) -> Tool:
    # A text that is no JSON is a description.
    try:
        (document,) = parse_documents(Path(f"{where}.json"), where, text.encode("utf-8", "surrogatepass"))
        about = document.value if isinstance(document.value, dict) else {}
    except (DataError, ValueError):
        about = {}
    return read_tool(tool_id, about, text)


def read_tool(tool_id: str, about: Mapping[str, Any], text: str) -> Tool:
    """A tool of the object `about` that documents it, in any form that ToolRet's tools have; `text` is its source."""
    origin = _ORIGIN.fullmatch(tool_id)
    parameters: dict[str, Parameter] = {}
    for key in _PARAMETERS:
        for parameter in _parameters(about.get(key), required=key != "optional_parameters"):
            parameters.setdefault(parameter.name, parameter)
    name = about.get("name")
    descriptions = (about.get(key) for key in _DESCRIPTIONS)
    return Tool(
        tool_id=tool_id,
        name=name.strip() if isinstance(name, str) and name.strip() else tool_id,
        description=next((each.strip() for each in descriptions if isinstance(each, str) and each.strip()), ""),
        category=origin[1] if origin else "",
        parent=tool_id,
        parameters=tuple(parameters.values()),
        source=text,
    )


def _parameters(value: Any, *, required: bool) -> Iterator[Parameter]:
    """Parameters of a JSON Schema, of a list of objects with names, or of an object by name."""
    if isinstance(value, dict) and isinstance(value.get("properties"), dict):
        yield from parameters_of(value)
        return
    named = (
        value.items()
        if isinstance(value, dict)
        else [(item.get("name"), item) for item in value if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )
    for name, about in named:
        if isinstance(name, str) and name.strip():
            kind, description = (about.get(key) if isinstance(about, dict) else "" for key in ("type", "description"))
            yield Parameter(
                name.strip(),
                kind if isinstance(kind, str) else "",
                description if isinstance(description, str) else "",
                required,
            )


def _rows(folder: Path, form: type[R]) -> Iterator[tuple[str, R]]:
    """Where each row is, and the row, over the files of a folder."""
    from bench.data.parquet import parquet_rows

    paths = sorted(folder.glob("test-*.parquet"))
    if not paths:
        raise DataError(f"{folder} has no file test-*.parquet.")
    columns = [field.alias or name for name, field in form.model_fields.items()]
    for path in paths:
        label = f"{folder.name}/{path.name}"
        for number, row in enumerate(parquet_rows(path, columns, label)):
            where = f"{label}, row {number}"
            yield where, validate_record(form, row, where, DataError)

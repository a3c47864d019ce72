"""Reading and writing BEIR format: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

An export loses nothing: what BEIR has no place for (parameters, hierarchy, splits of queries without gold,
edges) is under `metadata` and in `edges.tsv`, and an import reads it back. Data that others made in BEIR
form is imported from title and text alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from bench.base.errors import DataError
from bench.base.paths import read_regular, write_text
from bench.base.records import Record, StrictRecord, faults, first_fault
from bench.data.card import DEFAULT_UNIT, DatasetId, Unit
from bench.data.dataset import Dataset
from bench.data.edges import COLUMNS, read_edges
from bench.data.tables import SPLITS, Edge, NamedTemplate, Parameter, Query, Split, Tables, Template, Tool
from bench.data.tool_names import NameRecord, ToolNames

CORPUS, QUERIES, QRELS, EDGES, ABOUT = "corpus.jsonl", "queries.jsonl", "qrels", "edges.tsv", "about.json"
_HEADER = "query-id\tcorpus-id\tscore"
#: So many faults of a file are told at once.
_MOST_FAULTS = 10
_GRADE = re.compile(r"-?[0-9]{1,7}")
#: The second of TREC's four columns of judgements.
_ITERATIONS = frozenset({"0", "Q0"})
#: What the first column of judgements is called, without signs.
_QUERY_COLUMNS = frozenset({"queryid", "qid", "query", "topic"})


def _empty(value: Any) -> Any:
    return "" if value is None else value


#: A text that others leave out, or write as null.
_OptionalText = Annotated[str, BeforeValidator(_empty)]


class _ParameterFields(StrictRecord):
    """A parameter as an export writes it; a hand-written one may leave out what it does not know."""

    name: str
    type: _OptionalText = ""
    description: _OptionalText = ""
    required: bool = False
    default: str | None = None


class _ToolFields(StrictRecord):
    """`metadata.tool` as an export writes it; a hand-written one may leave out what it does not know."""

    name: str
    description: _OptionalText
    category: _OptionalText = ""
    parent: _OptionalText = ""
    parameters: list[_ParameterFields] = []
    returns: str | None = None
    source: str | None = None
    title: str = ""
    annotations: str | None = None
    input_schema: str | None = None
    deprecated: bool = False


class _QueryFields(StrictRecord):
    """What BEIR has no place for in a query, in its metadata as `more`."""

    any_of: dict[str, list[str]] = {}
    forbidden: list[str] = []
    searches: list[str] = []
    context: list[str] = []
    origin: str = ""
    calls: list[str] = []
    scope: list[str] = []


class _Metadata(BaseModel):
    """What we read of a line's metadata; others put there what they like."""

    model_config = ConfigDict(extra="ignore")

    tool: _ToolFields | None = None
    split: Split | None = None
    slices: dict[str, str] = {}
    group: str = ""
    more: _QueryFields = _QueryFields()

    @field_validator("tool", mode="before")
    @classmethod
    def _only_fields(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else None

    @field_validator("slices", mode="before")
    @classmethod
    def _only_a_table(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {}

    @field_validator("more", mode="before")
    @classmethod
    def _only_what_is_ours(cls, value: Any) -> Any:
        ours = isinstance(value, dict) and value.keys() <= _QueryFields.model_fields.keys()
        return value if ours else {}

    @field_validator("group", mode="before")
    @classmethod
    def _only_a_text(cls, value: Any) -> Any:
        return value if isinstance(value, str) else ""


class _About(Record):
    """`about.json` of an export: what a card says that the data does not."""

    title: str
    licence: str
    redistribution: bool
    template: NamedTemplate
    split: Literal["test", "all"] = "test"
    known_issues: list[str]
    unit: Unit = DEFAULT_UNIT
    source: DatasetId | Literal[""] = ""


class _CorpusLine(BaseModel):
    """A line of corpus.jsonl."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = Field(alias="_id")
    title: str | None = ""
    text: str | None = ""
    metadata: Any = None


def export_beir(dataset: Dataset, folder: Path, template: Template) -> None:
    """Write the dataset; a tool's `text` is its text by the template."""
    corpus: list[dict[str, Any]] = [
        {"_id": tool.tool_id, "title": tool.name, "text": tool.text(template), "metadata": {"tool": _tool_fields(tool)}}
        for tool in dataset.tools
    ]
    queries: list[dict[str, Any]] = [
        {
            "_id": query.query_id,
            "text": query.text,
            "metadata": {
                "split": query.split,
                "slices": dict(query.slices),
                "group": query.group,
                **({"more": more} if (more := _query_fields(query)) else {}),
            },
        }
        for query in dataset.queries
    ]
    for name, rows in ((CORPUS, corpus), (QUERIES, queries)):
        write_text(folder / name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    for split in SPLITS:
        of_split = [query for query in dataset.queries if query.split == split]
        if of_split:
            lines = [f"{q.query_id}\t{tool}\t{grade}" for q in of_split for tool, grade in sorted(q.gold.items())]
            write_text(folder / QRELS / f"{split}.tsv", "\n".join([_HEADER, *lines]) + "\n")
    if not dataset.queries:
        # A catalogue without queries: a folder of BEIR has at least one file of judgements.
        write_text(folder / QRELS / "test.tsv", _HEADER + "\n")
    if dataset.edges:
        lines = ["\t".join((edge.dependent, edge.prerequisite, edge.reason, edge.note)) for edge in dataset.edges]
        write_text(folder / EDGES, "\n".join(["\t".join(COLUMNS), *lines]) + "\n")
    card = dataset.card
    about = _About(
        title=card.title,
        licence=card.licence,
        redistribution=card.redistribution,
        template=card.template,
        split=card.split,
        known_issues=card.known_issues,
        unit=card.unit,
        source=dataset.source,
    )
    write_text(folder / ABOUT, json.dumps(about.model_dump(), indent=1, ensure_ascii=False) + "\n")


def _query_fields(query: Query) -> dict[str, Any]:
    fields = _QueryFields(
        any_of={tool: list(others) for tool, others in query.any_of.items()},
        forbidden=list(query.forbidden),
        searches=list(query.searches),
        context=list(query.context),
        origin=query.origin,
        calls=list(query.calls),
        scope=list(query.scope),
    )
    return fields.model_dump(exclude_defaults=True)


def _tool_fields(tool: Tool) -> dict[str, Any]:
    more = {key: getattr(tool, key) for key in ("title", "annotations", "input_schema", "deprecated")}
    return {
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "parent": tool.parent,
        "parameters": [
            {"name": p.name, "type": p.type, "description": p.description, "required": p.required, "default": p.default}
            for p in tool.parameters
        ],
        "returns": tool.returns,
        "source": tool.source,
        **{key: value for key, value in more.items() if value},
    }


def import_beir(folder: Path, *, drop_unknown_gold: bool = False) -> Tables:
    """Read a folder in BEIR form.

    A query that no split claims (it is in no qrels, and no metadata name its split) is left out, and so is one
    whose gold was all dropped; both are listed in the tables. A judgement of 0 claims a query and is no gold.

    Args:
        folder: holds corpus.jsonl, queries.jsonl and at least one of qrels/{train,dev,test}.tsv.
        drop_unknown_gold: leave out judgements of tools that the corpus does not have; without it such a judgement
            is an error.

    Raises:
        DataError: a file is missing or malformed (file and line are named), or gold names an unknown tool.
    """
    tools = read_corpus(folder / CORPUS)
    queries, unknown, left_out = import_queries(folder, ToolNames(tools), drop_unknown_gold=drop_unknown_gold)
    edges: list[Edge] = read_edges(folder / EDGES) if (folder / EDGES).is_file() else []
    return Tables(tools, queries, edges, unknown, left_out)


def import_queries(
    folder: Path, names: ToolNames, *, drop_unknown_gold: bool = False, record: NameRecord | None = None
) -> tuple[list[Query], list[tuple[str, str]], list[str]]:
    """The queries of a folder in BEIR form, which may be without a corpus; raises as `import_beir` does.

    Args:
        folder: holds queries.jsonl and at least one of qrels/{train,dev,test}.tsv.
        names: the tools.
        drop_unknown_gold: leave out judgements of other tools.
        record: takes what the names became; None takes ids only.

    Returns:
        Queries; (query_id, tool_id) of the judgements left out; ids of the queries left out.
    """
    judged = _judgements(folder / QRELS)
    codes = {tool.tool_id: code for code, tool in enumerate(names.tools)}

    def meant(name: str) -> str | None:
        meant_codes = [codes[name]] if name in codes else list(names.find(name)) if record is not None else []
        if len(meant_codes) != 1:
            return None
        tool = names.tools[meant_codes[0]].tool_id
        if record is not None:
            record.take(name, tool)
        return tool

    corpus = CORPUS if (folder / CORPUS).is_file() else "the catalogue"
    unknown: list[tuple[str, str]] = []
    queries: list[Query] = []
    left_out: list[str] = []
    seen: set[str] = set()
    for document, metadata in _documents(folder / QUERIES):
        seen.add(document.id)
        split, gold = judged.get(document.id, (None, {}))
        tools = {name: tool for name in gold if (tool := meant(name)) is not None}
        missing = sorted(gold.keys() - tools)
        if missing and not drop_unknown_gold:
            why = f" ({names.fault(missing[0])})" if record is not None else ""
            raise DataError(
                f"{folder / QRELS}: query {document.id} is judged with {missing[0]!r}, which is not in {corpus}{why}; "
                "mend it, or add the dataset with --drop-unknown-gold."
            )
        unknown.extend((document.id, tool) for tool in missing)
        kept: dict[str, int] = {}
        for name, tool in tools.items():
            kept[tool] = max(gold[name], kept.get(tool, 0))
        split = split or metadata.split
        if split is None or (missing and not kept):
            left_out.append(document.id)
        else:
            more = metadata.more
            others = {
                tool: tuple(other for each in more.any_of[name] if (other := meant(each)) is not None)
                for name, tool in tools.items()
                if name in more.any_of
            }
            scope = tuple(tool for each in more.scope if (tool := meant(each)) is not None)
            if more.scope and not scope:
                raise DataError(
                    f"{folder / QUERIES}: no tool of the scope of query {document.id} is in {corpus}; mend the scope."
                )
            queries.append(
                Query(
                    document.id,
                    document.text or "",
                    kept,
                    split,
                    metadata.slices,
                    metadata.group,
                    {tool: group for tool, group in others.items() if group},
                    tuple(other for each in more.forbidden if (other := meant(each)) is not None),
                    tuple(more.searches),
                    tuple(more.context),
                    more.origin,
                    tuple(more.calls),
                    tuple(dict.fromkeys(scope)),
                )
            )
    strangers = sorted(judged.keys() - seen)
    if strangers:
        raise DataError(f"{folder / QRELS}: query {strangers[0]!r} is judged but not in {QUERIES}.")
    return queries, unknown, left_out


def read_corpus(path: Path) -> list[Tool]:
    """The tools of a corpus.jsonl, which may be without queries.

    Raises:
        DataError: the file is missing or malformed (the line is named).
    """
    return [_tool(document, metadata) for document, metadata in _documents(path)]


def read_about(folder: Path) -> dict[str, Any]:
    """What an export says of title, licence, template and known issues; nothing for a folder of others' making.

    Raises:
        DataError: the file is there and malformed.
    """
    path = folder / ABOUT
    if not path.is_file():
        return {}
    try:
        return _About.model_validate_json(read_regular(path)).model_dump()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from None
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}.") from None


def _documents(path: Path) -> Iterator[tuple[_CorpusLine, _Metadata]]:
    """Every line; after the last, an error if any is out of form, which tells the first ten faults of the file."""
    wrong: list[str] = []
    for number, line in _lines(path):
        if line.strip():
            try:
                document = _CorpusLine.model_validate_json(line)
                metadata = document.metadata if isinstance(document.metadata, dict) else {}
                yield document, _Metadata.model_validate(metadata)
            except ValidationError as error:
                places = ((fault.where or "the line", fault.told) for fault in faults(error))
                wrong += [f"line {number}: {place}: {told}" for place, told in places]
    if wrong:
        more = f"; and {len(wrong) - _MOST_FAULTS} more" if len(wrong) > _MOST_FAULTS else ""
        raise DataError(f"{path}, {'; '.join(wrong[:_MOST_FAULTS])}{more}.")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        # Not `splitlines`: it would also cut at the line separators that JSON allows inside a text.
        lines = read_regular(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: it is not UTF-8 ({error.reason} at byte {error.start}).") from None
    yield from enumerate(lines, start=1)


def _tool(document: _CorpusLine, metadata: _Metadata) -> Tool:
    about = metadata.tool
    if about is not None:
        parameters = tuple(Parameter(**parameter.model_dump()) for parameter in about.parameters)
        return Tool(tool_id=document.id, parameters=parameters, **about.model_dump(exclude={"parameters"}))
    text = document.text or ""
    title = document.title or ""
    # Without a hierarchy each tool is its own parent: a collection of one.
    return Tool(document.id, title or document.id, text, parent=title or document.id, source=text)


def _judgements(folder: Path) -> dict[str, tuple[Split, dict[str, int]]]:
    judgements: dict[str, tuple[Split, dict[str, int]]] = {}
    paths: list[tuple[Split, Path]] = [(split, folder / f"{split}.tsv") for split in SPLITS]
    if not any(path.is_file() for _, path in paths):
        raise DataError(f"{folder} has none of {', '.join(path.name for _, path in paths)}.")
    for split, path in paths:
        if not path.is_file():
            continue
        for number, line in _lines(path):
            values = line.rstrip("\r").split("\t")
            # Others write judgements without a header, in columns with spaces between, or as TREC does.
            values = line.split() if len(values) == 1 else values
            if not line.strip() or (number == 1 and _is_header(values)):
                continue
            if len(values) == 4 and values[1] in _ITERATIONS:
                del values[1]
            if len(values) != 3 or not _GRADE.fullmatch(values[2]):
                raise DataError(
                    f"{path}, line {number}: expected query id, tool id and whole number, tab-separated, or the four "
                    "columns of TREC."
                )
            query, tool, grade = values[0], values[1], int(values[2])
            before = judgements.setdefault(query, (split, {}))
            if before[0] != split:
                raise DataError(f"{path}, line {number}: query {query} is in {before[0]}, too.")
            # Zero means judged and not relevant: no gold.
            if grade > 0:
                before[1][tool] = max(grade, before[1].get(tool, 0))
    return judgements


def _is_header(values: list[str]) -> bool:
    """Whether a first line names columns: a query may be called `query-id-7`, but a grade is a number."""
    first = re.sub(r"[^a-z]", "", values[0].lower()) if values else ""
    return first in _QUERY_COLUMNS and not _GRADE.fullmatch(values[-1])

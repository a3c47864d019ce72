"""Reading and writing BEIR format: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

An export loses nothing: fields that BEIR lacks (parameters, hierarchy, splits of queries without gold, edges) are under
`metadata` and in `edges.tsv`, and an import reads them back. Other BEIR data is imported from title and text alone.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from bench.base.errors import DataError
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import Record, StrictRecord, faults
from bench.base.text import one_line, whole_number
from bench.data.card import DEFAULT_UNIT, DatasetId, Unit
from bench.data.dataset import Dataset
from bench.data.edges import COLUMNS, read_edges
from bench.data.tables import SPLITS, Edge, Parameter, Query, Split, Tables, Tool
from bench.data.template import TEMPLATES, NamedTemplate, Template
from bench.data.tool_names import NameRecord, ToolNames
from bench.show.numbers import several

CORPUS, QUERIES, QRELS, EDGES, ABOUT = "corpus.jsonl", "queries.jsonl", "qrels", "edges.tsv", "about.json"
_HEADER = "query-id\tcorpus-id\tscore"
#: Maximum errors reported per file.
_MOST_FAULTS = 10
#: The second column of TREC judgements and runs.
TREC_SECOND = frozenset({"0", "Q0"})
#: Names of the first column of judgements, without punctuation.
_QUERY_COLUMNS = frozenset({"queryid", "qid", "query", "topic"})


def _empty(value: Any) -> Any:
    return "" if value is None else value


#: An optional text, which may be missing or null.
_OptionalText = Annotated[str, BeforeValidator(_empty)]


class _ParameterFields(StrictRecord):
    """A parameter in an export; hand-written files may omit unknown fields."""

    name: str
    type: _OptionalText = ""
    description: _OptionalText = ""
    required: bool = False
    default: str | None = None


class _ToolFields(StrictRecord):
    """`metadata.tool` in an export; hand-written files may omit unknown fields."""

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
    """Fields of a query that BEIR lacks; `more` in its metadata."""

    any_of: dict[str, list[str]] = {}
    forbidden: list[str] = []
    searches: list[str] = []
    context: list[str] = []
    origin: str = ""
    calls: list[str] = []
    scope: list[str] = []


_MORE = _QueryFields.model_fields


class _ToolMetadata(StrictRecord):
    """The metadata of a line of corpus.jsonl; `columns` are the other fields of the line."""

    columns: ClassVar[frozenset[str]] = frozenset({"_id", "title", "text"})
    tool: _ToolFields | None = None


class _QueryMetadata(StrictRecord):
    """The metadata of a line of queries.jsonl; `columns` are the other fields of the line."""

    columns: ClassVar[frozenset[str]] = frozenset({"_id", "text"})
    split: Split | None = None
    slices: dict[str, str] = {}
    group: str = ""
    more: _QueryFields = _QueryFields()


def _is_ours(key: str, value: Any) -> bool:
    """Whether a metadata value can be one that bench wrote under this key: others may use the key differently."""
    if key == "more":
        return isinstance(value, dict) and not _MORE.keys().isdisjoint(value)
    return key == "split" or isinstance(value, str if key == "group" else dict)


M = TypeVar("M", _ToolMetadata, _QueryMetadata)


class _About(Record):
    """`about.json` of an export: what a card says and the data does not."""

    title: str
    licence: str
    redistribution: bool
    template: NamedTemplate
    split: Literal["test", "all"] = "test"
    known_issues: list[str]
    unit: Unit = DEFAULT_UNIT
    source: DatasetId | Literal[""] = ""


class _Document(Record):
    """A line of corpus.jsonl or queries.jsonl without its metadata."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str = Field(alias="_id")
    title: _OptionalText = ""
    text: _OptionalText = ""


def export_beir(dataset: Dataset, folder: Path, template: Template) -> None:
    """Write the dataset; the `text` of a tool follows the template."""
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
                **({"more": more} if (more := {key: value for key in _MORE if (value := getattr(query, key))}) else {}),
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
        # For a catalogue without queries: a BEIR folder has at least one file of judgements.
        write_text(folder / QRELS / "test.tsv", _HEADER + "\n")
    if dataset.edges:
        lines = ["\t".join((edge.dependent, edge.prerequisite, edge.reason, edge.note)) for edge in dataset.edges]
        write_text(folder / EDGES, "\n".join(["\t".join(COLUMNS), *lines]) + "\n")
    shared = dataset.card.model_dump(include=_About.model_fields.keys() - {"source"})
    about = _About(**shared, source=dataset.source)
    write_text(folder / ABOUT, json.dumps(about.model_dump(), indent=1, ensure_ascii=False) + "\n")


def _tool_fields(tool: Tool) -> dict[str, Any]:
    spared = ("title", "annotations", "input_schema", "deprecated")
    return {key: value for key, value in asdict(tool).items() if key != "tool_id" and (value or key not in spared)}


def import_beir(folder: Path, *, drop_unknown_gold: bool = False, notes: list[str] | None = None) -> Tables:
    """Read a folder in BEIR format.

    A query without a split (it is in no qrels, and its metadata name no split) is left out, and so is one whose gold
    was all dropped; the tables list both. A judgement of 0 assigns a split but is not gold, and a relevance below 0 is
    read as 0.

    Args:
        folder: holds corpus.jsonl, queries.jsonl and at least one of qrels/{train,dev,test}.tsv.
        drop_unknown_gold: leave out judgements of tools that the corpus lacks; otherwise they are errors.
        notes: receives sentences, without the final period, about what is not read or read differently from how it
            is written.

    Raises:
        DataError: a file is missing, malformed or contradicts itself (file and line are named), or gold names an
            unknown tool.
    """
    notes = [] if notes is None else notes
    tools = read_corpus(folder / CORPUS, notes)
    names = ToolNames(tools)
    queries, unknown, left_out = import_queries(folder, names, notes, drop_unknown_gold=drop_unknown_gold)
    edges: list[Edge] = read_edges(folder / EDGES) if (folder / EDGES).is_file() else []
    return Tables(tools, queries, edges, unknown, left_out)


def import_queries(
    folder: Path,
    names: ToolNames,
    notes: list[str],
    *,
    drop_unknown_gold: bool = False,
    record: NameRecord | None = None,
) -> tuple[list[Query], list[tuple[str, str]], list[str]]:
    """Read the queries of a BEIR folder, which may lack a corpus; raises as `import_beir` does.

    Args:
        folder: holds queries.jsonl and at least one of qrels/{train,dev,test}.tsv.
        names: the tools.
        notes: as in `import_beir`.
        drop_unknown_gold: leave out judgements of other tools.
        record: receives how names were resolved; None accepts only ids.

    Returns:
        Queries; (query_id, tool_id) of the judgements left out; ids of the queries left out.
    """
    judged = _judgements(folder, notes)
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
    # Where metadata and judgements disagree on the split, and names of tools that are ignored.
    other_split: list[str] = []
    lost: list[str] = []

    def known(given: Iterable[str], place: str) -> tuple[str, ...]:
        tools = {name: meant(name) for name in given}
        lost.extend(f"{name!r} in {place}" for name, tool in tools.items() if tool is None)
        return tuple(dict.fromkeys(tool for tool in tools.values() if tool is not None))

    for number, document, metadata in _documents(folder / QUERIES, _QueryMetadata, notes):
        place = f"{QUERIES}, line {number}"
        split, judgements = judged.pop(document.id, (None, {}))
        # By tool: several names may stand for one.
        kept: dict[str, _Judgement] = {}
        missing: list[str] = []
        for name, judgement in sorted(judgements.items()):
            if (tool := meant(name)) is not None:
                _check_equal(folder, judgement, kept.setdefault(tool, judgement))
            elif judgement.relevance:
                missing.append(name)
            else:
                lost.append(f"{name!r} in {judgement.place}")
        if missing and not drop_unknown_gold:
            why = f" ({names.fault(missing[0])})" if record is not None else ""
            raise DataError(
                f"{folder / judgements[missing[0]].place}: query {document.id} is judged with {missing[0]!r}, which is "
                f"not in {corpus}{why}; correct it, or add the dataset with --drop-unknown-gold."
            )
        unknown.extend((document.id, name) for name in missing)
        if split is not None and metadata.split not in {None, split}:
            other_split.append(place)
        gold = {tool: judgement.relevance for tool, judgement in kept.items() if judgement.relevance}
        split = split or metadata.split
        if split is None or (missing and not gold):
            left_out.append(document.id)
            continue
        more = metadata.more
        any_of = {tool: known(others, place) for name, others in more.any_of.items() for tool in known([name], place)}
        scope = known(more.scope, place)
        if more.scope and not scope:
            raise DataError(f"{folder / place}: no tool of the scope of the query is in {corpus}; correct the scope.")
        queries.append(
            Query(
                document.id,
                document.text,
                gold,
                split,
                metadata.slices,
                metadata.group,
                {tool: group for tool, group in any_of.items() if group},
                known(more.forbidden, place),
                tuple(more.searches),
                tuple(more.context),
                more.origin,
                tuple(more.calls),
                scope,
            )
        )
    for query, (_, judgements) in sorted(judged.items()):
        place = next(iter(judgements.values())).place
        raise DataError(f"{folder / place}: query {query!r} is judged but not in {QUERIES}.")
    if unknown:
        shortened = len({query for query, _ in unknown} - set(left_out))
        dropped = several(len(unknown), "judgement of a tool", "judgements of tools")
        shorter = several(shortened, "query has", "queries have")
        notes.append(f"left out {dropped} outside {corpus}; {shorter} less gold than before")
    if left_out:
        notes.append(
            f"left out {several(len(left_out), 'query')} that no split contains or whose gold was all dropped; "
            f"the first is {left_out[0]}. A judgement of 0 keeps a query that has no gold"
        )
    _count(notes, "the metadata names another split than the judgements, which count", other_split)
    _count(notes, f"metadata and judgements of 0 name tools that {corpus} lacks, which are left out", lost)
    return queries, unknown, left_out


def read_corpus(path: Path, notes: list[str]) -> list[Tool]:
    """Read the tools of a corpus.jsonl, which may have no queries beside it.

    Args:
        path: the file.
        notes: as in `import_beir`.

    Raises:
        DataError: the file is missing or malformed (the line is named).
    """
    tools: list[Tool] = []
    edited: list[str] = []
    for number, document, metadata in _documents(path, _ToolMetadata, notes):
        tools.append(_tool(document, metadata))
        if metadata.tool is not None and not _is_text_of(tools[-1], document):
            edited.append(f"{path.name}, line {number}")
    _count(notes, "the title or text of a tool differs from its metadata.tool, which counts", edited)
    return tools


def read_about(folder: Path) -> dict[str, Any]:
    """Title, licence, template and known issues of an export; empty for a folder that another program made.

    Raises:
        DataError: the file exists and is malformed.
    """
    path = folder / ABOUT
    return Reader(str(path), DataError).read_record(_About, path).model_dump() if path.is_file() else {}


def _documents(path: Path, kind: type[M], notes: list[str]) -> Iterator[tuple[int, _Document, M]]:
    """The number, document and metadata of every line.

    After the last line follows an error with the first ten faults of the file, if there are any, or a note about fields
    that are not read.
    """
    wrong: list[str] = []
    unread: defaultdict[str, list[str]] = defaultdict(list)
    lines: dict[str, int] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            fields = Reader(f"line {number}", DataError).parse(line, number - 1)
            if not isinstance(fields, dict):
                raise DataError(f"line {number}: expected a JSON object.")
            metadata = fields.pop("metadata", None)
            own = metadata if isinstance(metadata, dict) else {}
            read = {key for key, value in own.items() if key in kind.model_fields and _is_ours(key, value)}
            others = {f"metadata.{key}": value for key, value in own.items() if key not in read}
            others |= {} if own else {"metadata": metadata}
            others |= {key: fields.pop(key) for key in fields.keys() - kind.columns}
            document = _Document.model_validate(fields)
            if (before := lines.setdefault(document.id, number)) != number:
                raise DataError(f"line {number}: _id: {document.id!r} is also that of line {before}.")
            yield number, document, kind.model_validate({key: own[key] for key in read})
        except DataError as error:
            wrong.append(str(error).rstrip("."))
        except ValidationError as error:
            wrong += [f"line {number}: {fault.where}: {fault.told}" for fault in faults(error)]
        else:
            for name, value in others.items():
                if value not in (None, "", [], {}):
                    unread[name].append(f"line {number}")
    if wrong:
        more = f"; and {len(wrong) - _MOST_FAULTS} more" if len(wrong) > _MOST_FAULTS else ""
        raise DataError(f"{path}, {'; '.join(wrong[:_MOST_FAULTS])}{more}.")
    told: list[str] = []
    for name, places in sorted(unread.items()):
        _count(told, one_line(name, 80), places)
    if told:
        more = f" and {len(told) - _MOST_FAULTS} more" if len(told) > _MOST_FAULTS else ""
        notes.append(f"{path.name} has fields that are not read: {', '.join(told[:_MOST_FAULTS])}{more}")


def _count(notes: list[str], what: str, places: list[str]) -> None:
    """Add a note about something that occurs at some places, if there are any."""
    if places:
        count = f"{len(places)} times, the first: " if len(places) > 1 else ""
        notes.append(f"{what} ({count}{places[0]})")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    # Not `splitlines`: it would also cut at the line separators that JSON allows inside a text.
    return enumerate(Reader(str(path), DataError).read_text(path).split("\n"), start=1)


def _tool(document: _Document, metadata: _ToolMetadata) -> Tool:
    about = metadata.tool
    if about is not None:
        parameters = tuple(Parameter(**parameter.model_dump()) for parameter in about.parameters)
        return Tool(tool_id=document.id, parameters=parameters, **about.model_dump(exclude={"parameters"}))
    name, text = document.title or document.id, document.text
    # Without a hierarchy each tool is its own parent: a collection of one.
    return Tool(document.id, name, text, parent=name, source=text)


def _is_text_of(tool: Tool, document: _Document) -> bool:
    """Whether an export of the tool has the title and text of a document, as far as it has them."""
    with suppress(ValueError, RecursionError):  # of a schema that is not JSON, which `Dataset.build` refuses
        texts = ("", *(tool.text(template) for template in TEMPLATES))
        return document.title in {"", tool.name} and document.text in texts
    return True


class _Judgement(NamedTuple):
    """A line of judgements: query, tool and relevance; `place` is its file and line within the folder."""

    query: str
    tool: str
    relevance: int
    place: str


def _check_equal(folder: Path, one: _Judgement, other: _Judgement) -> None:
    """Refuse two different judgements of one query and tool."""
    if one.relevance != other.relevance:
        raise DataError(
            f"{folder / one.place}: query {one.query} and tool {one.tool!r} have the relevance {one.relevance}, and "
            f"{other.relevance} in {other.place}; keep one of them."
        )


def _judgements(folder: Path, notes: list[str]) -> dict[str, tuple[Split, dict[str, _Judgement]]]:
    """The split of each query and its judgements by tool; a relevance below 0 is read as 0."""
    judgements: dict[str, tuple[Split, dict[str, _Judgement]]] = {}
    files: dict[str, Split] = {f"{split}.tsv": split for split in SPLITS}
    there = sorted(path.name for path in (folder / QRELS).glob("[!.]*"))
    if files.keys().isdisjoint(there):
        raise DataError(f"{folder / QRELS} has none of {', '.join(files)}.")
    _count(notes, f"{QRELS} has files beside {', '.join(files)}, which are not read", sorted({*there} - files.keys()))
    below: list[str] = []
    again: list[str] = []
    for name, split in files.items():
        for number, line in _lines(folder / QRELS / name) if name in there else ():
            values = line.rstrip("\r").split("\t")
            # Other programs write judgements without a header, separated by spaces, or in TREC format.
            values = line.split() if len(values) == 1 else values
            if not line.strip() or (number == 1 and _is_header(values)):
                continue
            if len(values) == 4 and values[1] in TREC_SECOND:
                del values[1]
            place = f"{QRELS}/{name}, line {number}"
            if len(values) != 3 or (relevance := whole_number(values[2])) is None:
                raise DataError(
                    f"{folder / place}: expected query id, tool id and whole number, tab-separated, or the four "
                    "columns of TREC."
                )
            judgement = _Judgement(values[0], values[1], max(relevance, 0), place)
            below += [place] if relevance < 0 else []
            first_split, by_tool = judgements.setdefault(judgement.query, (split, {}))
            if first_split != split:
                first = next(iter(by_tool.values())).place
                raise DataError(f"{folder / place}: query {judgement.query} is also in {first_split} ({first}).")
            before = by_tool.setdefault(judgement.tool, judgement)
            _check_equal(folder, judgement, before)
            again += [place] if before is not judgement else []
    _count(notes, "a relevance below 0 is read as 0, judged and not relevant", below)
    _count(notes, "a line of judgements repeats an earlier one", again)
    return judgements


def _is_header(values: list[str]) -> bool:
    """Whether a first line is a header: a query may be called `query-id-7`, but a grade is a number."""
    first = re.sub(r"[^a-z]", "", values[0].lower()) if values else ""
    return first in _QUERY_COLUMNS and whole_number(values[-1]) is None

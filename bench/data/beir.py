"""BEIR form: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, as retrieval toolkits read it.

An export loses nothing: what BEIR has no place for (parameters, hierarchy, splits of queries without gold,
edges) stands under `metadata` and in `edges.tsv`, and an import reads it back. Data that others made in BEIR
form is imported from title and text alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.data.dataset import Dataset
from bench.data.edges import COLUMNS, read_edges
from bench.data.tables import SPLITS, Edge, Parameter, Query, Split, Tables, Template, Tool
from bench.errors import DataError
from bench.paths import write_text

CORPUS, QUERIES, QRELS, EDGES = "corpus.jsonl", "queries.jsonl", "qrels", "edges.tsv"
_HEADER = "query-id\tcorpus-id\tscore"


class _Document(BaseModel):
    """A line of corpus.jsonl."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = Field(alias="_id")
    title: str | None = ""
    text: str | None = ""
    metadata: dict[str, Any] | None = None


def export_beir(dataset: Dataset, folder: Path, template: Template) -> None:
    """Write the dataset; a tool's `text` is its text by the template."""
    corpus: list[dict[str, Any]] = [
        {"_id": tool.tool_id, "title": tool.name, "text": tool.text(template), "metadata": {"tool": _tool_fields(tool)}}
        for tool in dataset.tools
    ]
    queries: list[dict[str, Any]] = [
        {"_id": query.query_id, "text": query.text, "metadata": {"split": query.split, "slices": dict(query.slices)}}
        for query in dataset.queries
    ]
    for name, rows in ((CORPUS, corpus), (QUERIES, queries)):
        write_text(folder / name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    for split in SPLITS:
        asked = [query for query in dataset.queries if query.split == split]
        if asked:
            lines = [f"{q.query_id}\t{tool}\t{grade}" for q in asked for tool, grade in sorted(q.gold.items())]
            write_text(folder / QRELS / f"{split}.tsv", "\n".join([_HEADER, *lines]) + "\n")
    if dataset.edges:
        lines = ["\t".join((edge.dependent, edge.prerequisite, edge.reason, edge.note)) for edge in dataset.edges]
        write_text(folder / EDGES, "\n".join(["\t".join(COLUMNS), *lines]) + "\n")


def _tool_fields(tool: Tool) -> dict[str, Any]:
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
    }


def import_beir(folder: Path, *, drop_unknown_gold: bool = False) -> Tables:
    """Read a folder in BEIR form.

    Args:
        folder: holds corpus.jsonl, queries.jsonl and at least one of qrels/{train,dev,test}.tsv.
        drop_unknown_gold: leave out judgements of tools that the corpus does not have, and queries whose gold is
            all of that kind; without it such a judgement is an error.

    Raises:
        DataError: a file is missing or malformed (file and line are named), or gold names an unknown tool.
    """
    tools = [_tool(document) for document in _documents(folder / CORPUS)]
    judged = _judgements(folder / QRELS)
    known = {tool.tool_id for tool in tools}
    unknown: list[tuple[str, str]] = []
    queries = []
    seen: set[str] = set()
    for document in _documents(folder / QUERIES):
        seen.add(document.id)
        split, gold = judged.get(document.id, (None, {}))
        missing = sorted(gold.keys() - known)
        if missing and not drop_unknown_gold:
            raise DataError(
                f"{folder / QRELS}: query {document.id} is judged with {missing[0]!r}, which is not in {CORPUS}; "
                "mend it, or add the dataset with --drop-unknown-gold."
            )
        unknown.extend((document.id, tool) for tool in missing)
        kept = {tool: grade for tool, grade in gold.items() if tool in known}
        about = document.metadata or {}
        split = split or _split(about.get("split"))
        # A query that no split claims takes no part, nor does one whose gold is all unknown.
        if split is None or (missing and not kept):
            continue
        slices = {str(name): str(value) for name, value in (about.get("slices") or {}).items()}
        queries.append(Query(document.id, document.text or "", kept, split, slices))
    strangers = sorted(judged.keys() - seen)
    if strangers:
        raise DataError(f"{folder / QRELS}: query {strangers[0]!r} is judged but not in {QUERIES}.")
    edges: list[Edge] = read_edges(folder / EDGES) if (folder / EDGES).is_file() else []
    return Tables(tools, queries, edges, unknown)


def _documents(path: Path) -> Iterator[_Document]:
    try:
        # Not `splitlines`: it would also cut at the line separators that JSON allows inside a text.
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}.") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _Document.model_validate_json(line)
            except ValidationError as error:
                fault = error.errors()[0]
                where = ".".join(str(part) for part in fault["loc"])
                raise DataError(f"{path}, line {number}: {where or 'the line'}: {fault['msg']}.") from None


def _tool(document: _Document) -> Tool:
    about = (document.metadata or {}).get("tool")
    if isinstance(about, dict):
        try:
            fields = {key: about[key] for key in ("name", "description", "category", "parent", "returns", "source")}
            parameters = tuple(Parameter(**parameter) for parameter in about["parameters"])
            return Tool(tool_id=document.id, parameters=parameters, **fields)
        except (KeyError, TypeError) as error:
            raise DataError(f"{CORPUS}, {document.id}: metadata.tool is not as bench writes it ({error}).") from None
    text = document.text or ""
    title = document.title or ""
    # Without a hierarchy each tool is its own parent: a collection of one.
    return Tool(document.id, title or document.id, text, parent=title or document.id, source=text)


def _judgements(folder: Path) -> dict[str, tuple[Split, dict[str, int]]]:
    found: dict[str, tuple[Split, dict[str, int]]] = {}
    paths = [(split, folder / f"{split}.tsv") for split in SPLITS]
    if not any(path.is_file() for _, path in paths):
        raise DataError(f"{folder} has none of {', '.join(path.name for _, path in paths)}.")
    for name, path in paths:
        if not path.is_file():
            continue
        split = _split(name)
        assert split is not None
        for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
            if not line.strip() or (number == 1 and line.startswith("query-id")):
                continue
            values = line.rstrip("\r").split("\t")
            if len(values) != 3 or not values[2].lstrip("-").isdigit():
                raise DataError(f"{path}, line {number}: expected query id, tool id and whole number, tab-separated.")
            query, tool, grade = values[0], values[1], int(values[2])
            before = found.setdefault(query, (split, {}))
            if before[0] != split:
                raise DataError(f"{path}, line {number}: query {query} stands in {before[0]} too.")
            # Zero means judged and not relevant: no gold.
            if grade > 0:
                before[1][tool] = max(grade, before[1].get(tool, 0))
    return found


def _split(name: object) -> Split | None:
    known: dict[str, Split] = {"train": "train", "dev": "dev", "test": "test"}
    return known.get(str(name))

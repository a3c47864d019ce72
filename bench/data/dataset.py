"""`Dataset`: the immutable, validated, integer-coded form of a dataset that all other code works on."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import DataError, require
from bench.base.text import one_line
from bench.data.card import Card
from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.data.tables import SPLITS, Edge, Query, Tables, Tool
from bench.data.units import unit_codes, unit_name
from bench.show.numbers import several

if TYPE_CHECKING:
    import pandas
    import pyarrow

MAX_ID_LENGTH = 512
#: Maximum nesting of a schema's JSON.
MAX_DEPTH = 100
MAX_RELEVANCE = 1_000_000
#: Maximum bytes of scopes, at one bit per query and tool.
_MOST_SCOPE_BYTES = 1 << 30
#: Control characters, unpaired surrogates, line and paragraph separators.
NOT_IN_IDS = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, eq=False)
class Dataset:
    """Tools, queries, gold, splits, hierarchy, dependency edges and slices.

    Canonical form: tools and queries are sorted by id (by code point), and a tool's or query's code
    is its position. So the protocol's tie rule (tool_id ascending) is code ascending.

    Attributes:
        spec: the text that loads it, e.g. `rectools(split=bundle-disjoint)`.
        card: authors, files and licence.
        tools: (tools,) rows, sorted by tool_id.
        queries: (queries,) rows, sorted by query_id.
        gold: judgements, row i for query i, tools by code.
        edges: annotated dependencies, sorted; may be empty.
        unknown_gold: dropped (query_id, tool_id) pairs with tools outside the library.
        remarks: (place in the source, what) for everything that an import left out.
    """

    spec: str
    card: Card
    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]
    gold: Gold
    edges: tuple[Edge, ...]
    unknown_gold: tuple[tuple[str, str], ...] = ()
    remarks: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        # One line: the rows of even a small dataset have 300,000 characters.
        counts = {split: sum(query.split == split for query in self.queries) for split in SPLITS}
        splits = ", ".join(f"{count} {split}" for split, count in counts.items() if count)
        queries = several(len(self.queries), "query") + (f" ({splits})" if splits else "")
        return f"<Dataset {one_line(self.spec, 80)}: {several(len(self.tools), 'tool')}, {queries}>"

    def _repr_html_(self) -> str:
        sizes = [(split, len(self.rows(split))) for split in SPLITS]
        judged = int((self.gold.counts > 0).sum())
        rows = [
            ["tools", str(len(self.tools))],
            *([f"{split} queries", str(count)] for split, count in sizes if count),
            ["queries with gold", str(judged)],
            ["edges", str(len(self.edges))],
            ["licence", self.card.licence],
        ]
        from bench.show.tables import html, table_of

        return html(table_of(("", ""), rows, f"{self.spec}: {self.card.title}"))

    @staticmethod
    def build(spec: str, card: Card, tables: Tables) -> Dataset:
        """Check, sort and encode a loader's rows.

        Raises:
            DataError: duplicate, empty or overlong ids, gold or edges that name unknown tools,
                a relevance below 1, an unknown split.
        """
        tools = tuple(sorted(tables.tools, key=lambda tool: tool.tool_id))
        queries = tuple(sorted(tables.queries, key=lambda query: query.query_id))
        # A set of queries that no tool answers has no tools; it is added to other datasets.
        if not tools and (not queries or any(query.gold for query in queries)):
            raise DataError(f"dataset {spec} has no tools.")
        _check_ids(spec, "tool", [tool.tool_id for tool in tools])
        _check_ids(spec, "query", [query.query_id for query in queries])
        codes = {tool.tool_id: code for code, tool in enumerate(tools)}
        _check_texts(spec, tools, queries, tables.edges)
        for query in queries:
            if query.split not in SPLITS:
                raise DataError(
                    f"dataset {spec}, query {query.query_id}: split {query.split!r} is not one of {SPLITS}."
                )
            for tool, grade in query.gold.items():
                if tool not in codes:
                    raise DataError(
                        f"dataset {spec}, query {query.query_id}: gold tool {tool!r} is not in the library; "
                        "correct the source, or add it with --drop-unknown-gold."
                    )
                if not 1 <= grade <= MAX_RELEVANCE:
                    raise DataError(
                        f"dataset {spec}, query {query.query_id}: the relevance {grade} of {tool!r} is not "
                        f"between 1 and {MAX_RELEVANCE}."
                    )
        edges = tuple(sorted(set(tables.edges), key=lambda edge: (edge.dependent, edge.prerequisite)))
        for before, edge in zip((None, *edges), edges, strict=False):
            unknown = {edge.dependent, edge.prerequisite} - codes.keys()
            if unknown or edge.dependent == edge.prerequisite:
                what = f"names the unknown tool {min(unknown)!r}" if unknown else "points at itself"
                raise DataError(f"dataset {spec}: edge {edge.dependent} -> {edge.prerequisite} {what}.")
            if before and (before.dependent, before.prerequisite) == (edge.dependent, edge.prerequisite):
                raise DataError(f"dataset {spec}: edge {edge.dependent} -> {edge.prerequisite} occurs twice.")
        if any(query.scope for query in queries) and len(queries) * len(tools) > 8 * _MOST_SCOPE_BYTES:
            raise DataError(
                f"dataset {spec} has scopes for {len(queries):,} queries over {len(tools):,} tools, which would take "
                f"more than {_MOST_SCOPE_BYTES >> 20} MiB; make several datasets of it."
            )
        for query in queries:
            # All alternatives are known at this point.
            if query.any_of or query.forbidden or query.scope:
                _check_judgements(spec, query, codes)
        gold = _judgements(queries, codes)
        dropped = tuple(sorted(tables.unknown_gold))
        return Dataset(spec, card, tools, queries, gold, edges, dropped, tuple(tables.remarks))

    def rows_again(self) -> Tables:
        """The rows that this dataset was built from."""
        return Tables(self.tools, self.queries, self.edges, self.unknown_gold, remarks=self.remarks)

    @cached_property
    def content_hash(self) -> str:
        """sha256 over the normalised tables: tools, queries, gold, splits and edges.

        Slices, groups, searches and contexts (a view of them has other texts), origins, the notes of edges, remarks,
        the card and
        the spelling of the spec are left out: they do not change what is measured.
        """
        digest = hashlib.sha256(b"bench dataset 1\n")
        to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        for row in self._hashed_rows():
            digest.update(f"{to_json(row)}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _hashed_rows(self) -> Iterable[list[Any]]:
        for t in self.tools:
            inputs = [[p.name, p.type, p.description, p.required, p.default] for p in t.parameters]
            row = ["tool", t.tool_id, t.name, t.description, t.category, t.parent, inputs, t.returns, t.source]
            more = [t.title, t.annotations, t.input_schema, t.deprecated]
            # Datasets without these fields keep the hash from before the fields existed.
            yield [*row, *more] if any(more) else row
        for q in self.queries:
            fields: list[Any] = ["query", q.query_id, q.text, q.split, sorted(q.gold.items())]
            any_of = sorted((tool, sorted(others)) for tool, others in q.any_of.items())
            judged: list[Any] = [any_of, sorted(q.forbidden), *([q.calls] if q.calls else [])]
            judged += [{"scope": sorted(q.scope)}] if q.scope else []
            yield [*fields, *judged] if any(judged) else fields
        for e in self.edges:
            yield ["edge", e.dependent, e.prerequisite, e.reason]

    @cached_property
    def tool_codes(self) -> Mapping[str, int]:
        """tool_id -> code."""
        return {tool.tool_id: code for code, tool in enumerate(self.tools)}

    @cached_property
    def query_codes(self) -> Mapping[str, int]:
        """query_id -> code."""
        return {query.query_id: code for code, query in enumerate(self.queries)}

    @cached_property
    def splits(self) -> NDArray[np.int8]:
        """(queries,) index into `SPLITS`."""
        order = {name: i for i, name in enumerate(SPLITS)}
        return np.array([order[query.split] for query in self.queries], dtype=np.int8)

    def rows(self, split: str) -> NDArray[np.int64]:
        """Codes of the queries of a split; `all` for every query."""
        if split == "all":
            return np.arange(len(self.queries))
        return np.flatnonzero(self.splits == SPLITS.index(split))

    @cached_property
    def scope(self) -> NDArray[np.uint8] | None:
        """(queries, ceil(tools / 8)) bits of the tools that each query may see; None if all may see every tool."""
        if not any(query.scope for query in self.queries):
            return None
        codes = self.tool_codes
        scope = np.full((len(self.queries), (len(self.tools) + 7) // 8), 0xFF, dtype=np.uint8)
        for row, query in zip(scope, self.queries, strict=True):
            if query.scope:
                seen = np.zeros(len(self.tools), dtype=np.bool_)
                seen[[codes[tool] for tool in query.scope]] = True
                row[:] = np.packbits(seen)
        return scope

    @cached_property
    def seen_tools(self) -> NDArray[np.bool_]:
        """(tools,) whether a tool is gold for at least one train query (the protocol's `seen`)."""
        seen = np.zeros(len(self.tools), dtype=np.bool_)
        seen[self.gold.take(self.rows("train")).tools] = True
        return seen

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """(queries,) the unit of independence of each query by the card's rule, read-only; see `unit_codes`."""
        codes = unit_codes(self)
        codes.setflags(write=False)
        return codes

    @property
    def unit(self) -> str:
        """The name of the card's rule: `gold+group`, or `none` if every query is a unit."""
        return unit_name(self.card.unit.by)

    @property
    def source(self) -> str:
        """The pool of queries: results on two datasets with the same source are not independent."""
        return self.card.source or self.card.id

    @property
    def slice_names(self) -> tuple[str, ...]:
        """Names of the slices that queries have, sorted."""
        return tuple(sorted({name for query in self.queries for name in query.slices}))

    def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """The four tables as data frames: tools, queries, gold, edges.

        Raises:
            UnavailableError: pandas is not installed.
        """
        require("pandas", what="a data frame")
        return {name: table.to_pandas() for name, table in self._arrow().items()}

    def to_hf(self) -> Any:
        """The tables as a Hugging Face `datasets.DatasetDict` (tools, queries, gold, edges).

        Raises:
            UnavailableError: `datasets` is not installed.
        """
        require("datasets", what="the Hugging Face form")
        import datasets

        tables = {name: datasets.Dataset(table) for name, table in self._arrow().items() if table.num_rows}
        return datasets.DatasetDict(tables)

    def _arrow(self) -> dict[str, pyarrow.Table]:
        from bench.data.arrowtables import arrow_tables  # pyarrow takes a tenth of a second

        return arrow_tables(self.tools, self.queries, self.edges)


def _check_judgements(spec: str, query: Query, codes: Mapping[str, int]) -> None:
    """Refuse alternatives and forbidden tools that contradict the gold, or unknown ones."""
    where = f"dataset {spec}, query {query.query_id}"
    for tool, others in query.any_of.items():
        if tool not in query.gold:
            raise DataError(f"{where}: {tool!r} has alternatives but is not gold.")
        if not others or tool in others or len(set(others)) < len(others):
            raise DataError(f"{where}: the alternatives of {tool!r} must be other tools, each once.")
    meeting = {*query.gold, *(other for others in query.any_of.values() for other in others)}
    for tool in (*meeting, *query.forbidden):
        if tool not in codes:
            raise DataError(f"{where}: the tool {tool!r} is not in the library; correct the source.")
    both = meeting.intersection(query.forbidden)
    if both or len(set(query.forbidden)) < len(query.forbidden):
        what = f"{min(both)!r} is both gold and forbidden" if both else "a forbidden tool is named twice"
        raise DataError(f"{where}: {what}.")
    if query.scope:
        for tool in query.scope:
            if tool not in codes:
                raise DataError(f"{where}: the tool {tool!r} of its scope is not in the library; correct the source.")
        beyond = query.gold.keys() - set(query.scope)
        if beyond:
            raise DataError(
                f"{where}: the gold tool {min(beyond)!r} is not among the tools that the request may see; mend the "
                "gold or the scope."
            )


def _judgements(queries: Sequence[Query], codes: Mapping[str, int]) -> Gold:
    """Gold, alternatives and forbidden tools by code."""
    gold = Gold.of({codes[tool]: grade for tool, grade in query.gold.items()} for query in queries)
    groups = forbidden = None
    if any(query.any_of for query in queries):
        groups = GoldGroups.of(
            [
                ([codes[tool], *sorted(codes[other] for other in query.any_of.get(tool, ()))], query.gold[tool])
                for tool in sorted(query.gold, key=codes.__getitem__)
            ]
            for query in queries
        )
    if any(query.forbidden for query in queries):
        forbidden = Gold.of(dict.fromkeys((codes[tool] for tool in query.forbidden), 1) for query in queries)
    return Gold(gold.starts, gold.tools, gold.grades, groups, forbidden)


def _check_ids(spec: str, kind: str, ids: Sequence[str]) -> None:
    for before, current in zip(["", *ids], ids, strict=False):
        if (
            not current
            or len(current) > MAX_ID_LENGTH
            # Ids in the printable ASCII range need no further check.
            or (not current.isprintable() and any(unicodedata.category(sign) in NOT_IN_IDS for sign in current))
        ):
            raise DataError(
                f"dataset {spec}: {kind} id {current[:60]!r} is empty, longer than {MAX_ID_LENGTH} "
                "characters, or contains control characters."
            )
        if current == before:
            raise DataError(f"dataset {spec}: {kind} id {current!r} occurs twice.")


def _check_texts(spec: str, tools: Sequence[Tool], queries: Sequence[Query], edges: Sequence[Edge]) -> None:
    """Refuse text that cannot be stored or read again: unpaired surrogates, and schemas that are not JSON."""
    sound = set[str | None]([None])
    for tool in tools:
        fields = [(p.name, p.type, p.description, p.default) for p in tool.parameters]
        texts = (tool.name, tool.description, tool.category, tool.parent, tool.source, tool.title)
        schemas = (tool.returns, tool.annotations, tool.input_schema)
        if not _encodes(*texts, *schemas, *(text for field in fields for text in field)):
            raise _not_unicode(spec, f"tool {tool.tool_id}")
        for name, text in (*((None, schema) for schema in schemas), *((field[0], field[3]) for field in fields)):
            # Most parameters share the same few defaults.
            if text in sound:
                continue
            if text is not None and (fault := _json_fault(text)):
                where = "" if name is None else f", default of the parameter {one_line(name, 60)}"
                raise DataError(f"dataset {spec}, tool {tool.tool_id}{where}: {one_line(text, 60)!r} {fault}.")
            sound.add(text)
    for query in queries:
        slices = (*query.slices, *query.slices.values())
        if not _encodes(query.text, query.group, *slices, *query.searches, *query.context, query.origin, *query.calls):
            raise _not_unicode(spec, f"query {query.query_id}")
    for edge in edges:
        if not _encodes(edge.note):
            raise _not_unicode(spec, f"edge {edge.dependent} -> {edge.prerequisite}")


def _encodes(*texts: str | None) -> bool:
    try:
        "".join(filter(None, texts)).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _not_unicode(spec: str, what: str) -> DataError:
    return DataError(f"dataset {spec}: the text of {what} is not valid Unicode (half a surrogate pair).")


def _json_fault(text: str) -> str:
    """What is wrong with a JSON text; empty if nothing is."""
    try:
        value = json.loads(text)
    except RecursionError:
        return f"is nested deeper than {MAX_DEPTH} levels"
    except ValueError:
        return "is not JSON"
    # A parser may accept a depth at which writers and walkers fail.
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    return ""


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
    return depth

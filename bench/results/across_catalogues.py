"""Comparing results across catalogues: the same queries on tools that were edited, added or removed. The gate uses it.

Two results compare by rule 8 of the protocol if they are on the same data. Across catalogues they compare if the
queries agree (ids, texts, and the tools that each needs, by their ids) while tools differ. `Asked` holds the ids and
digests for this check. A baseline stores it, so that the changed tools, and how they changed, are known even if the
earlier catalogue is gone.

Renaming a tool counts as removing one and adding another. A requirement whose tools were all removed can no longer be
met, and counts as missed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bench.base.records import Record, StrictRecord
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.data.tables import Query, Tool
from bench.interface import Ranking, ToolSets
from bench.interface.marks import CATALOGUE_NOT_KNOWN, OWN_CATALOGUE
from bench.metrics import evaluate, parse_metrics
from bench.results.manifest import MethodIdentity

#: Maximum number of tools or queries named in a sentence.
MOST_NAMED = 20
#: Hexadecimal digits of digests. Digests of texts decide whether queries agree; those of tool fields only name what was
#: edited.
_OF_TEXTS, _OF_FIELDS = 16, 8
#: Suffix of the second column of a JSON field: digests of the field with sorted keys.
_SORTED = ", keys sorted"

Position = Annotated[int, Field(ge=0)]


class Snapshot(StrictRecord):
    """Queries and tools of a dataset, as ids and digests.

    Attributes:
        tools: ids, sorted.
        fields: name of a field -> (tools,) the digest of each tool's value; empty for no value. JSON fields have a
            second column for the tools whose keys are not sorted.
        texts: (queries,) digests of the query texts; queries are sorted by id.
        gold: (queries, requirements, alternatives) positions of tools: each requirement is met by any of its tools.
        grades: (queries, requirements) relevance; empty if it is 1 throughout.
        forbidden: (queries, tools) positions of harmful tools; empty if no query has any.
        others: digest of the queries of the other splits, from which methods may learn.
    """

    tools: list[str]
    fields: dict[str, list[str]]
    texts: list[str]
    gold: list[list[list[Position]]]
    grades: list[list[Position]] = []
    forbidden: list[list[Position]] = []
    others: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Snapshot:
        queries, tools = len(self.texts), len(self.tools)
        if self.tools != sorted(set(self.tools)):
            raise ValueError("tools must be sorted, each there once")
        for name, digests in self.fields.items():
            if len(digests) != tools:
                raise ValueError(f"fields.{name} has {len(digests)} digests for {tools} tools")
        if len(self.gold) != queries:
            raise ValueError(f"gold has {len(self.gold)} entries for {queries} queries")
        if self.grades and [len(row) for row in self.grades] != [len(row) for row in self.gold]:
            raise ValueError("grades must have one for each requirement of each query")
        if self.forbidden and len(self.forbidden) != queries:
            raise ValueError(f"forbidden has {len(self.forbidden)} entries for {queries} queries")
        named = [code for row in self.gold for group in row for code in group]
        if max([*named, *(code for row in self.forbidden for code in row)], default=-1) >= tools:
            raise ValueError("gold or forbidden names a tool beyond the last")
        if any(not group for row in self.gold for group in row):
            raise ValueError("gold has a requirement without a tool")
        return self

    def requirements(self, query: int) -> list[frozenset[str]]:
        """Ids of the tools of each requirement of a query, by its position."""
        return [frozenset(self.tools[code] for code in group) for group in self.gold[query]]

    def take(self, queries: Sequence[int]) -> Snapshot:
        """The same for some of the queries, by their positions."""
        rows = {name: getattr(self, name) for name in ("texts", "gold", "grades", "forbidden")}
        return self.model_copy(update={name: [row[query] for query in queries] for name, row in rows.items() if row})

    def harmful(self, query: int) -> frozenset[str]:
        """Ids of the tools that a query forbids."""
        return frozenset(self.tools[code] for code in self.forbidden[query]) if self.forbidden else frozenset()


class EditedTool(Record):
    """A tool of both catalogues, and which of its fields differ: `description`, `parameters`, ..."""

    tool_id: str
    fields: list[str]


class CatalogueChange(Record):
    """How a catalogue differs from an earlier one.

    Attributes:
        dataset, content_hash: of the earlier catalogue.
        added, removed, edited: complete lists of tool ids.
        gold_removed: removed tools that a query needs. A requirement whose tools are all among them counts as missed.
        notes: what else differs, in sentences.
    """

    dataset: str
    content_hash: str
    added: list[str]
    removed: list[str]
    edited: list[EditedTool]
    gold_removed: list[str] = []
    notes: list[str] = []

    @property
    def words(self) -> str:
        """`2 tools edited, 1 added, 0 removed`."""
        edited = len(self.edited)
        return f"{edited} tool{'' if edited == 1 else 's'} edited, {len(self.added)} added, {len(self.removed)} removed"

    def lines(self, most: int = MOST_NAMED) -> list[tuple[str, str, str]]:
        """(change, tool, its fields) of the first `most` tools; tools that a query needs come first."""
        removed = sorted(self.removed, key=lambda tool: (tool not in set(self.gold_removed), tool))
        lines = [("removed", tool, "a query needs it" if tool in set(self.gold_removed) else "") for tool in removed]
        lines += [("edited", item.tool_id, ", ".join(item.fields)) for item in self.edited]
        lines += [("added", tool, "") for tool in self.added]
        return lines[:most]

    @property
    def size(self) -> int:
        """The number of changed tools."""
        return len(self.removed) + len(self.edited) + len(self.added)


def why_not_given(method: MethodIdentity) -> str:
    """Why a method did not receive the tools of the dataset, or may not have; empty if it did."""
    if method.run_file is not None:
        return "the system behind a run file has its own catalogue"
    return next((mark.why for mark in method.marks if mark.text in {OWN_CATALOGUE, CATALOGUE_NOT_KNOWN}), "")


def unreached_sentence(label: str, why: str, change: CatalogueChange) -> str:
    """A warning that bench did not give a changed catalogue to a system; empty if it did, or if no tool differs.

    Args:
        label: the name of the system.
        why: as in `why_not_given`.
        change: how its catalogue differs from the earlier one.
    """
    if not why or not change.size:
        return ""
    return (
        f"the edited tools never reached {label} through bench ({change.words}): {why}. Its answers reflect "
        "the edit only if it was reloaded with the same tools"
    )


class MovedTool(Record):
    """A gold tool of a query, and its ranks.

    Attributes:
        before, after: its rank, from 1; None if it is not ranked.
        instead: the tool that now has the rank `before`, if this one fell; None if none has it.
        removed: whether the catalogue no longer has it.
    """

    tool_id: str
    before: int | None
    after: int | None
    instead: str | None = None
    removed: bool = False

    @property
    def words(self) -> str:
        """`rank 1 to 9; now at 1: tickets/get_ticket`."""
        ranks = f"rank {self.before or 'none'} to {'removed' if self.removed else self.after or 'none'}"
        return ranks + (f"; now at {self.before}: {one_line(self.instead)}" if self.instead else "")


def take_snapshot(dataset: Dataset, query_ids: Sequence[str]) -> Snapshot:
    """The queries and tools of a dataset, as ids and digests.

    Args:
        dataset: the dataset.
        query_ids: its evaluated queries, sorted.
    """
    codes, fields = dataset.tool_codes, _fields(dataset.tools)
    queries = [dataset.queries[dataset.query_codes[name]] for name in query_ids]
    grades = [[grade for _, grade in sorted(query.gold.items())] for query in queries]
    known = set(query_ids)
    return Snapshot(
        tools=[tool.tool_id for tool in dataset.tools],
        fields=fields,
        texts=[_digest([query.text, *query.calls]) for query in queries],
        gold=[
            [[codes[tool] for tool in (first, *sorted(query.any_of.get(first, ())))] for first in sorted(query.gold)]
            for query in queries
        ],
        grades=grades if any(grade != 1 for row in grades for grade in row) else [],
        forbidden=[[codes[tool] for tool in sorted(query.forbidden)] for query in queries]
        if any(query.forbidden for query in queries)
        else [],
        others=_digest([_whole(query) for query in dataset.queries if query.query_id not in known]),
    )


def _whole(query: Query) -> list[Any]:
    identity = [query.query_id, query.split, query.text, *query.calls]
    return [*identity, sorted(query.gold.items()), sorted(query.meeting), sorted(query.forbidden)]


def _fields(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """The digest of each field of each tool; fields that no tool has are left out.

    JSON fields have a second digest, with sorted keys, for tools whose keys are in another order.
    """
    columns: dict[str, list[str]] = {}
    for tool in tools:
        inputs = [[p.name, p.type, p.description, p.required, p.default] for p in tool.parameters]
        values: Mapping[str, Any] = {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "server": [tool.category, tool.parent] if tool.category or tool.parent else None,
            "parameters": [inputs, tool.input_schema] if inputs or tool.input_schema else None,
            "returns": tool.returns,
            "annotations": tool.annotations,
            "deprecated": tool.deprecated,
            "source": tool.source,
        }
        for name, value in values.items():
            columns.setdefault(name, []).append(_digest(value, _OF_FIELDS) if value else "")
        in_order = {
            "parameters": [sorted(inputs, key=lambda item: str(item[0])), _sort_keys(tool.input_schema)],
            "returns": _sort_keys(tool.returns),
            "annotations": _sort_keys(tool.annotations),
        }
        for name, value in in_order.items():
            differs = values[name] and value != values[name]
            columns.setdefault(name + _SORTED, []).append(_digest(value, _OF_FIELDS) if differs else "")
    return {name: digests for name, digests in columns.items() if any(digests)}


def _sort_keys(text: str | None) -> str | None:
    return None if text is None else json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True)


def _digest(value: Any, digits: int = _OF_TEXTS) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def change(dataset: str, content_hash: str, then: Snapshot, now: Snapshot) -> CatalogueChange:
    """How a catalogue changed; `dataset` and `content_hash` are those of the earlier one."""
    before, after = set(then.tools), set(now.tools)
    needed = {tool for query in range(len(then.texts)) for group in then.requirements(query) for tool in group}
    old = {tool: place for place, tool in enumerate(then.tools)}
    edited = []
    # In the order of the earlier catalogue's fields, which is that of the class `Tool`.
    names = [name for name in dict.fromkeys([*then.fields, *now.fields]) if not name.endswith(_SORTED)]
    for place, tool in enumerate(now.tools):
        if tool not in old:
            continue
        differing = [name for name in names if not _same_value(name, then, old[tool], now, place)]
        if differing:
            edited.append(EditedTool(tool_id=tool, fields=differing))
    notes = []
    if then.others != now.others:
        notes.append("queries of the other splits, from which methods may learn, differ, too")
    notes += _find_renamed(then, now, sorted(before - after), sorted(after - before))
    return CatalogueChange(
        dataset=dataset,
        content_hash=content_hash,
        added=sorted(after - before),
        removed=sorted(before - after),
        edited=edited,
        gold_removed=sorted(needed - after),
        notes=notes,
    )


def _find_renamed(then: Snapshot, now: Snapshot, removed: Sequence[str], added: Sequence[str]) -> list[str]:
    """Sentences on tools that were perhaps renamed: exactly one added tool has the description of the removed one."""
    places, described = {tool: place for place, tool in enumerate(now.tools)}, dict[str, list[str]]()
    for tool in added:
        described.setdefault(_value(now, "description", places[tool]), []).append(tool)
    places = {tool: place for place, tool in enumerate(then.tools)}
    pairs = [(tool, described.get(_value(then, "description", places[tool]) or "-", [])) for tool in removed]
    renamed = [f"{one_line(tool, 80)} to {one_line(found[0], 80)}" for tool, found in pairs if len(found) == 1]
    if not renamed:
        return []
    more = f" and {len(renamed) - MOST_NAMED} more" if len(renamed) > MOST_NAMED else ""
    return [f"perhaps renamed, as the description is the same: {', '.join(renamed[:MOST_NAMED])}{more}"]


def _same_value(field: str, then: Snapshot, place_then: int, now: Snapshot, place_now: int) -> bool:
    """Whether a field of a tool is the same; the order of an object's keys does not matter."""
    before, after = _value(then, field, place_then), _value(now, field, place_now)
    in_order = field + _SORTED
    return before == after or (
        before != ""
        and after != ""
        and (_value(then, in_order, place_then) or before) == (_value(now, in_order, place_now) or after)
    )


def _value(snapshot: Snapshot, field: str, place: int) -> str:
    column = snapshot.fields.get(field)
    return "" if column is None else column[place]


class QueryChange(Record):
    """How the queries of a dataset differ from those evaluated earlier; each list is complete.

    Attributes:
        shared: queries with the same text and the same needed, alternative and forbidden tools.
        added, removed: ids of queries that only the later or only the earlier dataset has.
        reworded: ids of queries with another text.
        regraded: ids of queries with other needed, alternative or forbidden tools.
    """

    shared: int
    added: list[str] = []
    removed: list[str] = []
    reworded: list[str] = []
    regraded: list[str] = []

    @property
    def size(self) -> int:
        """Number of queries that are not shared."""
        return len(self.added) + len(self.removed) + len(self.reworded) + len(self.regraded)

    @property
    def words(self) -> str:
        """`1 query is new (q24), 2 are worded differently (q3, q7)`; empty if all are shared."""
        parts: list[str] = []
        for names, what in (
            (self.added, "new"),
            (self.removed, "gone"),
            (self.reworded, "worded differently"),
            (self.regraded, "given other tools"),
        ):
            if names:
                shown = ", ".join(one_line(name, 60) for name in names[:3]) + (", ..." if len(names) > 3 else "")
                one = len(names) == 1
                noun = "" if parts else " query" if one else " queries"
                parts.append(f"{len(names)}{noun} {'is' if one else 'are'} {what} ({shown})")
        return ", ".join(parts)


@dataclass(frozen=True)
class QueryMatch:
    """The queries of an earlier dataset matched to those of a later one.

    Attributes:
        pairs: (earlier position, later position) of the queries that are shared. Shared queries have the same text, and
            may have other ids: rows of a file without ids are numbered. The later position is None if a query needs
            only removed tools, and is no longer asked.
        change: all others.
    """

    pairs: list[tuple[int, int | None]]
    change: QueryChange


def match_queries(then: Snapshot, ids_then: Sequence[str], now: Snapshot, ids_now: Sequence[str]) -> QueryMatch:
    """Find the queries of an earlier dataset in a later one.

    The comparison of needed tools ignores removed tools.

    Args:
        then, now: the snapshots of the two datasets.
        ids_then, ids_now: (queries,) their ids, sorted.
    """
    gone = set(then.tools) - set(now.tools)
    places = {name: place for place, name in enumerate(ids_now)}
    same = {
        name for query, name in enumerate(ids_then) if name in places and then.texts[query] == now.texts[places[name]]
    }
    by_text: dict[str, list[int]] = {}
    for place, name in enumerate(ids_now):
        if name not in same:
            by_text.setdefault(now.texts[place], []).append(place)
    pairs: list[tuple[int, int | None]] = []
    found: set[int] = set()
    lost: list[str] = []
    regraded: list[str] = []
    for query, name in enumerate(ids_then):
        needs = zip(then.requirements(query), _grades(then, query), strict=True)
        left = [(group - gone, grade) for group, grade in needs]
        kept = [(group, grade) for group, grade in left if group]
        elsewhere = by_text.get(then.texts[query], [])
        if name in same:
            place = places[name]
        elif elsewhere:
            place = elsewhere.pop(0)
        else:
            if kept or not left:
                lost.append(name)
            else:
                pairs.append((query, None))
            continue
        found.add(place)
        there = zip(now.requirements(place), _grades(now, place), strict=True)
        if _bag(kept) != _bag(there) or then.harmful(query) - gone != now.harmful(place):
            regraded.append(ids_now[place])
        else:
            pairs.append((query, place))
    left_over = {name for place, name in enumerate(ids_now) if place not in found}
    reworded = left_over & set(lost)
    change = QueryChange(
        shared=len(pairs),
        added=sorted(left_over - reworded),
        removed=sorted(set(lost) - reworded),
        reworded=sorted(reworded),
        regraded=sorted(regraded),
    )
    return QueryMatch(pairs, change)


def _grades(snapshot: Snapshot, query: int) -> list[int]:
    return snapshot.grades[query] if snapshot.grades else [1] * len(snapshot.gold[query])


def _bag(requirements: Iterable[tuple[frozenset[str], int]]) -> list[tuple[list[str], int]]:
    return sorted((sorted(group), grade) for group, grade in requirements)


class Ranked:
    """Rankings by query and tool: a table of columns query_id, rank and tool_id, read once."""

    def __init__(self, run: pa.Table) -> None:
        self._tools: dict[str, dict[int, str]] = {}
        self._ranks: dict[str, dict[str, int]] = {}
        columns = (run["query_id"].to_pylist(), run["rank"].to_pylist(), run["tool_id"].to_pylist())
        for query, rank, tool in zip(*columns, strict=True):
            self._tools.setdefault(query, {})[rank] = tool
            self._ranks.setdefault(query, {})[tool] = rank

    def rank(self, query: str, tool: str) -> int | None:
        """The rank of a tool, from 1; None if it is not ranked."""
        return self._ranks.get(query, {}).get(tool)

    def tools(self, query: str) -> list[str]:
        """The tools of a query, best first."""
        by_rank = self._tools.get(query, {})
        return [by_rank[rank] for rank in sorted(by_rank)]

    def at(self, query: str, rank: int) -> str | None:
        """The tool at a rank; None if the ranking is shorter."""
        return self._tools.get(query, {}).get(rank)


def gold_ranks(snapshot: Snapshot, query_ids: Sequence[str], ranked: Ranked) -> list[list[list[int]]]:
    """The rank of each tool of `asked.gold`, in the same structure; 0 for tools that are not ranked."""
    return [ranks_of(snapshot, place, name, ranked) for place, name in enumerate(query_ids)]


def ranks_of(snapshot: Snapshot, query: int, name: str, ranked: Ranked) -> list[list[int]]:
    """The same for one query, by its position in `snapshot` and its id."""
    return [[ranked.rank(name, snapshot.tools[code]) or 0 for code in group] for group in snapshot.gold[query]]


def moved_tools(
    name: str, snapshot: Snapshot, query: int, before: Sequence[Sequence[int]], now: Ranked, removed: frozenset[str]
) -> list[MovedTool]:
    """The gold tools of a query whose rank changed.

    Args:
        name, query: the query's id, and its position in `snapshot`.
        snapshot: the queries and tools.
        before: (requirements, alternatives) ranks, as in `gold_ranks`.
        now: the new rankings.
        removed: tools that the new catalogue lacks.
    """
    moved: dict[str, MovedTool] = {}
    for group, ranks in zip(snapshot.gold[query], before, strict=True):
        for code, rank in zip(group, ranks, strict=True):
            tool = snapshot.tools[code]
            after = now.rank(name, tool)
            if after == (rank or None):
                continue
            fell = rank > 0 and (after is None or after > rank)
            instead = now.at(name, rank) if fell else None
            moved[tool] = MovedTool(
                tool_id=tool,
                before=rank or None,
                after=after,
                instead=instead,
                removed=tool in removed,
            )
    return list(moved.values())


def _gold(snapshot: Snapshot) -> Gold:
    """Judgements by position in `asked.tools`, including removed tools."""
    judged = [list(zip(groups, _grades(snapshot, place), strict=True)) for place, groups in enumerate(snapshot.gold)]
    plain = Gold.of({group[0]: grade for group, grade in row} for row in judged)
    groups = GoldGroups.of(judged) if any(len(group) > 1 for row in judged for group, _ in row) else None
    forbidden = Gold.of(dict.fromkeys(row, 1) for row in snapshot.forbidden) if snapshot.forbidden else None
    return Gold(plain.starts, plain.tools, plain.grades, groups, forbidden)


def _confidence(run: pa.Table, query_ids: Sequence[str]) -> NDArray[np.float64] | None:
    """(queries,) the score of the first tool, -inf without one; None for rankings without scores."""
    if "score" not in run.column_names or run["score"].null_count:
        return None
    columns = (run["query_id"].to_pylist(), run["rank"].to_pylist(), run["score"].to_pylist())
    first = {query: score for query, rank, score in zip(*columns, strict=True) if rank == 1}
    return np.array([first.get(name, -np.inf) for name in query_ids], dtype=np.float64)


def values_as_asked(
    run: pa.Table, per_query: pa.Table, snapshot: Snapshot, query_ids: Sequence[str], metrics: Sequence[str]
) -> pa.Table:
    """Score rankings on an edited catalogue against the gold from before tools were removed.

    No ranking has a removed tool. A query that was no longer asked, because it needs only removed tools, is scored as
    an empty answer.

    Args:
        run: the rankings: query_id, rank, tool_id.
        per_query: the queries that were asked: query_id, failed, recommended.
        asked, query_ids: all queries, as asked before, and their ids.
        metrics: canonical names.

    Returns:
        A row for each of `query_ids`: query_id, unit (its own), n_gold, failed, recommended and the metrics.
    """
    codes = {tool: code for code, tool in enumerate(snapshot.tools)}
    known = {
        name: (failed, recommended)
        for name, failed, recommended in zip(
            *(per_query[column].to_pylist() for column in ("query_id", "failed", "recommended")), strict=True
        )
    }
    ranked = Ranked(run)
    lists = [[codes.setdefault(tool, len(codes)) for tool in ranked.tools(name)] for name in query_ids]
    answers = Ranking.of_lists(lists)
    gold = _gold(snapshot)
    chosen = [known.get(name, (False, []))[1] for name in query_ids]
    sets = None
    if not any(item is None for item in chosen):
        sets = ToolSets.of([[codes.setdefault(tool, len(codes)) for tool in item] for item in chosen])
    failed = np.array([known.get(name, (False, []))[0] for name in query_ids], dtype=np.bool_)
    wanted = parse_metrics(metrics)
    values = evaluate(answers.tools, gold, wanted, sets, failed, _confidence(run, query_ids)).values
    for column, metric in enumerate(wanted):
        if metric.measure.kind in {"destructive", "chance"} and str(metric) in per_query.column_names:
            # These depend on the catalogue that was searched: on its destructive tools, or on its size.
            stored = dict(zip(per_query["query_id"].to_pylist(), per_query[str(metric)].to_pylist(), strict=True))
            values[:, column] = [math.nan if (value := stored.get(name)) is None else value for name in query_ids]
    table = pa.table(
        {
            "query_id": list(query_ids),
            "unit": list(query_ids),
            "n_gold": pa.array(gold.counts.tolist(), pa.int32()),
            "failed": failed.tolist(),
            "recommended": pa.array(chosen, pa.list_(pa.string())),
        }
    )
    for column, metric in enumerate(wanted):
        table = table.append_column(str(metric), pa.array(values[:, column], from_pandas=True))
    return table

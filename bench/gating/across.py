"""Compare a candidate on an edited catalogue with a baseline on the catalogue before. `judge` calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from bench.data.dataset import Dataset
from bench.gating.baseline import Baseline
from bench.gating.candidate import Candidate
from bench.gating.report import ToolMove
from bench.results.across_catalogues import (
    CatalogueChange,
    MovedTool,
    QueryChange,
    Ranked,
    change,
    match_queries,
    moved_tools,
    take_snapshot,
    values_as_asked,
)


@dataclass(frozen=True)
class Across:
    """A candidate on another version of the dataset, and its baseline, on the queries that both have.

    Attributes:
        candidate, baseline: with the values of the shared queries, which have the candidate's ids.
        change: how the catalogue changed.
        queries: how the queries changed.
    """

    candidate: Candidate
    baseline: Baseline
    change: CatalogueChange
    queries: QueryChange


def across_catalogues(candidate: Candidate, baseline: Baseline, load: Callable[[bool], Dataset]) -> Across | list[str]:
    """Reduce a candidate and a baseline on an earlier version of its dataset to the queries that both have.

    Units of independence are those of the baseline. A requirement whose tools were all removed counts as missed.

    Args:
        candidate, baseline: on the same split and protocol.
        load: loads the candidate's dataset, unless the candidate itself records its queries.

    Returns:
        The two, or why they cannot be compared, in sentences.
    """
    if baseline.asked is None:
        return [
            "the baseline does not record its catalogue, so it is not known what changed: bless it again from a "
            "result on a dataset of your own"
        ]
    ids = candidate.per_query["query_id"].to_pylist()
    now = candidate.snapshot or take_snapshot(load(True), ids)
    match = match_queries(baseline.asked, baseline.query_ids, now, ids)
    known = baseline.dataset
    catalogue_change = change(known.spec, known.content_hash, baseline.asked, now)
    if not match.pairs:
        return [f"no query is the same as in the baseline: {match.change.words}"]
    # The shared queries by their current ids; a query that was removed keeps its own.
    names: dict[str, tuple[int, int | None]] = {}
    for query, place in match.pairs:
        old = baseline.query_ids[query]
        # A new query may have its number.
        kept = f"{old} of the baseline" if old in ids else old
        names[kept if place is None else ids[place]] = query, place
    order = sorted(names)
    before = baseline.take([names[name][0] for name in order], order)
    table = candidate.per_query.take([place for name in order if (place := names[name][1]) is not None])
    removed = frozenset(catalogue_change.removed)
    assert before.asked is not None
    harmless = any(before.asked.harmful(place) & removed for place in range(len(order)))
    # If a forbidden tool was removed, a metric applies to one query less: keep the baseline's queries.
    if catalogue_change.gold_removed or harmless or len(table) < len(order):
        if candidate.run is None or candidate.repeats > 1:
            return [
                "tools that queries need were removed, but the candidate cannot be scored as missing them: that needs "
                "the ranking of a run without repeats"
            ]
        table = values_as_asked(candidate.run, table, before.asked, order, list(before.values))
    columns = {"unit": [f"{unit:09}" for unit in before.units], "n_gold": before.n_gold}
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
    failed = candidate.n_failed
    if match.change.size and "failed" in table.column_names:
        judged = zip(table["failed"].to_pylist(), before.n_gold, strict=True)
        failed = sum(without_answer and n_gold > 0 for without_answer, n_gold in judged)
    return Across(replace(candidate, per_query=table, n_failed=failed), before, catalogue_change, match.change)


class GoldMoves:
    """Gold tools of a baseline that a candidate ranks differently; empty if either ranking is unknown."""

    def __init__(self, candidate: Candidate, baseline: Baseline, changed: CatalogueChange | None) -> None:
        self._found: dict[str, list[MovedTool]] = {}
        self._edited = {} if changed is None else {item.tool_id: item.fields for item in changed.edited}
        if candidate.run is None or baseline.asked is None or baseline.gold_ranks is None:
            return
        removed = frozenset(changed.removed if changed else ())
        now = Ranked(candidate.run)
        for place, name in enumerate(baseline.query_ids):
            moved = moved_tools(name, baseline.asked, place, baseline.gold_ranks[place], now, removed)
            if moved:
                self._found[name] = moved

    def of(self, query: str) -> list[MovedTool]:
        """The moved tools of one query."""
        return self._found.get(query, [])

    def tools(self) -> list[ToolMove]:
        """All moved tools, those first whose sum of reciprocal ranks fell most."""
        moves: dict[str, list[MovedTool]] = {}
        for moved in self._found.values():
            for item in moved:
                moves.setdefault(item.tool_id, []).append(item)
        gains = {tool: sum(_gain(item) for item in items) for tool, items in moves.items()}
        return [
            ToolMove(
                tool_id=tool,
                lower=sum(_gain(item) < 0 for item in moves[tool]),
                higher=sum(_gain(item) > 0 for item in moves[tool]),
                edited=self._edited.get(tool, []),
                removed=moves[tool][0].removed,
            )
            for tool in sorted(moves, key=lambda tool: (gains[tool], tool))
        ]


def _gain(item: MovedTool) -> float:
    return (1 / item.after if item.after else 0.0) - (1 / item.before if item.before else 0.0)

"""A candidate on an edited catalogue, held against a baseline on the catalogue as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from bench.data.dataset import Dataset
from bench.gating.baseline import Baseline
from bench.gating.candidate import Candidate
from bench.gating.report import MOST_NAMED, ToolMove
from bench.results.across_catalogues import (
    CatalogueChange,
    MovedTool,
    Ranked,
    change,
    moved_tools,
    question_differences,
    take_snapshot,
    values_as_asked,
)


@dataclass(frozen=True)
class Across:
    """A candidate on another catalogue.

    Attributes:
        candidate: its values of the queries as the baseline has them.
        change: what became of the catalogue.
    """

    candidate: Candidate
    change: CatalogueChange


def across_catalogues(candidate: Candidate, baseline: Baseline, load: Callable[[bool], Dataset]) -> Across | list[str]:
    """Bring a candidate on another catalogue to the queries of a baseline; or say why that cannot be.

    Units of independence are those of the baseline. A requirement whose tools were all removed counts as missed.

    Args:
        candidate, baseline: the two, on the same split and protocol.
        load: the candidate's dataset, which is not asked for where the candidate says itself what it was asked.
    """
    if baseline.asked is None:
        return [
            "the baseline does not record its catalogue, so that it is not known what changed: bless it again from a "
            "result on a dataset of your own"
        ]
    ids = candidate.per_query["query_id"].to_pylist()
    now = candidate.snapshot or take_snapshot(load(True), ids)
    if differing := question_differences(baseline.asked, baseline.query_ids, now, ids):
        return [f"the queries differ: {'; '.join(differing)}; a catalogue may change, its queries may not"]
    known = baseline.dataset
    catalogue_change = change(known.spec, known.content_hash, baseline.asked, now)
    table = candidate.per_query
    removed = frozenset(catalogue_change.removed)
    harmless = any(baseline.asked.harmful(place) & removed for place in range(len(baseline.query_ids)))
    # With a forbidden tool gone, a query is one less that a metric is taken on: the baseline's questions stay.
    if catalogue_change.gold_removed or harmless or ids != baseline.query_ids:
        if candidate.run is None or candidate.repeats > 1:
            return [
                "tools that queries need were removed, and the candidate cannot be scored as missing them: that takes "
                "the ranking of a run without repeats"
            ]
        table = values_as_asked(candidate.run, table, baseline.asked, baseline.query_ids, list(baseline.values))
    columns = {"unit": [f"{unit:09}" for unit in baseline.units], "n_gold": baseline.n_gold}
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
    return Across(replace(candidate, per_query=table), catalogue_change)


class GoldMoves:
    """Which gold tools of a baseline are ranked elsewhere by a candidate; nothing where either ranking is not known."""

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
        """Those of one query."""
        return self._found.get(query, [])

    def tools(self) -> list[ToolMove]:
        """All that moved, those first whose reciprocal ranks fell most in all."""
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


def first_tools(moves: GoldMoves) -> tuple[list[ToolMove], int]:
    """The tools that a report names, and how many there are."""
    tools = moves.tools()
    return tools[:MOST_NAMED], len(tools)

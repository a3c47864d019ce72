"""Calibration: is a language model fit to judge rankings by its choices?

Before a model's choices say anything about retrievers, the model must choose by the tools' descriptions. It is shown
the gold among other tools, in a new random order for each query: if it does not find the gold more often than random
draws of as many tools, or if its accuracy depends on the gold's position, its choices measure the model and not the
retriever. `bench choose` runs the calibration first; the site reads it from stored results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.choices.outcomes import UNANSWERED, read_replies
from bench.metrics.measures import chance_of_hit
from bench.results.store import StoredResult
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE
from bench.stats.noninferiority import enough_units

#: The parts of a calibration, by what the gold is shown with: random tools, hard ones, the same hard ones in another
#: order, or nothing.
Part = Literal["random", "hard", "reordered", "alone"]
#: The parts in order, and their names in tables.
AMONG: dict[Part, str] = {
    "random": "random tools",
    "hard": "hard tools",
    "reordered": "hard, reordered",
    "alone": "nothing else",
}
#: Number of shown tools; the hard ones are shown twice (random ones would be drawn anew).
CALIBRATION_TOOLS, CALIBRATION_REPEATS = 5, 2
#: Number of permutations in the test of positions, and its significance level.
PERMUTATIONS = 10_000
#: Permutations held at once; divides their number.
_BLOCK = 500
LEVEL = 0.01
#: Accuracy depends on the position if the spread between the best and the worst exceeds this share of the mean.
SPREAD = 0.5
_SEED = 0


@dataclass(frozen=True)
class Fitness:
    """A model's choices when the gold is shown.

    Attributes:
        n: queries whose gold was all shown, with a reply, even an unusable one.
        hit: share of them in which a gold tool was called.
        above_chance, low, high: mean accuracy minus that of random draws of as many shown tools, with its 95%
            interval by units; the ends are None with too few units.
        positions: accuracy by the position of the gold tool, over queries with one gold tool; `at_position` counts
            these.
        position_p: p-value of the permutation test of no difference between positions; None without two positions.
        unknown, unreadable: number of queries with a call of a name that was not shown, and without a readable reply.
        same: share of queries with the same set of tools when asked again; None for a run without repeats.
    """

    n: int
    hit: float
    above_chance: float
    low: float | None
    high: float | None
    positions: tuple[float, ...]
    at_position: tuple[int, ...]
    position_p: float | None
    unknown: int
    unreadable: int
    same: float | None
    decided: bool

    @property
    def faults(self) -> list[str]:
        """Why the model is not fit to judge, in sentences without a full stop; empty if it is fit."""
        told = []
        if not self.decided:
            told.append("too few query groups to decide")
        elif self.low is None or self.low <= 0:
            told.append("it does not find the gold more often than chance")
        seen = [share for share, count in zip(self.positions, self.at_position, strict=True) if count]
        hangs = self.position_p is not None and self.position_p < LEVEL
        if hangs and max(seen) - min(seen) > SPREAD * self.hit:
            told.append(f"its accuracy depends on the gold's position ({min(seen):.2f} to {max(seen):.2f})")
        return told


@dataclass(frozen=True)
class Calibration:
    """A model's choices on a dataset when the gold is shown.

    Attributes:
        tests: by part, those that were run.
        same_reordered: share of queries with the same choice after reordering the hard tools; None if that was not run.
        definitions: tool id -> tokens of its definition in the model's prompts; empty if unknown.
    """

    tests: Mapping[Part, Fitness]
    same_reordered: float | None = None
    definitions: Mapping[str, float] = field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """Why the model is not fit to judge on this dataset; empty if it is fit."""
        test = self.tests.get("random")
        return ["it was not calibrated on these queries"] if test is None else test.faults

    def to_dict(self) -> dict[str, Any]:
        """Everything except the definitions, for JSON."""
        tests: dict[str, Any] = {part: {**asdict(test), "faults": test.faults} for part, test in self.tests.items()}
        return {**tests, "same_reordered": self.same_reordered, "faults": self.faults}


def position_test(position: NDArray[np.int64], hit: NDArray[np.float64], seed: int = _SEED) -> float | None:
    """p-value of the hypothesis that success does not depend on the position of the gold.

    Positions are drawn independently for each query, so every assignment of them to the queries was equally likely:
    this is an exact permutation test even if queries depend on each other. The statistic is the variance between
    positions, weighted by their queries.

    Args:
        position: (queries,) from 0.
        hit: (queries,) 1 for a success, else 0.
        seed: seed of the permutations.

    Returns:
        (1 + permutations at least as extreme) / (1 + permutations); None with fewer than two positions.
    """
    if len(np.unique(position)) < 2:
        return None
    used, place, counts = np.unique(position, return_inverse=True, return_counts=True)
    random = np.random.default_rng(seed)
    at = (place[:, None] == np.arange(len(used))).astype(np.float64)
    observed, extreme = (hit @ at) ** 2 @ (1 / counts), 0
    for _ in range(PERMUTATIONS // _BLOCK):
        permuted = np.stack([random.permutation(hit) for _ in range(_BLOCK)])
        extreme += int(((permuted @ at) ** 2 @ (1 / counts) >= observed * (1 - 1e-12)).sum())
    return (1 + extreme) / (1 + PERMUTATIONS)


def fitness(result: StoredResult) -> Fitness:
    """Test the model of a choice with inserted gold.

    Raises:
        BenchError: as in `read_replies`.
    """
    replies = read_replies(result)
    one = result.of_repeat()
    n_gold = np.array(one.per_query["n_gold"].to_pylist(), dtype=np.int64)
    called = [tools or [] for tools in one.per_query["recommended"].to_pylist()]
    hits, all_shown = one.values("set_hit"), one.values("recall@100")
    rows = [
        i
        for i, note in enumerate(replies.notes)
        if note is not None
        and not note.failed
        and n_gold[i]
        # Without a usable reply there is no ranking, but the gold was put in front of what was shown.
        and (n_gold[i] <= len(note.shown) if replies.outcomes[i] in UNANSWERED else all_shown[i] == 1)
    ]
    unknown, unreadable = replies.summary.faults["unknown name"], replies.summary.counts["unreadable"]
    same = None if result.manifest.repeats < 2 else same_choices(result.of_repeat(1), result.of_repeat(2))
    if not rows:
        return Fitness(0, 0.0, 0.0, None, None, (), (), None, unknown, unreadable, same, decided=False)
    hit = hits[rows]
    shown = [[] if note is None else note.shown for note in replies.notes]
    above = hit - chance_of_hit(n_gold[rows], *(np.array([len(each[i]) for i in rows]) for each in (called, shown)))
    units = number_units(replies.units[rows])
    low, high = (
        (None if math.isnan(end) else float(end))
        for end in bca_intervals(above[:, None], seed=_SEED, units=units, span=SHARE.of_differences())[0]
    )
    position, single = _positions(one, replies.queries, shown, [i for i in rows if n_gold[i] == 1])
    at = hits[single]
    counts = np.bincount(position)
    shares = np.bincount(position, at, minlength=len(counts)) / np.maximum(counts, 1)
    return Fitness(
        n=len(rows),
        hit=float(hit.mean()),
        above_chance=float(above.mean()),
        low=low,
        high=high,
        positions=tuple(map(float, shares)),
        at_position=tuple(map(int, counts)),
        position_p=position_test(position, at) if len(single) else None,
        unknown=unknown,
        unreadable=unreadable,
        same=same,
        decided=enough_units(units),
    )


def _positions(
    result: StoredResult, queries: list[str], shown: list[list[str]], rows: list[int]
) -> tuple[NDArray[np.int64], list[int]]:
    """(queries,) the position of the only gold tool among the shown tools, for these rows, and the rows."""
    ranked: dict[str, list[str]] = {}
    for query, tool in zip(result.run["query_id"].to_pylist(), result.run["tool_id"].to_pylist(), strict=True):
        ranked.setdefault(query, []).append(tool)
    first = result.values("mrr@100")
    # With one gold tool, 1 / mrr is its rank.
    rows = [i for i in rows if first[i] > 0]
    positions = [shown[i].index(ranked[queries[i]][round(1 / first[i]) - 1]) for i in rows]
    return np.array(positions, dtype=np.int64), rows


def same_choices(one: StoredResult, other: StoredResult) -> float:
    """The share of queries for which two results on the same queries, or two repeats of one, called the same tools."""
    sets = (each.per_query["recommended"].to_pylist() for each in (one, other))
    return float(np.mean([set(a or ()) == set(b or ()) for a, b in zip(*sets, strict=True)]))

"""Cuts: turn a ranking into a recommended set (protocol, cuts).

size        the first k tools, the same k for every query
threshold   the tools whose score is at least t; none if no score reaches it (the method abstains)
gap         the tools before the largest fall in score among the first k + 1

The user gives k or t, or it is learnt: it is then the value with the best mean TRACC on held-out past queries (a query
without gold counts 1 if the method abstains, else 0). The method is fitted on the train split and the cut learnt on
dev; without a dev split, on a fifth of the train split that is held out of fitting. Test queries are never used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.data.gold import Gold
from bench.data.tables import SPLITS
from bench.evaluation.ask import ask_queries, prepare
from bench.interface import History, Library, Method, Queries, Ranking, ToolSets
from bench.interface.ranking import Scores
from bench.metrics.evaluate import set_sizes
from bench.metrics.measures import tracc

if TYPE_CHECKING:
    from bench.results.settings import CutKind

_LARGEST_SIZE = 20
_THRESHOLDS = 200
_HELD_OUT = 0.2
#: More queries than this only take longer: they do not improve the cut.
_MOST_QUERIES = 2000


@dataclass(frozen=True)
class Cut:
    """A cut; `str(cut)` names it in the row. `given` says that its value was not learnt."""

    kind: CutKind
    value: float
    given: bool = False

    def __str__(self) -> str:
        shown = str(int(self.value)) if self.kind != "threshold" else f"{self.value:{'' if self.given else '.4g'}}"
        return f"cut={self.kind}({shown}{', given' if self.given else ''})"

    def apply(self, ranking: Ranking) -> ToolSets:
        """The set of each query.

        Raises:
            UsageError: the ranking has no scores to cut by.
        """
        if self.kind != "size" and ranking.scores is None:
            raise UsageError(f"--cut {self.kind} needs scores, but the ranking has none; use --cut size.")
        return _prefixes(ranking, self._lengths(ranking))

    def _lengths(self, ranking: Ranking) -> NDArray[np.int64]:
        returned = _row_counts(ranking.tools >= 0)
        if self.kind == "size":
            return np.minimum(returned, int(self.value))
        assert ranking.scores is not None
        if self.kind == "threshold":
            return _row_counts((ranking.tools >= 0) & (ranking.scores >= self.value))
        return _before_gap(ranking.scores, returned, int(self.value))


def _row_counts(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = marked.sum(axis=1, dtype=np.int64)
    return counts


def _before_gap(scores: Scores, returned: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Number of tools before the largest fall among the first k + 1; the earliest if falls are equal."""
    if scores.shape[1] < 2:
        return np.minimum(returned, 1)
    head = np.where(np.isfinite(scores[:, : k + 1]), scores[:, : k + 1], np.nan)
    falls = np.nan_to_num(head[:, :-1] - head[:, 1:], nan=-1.0)
    lengths: NDArray[np.int64] = np.minimum(returned, falls.argmax(axis=1) + 1)
    return lengths


def _prefixes(ranking: Ranking, lengths: NDArray[np.int64]) -> ToolSets:
    return ToolSets.of([ranking.tools[i, :length] for i, length in enumerate(lengths)])


def learn_cut(kind: CutKind, build: Callable[[], Method], history: History, library: Library, depth: int) -> Cut:
    """Learn a cut with a separate method instance, so that the evaluated one sees all of the history.

    Raises:
        UsageError: there are too few past queries, or the method gives no scores to cut by.
    """
    fitted, held = split_history(kind, history)
    method = build()
    # The positions of the held-out queries are their rows in the history.
    prepare(method, library, history.take(fitted), history.gold)
    queries = Queries(tuple(history.texts[row] for row in held), held)
    ranking, _ = ask_queries(method, queries, len(library), depth, "ranking past queries to learn a cut")
    gold = history.gold.take(held)
    if kind != "size" and ranking.scores is None:
        raise UsageError(
            f"--cut {kind} needs scores, but {method.name} returns an order without scores; use --cut size."
        )
    candidates = [Cut(kind, value) for value in _values(kind, ranking)]
    # The first of equally good values: the smallest set, or the lowest threshold.
    return max(candidates, key=lambda cut: _quality(cut.apply(ranking), gold))


def split_history(kind: CutKind, history: History) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the history to fit on, and rows to learn the cut on.

    Raises:
        UsageError: there are too few past queries for both.
    """
    dev = np.flatnonzero(history.split == SPLITS.index("dev"))
    train = np.flatnonzero(history.split == SPLITS.index("train"))
    if not len(dev):
        # By content, so that the same queries are held out in any order.
        order = sorted(train.tolist(), key=lambda row: hashlib.sha256(history.texts[row].encode()).digest())
        count = int(len(order) * _HELD_OUT)
        dev, train = np.array(sorted(order[:count]), dtype=np.int64), np.array(sorted(order[count:]), dtype=np.int64)
    if len(dev) > _MOST_QUERIES:
        dev = dev[np.linspace(0, len(dev) - 1, _MOST_QUERIES).round().astype(np.int64)]
    if not len(train) or not len(dev):
        raise UsageError(
            f"--cut {kind} needs train or dev queries to learn from, and this dataset has too few; use --cut none."
        )
    return train, dev


def _values(kind: CutKind, ranking: Ranking) -> list[float]:
    if kind != "threshold":
        return [float(k) for k in range(1, min(_LARGEST_SIZE, max(1, ranking.tools.shape[1])) + 1)]
    assert ranking.scores is not None
    scores = ranking.scores[:, :_LARGEST_SIZE][ranking.tools[:, :_LARGEST_SIZE] >= 0]
    if not len(scores):
        return [0.0]
    return sorted({float(value) for value in np.quantile(scores, np.linspace(0, 1, _THRESHOLDS), method="nearest")})


def _quality(sets: ToolSets, gold: Gold) -> float:
    sizes = set_sizes(sets, gold, len(gold))
    judged = gold.counts > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.where(judged, tracc(sizes), sizes.size == 0).mean())

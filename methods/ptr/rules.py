"""Functional coverage by rules, used instead of a language model.

The functionalities of a query are its clauses. A tool of the bundle serves a clause when the cosine of their vectors
reaches a threshold; a tool that serves no clause is dropped, and a clause that no tool serves is an unsolved problem.

The threshold is learnt only from the history (`learn_threshold`): past queries are held out, the bundle retriever is
fitted on others, and the threshold is the observed cosine for which the sets of the held-out queries have the best mean
TRACC. The lowest threshold keeps every bundle unchanged, the highest drops all of it; both are candidates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import SPLITS
from bench.interface import History, ToolSets
from bench.methods.ptr.coverage import BundleCoverage
from bench.metrics.evaluate import set_sizes
from bench.metrics.measures import tracc
from bench.search.clauses import clauses
from bench.search.dense import normalize

#: Cosines and probabilities below and above all others: every tool serves, none does.
KEEP_ALL, DROP_ALL = -1.0, 1.01
_THRESHOLDS = 100
_HELD_OUT = 0.2
#: More held-out queries do not improve the threshold, they only slow learning down.
_MOST_HELD_OUT = 500
_SEED = 0

HeldOut = Literal["queries", "bundles"]
Encode = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class Threshold:
    """The value of a judge from which a tool serves a clause, learnt on past queries.

    Attributes:
        value: the cosine, or the probability, from which a tool serves a clause.
        queries: number of held-out past queries; with 0 nothing was learnt and bundles are kept.
    """

    value: float
    queries: int


class Judge(Protocol):
    """Scores how likely tools serve clauses."""

    def values(
        self, queries: Sequence[str], split: Sequence[Sequence[str]], bundles: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float64]]:
        """(clauses, tools) of each query and its bundle, rounded to single precision so that equal values tie."""
        ...


class CosineJudge:
    """Judges by the cosine of clause and tool.

    Args:
        encode: returns vectors of texts.
        tools: (tools, dimensions) normalised vectors of the library.
    """

    def __init__(self, encode: Encode, tools: NDArray[np.float64]) -> None:
        self._encode = encode
        self._tools = tools

    def values(
        self, queries: Sequence[str], split: Sequence[Sequence[str]], bundles: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float64]]:
        if not any(split):
            return [np.zeros((0, len(bundle))) for bundle in bundles]
        return [
            # Single precision, as in rankings: sums with another order of terms are then equal.
            (vectors @ self._tools[list(bundle)].T).astype(np.float32).astype(np.float64)
            for vectors, bundle in zip(clause_vectors(split, self._encode), bundles, strict=True)
        ]


def clause_vectors(split: Sequence[Sequence[str]], encode: Encode) -> list[NDArray[np.float64]]:
    """The normalised (clauses, dimensions) vectors of each query, encoded all at once."""
    every = [clause for part in split for clause in part]
    vectors = normalize(encode(every)) if every else np.zeros((0, 0))
    bounds = accumulate((len(part) for part in split), initial=0)
    return [vectors[start:end] for start, end in pairwise(bounds)]


class Rules:
    """Maps clauses to the tools that a judge scores high enough.

    Args:
        judge: scores tools.
        threshold: the value from which a tool serves a clause.
    """

    def __init__(self, judge: Judge, threshold: float) -> None:
        self._judge = judge
        self._threshold = threshold

    def cover(self, queries: Sequence[str], bundles: Sequence[Sequence[int]] | None) -> list[BundleCoverage]:
        """The coverage of each query by its bundle; without bundles all its clauses are unsolved."""
        judged = Judgements.of(queries, bundles, self._judge)
        return [judged.coverage(row, self._threshold) for row in range(len(queries))]


@dataclass(frozen=True)
class Judgements:
    """Queries as clauses, with a judge's values for every clause and every tool of the bundle.

    Attributes:
        clauses: the clauses of each query.
        bundles: the tools of each query's bundle; None when there are no bundles.
        values: (clauses, tools) values of each query.
    """

    clauses: list[list[str]]
    bundles: list[list[int]] | None
    values: list[NDArray[np.float64]]

    @staticmethod
    def of(queries: Sequence[str], bundles: Sequence[Sequence[int]] | None, judge: Judge) -> Judgements:
        """Judge all clauses at once."""
        split = [clauses(query) for query in queries]
        if bundles is None:
            return Judgements(split, None, [np.zeros((len(part), 0)) for part in split])
        chosen = [[int(tool) for tool in bundle] for bundle in bundles]
        return Judgements(split, chosen, judge.values(queries, split, chosen))

    def coverage(self, row: int, threshold: float) -> BundleCoverage:
        """The coverage of one query with a threshold."""
        texts = self.clauses[row]
        if self.bundles is None:
            return BundleCoverage((), tuple(texts))
        bundle, serves = self.bundles[row], self.values[row] >= threshold
        # Clause by clause, the best tool of each first.
        order = [
            bundle[column]
            for clause, values in enumerate(self.values[row])
            for column in np.argsort(-values, kind="stable")
            if serves[clause, column]
        ]
        kept = tuple(dict.fromkeys(order))
        unsolved = tuple(text for clause, text in enumerate(texts) if not serves[clause].any())
        if unsolved:
            return BundleCoverage(kept, unsolved, "partial")
        return BundleCoverage(kept, unsolved, "over" if len(kept) < len(bundle) else "exact")


def held_out(history: History, unit: HeldOut) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the history to fit a retriever on, and rows to learn the threshold on; either may be empty.

    The dev split is held out or, without one, a fifth of the train split, chosen by the hash of the text (or of the
    bundle), so that the same queries are held out whatever their order; equal texts stay on one side.

    Args:
        history: past queries; those without gold are left out.
        unit: with `queries` the retriever may have seen the bundle of a held-out query with another query, as when
            future bundles are past ones; with `bundles` it has not, as when they are new.
    """
    rows = np.flatnonzero(history.gold.counts)
    bundles = {row: str(history.gold.row(row).tolist()) for row in rows.tolist()}
    keys = {row: _key(bundles[row] if unit == "bundles" else history.texts[row]) for row in bundles}
    held = [row for row in keys if history.split[row] == SPLITS.index("dev")]
    if not held:
        held = [row for row, key in keys.items() if int.from_bytes(key[:8], "big") < _HELD_OUT * 2**64]
    away = {bundles[row] for row in held} if unit == "bundles" else set()
    seen = sorted(keys.keys() - set(held) - {row for row in bundles if bundles[row] in away})
    if len(held) > _MOST_HELD_OUT:
        held = sorted(held, key=lambda row: (_key(history.texts[row]), row))[:_MOST_HELD_OUT]
    return np.array(seen, dtype=np.int64), np.array(sorted(held), dtype=np.int64)


def _key(text: str) -> bytes:
    return hashlib.sha256(f"{_SEED}:{text}".encode("utf-8", "surrogatepass")).digest()


def learn_threshold(judged: Judgements, history: History, added: Sequence[Sequence[int | None]]) -> Threshold:
    """The threshold with the best mean TRACC; of equal ones the lowest, which changes bundles least.

    Args:
        judged: values for the held-out past queries, with bundles from a retriever that has not seen them.
        history: the same past queries.
        added: for each of them, the tool that re-ranking would add for each clause if it were unsolved.
    """
    if not len(history):
        return Threshold(KEEP_ALL, 0)
    seen = np.concatenate([values.ravel() for values in judged.values])
    inner = np.quantile(seen, np.linspace(0, 1, _THRESHOLDS), method="nearest").tolist() if len(seen) else []
    candidates = [KEEP_ALL, *sorted(set(inner)), DROP_ALL]
    scores = [_quality(judged, history, added, threshold) for threshold in candidates]
    return Threshold(float(candidates[int(np.argmax(scores))]), len(history))


def _quality(judged: Judgements, history: History, added: Sequence[Sequence[int | None]], threshold: float) -> float:
    """Mean TRACC of the sets that a threshold makes."""
    rows = []
    for row in range(len(history)):
        serves = judged.values[row] >= threshold
        assert judged.bundles is not None
        kept = {tool for column, tool in enumerate(judged.bundles[row]) if serves[:, column].any()}
        more = {tool for clause, tool in enumerate(added[row]) if tool is not None and not serves[clause].any()}
        rows.append(sorted(kept | more))
    return float(tracc(set_sizes(ToolSets.of(rows), history.gold, len(rows))).mean())

"""The risk-coverage curve of a stored result: how often answers are wrong if only confident ones are given.

The metric `aurc@k` is the area under this curve (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.results.store import StoredResult


@dataclass(frozen=True)
class RiskCoverage:
    """The curve, one entry for each threshold on the score of the first tool, the highest first.

    Attributes:
        k: an answer is right if a gold tool is among its first k.
        threshold: (levels,) float64: queries with this score or a higher one are answered. The first one is inf where
            queries failed: a failure is a wrong answer of the highest confidence. The last one is -inf where nothing
            was returned to queries without gold.
        answered: (levels,) int64, how many queries are answered.
        missed: (levels,) int64, how many of them have gold, and none of it among the first k.
        needless: (levels,) int64, how many of them have no gold, and an answer.
    """

    k: int
    threshold: NDArray[np.float64]
    answered: NDArray[np.int64]
    missed: NDArray[np.int64]
    needless: NDArray[np.int64]

    @property
    def queries(self) -> int:
        """How many there are."""
        return int(self.answered[-1])

    @property
    def coverage(self) -> NDArray[np.float64]:
        """(levels,) the share of the queries that are answered."""
        return self.answered / self.queries

    @property
    def risk(self) -> NDArray[np.float64]:
        """(levels,) the share of wrong answers among them."""
        return (self.missed + self.needless) / self.answered

    @property
    def area(self) -> float:
        """`aurc@k`: the area under the curve as steps, each up to the coverage of its threshold."""
        return float((np.diff(self.coverage, prepend=0.0) * self.risk).sum())

    def at(self, share: float) -> int:
        """The entry of the highest threshold at which at least a share of the queries is answered."""
        return int(np.searchsorted(self.answered, np.ceil(share * self.queries - 1e-9)))


def risk_coverage(result: StoredResult, k: int = 5) -> RiskCoverage | None:
    """The curve of a result; of a run with repeats, that of the first.

    Returns:
        None where there is none: the ranking is not kept or has no scores, or not both kinds of queries were asked,
        those with gold and those without.

    Raises:
        ResultError: a table cannot be read.
    """
    if not (result.metrics.n and result.metrics.n_no_gold and result.has_run):
        return None
    # A copy, which does not keep the tables for as long as the result lives.
    result = StoredResult(result.folder, result.manifest, result.metrics).of_repeat()
    table, name = result.per_query, f"hit@{k}"
    first = result.run.filter(pc.equal(result.run["rank"], 1))
    if name not in table.column_names or not len(first) or first["score"].null_count:
        return None
    scores = dict(zip(first["query_id"].to_pylist(), first["score"].to_pylist(), strict=True))
    score = np.array([scores.get(query, -np.inf) for query in table["query_id"].to_pylist()], dtype=np.float64)
    if np.isnan(score).any():
        return None
    has_gold = np.array(table["n_gold"].to_pylist()) > 0
    score[np.array(table["failed"].to_pylist(), dtype=np.bool_)] = np.inf
    missed = has_gold & ~(result.values(name) > 0)
    needless = ~has_gold & (score > -np.inf)
    levels, place = np.unique(-score, return_inverse=True)
    answered, missed_so_far, needless_so_far = (
        np.cumsum(np.bincount(place, which, minlength=len(levels))).astype(np.int64)
        for which in (np.ones(len(score)), missed, needless)
    )
    return RiskCoverage(k, -levels, answered, missed_so_far, needless_so_far)

"""The fixtures of the tiny dataset; comparisons made by hand, to compare drawings and printed output with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from kit.tiny import instance, notes, run, runner, tiny

from bench.comparison.comparison import Comparison
from bench.comparison.report import (
    DatasetReport,
    MacroReport,
    MacroStanding,
    MetricReport,
    Move,
    QueryMoves,
    SliceReport,
    Standing,
    System,
    SystemDifference,
)

__all__ = ["instance", "make", "notes", "run", "runner", "tiny"]

Make = Callable[..., Comparison]


@pytest.fixture(autouse=True)
def hurried_results(few_resamples: None) -> None:
    """What is compared are values per query: the intervals of single results need not be exact."""


def difference(system: str, corrected: float, mean: float = -0.1) -> SystemDifference:
    return SystemDifference(
        system=system,
        difference=mean,
        low=mean - 0.05,
        high=mean + 0.05,
        p=corrected / 2,
        corrected=corrected,
        p_t=0.01,
        p_wilcoxon=0.02,
        dz=-0.3,
        wins=10,
        ties=70,
        losses=20,
        detectable=0.06,
        needed=90,
        decided=True,
    )


@pytest.fixture
def make() -> Make:
    """A comparison of systems by mean; the first is the baseline, the others differ with these corrected p-values."""

    def make(
        names: Sequence[str] = ("base", "other", "third"),
        means: Sequence[float] = (0.5, 0.7, 0.4),
        corrected: Sequence[float] = (0.004, 0.03),
        text: str = "find a train",
        macro: bool = False,
    ) -> Comparison:
        order = sorted(range(len(names)), key=lambda i: -means[i])
        differences = [difference(name, p) for name, p in zip(names[1:], corrected, strict=True)]
        standings = [
            Standing(
                system=names[i],
                mean=means[i],
                low=means[i] - 0.03,
                high=means[i] + 0.03,
                tier=rank,
                rank_low=rank,
                rank_high=min(rank + 1, len(names)),
            )
            for rank, i in enumerate(order, start=1)
        ]
        size = len(names)
        metric = MetricReport(
            metric="recall@5",
            higher_is_better=True,
            n=100,
            units=100,
            standings=standings,
            differences=differences,
            pairs=[[1.0] * size for _ in range(size)],
        )
        slices = [
            SliceReport(
                slice="gold",
                value="1",
                metric="recall@5",
                n=40,
                units=40,
                means=dict(zip(names, means, strict=True)),
                differences=differences,
            )
        ]
        move = Move(query_id="q1", text=text, system=1.0, baseline=0.0)
        ranks = [
            MacroStanding(
                system=names[i],
                mean=means[i],
                low=0.1,
                high=0.9,
                mean_rank=k + 1,
                rank_low=k + 1,
                rank_high=min(k + 2, size),
            )
            for k, i in enumerate(order)
        ]
        over = MacroReport(
            metric="recall@5",
            datasets=["tiny", "other"],
            sources=["tiny", "other"],
            standings=ranks,
            friedman=0.04,
            critical=1.5,
        )
        return Comparison(
            baseline=names[0],
            correction="holm",
            family=f"all {size * (size - 1) // 2} pairs for each metric",
            level=0.05,
            datasets=[
                DatasetReport(
                    dataset="tiny",
                    split="test",
                    limit=None,
                    n=100,
                    unit="none",
                    units=100,
                    effective=100.0,
                    systems=[
                        System(name=name, result_id=f"{i:012}", marks=[], n_failed=0) for i, name in enumerate(names)
                    ],
                    metrics=[metric],
                    slices=slices,
                    moves=[QueryMoves(system=names[1], metric="recall@5", gained=[move], lost=[])],
                    warnings=[],
                )
            ],
            macro=[over] if macro else [],
        )

    return make

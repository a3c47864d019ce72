"""The models of a comparison, which define the JSON of `bench compare`."""

from __future__ import annotations

from typing import Literal

from bench.storage.records import Record

SCHEMA_VERSION = 1
Correction = Literal["holm", "benjamini-hochberg"]


class System(Record):
    """One of the compared results. `name` is unique within the comparison."""

    name: str
    result_id: str
    marks: list[str]
    n_failed: int


class Standing(Record):
    """A system on one metric.

    Attributes:
        mean, low, high: over the queries, with its 95% interval (BCa); no interval for a single query.
        tier: from 1; no two systems of a tier differ significantly.
        rank_low, rank_high: best and worst rank, 95% of the bootstrap's resamples of queries lie between.
    """

    system: str
    mean: float
    low: float | None
    high: float | None
    tier: int
    rank_low: int
    rank_high: int


class Difference(Record):
    """A system less the baseline on the same queries.

    Attributes:
        low, high: 95% interval (BCa) of the mean difference, not corrected for the family.
        p: two-sided paired randomisation test; `corrected` for the family.
        p_t, p_wilcoxon: paired t and Wilcoxon signed-rank tests, not corrected.
        dz: mean difference / standard deviation of the differences; none where they do not vary.
        wins, ties, losses: queries on which the system is better, equal and worse than the baseline.
        detectable: the smallest difference that so many queries show with 80% power at the 5% level.
        needed: queries that would show the difference found with that power; none for no difference. A single query
            has neither.
    """

    system: str
    difference: float
    low: float | None
    high: float | None
    p: float
    corrected: float
    p_t: float
    p_wilcoxon: float
    dz: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    needed: int | None


class MetricReport(Record):
    """One metric: standings best first, differences in the order of the systems, and all pairs.

    Attributes:
        n: queries that the metric is taken on.
        pairs: (systems, systems) p-values of the randomised Tukey test, in the order of the systems.
    """

    metric: str
    higher_is_better: bool
    n: int
    standings: list[Standing]
    differences: list[Difference]
    pairs: list[list[float]]


class SliceReport(Record):
    """One metric on the queries with one value of a slice; p-values are corrected over the whole slice."""

    slice: str
    value: str
    metric: str
    n: int
    means: dict[str, float]
    differences: list[Difference]


class Move(Record):
    """A query on which a system and the baseline differ. `text` is null if the dataset is not available."""

    query_id: str
    text: str | None
    system: float
    baseline: float


class Moves(Record):
    """The queries that moved most on one metric from the baseline to a system."""

    system: str
    metric: str
    gained: list[Move]
    lost: list[Move]


class DatasetReport(Record):
    """The systems on one dataset; the first is the baseline."""

    dataset: str
    split: str
    limit: int | None
    n: int
    systems: list[System]
    metrics: list[MetricReport]
    slices: list[SliceReport]
    moves: list[Moves]
    warnings: list[str]


class MacroStanding(Record):
    """A system over all datasets.

    Attributes:
        mean, low, high: mean of the datasets' means; the interval resamples datasets, and queries within them.
        rank: mean rank over datasets (1 is best; ties share).
    """

    system: str
    mean: float
    low: float
    high: float
    rank: float


class MacroReport(Record):
    """One metric over several datasets.

    Attributes:
        friedman: p-value of the Friedman test that all systems rank alike; none for fewer than three systems.
        critical: Nemenyi's critical difference of mean ranks at the 5% level.
    """

    metric: str
    datasets: list[str]
    standings: list[MacroStanding]
    friedman: float | None
    critical: float


class Comparison(Record):
    """What `bench compare` found.

    Attributes:
        family: which comparisons were corrected together, in words.
    """

    schema_name: Literal["comparison"] = "comparison"
    schema_version: Literal[1] = 1
    baseline: str
    correction: Correction
    family: str
    level: float
    datasets: list[DatasetReport]
    macro: list[MacroReport]

"""The models of a comparison, which define the JSON of `bench compare`."""

from __future__ import annotations

from typing import ClassVar, Literal

from bench.base.records import Record, Sparing
from bench.results.across_catalogues import CatalogueChange, MovedTool
from bench.stats.noninferiority import EquivalenceVerdict, PairVerdict

SCHEMA_VERSION = 2
Correction = Literal["holm", "benjamini-hochberg", "holm-all"]


class System(Record, Sparing):
    """One of the compared results. `name` is unique within the comparison.

    `answer_tokens`: mean over the answered queries of the text that a search outside of bench sent; left out where it
    is not known.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"answer_tokens"})

    name: str
    result_id: str
    marks: list[str]
    n_failed: int
    answer_tokens: float | None = None


class Standing(Record):
    """A system on one metric.

    Attributes:
        mean, low, high: over the queries, with its 95% interval, which takes units; no interval for a single unit.
        tier: old, the same as `rank_low`; the next version leaves it out.
        rank_low, rank_high: best and worst rank that `MetricReport.pairs` leave open (`bench.stats.ranking`).
        reference: false for floors and oracles, which are placed as if each alone were added to the others.
        lenient: the mean where tools that read like a gold tool count as found; none where the result has none.
    """

    system: str
    mean: float
    low: float | None
    high: float | None
    tier: int
    rank_low: int
    rank_high: int
    reference: bool = True
    lenient: float | None = None


class MarginReport(Record):
    """A difference against the margin that was asked for: two one-sided tests at the 5% level, not corrected.

    Attributes:
        margin: the smallest difference that matters.
        low, high: 90% interval of the difference, which takes units.
        verdict: `within` where it lies inside of the margin, either way, `beyond` where outside, else `undecided`.
        needed: units, in all, that would show the difference to be within the margin with 80% power, if mean and spread
            stay as they are; none where no number would.
    """

    margin: float
    low: float | None
    high: float | None
    verdict: EquivalenceVerdict
    needed: int | None


class SystemDifference(Record):
    """A system less the baseline on the same queries.

    Attributes:
        low, high: interval of the mean difference, which takes units: those of a family hold their differences
            together in 95% of cases. It holds zero just where `corrected` is at least 0.05.
        p: two-sided paired randomisation test of this pair alone, signs flipped by unit.
        corrected: `p` corrected for the family, as in `MetricReport.pairs`; of slices, for the values of the slice.
        decided: whether there are enough units for a conclusion.
        verdict: by `corrected`; `not decided` does not say that the two are the same.
        margin: whether they are the same within a margin, where one was given.
        p_t, p_wilcoxon: t test with cluster-robust errors (CR2) and Wilcoxon's signed-rank test of unit means, not
            corrected.
        dz: mean difference / standard deviation of the differences; none where they do not vary.
        wins, ties, losses: queries on which the system is better, equal and worse than the baseline.
        detectable: the smallest difference that so many units show with 80% power at the 5% level.
        needed: units that would show the difference found with that power; none for no difference. A single unit has
            neither.
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
    decided: bool
    verdict: PairVerdict = "not decided"
    margin: MarginReport | None = None


class Tried(Record):
    """A system that is one of several variants, or is compared with one (`bench.comparison.variants`).

    Attributes:
        variants: how many are stored for these test queries, with the system.
        best: whether none of them has a better mean.
        p: of the difference from the baseline, corrected for the variants of both that have the metric by the same code
            (`bench.stats.best_of_many`), not for the family of the comparison; none for the baseline, where there is
            nothing to correct, and where there are too few units for a conclusion.
        elsewhere: the mean to expect if the best is chosen on other queries; none for other than the best.
    """

    system: str
    variants: int
    best: bool
    p: float | None
    elsewhere: float | None


class MetricReport(Record, Sparing):
    """One metric: standings best first, differences in the order of the systems, and all pairs.

    Attributes:
        n, units: queries that the metric is taken on, and their units of independence.
        pairs: (systems, systems) p-values of the paired randomisation test of every pair, corrected over all pairs of
            the references and this pair, in the order of the systems; 1 where there are too few units for a
            conclusion. Ranks, signs, verdicts and sentences follow from them.
        reversed: pairs of systems whose order depends on tools that read like a gold tool: the first has the better
            mean, and the second the better lenient mean.
        tried: the systems of which several variants are stored, or of whose baseline; left out where there are none.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"tried"})

    metric: str
    higher_is_better: bool
    n: int
    units: int
    standings: list[Standing]
    differences: list[SystemDifference]
    pairs: list[list[float]]
    reversed: list[tuple[str, str]] = []
    tried: list[Tried] = []


class SliceReport(Record):
    """One metric on the queries with one value of a slice; p-values are corrected over the whole slice."""

    slice: str
    value: str
    metric: str
    n: int
    units: int
    means: dict[str, float]
    differences: list[SystemDifference]


class Move(Record):
    """A query on which a system and the baseline differ.

    Attributes:
        text: null if the dataset is not available.
        tools: gold tools that are ranked elsewhere than by the baseline, across catalogues.
    """

    query_id: str
    text: str | None
    system: float
    baseline: float
    tools: list[MovedTool] = []


class QueryMoves(Record):
    """The queries that moved most on one metric from the baseline to a system."""

    system: str
    metric: str
    gained: list[Move]
    lost: list[Move]


class SystemCatalogue(Record):
    """How the catalogue of a system differs from that of the baseline."""

    system: str
    change: CatalogueChange


class DatasetReport(Record):
    """The systems on one dataset; the first is the baseline.

    Attributes:
        n: judged queries.
        unit: what makes queries dependent, such as `gold+group`, or `none`.
        units, effective: units of independence of the judged queries, and how many independent queries they are worth.
        catalogues: those of the systems after the first, if results are compared across catalogues.
        origin: sentences on where the queries come from, if people did not write them.
    """

    dataset: str
    split: str
    limit: int | None
    n: int
    unit: str
    units: int
    effective: float
    systems: list[System]
    metrics: list[MetricReport]
    slices: list[SliceReport]
    moves: list[QueryMoves]
    warnings: list[str]
    catalogues: list[SystemCatalogue] = []
    origin: list[str] = []


class Lead(Record):
    """What the best system over several datasets is ahead of another by; positive in the metric's better direction.

    Attributes:
        difference, low, high: of the macro means, with a 95% interval that resamples sources and units; with too few
            sources it is about these datasets alone. No interval where nothing is known about the spread.
        p: the paired randomisation test on these datasets, corrected by Holm over all pairs of systems; 1 where there
            are too few units for a conclusion.
        verdict: `ahead` where the test tells the two apart and the interval excludes zero, `these datasets` where the
            test does and the interval contains zero, else `not told apart`.
    """

    system: str
    difference: float
    low: float | None
    high: float | None
    p: float
    verdict: Literal["ahead", "these datasets", "not told apart"]


class WorseOn(Record):
    """A dataset on which the best system over all is significantly worse than another, with the corrected p-value."""

    dataset: str
    system: str
    p: float


class BestOverDatasets(Record):
    """Which system has the best macro mean, and of whom that can be said.

    Attributes:
        datasets: in their order.
        sources: how many they come from.
        leads: over the other contenders, the closest first.
        worse: every case of a dataset whose own tests contradict the order over all of them.
    """

    system: str
    datasets: list[str]
    sources: int
    leads: list[Lead]
    worse: list[WorseOn]


class MacroStanding(Record):
    """A system over all datasets.

    Attributes:
        mean, low, high: mean over sources of the mean over a source's datasets; the interval resamples sources, and
            units within their datasets. None where nothing is known about the spread.
        rank_low, rank_high: the ranks that tests on these datasets leave open.
        reference: false for floors and oracles.
        mean_rank: the mean over sources of its rank on a source, of which the Friedman test is one.
    """

    system: str
    mean: float
    low: float | None
    high: float | None
    mean_rank: float
    rank_low: int = 0
    rank_high: int = 0
    reference: bool = True


class MacroReport(Record):
    """One metric over several datasets. Datasets of one source, which share queries, count as one.

    Attributes:
        sources: of the datasets, in their order.
        friedman: p-value of the Friedman test that all systems rank alike; none for fewer than three systems.
        critical: Nemenyi's critical difference of mean ranks at the 5% level. Who differs from whom is for the ranks of
            `standings` to say.
        best: who is best over the datasets; none for fewer than two contenders.
        statement: the same in a sentence; empty if there is none.
    """

    metric: str
    datasets: list[str]
    sources: list[str]
    standings: list[MacroStanding]
    friedman: float | None
    critical: float
    best: BestOverDatasets | None = None
    statement: str = ""


class ComparisonRecord(Record):
    """What `bench compare` found.

    Attributes:
        family: which pairs were corrected together, in words.
        margin: the difference below which systems are called the same, if one was given.
    """

    schema_name: Literal["comparison"] = "comparison"
    schema_version: Literal[2] = 2
    baseline: str
    correction: Correction
    family: str
    level: float
    margin: float | None = None
    datasets: list[DatasetReport]
    macro: list[MacroReport]

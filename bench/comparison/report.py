"""The records of a comparison, which define the JSON of `bench compare`."""

from __future__ import annotations

from typing import ClassVar, Literal

from bench.base.records import Record, Sparing
from bench.results.across_catalogues import CatalogueChange, MovedTool
from bench.stats.noninferiority import EquivalenceVerdict, PairVerdict

SCHEMA_VERSION = 2
Correction = Literal["holm", "benjamini-hochberg", "holm-all"]


class System(Record, Sparing):
    """A compared result. `name` is unique within the comparison.

    `answer_tokens`: mean tokens, over the answered queries, of the text that an external search sent; left out if
    unknown.
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
        mean, low, high: over the queries, with a 95% interval that resamples units; no interval for a single unit.
        tier: deprecated, the same as `rank_low`; the next version removes it.
        rank_low, rank_high: best and worst rank compatible with `MetricReport.pairs` (`bench.stats.ranking`).
        reference: false for floors and oracles, each ranked as if added alone to the others.
        lenient: the mean if tools that read like a gold tool count as found; none if the result has none.
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
    """A difference against the requested margin: two one-sided tests at the 5% level, not corrected.

    Attributes:
        margin: the smallest difference that matters.
        low, high: 90% interval of the difference, from units.
        verdict: `within` if it lies inside the margin in both directions, `beyond` if outside, else `undecided`.
        needed: total number of units that would show the difference to be within the margin with 80% power, if mean and
            spread stay the same; none if no number would.
    """

    margin: float
    low: float | None
    high: float | None
    verdict: EquivalenceVerdict
    needed: int | None


class SystemDifference(Record):
    """The difference of a system from the baseline on the same queries.

    Attributes:
        low, high: interval of the mean difference, from units: all intervals of a family contain their differences at
            once in 95% of cases. It contains zero exactly if `corrected` is at least 0.05.
        p: two-sided paired randomisation test of this pair alone, signs flipped by unit.
        corrected: `p` corrected for the family, as in `MetricReport.pairs`; for slices, over the values of the slice.
        decided: whether there are enough units for a conclusion.
        verdict: from `corrected`; `not decided` does not mean that the two are the same.
        margin: whether they are the same within the margin, if one is set.
        p_t, p_wilcoxon: t test with cluster-robust errors (CR2) and Wilcoxon's signed-rank test of unit means, not
            corrected.
        dz: mean difference / standard deviation of the differences; none if they do not vary.
        wins, ties, losses: queries on which the system is better, equal and worse than the baseline.
        detectable: the smallest difference that this number of units shows with 80% power at the 5% level.
        needed: number of units that would show the observed difference with that power; none for no difference. A
            single unit has neither.
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
        variants: number stored for these test queries, including the system.
        best: whether no other variant has a better mean.
        p: p-value of the difference from the baseline, corrected for the variants of both that have the metric by the
            same code (`bench.stats.best_of_many`), not for the family of the comparison; none for the baseline, if
            there is nothing to correct, and with too few units for a conclusion.
        elsewhere: the expected mean if the best is chosen on other queries; only for the best.
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
            the references and this pair, in the order of the systems; 1 with too few units for a conclusion. Ranks,
            signs, verdicts and sentences follow from them.
        reversed: pairs of systems whose order depends on tools that read like a gold tool: the first has the better
            mean, and the second the better lenient mean.
        tried: the systems with several stored variants of themselves or of their baseline; left out if there are none.
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
        tools: gold tools with another rank than in the baseline, across catalogues.
    """

    query_id: str
    text: str | None
    system: float
    baseline: float
    tools: list[MovedTool] = []


class QueryMoves(Record):
    """The queries with the largest changes on one metric from the baseline to a system."""

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
        units, effective: units of independence of the judged queries, and their effective number of independent
            queries.
        catalogues: those of the systems after the first, if results are compared across catalogues.
        origin: sentences on the source of the queries, if people did not write them.
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
    """The lead of the best system over another, over several datasets; positive in the metric's better direction.

    Attributes:
        difference, low, high: of the macro means, with a 95% interval that resamples sources and units; with too few
            sources it is about these datasets only. No interval if the spread is unknown.
        p: the paired randomisation test on these datasets, corrected by Holm over all pairs of systems; 1 with too few
            units for a conclusion.
        verdict: `ahead` if the test separates the two and the interval excludes zero, `these datasets` if the test does
            and the interval contains zero, else `not told apart`.
    """

    system: str
    difference: float
    low: float | None
    high: float | None
    p: float
    verdict: Literal["ahead", "these datasets", "not told apart"]


class WorseOn(Record):
    """A dataset on which the overall best system is significantly worse than another, with the corrected p-value."""

    dataset: str
    system: str
    p: float


class BestOverDatasets(Record):
    """The system with the best macro mean, and the systems it leads.

    Attributes:
        datasets: in their order.
        sources: number of sources that they come from.
        leads: over the other contenders, the closest first.
        worse: every dataset whose own tests contradict the overall order.
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
            units within their datasets. None if the spread is unknown.
        rank_low, rank_high: the ranks compatible with the tests on these datasets.
        reference: false for floors and oracles.
        mean_rank: the mean over sources of its rank on a source, as in the Friedman test.
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
        sources: the sources of the datasets, in their order.
        friedman: p-value of the Friedman test that all systems rank alike; none for fewer than three systems.
        critical: Nemenyi's critical difference of mean ranks at the 5% level. The ranks of `standings` decide which
            systems differ.
        best: the best system over the datasets; none for fewer than two contenders.
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
    """The outcome of `bench compare`.

    Attributes:
        family: the pairs corrected together, in words.
        margin: the difference below which systems count as the same, if set.
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

"""The schema of `results.json`, a leaderboard's complete export."""

from __future__ import annotations

from typing import Literal

from bench.base.records import Record
from bench.results.manifest import Manifest, Metrics


class ExportedMetric(Record):
    """What a metric's name represents."""

    name: str
    definition: str
    higher_is_better: bool
    #: A paper's own variant, by which nothing is ranked.
    reproduction_only: bool


class ExportedStanding(Record):
    """Tests of all pairs of systems, by one metric.

    Attributes:
        systems: those that are ranked: ids of results, or of an overall board the rows' systems.
        references: those that the others are placed among, each as if it alone were added; empty in files of versions
            that had none.
        tiers: old, the best rank of each; the next version leaves it out.
        ranks: of each, the best and worst rank that `p` leaves open.
        p: p[i][j] is the p-value of systems i and i + 1 + j: paired randomisation tests, corrected by Holm over the
            references and this pair; 1 where there are too few units for a conclusion, null for two systems that are
            no references where there are too many to be tested.
        n, units: queries, and their units of independence.
        exact: false where so many systems and queries were compared that the tests' large-sample limit was taken.
    """

    metric: str
    systems: list[str]
    references: list[str] = []
    tiers: list[int]
    ranks: list[tuple[int, int]]
    p: list[list[float | None]]
    n: int
    units: int
    exact: bool


class ExportedBoard(Record):
    """Results that compare: the same data, split, number of queries and protocol.

    Attributes:
        id: unique within the file, and the same for the same data, split, limit and protocol.
        current: whether it is of today's protocol; results of others are kept, and not ranked among today's.
        metric: what `results` is ordered by.
        results: ids, best first, oracles last; the latest answer to each question alone.
        standings: for each metric that methods are ranked by.
    """

    id: str
    dataset: str
    title: str
    content_hash: str
    split: str
    limit: int | None
    protocol: str
    current: bool
    judged: int
    tools: int
    metric: str
    results: list[str]
    standings: list[ExportedStanding] = []


class ExportedRow(Record):
    """A method over the datasets of an overall board.

    Attributes:
        system: its method and setting.
        mean, low, high: the mean over sources of the means over their datasets, with its interval; null where it lacks
            a dataset, and the interval where too few units leave it open.
        best_rank, worst_rank: the ranks that the tests leave open; null where it is not ranked.
        tier: old, the same as `best_rank`; the next version leaves it out.
        results, means: for each dataset the result's id and its mean; null where it has none.
    """

    system: str
    mean: float | None
    low: float | None
    high: float | None
    tier: int | None
    best_rank: int | None
    worst_rank: int | None
    results: list[str | None]
    means: list[float | None]


class ExportedOverall(Record):
    """Methods over several datasets.

    Attributes:
        view, title: which datasets.
        ranking_set: version of the declared set; empty where the datasets are all that the site has.
        queries: `all`, or those whose gold tools are all `seen` or all `unseen` in training.
        boards: ids of the datasets' boards.
        rows: the ranked ones best first, then oracles, then those that lack a dataset.
    """

    view: str
    title: str
    ranking_set: str
    metric: str
    queries: str
    boards: list[str]
    rows: list[ExportedRow]
    standing: ExportedStanding | None


class ExportedResult(Record):
    """One result.

    Attributes:
        label: `method @ dataset`.
        title: the method's display name; not unique, and empty in files of versions that had none.
        board: the board that it belongs to.
        latest: false if there is a result of a newer version of its method's code.
        marks: what a reader must know of the row.
        variants: of its method that are stored for the same test queries, with itself; files of versions that did not
            count them have 1.
        cost_per_query: money, in the currency of the configured prices; 0 without paid calls, null if the price is not
            known.
        page: where the site shows it, relative to this file; null if not given.
        manifest, metrics: as stored (schemas `manifest` and `metrics`).
    """

    result_id: str
    label: str
    title: str = ""
    board: str
    latest: bool
    marks: list[str]
    variants: int = 1
    cost_per_query: float | None
    page: str | None
    manifest: Manifest
    metrics: Metrics


class Export(Record):
    """All results of a site, with the boards that they are on."""

    schema_name: Literal["export"] = "export"
    schema_version: Literal[1] = 1
    #: The protocol that today's results follow.
    protocol: str
    metrics: list[ExportedMetric]
    boards: list[ExportedBoard]
    overall: list[ExportedOverall] = []
    results: list[ExportedResult]

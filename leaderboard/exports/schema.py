"""The schema of `results.json`, a leaderboard's complete export."""

from __future__ import annotations

from typing import Literal

from bench.base.records import Record
from bench.results.manifest import Manifest, Metrics


class ExportedMetric(Record):
    """What a metric measures."""

    name: str
    definition: str
    higher_is_better: bool
    #: A paper's own variant, which does not rank methods.
    reproduction_only: bool


class ExportedStanding(Record):
    """Tests of all pairs of systems, by one metric.

    Attributes:
        systems: the ranked systems: ids of results or, on an overall board, the rows' systems.
        references: the reference systems; each other system is ranked as if it alone were added. Empty in older
            versions.
        tiers: deprecated: the best rank of each; the next version removes it.
        ranks: best and worst rank of each that `p` leaves open.
        p: p[i][j] is the p-value of systems i and i + 1 + j: paired randomisation tests, corrected by Holm over the
            references and this pair; 1 if there are too few units for a conclusion, null for untested pairs of two
            challengers.
        n, units: queries, and their units of independence.
        exact: false if the tests' large-sample limit was used, because of the number of systems and queries.
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
    """Comparable results: the same data, split, number of queries and protocol.

    Attributes:
        id: unique within the file, and the same for the same data, split, limit and protocol.
        current: whether it follows the current protocol; other results are kept but not ranked.
        metric: the metric that sorts `results`.
        results: ids, best first, oracles last, without superseded results.
        standings: one per metric that ranks methods.
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
        mean, low, high: the mean over sources of the means over their datasets, with its interval; null if it lacks
            a dataset; the interval is also null with too few units.
        best_rank, worst_rank: the ranks that the tests leave open; null if it is not ranked.
        tier: deprecated: the same as `best_rank`; the next version removes it.
        results, means: the result's id and its mean for each dataset; null if it has none.
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
        ranking_set: version of the declared set; empty if the site ranks on all of its datasets.
        queries: `all`, or those whose gold tools were all `seen` or all `unseen` in training.
        boards: ids of the datasets' boards.
        rows: ranked rows best first, then oracles, then rows that lack a dataset.
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
        title: the method's display name; not unique, and empty in files of older versions.
        board: the board of the result.
        latest: false if there is a result of a newer version of its method's code.
        marks: caveats of the row.
        variants: number of stored variants of its method on the same test queries, including itself; 1 in files of
            older versions.
        cost_per_query: money, in the currency of the configured prices; 0 without paid calls, null if the price is
            unknown.
        page: its page, relative to this file; null if not given.
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
    """All results of a site and their boards."""

    schema_name: Literal["export"] = "export"
    schema_version: Literal[1] = 1
    #: The current protocol.
    protocol: str
    metrics: list[ExportedMetric]
    boards: list[ExportedBoard]
    overall: list[ExportedOverall] = []
    results: list[ExportedResult]

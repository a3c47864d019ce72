"""The models of `reproduction.json`, which `bench reproduce` writes and the site reads."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from bench.base.records import Record
from bench.lab.reproduce.cells import PaperData, Unit, Unreadable
from bench.lab.reproduce.outcomes import CellVerdict, ClaimVerdict, Difference, Outcome
from bench.results.manifest import Environment


class MeasuredData(Record):
    """A dataset, and the stored result on it."""

    dataset: str
    split: str
    queries: int
    tools: int
    template: str
    result: str


class Measurement(Record):
    """What a number of ours was measured on.

    Attributes:
        minus: the subtracted method, in a table of differences.
        pool: what the mean is over: datasets, queries, or a slice, whose values count equally.
        queries: number of judged queries; `failed` of them were not answered and score 0.
    """

    method: str
    minus: str | None = None
    data: list[MeasuredData]
    pool: str
    slices: dict[str, str]
    queries: int
    failed: int
    warnings: list[str]


class Lacking(Record):
    """A measurement that is not possible here: why, and what would make it possible.

    `failed` is true if nothing known is missing and the attempt itself failed.
    """

    method: str
    data: list[str]
    failed: bool
    reason: str
    needs: list[str]
    commands: list[str]


class Estimate(Record):
    """A mean with its 95% interval, and the 90% one for the verdict (None: the 95% one decides).

    Counts and shares of a graph have neither.
    """

    metric: str
    mean: float
    low: float | None
    high: float | None
    low_90: float | None = None
    high_90: float | None = None


class PairedComparison(Record):
    """A paired comparison: first - second on the same queries.

    `n` queries in `units` of independence, equivalent to `effective` independent queries (None: not counted). `p` is
    from `bench.stats.differences.intervals_and_p_values`, `corrected` by Holm for its family; `detectable` is the
    minimum detectable effect at 80% power.
    """

    metric: str
    n: int
    units: int
    effective: float | None = None
    difference: float
    low: float | None
    high: float | None
    p: float
    corrected: float
    dz: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None
    outcome: Outcome


class CellReport(Record):
    """A cell and its one verdict.

    Attributes:
        published: the printed number as a share of 1, or a count.
        block: position in the report's `blocks`, which say how it was measured.
        measured: ours, in the unit of `published`; `difference` is measured - published, and is left out for
            `direction only`, where the two are not comparable.
        margin: the margin for a share, or a difference of shares; None for other cells.
        reasons: known differences of the measurement, if it is not reproduced; may be empty.
        standard: the number by the protocol, if the paper's own way is followed.
        published_difference, direction: for `direction only`, the paper's difference to the row it is compared with,
            and our paired comparison.
    """

    paper: str
    table: str
    row: str
    dataset: str
    split: str
    metric: str
    printed: str
    unit: Unit
    published: float
    verdict: CellVerdict
    block: int
    measured: Estimate | None = None
    difference: float | None = None
    margin: float | None = None
    reasons: list[Difference] = []
    standard: Estimate | None = None
    published_difference: float | None = None
    direction: PairedComparison | None = None


class Block(Record):
    """Cells of one row and place that were measured, or could not be, in the same way.

    Attributes:
        follows: ways of the paper that were followed; differences: other differences.
        against: for directions, the row of the comparison, and `rival` how that was measured.
        other_data: whether it was measured on data other than the paper's, which makes `reproduced` weaker.
        lacking: more faithful measurements that are not possible here (all of them, if nothing was run).
    """

    table: str
    row: str
    dataset: str
    split: str
    measurement: Measurement | None = None
    standard: Measurement | None = None
    against: str | None = None
    rival: Measurement | None = None
    follows: list[Difference] = []
    differences: list[Difference] = []
    other_data: bool = False
    note: str = ""
    lacking: list[Lacking] = []


class TableReport(Record):
    """A table: what it shows, on how much data in the paper, and its verdicts counted."""

    table: str
    paper: str
    title: str
    data: dict[str, PaperData]
    cells: int
    verdicts: dict[CellVerdict, int]
    unreadable: list[Unreadable]
    notes: list[str]


class PreconditionReport(Record):
    """What a test needs to be relevant to its claim, and the measurement of that.

    Attributes:
        holds: None if it could not be measured.
        fact, value, at_least: for a number with a threshold.
        metric, split, better, worse, comparison: for a comparison: the means of the two systems, and their difference.
    """

    name: str
    needs: str
    holds: bool | None
    fact: str | None = None
    value: float | None = None
    at_least: float | None = None
    metric: str | None = None
    split: str | None = None
    better: float | None = None
    worse: float | None = None
    comparison: PairedComparison | None = None
    reason: str = ""


class ClaimTestReport(Record):
    """One test of a claim: `better` against `worse`, all its metrics.

    It decides nothing if its precondition fails.
    """

    better: str
    worse: str
    measurement: Measurement | None = None
    rival: Measurement | None = None
    differences: list[Difference] = []
    comparisons: list[PairedComparison] = []
    lacking: Lacking | None = None
    precondition: PreconditionReport | None = None

    @model_validator(mode="after")
    def _has_a_result(self) -> ClaimTestReport:
        if not self.comparisons and self.lacking is None:
            raise ValueError("a test of a claim has neither comparisons nor what it lacks")
        return self

    @property
    def decides(self) -> bool:
        """Whether its comparisons count for the claim."""
        return self.lacking is None and (self.precondition is None or self.precondition.holds is True)


class PrintedReport(Record):
    """A claim checked against the paper's own cells: how many of them agree, and which do not."""

    agree: int
    cells: int
    against: list[str]


class ClaimReport(Record):
    """A claim and its verdict from measurements here, and from the paper's own numbers."""

    claim: str
    paper: str
    text: str
    where: str
    verdict: ClaimVerdict
    tests: list[ClaimTestReport]
    printed: PrintedReport | None
    needs: list[str]
    note: str


class PaperReport(Record):
    """The results for a paper: its cells and claims by verdict, `direction only` cells by outcome, and a sentence."""

    paper: str
    cells: int
    verdicts: dict[CellVerdict, int]
    directions: dict[Outcome, int]
    claims: dict[ClaimVerdict, int]
    sentence: str


class RunEstimate(Record):
    """The estimate of a reproduction before it began.

    Attributes:
        to_run, kept: number of results to make, and of existing ones.
        methods, datasets: of those to run.
        seconds: approximate, from stored results of the same methods; `untimed`: number of results without these.
        calls: maximum calls to language models; `tokens` and `cost` are approximate, None if unknown.
        more_calls: maximum calls of what needs a language model that is missing here, on available data.
    """

    to_run: int
    kept: int
    methods: int
    datasets: int
    seconds: float
    untimed: int
    calls: int
    tokens: int | None
    cost: float | None
    more_calls: int


class Reproduction(Record):
    """A whole report. `cells` is a flat list that pandas reads in one line."""

    schema_name: Literal["reproduction"] = "reproduction"
    schema_version: Literal[2] = 2
    protocol: str
    environment: Environment
    seconds: float
    tables: list[TableReport]
    cells: list[CellReport]
    blocks: list[Block]
    claims: list[ClaimReport]
    papers: list[PaperReport]
    estimate: RunEstimate | None = None

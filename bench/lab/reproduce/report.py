"""The models of `reproduction.json`."""

from __future__ import annotations

from typing import Literal

from bench.base.records import Record
from bench.lab.reproduce.cells import PaperData, Unit, Unreadable
from bench.lab.reproduce.outcomes import CellVerdict, ClaimVerdict, Difference, Outcome
from bench.results.manifest import Environment


class MeasuredData(Record):
    """One dataset that was asked, and the stored result."""

    dataset: str
    split: str
    queries: int
    tools: int
    template: str
    result: str


class Measurement(Record):
    """What a number of ours was measured on.

    Attributes:
        minus: the method that was subtracted, in a table of differences.
        pool: over what the mean is taken: datasets, queries, or a slice, whose values count alike.
        queries: how many were judged; `failed` of them were not answered and score 0.
        warnings: what the stored results warn of.
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
    """A measurement that is not possible here: why, and what would make it so.

    `failed` is true where nothing known is lacking, and the attempt itself went wrong.
    """

    method: str
    data: list[str]
    failed: bool
    reason: str
    needs: list[str]
    commands: list[str]


class Estimate(Record):
    """A mean with its 95% interval, and the 90% one by which it is judged (None: the 95% one decides).

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

    `n` queries in `units` of independence, which are worth `effective` independent queries (None: not counted). `p` is
    as of `bench.stats.differences.intervals_and_p_values`, `corrected` by Holm for its family; `detectable` is the
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
        measured: ours, in the same unit as `published`; `difference` is measured - published, and is left out of
            `direction only`, where the two do not compare.
        margin: within which a share, or a difference of shares, is or is not reproduced; None for other cells.
        reasons: where it is not reproduced, in what the measurement is known to differ; empty where nothing is known.
        standard: what the protocol's own way gives, where the paper's is followed.
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
        follows: ways of the paper's that were followed; differences: in what else the measurement differs.
        against: for directions, the row that it is compared with, and `rival` how that was measured.
        other_data: whether it was measured on other data than the paper's: `reproduced` then says less.
        lacking: more faithful measurements that are not possible here (all there are, where nothing was run).
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
    """What a test needs in order to be one of its claim, and what was measured of that.

    Attributes:
        name: as in the file of claims.
        needs: in words.
        holds: None where it could not be measured.
        fact, value, at_least: for a number with a threshold.
        metric, split, better, worse, comparison: for a comparison: the means of the two systems, and their difference.
        reason: why it could not be measured.
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

    It decides nothing where its precondition does not hold.
    """

    better: str
    worse: str
    measurement: Measurement | None = None
    rival: Measurement | None = None
    differences: list[Difference] = []
    comparisons: list[PairedComparison] = []
    lacking: Lacking | None = None
    precondition: PreconditionReport | None = None

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
    """A claim and its verdict, by what was measured here; and what the paper's own numbers say of it."""

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
    """What holds of a paper: its cells and claims by verdict, cells of `direction only` by outcome, and a sentence."""

    paper: str
    cells: int
    verdicts: dict[CellVerdict, int]
    directions: dict[Outcome, int]
    claims: dict[ClaimVerdict, int]
    sentence: str


class RunEstimate(Record):
    """What a reproduction was expected to take, before it began.

    Attributes:
        to_run, kept: results that will be made, and those that are there.
        methods, datasets: of those to run.
        seconds: about, from kept results of the same methods; `untimed`: results for which there are none.
        calls: the most calls to language models; `tokens` and `cost` are about, None where not known.
        more_calls: the most calls of what needs a language model that is not here, on data that is.
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
    """A whole report. `cells` is a flat list: one line of pandas makes a table of it."""

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

"""The model of a gate report. `judge` makes it, `wording` and `forms` print it."""

from __future__ import annotations

from typing import Literal

from bench.base.records import Record
from bench.results.across_catalogues import CatalogueChange, MovedTool, QueryChange
from bench.stats.noninferiority import BoundedMean

RuleVerdict = Literal["pass", "regression", "inconclusive", "not run"]
Outcome = Literal["pass", "regression", "inconclusive", "not comparable", "not run"]

#: Exit codes of `bench gate`. A gate that was not run, or could not compare, has not passed.
EXIT_CODES: dict[Outcome, int] = {"pass": 0, "regression": 1, "inconclusive": 2, "not run": 3, "not comparable": 9}
#: Maximum moved queries, and moved tools, that a report names.
MOST_NAMED = 10


class RuleReport(Record):
    """One demand of the policy, and whether it is met.

    Attributes:
        name: `recall@5`, `recall@5 where gold = 2`, `latency p95`, `tokens top_5`.
        kind: `margin` is judged by the bounds of the difference, `floor` by those of the candidate's mean, `ratio`
            and `budget` by a number without an interval, `broken` by a count of queries.
        threshold: the margin, the floor, the budget, or the largest count.
        higher_is_better: False if a rise is a loss.
        level: of each one-sided bound.
        n, units: queries, and their units of independence.
        baseline, candidate, difference: means (or seconds, or tokens), and candidate - baseline.
        lower, upper: one-sided bounds of the difference, or of the mean; None for a single query.
        detectable: how far beyond the threshold a true change must be to be decided with the policy's power.
        needed: units that would decide with that power.
        better, worse: number of queries whose value is better or worse than the baseline's.
        broken: number of queries whose value fell to 0, or rose from 0 if less is better; only for `broken`.
        note: why it could not be judged, or what readers should know.
    """

    name: str
    kind: Literal["margin", "floor", "ratio", "budget", "broken"]
    verdict: RuleVerdict
    threshold: float
    higher_is_better: bool = True
    level: float | None = None
    n: int | None = None
    units: int | None = None
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None
    detectable: float | None = None
    needed: int | None = None
    better: int | None = None
    worse: int | None = None
    broken: int | None = None
    note: str = ""


class MovedQuery(Record):
    """A query that fails now, or no longer.

    Attributes:
        text: if the dataset is available.
        before, after: its value of the first metric on which it moved.
        tools: its gold tools with another rank than before, if the baseline has their ranks.
    """

    query_id: str
    text: str | None = None
    before: float | None = None
    after: float | None = None
    tools: list[MovedTool] = []


class ToolMove(Record):
    """A gold tool with another rank than before.

    Attributes:
        tool_id: the tool.
        lower, higher: number of queries in which it ranks lower (or no longer), and higher.
        edited: its edited fields.
        removed: whether the catalogue no longer has it.
    """

    tool_id: str
    lower: int
    higher: int
    edited: list[str] = []
    removed: bool = False


class Moved(Record):
    """Queries whose value fell to 0, and those that rose from 0, by the rules that see the same ones move.

    `failing` and `fixed` name the first few; `n_failing` and `n_fixed` count all.
    """

    rules: list[str]
    n_failing: int
    n_fixed: int
    failing: list[MovedQuery]
    fixed: list[MovedQuery]


class Side(Record):
    """Candidate or baseline."""

    label: str
    result_id: str | None = None
    method_hash: str | None = None
    blessed_by: str | None = None
    blessed_at: str | None = None
    reason: str | None = None


class GateReport(Record):
    """The whole report.

    Attributes:
        catalogue: how the candidate's tools differ from the baseline's, if the policy allows it; else None.
        queries: how the dataset's queries changed since the baseline, if they did: those that both have are judged.
        warnings: what readers must not miss: why the verdict may be about something else.
        tools: gold tools that moved, those with the largest loss first; `n_tools` counts all.
        reasons: why it is not comparable or was not run.
    """

    schema_name: Literal["gate-report"] = "gate-report"
    schema_version: Literal[1] = 1
    outcome: Outcome
    exit_code: int
    candidate: Side
    baseline: Side
    dataset: str | None = None
    content_hash: str | None = None
    power: float | None = None
    catalogue: CatalogueChange | None = None
    queries: QueryChange | None = None
    warnings: list[str] = []
    rules: list[RuleReport] = []
    moved: list[Moved] = []
    tools: list[ToolMove] = []
    n_tools: int = 0
    notes: list[str] = []
    reasons: list[str] = []


def as_read(bounded: BoundedMean, sign: float) -> dict[str, object]:
    """Verdict and bounds of a rule in the metric's own direction; `sign` is -1 where less is better."""
    lower, upper = bounded.lower, bounded.upper
    if sign < 0:
        lower, upper = (None if end is None else -end + 0.0 for end in (upper, lower))
    return {
        "verdict": bounded.verdict,
        "lower": lower,
        "upper": upper,
        "detectable": bounded.detectable,
        "needed": bounded.needed,
    }


def not_judged(
    outcome: Literal["not comparable", "not run"], reasons: list[str], candidate: Side, baseline: Side
) -> GateReport:
    """The report of a gate that could not judge."""
    return GateReport(
        outcome=outcome, exit_code=EXIT_CODES[outcome], candidate=candidate, baseline=baseline, reasons=reasons
    )


def outcome_of(rules: list[RuleReport]) -> Outcome:
    """The outcome of the rules: a regression counts, whatever else could not be judged."""
    verdicts = {rule.verdict for rule in rules}
    order: tuple[RuleVerdict, ...] = ("regression", "not run", "inconclusive")
    # A gate without rules has judged nothing.
    return next((verdict for verdict in order if verdict in verdicts), "pass" if rules else "not run")

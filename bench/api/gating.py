"""Store baselines, and test results and search functions for regressions: part of `import bench`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.arguments import names
from bench.api.results import Result, open_stored_result
from bench.base.config import current_session
from bench.base.paths import expand_path
from bench.gating import wording
from bench.gating.baseline import read_baseline
from bench.gating.bless import Blessed
from bench.gating.bless import bless as bless_results
from bench.gating.policy import read_policy
from bench.gating.report import GateReport, Outcome, RuleReport
from bench.gating.search_function import Search, gate_search
from bench.gating.stored import gate_stored
from bench.metrics import parse_metrics
from bench.show.objects import Displayable, frame
from bench.show.tables import Table

if TYPE_CHECKING:
    import pandas


class GateResult(Displayable):
    """The return value of `bench.gate`: an outcome, and a verdict for each rule of the policy."""

    def __init__(self, report: GateReport) -> None:
        #: The full report as a pydantic model; `report.model_dump_json()` is the JSON of `bench gate`.
        self.report = report

    @property
    def outcome(self) -> Outcome:
        """`pass`, `regression`, `inconclusive`, `not comparable` or `not run`."""
        return self.report.outcome

    @property
    def passed(self) -> bool:
        """Whether every rule passes. An inconclusive gate does not pass."""
        return self.report.outcome == "pass"

    @cached_property
    def rules(self) -> pandas.DataFrame:
        """One row per rule: `name`, `kind`, `verdict`, `threshold`, means, one-sided bounds and counts.

        Raises:
            UnavailableError: pandas is not installed.
        """
        return frame([rule.model_dump() for rule in self.report.rules], list(RuleReport.model_fields))

    def to_dict(self) -> dict[str, Any]:
        """The full report, as `bench gate --json` prints it."""
        return self.report.model_dump(mode="json")

    def _line(self) -> str:
        sides = (self.report.candidate, self.report.baseline)
        return f"{self.outcome}: {' against '.join(map(wording.name_of_side, sides))}"

    def __str__(self) -> str:
        return wording.text(self.report).rstrip("\n")

    def _tables(self) -> list[Table]:
        report = self.report
        title = f"Gate: {report.outcome}: {wording.name_of_side(report.candidate)}"
        notes = [wording.name_of_side(report.baseline), wording.blessing(report), *report.reasons, *report.notes]
        table = wording.rules_table(report)
        table.title, table.notes = title, [note for note in notes if note]
        return [table]


def gate(
    candidate: Result | str | Path | Search,
    baseline: str | Path,
    policy: str | Path,
    *,
    name: str = "candidate",
    results: str | Path | None = None,
) -> GateResult:
    """Test a candidate for regressions against a blessed baseline. The same as `bench gate`.

    Each rule of the policy is a test of non-inferiority on the same queries: a loss shown to be smaller than the margin
    passes, one shown to be larger is a regression, and everything else is inconclusive.

    Args:
        candidate: a result, the name of a stored one (folder, id, `METHOD@DATASET`, run file), or your search function,
            which takes the text of a query and returns tool ids, best first. It is called for every query of the
            baseline.
        baseline: a file written by `bench bless`.
        policy: a TOML file with the rules.
        name: name of a search function in the report.
        results: the results folder in which to look up a name; `$BENCH_RESULTS` or `results` if None.

    Raises:
        UsageError: the policy or the candidate's name is wrong.
        ResultError: the baseline or the candidate cannot be read.
        MethodError: the search function returns something other than a list of known tool ids.

    Examples:
        In a test of your own project:

            def test_search_has_not_become_worse():
                found = bench.gate(my_search, "baselines/bm25-starter.json", "gate.toml")
                assert found.passed, found
    """
    baseline_file, policy_file = expand_path(baseline), expand_path(policy)
    if callable(candidate):
        return GateResult(gate_search(candidate, baseline_file, policy_file, name))
    rules, blessed = read_policy(policy_file), read_baseline(baseline_file)
    stored = open_stored_result(candidate, results, blessed.dataset.spec)
    return GateResult(gate_stored(stored, blessed, rules, candidate if isinstance(candidate, str) else ""))


def bless(
    result: Result | str | Path,
    out: str | Path,
    *,
    reason: str = "",
    by: str = "",
    metrics: Sequence[str] = (),
    results: str | Path | None = None,
) -> Blessed:
    """Store a result as a baseline for `bench.gate`: one small file to commit. The same as `bench bless`.

    A baseline contains ids and numbers, and no text. A baseline with the same evidence stays unchanged.

    Args:
        result: a result, or the name of a stored one.
        out: a `.json` file, or a folder for `DATASET-METHOD.json`.
        reason: why the baseline changes; required to replace one, and stored.
        by: who approves it; git's `user.name`, or the login, if empty.
        metrics: metrics in addition to the default ones.
        results: the results folder in which to look up a name; `$BENCH_RESULTS` or `results` if None.

    Raises:
        UsageError: a baseline would be replaced without a reason, or the result lacks a metric.
        ResultError: the result cannot be read, or `out` is a file that is not a baseline.
        StorageError: the file cannot be written.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = bench.bless(bench.run("bm25"), folder, by="me")
        >>> made.path.name, made.written
        ('starter-bm25.json', True)
    """
    extra = tuple(str(metric) for metric in parse_metrics(names("metrics", metrics)))
    (done,) = bless_results(
        [open_stored_result(result, results)], expand_path(out), reason, by, extra, current_session().progress
    )
    return done

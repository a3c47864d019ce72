"""`bench gate`: check a result against its baseline, with its own exit codes."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, UsageError
from bench.base.paths import results_folder, write_text
from bench.base.secrets import mask
from bench.base.text import terminal_text
from bench.cli.common import COMMON
from bench.cli.help import VerbCommand
from bench.cli.options import complete_results
from bench.cli.output import harmless_json
from bench.evaluation.opening import open_result
from bench.gating.baseline import read_baseline
from bench.gating.forms import junit, markdown, quote_for_github, workflow_commands
from bench.gating.judge import baseline_side
from bench.gating.policy import read_policy
from bench.gating.report import EXIT_CODES, GateReport, Side, not_judged
from bench.gating.stored import gate_stored
from bench.gating.wording import text
from bench.results.store import to_json

_NOT_RUN = EXIT_CODES["not run"]


#: Suffix of a file -> how a report is written to it.
_FORMS: dict[str, Callable[[GateReport], str]] = {".md": markdown, ".xml": junit, ".json": to_json}


def _check_suffixes(context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    for file in files:
        if file.suffix not in _FORMS:
            raise click.BadParameter(f"{str(file)!r} ends with none of {', '.join(_FORMS)}.", context, parameter)
    return files


class _WrongCommand(click.UsageError):
    """click's usage error, with the exit code `could not run`."""

    exit_code = _NOT_RUN


class _GateCommand(VerbCommand):
    """A command whose usage errors exit with `could not run`: click's code for them would mean inconclusive."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _WrongCommand(error.format_message(), error.ctx) from None
        except UsageError as error:
            raise _WrongCommand(str(error)) from None


# `_run_gate` finds the results folder: if there is none, the gate says so in its report.
@click.command("gate", cls=_GateCommand, params=[*COMMON["results"]], common=("source", "json"))
@click.argument("candidate", shell_complete=complete_results)
@click.option("--baseline", type=click.Path(path_type=Path), required=True, help="Baseline file from `bench bless`.")
@click.option("--policy", type=click.Path(path_type=Path), required=True, help="Policy file (TOML).")
@click.option(
    "--out",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    callback=_check_suffixes,
    help="Also write the report to this file: .md (Markdown, for a comment), .xml (JUnit) or .json; repeatable.",
)
@click.option("--github", is_flag=True, help="Also print GitHub workflow annotations, and add to the job's summary.")
@click.pass_context
def command(
    context: click.Context,
    candidate: str,
    baseline: Path,
    policy: Path,
    files: tuple[Path, ...],
    github: bool,
    results: Path | None,
    as_json: bool,
) -> None:
    """Check CANDIDATE against a blessed baseline under a policy.

    CANDIDATE is a result (a folder, a result id or its prefix, METHOD@DATASET) or a run file (TREC, JSON lines) on
    the baseline's dataset. Each rule is a non-inferiority test on the same queries. A rule passes if the loss is
    shown to be smaller than the margin. It is a regression if the loss is shown to be larger. Otherwise it is
    inconclusive.

    \b
    Exit codes of this command:
      0  pass
      1  regression: a rule is violated
      2  inconclusive
      3  could not run: something is missing, damaged or failed; this never counts as a pass
      9  not comparable: other data, split, limit, protocol or scoring
    """
    report = _run_gate(candidate, baseline, policy, results)
    typed = shlex.join(["bench", "gate", candidate, "--baseline", str(baseline), "--policy", str(policy)])
    # Files and exit code first: neither depends on whether the output is read.
    code = report.exit_code
    reported = mask(markdown(report, typed))
    for path in files:
        try:
            write_text(path, reported if path.suffix == ".md" else mask(_FORMS[path.suffix](report)))
        except BenchError as error:
            _print(f"bench: {error}\n", to_stderr=True)
            code = code or _NOT_RUN
    # Failing to report the decision elsewhere does not change it.
    if github and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append_summary(Path(summary), reported)
    shown = harmless_json(to_json(report)) if as_json else text(report)
    if github and not as_json:
        shown = quote_for_github(shown, secrets.token_hex(16)) + "\n"
    printed = _print(shown)
    if github:
        # With JSON output the commands go to standard error, which the runner reads as well.
        printed = _print("\n".join(workflow_commands(report)) + "\n", to_stderr=as_json) and printed
    context.exit(code if printed else code or _NOT_RUN)


def _print(shown: str, to_stderr: bool = False) -> bool:
    """Print a text. False if it cannot be written (a full disk); a closed pipe does not count as a failure."""
    try:
        click.echo(shown, nl=False, err=to_stderr)
    except OSError as error:
        stream = sys.stderr if to_stderr else sys.stdout
        # Python would write the rest of the buffer at exit, fail again, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and not to_stderr:
            _print(f"bench: cannot print the report: {error.strerror}; the gate counts as not run.\n", to_stderr=True)
        return isinstance(error, BrokenPipeError)
    return True


def _append_summary(path: Path, reported: str) -> None:
    """Append the report to the summary of a GitHub job."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(reported)
    except OSError as error:
        warning = f"::warning title=bench gate::the job's summary was not written ({error.strerror}).\n"
        _print(warning, to_stderr=True)


def _run_gate(name: str, baseline_file: Path, policy_file: Path, results: Path | None) -> GateReport:
    """The report; inputs that cannot be read give a report too."""
    sides = [Side(label=terminal_text(name, 500)), Side(label=terminal_text(str(baseline_file), 500))]
    try:
        policy = read_policy(policy_file)
        baseline = read_baseline(baseline_file)
        sides[1] = baseline_side(baseline)
        stored = open_result(name, results or results_folder(), baseline.dataset.spec, progress())
        sides[0] = Side(
            label=stored.label, result_id=stored.manifest.result_id, method_hash=stored.manifest.method.hash
        )
        return gate_stored(stored, baseline, policy, name, progress())
    except BenchError as error:
        return not_judged("not run", [terminal_text(str(error))], *sides)
    except BrokenPipeError:
        # Raised by a progress note; bench's main program would end with code 0.
        return not_judged("not run", ["the pipe for messages was closed before the gate reached a decision."], *sides)

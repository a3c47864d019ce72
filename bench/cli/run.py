"""`bench run`: run methods on datasets and store the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, ResultError, UsageError
from bench.base.spec import Value, parse, parse_value
from bench.cli.common import use_session
from bench.cli.executors import chosen_executor, executor_options
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_datasets, complete_methods, complete_results, settings_options
from bench.cli.output import print_json
from bench.cli.results import print_comparison, print_result, tell_names
from bench.evaluation.experiment import Experiment, read_experiment
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.lookup.aliases import check_free, read_alias, set_alias
from bench.lookup.consistency import contradictions
from bench.metrics import DEFAULT_METRICS, FURTHER_METRICS, parse_metrics
from bench.registry import build_method, load_dataset
from bench.registry.datasets import resolve
from bench.registry.methods import check_spec
from bench.results.commands import command as command_of
from bench.results.commands import settings_of
from bench.results.failures import result_to_dict
from bench.results.settings import check_settings
from bench.results.store import StoredResult

_DEFAULT_METHOD, _DEFAULT_DATASET = "tgr", "starter"


@click.command("run", cls=VerbCommand, common=("results", "source", "quiet", "json"))
@click.argument("source", metavar="[EXPERIMENT|RESULT]", required=False, shell_complete=complete_results)
@click.option(
    "-m", "--method", "methods", multiple=True, shell_complete=complete_methods, help="Method spec; repeatable."
)
@click.option(
    "-d", "--dataset", "datasets", multiple=True, shell_complete=complete_datasets, help="Dataset; repeatable."
)
@click.option(
    "-s",
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the method (requires a single --method).",
)
@click.option("--name", metavar="NAME", help="Display name for these results, in tables and commands.")
@settings_options()
@click.option("--metric", "metrics", multiple=True, help="Additional metric, such as ndcg@7; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Show all metrics and costs.")
@more_option(
    "--overwrite",
    type=click.Choice(["never", "missing", "remote", "always"]),
    default="remote",
    show_default=True,
    help="Existing results: fail; keep them and run only what is missing; rerun methods that call an unversioned "
    "service; rerun everything.",
)
@executor_options
@more_option("--no-cache", is_flag=True, help="Ignore cached embeddings and compute them again.")
def command(
    source: str | None,
    methods: tuple[str, ...],
    datasets: tuple[str, ...],
    parameters: tuple[str, ...],
    name: str | None,
    metrics: tuple[str, ...],
    everything: bool,
    overwrite: Overwrite,
    jobs: int,
    address: str | None,
    no_cache: bool,
    results: Path,
    quiet: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run methods on datasets and store the results.

    Without arguments, bench runs tgr on starter. Methods and datasets take parameters in parentheses:
    'dense(similarity=l2)', 'rectools(split=bundle-disjoint)'. EXPERIMENT is a TOML file with methods and datasets, and
    RESULT a stored result (a folder, an id or METHOD@DATASET) whose settings are used again. Either replaces these
    options.
    """
    use_session(click.get_current_context(), cache=False if no_cache else None)
    if source is not None:
        given = [methods, datasets, parameters, name, metrics, *settings.values()]
        if any(value not in (None, ()) for value in given):
            raise UsageError(f"{source} defines the run; remove the options that repeat it.")
        is_file = Path(source).suffix == ".toml" or Path(source).is_file()
        chosen = read_experiment(Path(source)) if is_file else _read_settings(source, results)
    else:
        chosen = Experiment.model_validate(
            {
                "methods": list(_with_parameters(methods or (_DEFAULT_METHOD,), parameters)),
                "datasets": list(datasets or (_DEFAULT_DATASET,)),
                "metrics": list(metrics),
                **check_settings({name: value for name, value in settings.items() if value is not None}).non_defaults(),
            }
        )
    bars = progress(quiet)
    runner = Runner(
        results,
        load=lambda spec: load_dataset(spec, bars),
        build=lambda spec: build_method(spec, progress=bars),
        progress=bars,
        overwrite=overwrite,
        metrics=parse_metrics(chosen.metrics),
    )
    executor = chosen_executor(jobs, address, runner.load)
    plans = list(dict.fromkeys(_check_plan(plan) for plan in chosen.plans()))
    alias = None if name is None else _check_alias(name, runner.results, plans)
    extra = [str(metric) for metric in runner.metrics]
    if executor is None:
        outcomes = runner.run(plans)
    else:
        from bench.evaluation.executors import side_by_side

        outcomes = side_by_side(runner, plans, executor)
    done: list[StoredResult] = []
    problems: list[BenchError] = []
    for outcome in outcomes:
        if isinstance(outcome, BenchError):
            problems.append(outcome)
            if len(plans) > 1:
                bars.note(f"{len(done) + len(problems)}/{len(plans)} failed: {outcome}")
        else:
            try:
                done.append(outcome if alias is None else set_alias(outcome, alias))
            except BenchError as error:
                # Another process took the name, or the disk is full. The result is stored.
                problems.append(error)
                done.append(outcome)
            if len(plans) > 1:
                bars.note(f"{len(done) + len(problems)}/{len(plans)} {outcome.label}: {outcome.manifest.result_id}")
    if not quiet:
        tell_names(done)
    if as_json and (done or not problems):
        print_json([result_to_dict(result) for result in done])
    elif len(plans) == 1 and done:
        print_result(done[0], extra, everything)
    elif done:
        print_comparison(done, extra, everything)
    if problems:
        # The others were run and are stored; the exit code is the first problem's.
        raise problems[0]


def _read_settings(name: str, results: Path) -> Any:
    """An experiment with the settings of a stored result, even of older code; its tables are not read.

    Raises:
        UsageError: there is no such result, or it is a scored run file.
        ResultError: its manifest is damaged, or contradicts itself.
    """

    from bench.lookup.finding import name_result

    result = name_result(results, name, older=True)
    manifest, asked = result.manifest, settings_of(result.manifest)
    if asked.file is not None:
        raise UsageError(
            f"{name} is a scored run file, without a method to run; score the file again: {command_of(manifest)}."
        )
    if faults := contradictions(manifest):
        raise ResultError(f"{name} cannot be run again: {faults[0]}.")
    # Including metrics that were added after the run.
    metrics = [metric for metric in result.metrics.metrics if metric not in {*DEFAULT_METRICS, *FURTHER_METRICS}]
    given = {"methods": [asked.method], "datasets": [asked.dataset], "metrics": metrics}
    return Experiment.model_validate(given | asked.non_defaults())


def _with_parameters(methods: tuple[str, ...], parameters: tuple[str, ...]) -> tuple[str, ...]:
    """Apply `--set NAME=VALUE` to the method's spec."""
    if not parameters:
        return methods
    if len(methods) != 1:
        raise UsageError("--set goes with one method; with several, write 'dense(similarity=l2)'.")
    return (str(parse(methods[0]).with_arguments(read_settings(parameters))),)


def read_settings(texts: tuple[str, ...]) -> dict[str, Value]:
    """Parse `--set NAME=VALUE` options into values by name."""
    values: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {text!r} is not of the form NAME=VALUE.")
        values[name.strip()] = parse_value(value)
    return values


def _check_alias(name: str, results: Path, plans: list[Plan]) -> str:
    """Check before anything runs that the alias is free for the one method of the plans, and return it."""
    alias, specs = read_alias(name), {str(plan.method) for plan in plans}
    if len(specs) > 1:
        raise UsageError(f"--name goes with one method; {name!r} cannot name {len(specs)} of them.")
    check_free(results, alias, specs.pop())
    return alias


def _check_plan(plan: Plan) -> Plan:
    """Check parameters before anything is loaded, and return the plan with canonical specs."""
    _, _, dataset = resolve(plan.dataset)
    return plan.model_copy(update={"dataset": parse(dataset), "method": check_spec(plan.method)})

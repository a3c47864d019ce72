"""`bench list`: list datasets, methods, metrics, stored results or schemas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bench.base.errors import UsageError
from bench.base.parameters import suggestion
from bench.cli.help import VerbCommand
from bench.cli.options import complete_datasets, complete_methods, complete_results
from bench.cli.output import console, print_field, print_json, say
from bench.show.numbers import format_fixed
from bench.show.tables import Table, lines, text

if TYPE_CHECKING:
    from bench.results.store import StoredResult


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: names of the kind that was typed."""
    kind = str(context.params.get("kind"))
    if kind in {"datasets", "methods", "results"}:
        names = {"datasets": complete_datasets, "methods": complete_methods, "results": complete_results}
        return names[kind](context, parameter, incomplete)
    return [name for name in _plain_names(kind) if name.startswith(incomplete)]


def _plain_names(kind: str) -> list[str]:
    from bench.cli.schemas import schema_files
    from bench.metrics import measures

    return [*(measures() if kind == "metrics" else schema_files())]


@click.command("list", cls=VerbCommand, common=("results", "json"))
@click.argument("kind", type=click.Choice(["datasets", "methods", "metrics", "results", "schemas"]))
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete)
@click.option("--stale", is_flag=True, help="Results of older method code, and the commands to run them again.")
@click.pass_context
def command(
    context: click.Context, kind: str, names: tuple[str, ...], stale: bool, results: Path, as_json: bool
) -> None:
    """List datasets, methods, metrics, stored results, or the JSON Schemas of bench's files.

    With NAMEs, list only those: methods and metrics with all details, schemas in full.
    """
    if kind == "results":
        _list_results(results, names, stale, as_json)
        return
    if stale or context.get_parameter_source("results") is ParameterSource.COMMANDLINE:
        raise UsageError(f"{'--stale' if stale else '--results'} goes with `bench list results`; omit it for {kind}.")
    listed: dict[str, Callable[[Sequence[str], bool], None]] = {
        "datasets": _list_datasets,
        "methods": _list_methods,
        "metrics": _list_metrics,
        "schemas": _list_schemas,
    }
    listed[kind](names, as_json)


def _print_rows(names: Sequence[str], rows: list[dict[str, Any]]) -> None:
    """Print rows as JSON: a list, or a single object if one name was given."""
    print_json(rows[0] if len(names) == 1 else rows)


def _list_datasets(names: Sequence[str], as_json: bool) -> None:
    """Datasets with size and licence."""
    from bench.data.entries import broken_datasets, dataset_entries

    named = list(dataset_entries())
    if names:
        from bench.registry.datasets import resolve  # a list of all needs only cards

        named = [resolve(name)[0].card.id for name in names]
    if as_json:
        from bench.registry.listing import dataset_rows

        rows = {row["id"]: row for row in dataset_rows()}
        _print_rows(names, [rows[name] for name in named])
        return
    table = Table(["dataset", "tools", "train", "dev", "test", "licence", "also called"], right=(1, 2, 3, 4))
    for name in named:
        entry = dataset_entries()[name]
        card, counts = entry.card, entry.card.counts
        sizes = [str(getattr(counts, key)) if counts else "-" for key in ("tools", "train", "dev", "test")]
        missing = "needs your files: bench data info " + name if card.obtain and entry.module else ""
        table.add(name, *sizes, card.licence, missing or ", ".join(card.aliases))
    console().print(table)
    for name, reason in broken_datasets().items() if not names else ():
        say(f"{name} cannot be used: {reason}")


def _list_methods(names: Sequence[str], as_json: bool) -> None:
    """Methods with parameters and defaults."""
    from bench.registry import method_class
    from bench.registry.listing import defaults, method_rows

    rows = method_rows(names)
    if as_json:
        _print_rows(names, rows)
        return
    if not names:
        table = Table(["method", "description", "parameters"])
        for row in rows:
            table.add(row["name"], _summary(row), lines(defaults(method_class(row["name"]))))
        console().print(table)
        return
    for row in rows:
        print_field(row["name"], _summary(row))
        for default, parameter in zip(defaults(method_class(row["name"])), row["parameters"].values(), strict=True):
            print_field(default, parameter["description"])


def _summary(row: dict[str, Any]) -> str:
    return f"{row['summary']}{' Needs past queries.' if row['needs_history'] else ''}"


def _list_metrics(names: Sequence[str], as_json: bool) -> None:
    """Metrics with their definitions; named ones with edge cases and source."""
    from bench.metrics import get_measure, measures
    from bench.metrics.catalogue import describe_measure, forms
    from bench.metrics.measure import measure_name

    named = [get_measure(measure_name(name)) for name in names] or list(measures().values())
    if as_json:
        _print_rows(names, [describe_measure(measure) for measure in named])
        return
    if not names:
        table = Table(["metric", "definition"])
        for measure in named:
            mark = " (for reproduction only)" if measure.reproduction_only else ""
            table.add(", ".join(forms(measure)), measure.definition + mark)
        console().print(table)
        return
    for measure in named:
        for key, value in describe_measure(measure).items():
            if key != "parameters":
                print_field(key.replace("_", " "), str(value))
        for key, field in measure.parameters.model_fields.items():
            print_field(f"parameter {key}", f"{field.description} (default {field.get_default()})")


def _list_schemas(names: Sequence[str], as_json: bool) -> None:
    """Names of schemas; the named ones in full, always as JSON."""
    from bench.cli.schemas import schema_files, shipped_schema

    known = list(schema_files())
    if wrong := next((name for name in names if name not in known), ""):
        raise UsageError(f"there is no schema {wrong!r}{suggestion(wrong, known)}; there are {', '.join(known)}.")
    if names:
        _print_rows(names, [shipped_schema(name) for name in names])
    elif as_json:
        print_json(known)
    else:
        for name in known:
            click.echo(name)


def _list_results(folder: Path, names: Sequence[str], stale: bool, as_json: bool) -> None:
    """Stored results of the current code, or of older code if `stale`."""
    from bench.comparison.rows import usual_template
    from bench.comparison.variants import variants_of
    from bench.lookup.current import is_of_today
    from bench.lookup.finding import latest, name_result, settings
    from bench.lookup.folder import ResultsFolder
    from bench.results.commands import command as command_of

    stored = ResultsFolder(folder)
    readable, broken = stored.read_all()
    built = stored.built
    current = {item.folder for item in latest(readable, built) if is_of_today(item.manifest, built=built) is not False}
    older = {item.folder for item in readable} - current
    named = {name_result(stored, name, older=True).folder for name in names}
    # A named result is listed even if it is of older code.
    listed = [item for item in readable if item.folder in named or not names]
    shown = [item for item in listed if (item.folder in older) == stale or (names and not stale)]
    if as_json:
        variants = variants_of(readable)
        rows = [
            {
                "id": item.manifest.result_id,
                "alias": item.manifest.method.alias,
                "method": item.manifest.method.spec,
                "cut": item.manifest.method.cut,
                "dataset": item.manifest.dataset.spec,
                "split": item.manifest.dataset.split,
                "limit": item.manifest.dataset.limit,
                "template": item.manifest.dataset.template,
                "depth": item.manifest.depth,
                "repeats": item.manifest.repeats,
                "n": item.metrics.n,
                "n_failed": item.metrics.n_failed,
                "created": item.manifest.environment.created,
                "stale": item.folder in older,
                "variants": len(variants[item.manifest.result_id]),
                "folder": str(item.folder),
                "metrics": {name: value.mean for name, value in item.metrics.metrics.items()},
            }
            for item in (shown if stale else listed)
        ]
        print_json({"results": rows, "unreadable": broken})
        return
    table = Table(["id", "method", "dataset", "n", "failed", "recall@5", "pass@10", "made"], right=(3, 4, 5, 6))
    table.whole = (0, 3, 4, 5, 6, 7)
    on_each: defaultdict[str, list[StoredResult]] = defaultdict(list)
    for item in shown:
        on_each[item.manifest.dataset.spec].append(item)
    usual = {spec: usual_template(alike) for spec, alike in on_each.items()}
    for item in sorted(shown, key=lambda r: (r.manifest.dataset.spec, r.manifest.method.spec)):
        values = item.metrics.metrics
        means = [format_fixed(values[name].mean if name in values else None) for name in ("recall@5", "pass@10")]
        conditions = settings(item.manifest, usual[item.manifest.dataset.spec])
        table.add(
            item.manifest.result_id,
            item.manifest.method.label,
            item.manifest.dataset.spec + (f" ({conditions})" if conditions else ""),
            str(item.metrics.n),
            str(item.metrics.n_failed),
            *means,
            item.manifest.environment.created[:10],
        )
    out = console()
    if shown and out.is_terminal:
        out.print(table)
    elif shown:
        # One line for each result, which rich would take seconds to lay out for thousands.
        click.echo(text(table))
    if stale:
        for words in dict.fromkeys(command_of(item.manifest) for item in shown):
            out.print(words, soft_wrap=True)
        if not shown:
            out.print("no results of older code" + (" among these." if names else f" in {folder}."))
    elif older and not names:
        what = "results of older code are" if len(older) > 1 else "result of older code is"
        out.print(f"{len(older)} {what} not shown; `bench list results --stale` lists them", soft_wrap=True)
    elif not readable:
        out.print(f"no results in {folder}; create one with `bench run`.")
    for problem in broken:
        say(f"unreadable: {problem}")

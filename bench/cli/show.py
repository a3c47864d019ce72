"""`bench show`: show a stored result, or export its run as TREC or JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bench.base.errors import UsageError
from bench.cli.common import format_option
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results
from bench.cli.output import console, print_json, say
from bench.cli.results import HEADLINE, differences_in, print_result, set_metrics
from bench.comparison.variants import best_by, stored_variants
from bench.lookup.finding import find_result
from bench.lookup.unfinished import unfinished_marks
from bench.results.failures import result_to_dict
from bench.results.store import StoredResult
from bench.show.tables import Table, mean_cell


@click.command("show", cls=VerbCommand, common=("results", "json"))
@click.argument("result", shell_complete=complete_results)
@format_option("trec", "jsonl", note="`trec` and `jsonl` write the run to standard output.")
@click.option("--metric", "metrics", multiple=True, help="Additional metric; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Show all metrics and costs, and differences from the paper.")
@click.option(
    "--by", "by", metavar="SLICE", help="Split the queries by a slice: one of those below, or one of the dataset."
)
@more_option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    help="`trec` and `jsonl` of a result with repeats: which repeat to write [default: the first].",
)
def command(
    result: str,
    layout: str,
    metrics: tuple[str, ...],
    everything: bool,
    by: str | None,
    repeat: int | None,
    results: Path,
) -> None:
    """Show a stored result.

    RESULT is a folder, a result id or its prefix, a name given by `bench run --name`, or METHOD@DATASET. Every dataset
    has these slices: `gold`, the number of gold tools; `category` of the gold tools; `length` of the query in words;
    `prerequisite`, whether a gold tool depends on another one (needs annotated edges); `tool` and `parent`, how much of
    the gold, or of its parents, occurs in train: all (seen), part (mixed) or none (unseen). `dev` means that part of
    the gold is missing from train but occurs in dev.
    """
    stored = find_result(results, result)
    for name in metrics:
        if name not in stored.metrics.metrics:
            raise UsageError(
                f"{stored.label} has no metric {name!r}; `bench show {stored.manifest.result_id} --all` lists "
                "its metrics, and `bench run --metric` adds one."
            )
    if repeat is not None and layout not in {"trec", "jsonl"}:
        raise UsageError("--repeat goes with --format trec or jsonl; tables cover all repeats.")
    if by is not None:
        if layout not in {"table", "json"}:
            raise UsageError(f"--by prints a table or JSON; it does not go with --format {layout}.")
        _show_slices(stored, by, metrics, layout == "json")
    elif layout == "json":
        variants = stored_variants([stored])[stored.manifest.result_id]
        tried = {"count": len(variants), "best": best_by(variants, stored.metrics.metrics)}
        differs = {name: table.model_dump() for name, table in differences_in(stored).items()}
        print_json(
            {
                **result_to_dict(stored),
                **({"variants": tried} if len(variants) > 1 else {}),
                **({"differs": differs} if differs else {}),
                **({"later_run": marks[0].why} if (marks := unfinished_marks(stored)) else {}),
            }
        )
    elif layout in {"trec", "jsonl"}:
        from bench.evaluation.run_files import write_jsonl, write_trec

        if stored.manifest.repeats > 1 and repeat is None:
            say(f"this is repeat 1 of {stored.manifest.repeats}; --repeat N chooses another")
        one = stored.of_repeat(repeat or 1)
        sys.stdout.writelines(write_trec(one) if layout == "trec" else write_jsonl(one))
    else:
        print_result(stored, metrics, everything)


#: Metric columns of a table of slices; with the column of values they fit into 100 characters.
_MOST_METRICS = 6


def _show_slices(result: StoredResult, by: str, metrics: tuple[str, ...], as_json: bool) -> None:
    from bench.base.bars import progress
    from bench.metrics import parse_metric
    from bench.registry import load_dataset
    from bench.results.slices import by_slice

    # Metrics that compare queries across slices have no value per slice.
    known = [name for name in set_metrics(result) if parse_metric(name).measure.averages]
    usual = (*metrics, "recall@5", "ndcg@5", "pass@5", *HEADLINE, *known)
    names = [name for name in dict.fromkeys(usual) if name in result.metrics.metrics]
    if not as_json:
        names = names[: max(_MOST_METRICS, len(metrics))]
    dataset = load_dataset(result.manifest.dataset.spec, progress())
    slices = by_slice(result, dataset, by, names)
    if as_json:
        identity = {"result_id": result.manifest.result_id, "label": result.label, "by": by}
        rows = [
            {
                "value": item.value,
                "n": item.n,
                "n_no_gold": item.n_no_gold,
                "n_failed": item.n_failed,
                "metrics": {
                    name: value.model_dump(include={"mean", "low", "high", "n"}) for name, value in item.metrics.items()
                },
            }
            for item in slices
        ]
        print_json({**identity, "slices": rows})
        return
    table = Table([by, "n", *names, "failed"], right=tuple(range(1, len(names) + 3)))
    for item in slices:
        cells = [mean_cell(item.metrics.get(name)) for name in names]
        table.add(item.value, str(item.n), *cells, str(item.n_failed))
    whole = [mean_cell(result.metrics.metrics[name]) for name in names]
    table.add("all", str(result.metrics.n), *whole, str(result.metrics.n_failed), rule=True)
    out = console()
    out.print(f"{result.label} ({result.manifest.dataset.split}), by {by}; below each mean: its 95% interval")
    out.print(table)

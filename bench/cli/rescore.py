"""`bench rescore`: score stored results again by the newest rules, without running methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.errors import BenchError, CheckFailed, ResultError
from bench.cli.help import VerbCommand
from bench.cli.output import console, print_json
from bench.data.dataset import Dataset
from bench.evaluation.rescore import rescore
from bench.evaluation.up_to_date import up_to_date
from bench.lookup.current import Built, adopt_name
from bench.lookup.finding import find_result
from bench.lookup.folder import ResultsFolder
from bench.registry import load_dataset
from bench.results.store import StoredResult, find_results, rename_result, result_lock
from bench.show.tables import Table


@click.command("rescore", cls=VerbCommand, common=("results", "source", "quiet", "json"))
@click.argument("names", metavar="[RESULT]...", nargs=-1)
def command(names: tuple[str, ...], results: Path, quiet: bool, as_json: bool) -> None:
    """Score stored results again, without running a method.

    RESULT is an id, a folder or METHOD@DATASET; default: all results of the folder. A result of an older protocol
    version becomes one of the newest: it keeps its ranking, and its metrics and intervals are computed by the current
    rules. Per-query values without a ranking are kept. Results that are up to date do not change. A result of older
    method code takes the id that `bench run` would give it today, if both codes are known to give the same ranking.

    Exits with 1 if a result cannot be scored again, because its dataset is unavailable or has changed, or because its
    ranking is missing.
    """
    bars = progress(quiet)
    loaded: dict[str, Dataset | BenchError] = {}

    def dataset_of(result: StoredResult) -> Dataset:
        spec = result.manifest.dataset.spec
        if spec not in loaded:
            try:
                loaded[spec] = load_dataset(spec, bars)
            except BenchError as error:
                loaded[spec] = error
        entry = loaded[spec]
        if isinstance(entry, BenchError):
            raise entry
        return entry

    stored = ResultsFolder(results)
    every = [find_result(stored, name, older=True) for name in names] if names else list(find_results(results))
    rows: list[dict[str, str]] = []
    with bars.stage("rescore", len(every), "results") as done:
        for item in every:
            rows.append(_outcome(item, dataset_of, stored.built))
            done.advance()
    if as_json:
        print_json(rows)
    else:
        table = Table(["result", "outcome"])
        for row in rows:
            outcome = row["outcome"] if row["outcome"] != "failed" else row["error"]
            table.add(row["result"], f"{outcome}, now {row['id']}" if "id" in row else outcome)
        console().print(table)
    failed = sum(row["outcome"] == "failed" for row in rows)
    if failed:
        raise CheckFailed(f"{failed} of {len(rows)} results could not be scored again.")


def _outcome(
    item: StoredResult | ResultError, dataset_of: Callable[[StoredResult], Dataset], built: Built
) -> dict[str, str]:
    """The outcome for one result, as a row of the table."""
    if isinstance(item, ResultError):
        return {"result": str(item.folder), "outcome": "failed", "error": str(item)}
    row = {"result": f"{item.manifest.result_id} {item.label}", "outcome": "rescored"}
    try:
        dataset = dataset_of(item)
        with result_lock(item.folder.parent.parent, item.folder):
            current = StoredResult.read(item.folder)
            if current.manifest.dataset.content_hash == dataset.content_hash and up_to_date(current, dataset):
                row["outcome"] = "up to date"
            else:
                current = rescore(current, dataset, ())
            name = adopt_name(current.manifest, built)
            if name is not None and name.result_id != current.manifest.result_id:
                new_id = rename_result(current, name).manifest.result_id
                row |= {"id": new_id} if new_id == name.result_id else {}
    except BenchError as error:
        return row | {"outcome": "failed", "error": str(error)}
    return row

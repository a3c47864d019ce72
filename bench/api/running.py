"""Run methods on datasets and store the results: part of `import bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from bench.api.arguments import check_choice, names
from bench.api.catalogue import DatasetLike, MethodLike, dataset_spec, load_dataset, method_spec
from bench.api.results import Result, Results
from bench.base.config import current_session
from bench.base.errors import BenchError, UsageError
from bench.base.paths import expand_path, results_folder
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.metrics import parse_metrics
from bench.registry import methods as registered
from bench.results.settings import Keywords, check_settings


# A string is also a sequence of strings: the first overload that matches applies.
@overload
def run(  # type: ignore[overload-overlap]
    method: MethodLike,
    dataset: DatasetLike = ...,
    *,
    metrics: Sequence[str] = ...,
    overwrite: Overwrite = ...,
    results: str | Path | None = ...,
    **settings: Unpack[Keywords],
) -> Result: ...
@overload
def run(
    method: MethodLike | Sequence[MethodLike],
    dataset: DatasetLike | Sequence[DatasetLike] = ...,
    *,
    metrics: Sequence[str] = ...,
    overwrite: Overwrite = ...,
    results: str | Path | None = ...,
    **settings: Unpack[Keywords],
) -> Results: ...
def run(
    method: MethodLike | Sequence[MethodLike],
    dataset: DatasetLike | Sequence[DatasetLike] = "starter",
    *,
    metrics: Sequence[str] = (),
    overwrite: Overwrite = "remote",
    results: str | Path | None = None,
    **settings: Unpack[Keywords],
) -> Result | Results:
    """Run one or several methods on one or several datasets under the protocol, and store the results.

    The same as `bench run`. An existing result is returned unchanged: the same method (code, parameters, models) on the
    same data with the same settings does not run twice.

    Args:
        method: a spec (`"bm25"`, `"dense(similarity=dot)"`, `"package.module:Class"`), a method (`BM25(k1=1.5)`), a
            `Method` class, or a search function of a module; or a list of these.
        dataset: a spec (`"starter"`) or a dataset from `bench.load_dataset`; or a list of these.
        metrics: additional metrics, such as `["ndcg@7"]`.
        overwrite: what to do with an existing result: `remote` keeps it unless its method calls an unversioned service,
            `missing` always keeps it, `always` runs it again, `never` raises an error.
        results: the results folder; if None, `$BENCH_RESULTS` or `results` in the working folder, where `bench list
            results`, `bench show` and `bench compare` look too.
        **settings: `split`, `limit`, `template` (also the path of a Jinja file), `depth`, `cut`, `cut_at` and
            `repeats`, as `bench.RunSettings` describes them.

    Returns:
        The stored result. For a list, the results, dataset by dataset, in the order of the methods: all names and
        parameters are checked before the first run, and a run that fails does not stop the others; `Results.errors` has
        its error.

    Raises:
        UsageError: an unknown name, a wrong parameter, or settings that contradict each other.
        UnavailableError: a file, a model or an optional package is missing.
        MethodError: the method raised, or returned what the protocol does not allow.

    Examples:
        >>> result = bench.run("bm25", "starter", metrics=["ndcg@7"])
        >>> 0 < result.mean("ndcg@7") < 1
        True

        >>> from bench.methods.bm25 import BM25
        >>> results = bench.run([BM25(k1=1.5), "random"], "starter")
        >>> [result.method for result in results]
        ['bm25(k1=1.5)', 'random']
    """
    check_choice("overwrite", overwrite, Overwrite)
    chosen = check_settings(settings).non_defaults()
    several = isinstance(method, list | tuple) or isinstance(dataset, list | tuple)
    datasets = _wrap_in_list(dataset)
    specs = list(dict.fromkeys(method_spec(each) for each in _wrap_in_list(method)))
    plans = [Plan(data, spec, **chosen) for data in dict.fromkeys(map(dataset_spec, datasets)) for spec in specs]
    if not plans:
        raise UsageError("there is nothing to run: the list of methods or of datasets is empty.")
    at_hand = {each.spec: each for each in datasets if isinstance(each, Dataset)}
    progress = current_session().progress
    runner = Runner(
        results_folder() if results is None else expand_path(results),
        load=lambda spec: at_hand.get(str(spec)) or load_dataset(str(spec)),
        build=lambda spec: registered.build_method(spec, progress=progress),
        progress=progress,
        overwrite=overwrite,
        metrics=parse_metrics(names("metrics", metrics)),
    )
    outcomes = list(runner.run(plans))
    if not several:
        (outcome,) = outcomes
        if isinstance(outcome, BenchError):
            raise outcome
        return Result(outcome)
    return Results(
        [Result(outcome) for outcome in outcomes if not isinstance(outcome, BenchError)],
        {
            (str(plan.dataset), str(plan.method)): outcome
            for plan, outcome in zip(plans, outcomes, strict=True)
            if isinstance(outcome, BenchError)
        },
    )


def _wrap_in_list(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else [given]

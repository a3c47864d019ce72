"""Running methods on datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from bench.api.arguments import check_choices, names
from bench.api.catalogue import DatasetLike, MethodLike, dataset_spec, load_dataset, method_spec
from bench.api.results import Result, Results
from bench.base.errors import BenchError, UsageError
from bench.base.paths import expanded, results_folder
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.metrics import parse_metrics
from bench.registry import methods as registered
from bench.results.settings import Keywords, checked_settings


def run(
    method: MethodLike,
    dataset: DatasetLike = "starter",
    *,
    parameters: Mapping[str, object] | None = None,
    metrics: Sequence[str] = (),
    overwrite: Overwrite = "remote",
    results: str | Path | None = None,
    **settings: Unpack[Keywords],
) -> Result:
    """Run a method on a dataset under the protocol, and store the result. The same as `bench run`.

    A result that is there already is returned as it is: the same method (code, parameters, models) on the same data
    with the same settings is not run twice.

    Args:
        method: a spec (`"bm25"`, `"dense(similarity=dot)"`, `"package.module:Class"`), a `Method` class, or an instance
            of `bench.build_method`.
        dataset: a spec (`"starter"`), or a dataset that `bench.load_dataset` gave.
        parameters: values of the method's parameters, by name.
        metrics: additional metrics, such as `["ndcg@7"]`.
        overwrite: what to do with an existing result: `remote` keeps it unless its method asks a service that names no
            version, `missing` keeps it in any case, `always` runs it again, `never` raises an error.
        results: the folder of results; `$BENCH_RESULTS` or `results` in the working folder if None, where `bench list
            results`, `bench show` and `bench compare` look too.
        **settings: `split`, `limit`, `template` (also the path of a Jinja file), `depth`, `cut`, `cut_at` and
            `repeats`, as `bench.RunSettings` describes them.

    Returns:
        The stored result.

    Raises:
        UsageError: an unknown name, a wrong parameter, or settings that contradict each other.
        UnavailableError: a file, a model or an optional package is missing.
        MethodError: the method raised, or returned what the protocol does not allow.

    Examples:
        >>> result = bench.run("bm25", "starter", metrics=["ndcg@7"])
        >>> 0 < result.mean("ndcg@7") < 1
        True
    """
    check_choices(overwrite=overwrite)
    plan = Plan(dataset_spec(dataset), method_spec(method, parameters), **vars(checked_settings(settings)))
    (outcome,) = _runner([dataset], metrics, overwrite, results).run([plan])
    if isinstance(outcome, BenchError):
        raise outcome
    return Result(outcome)


def run_all(
    methods: Sequence[MethodLike],
    datasets: Sequence[DatasetLike] = ("starter",),
    *,
    metrics: Sequence[str] = (),
    overwrite: Overwrite = "remote",
    results: str | Path | None = None,
    **settings: Unpack[Keywords],
) -> Results:
    """Run every method on every dataset. All names and parameters are checked before the first run.

    A run that fails does not stop the others: what it raised is in `Results.errors`.

    Args:
        methods: as `bench.run` takes them; give parameters with `bench.build_method`.
        datasets: as `bench.run` takes them. The other arguments are those of `bench.run`.

    Returns:
        The results, dataset by dataset, in the order of the methods.

    Raises:
        UsageError: an unknown name, a wrong parameter, or settings that contradict each other; nothing has run then.

    Examples:
        >>> found = bench.run_all(["bm25", bench.build_method("bm25", k1=1.5)], ["starter"])
        >>> [result.method for result in found]
        ['bm25', 'bm25(k1=1.5)']
    """
    for name, given in (("methods", methods), ("datasets", datasets)):
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise UsageError(f"{name} is a list; for one method on one dataset there is bench.run.")
    check_choices(overwrite=overwrite)
    chosen = vars(checked_settings(settings))
    specs = list(dict.fromkeys(method_spec(method) for method in methods))
    plans = [
        Plan(data, spec, **chosen)
        for data in dict.fromkeys(dataset_spec(dataset) for dataset in datasets)
        for spec in specs
    ]
    outcomes = list(_runner(datasets, metrics, overwrite, results).run(plans))
    return Results(
        [Result(outcome) for outcome in outcomes if not isinstance(outcome, BenchError)],
        {
            (str(plan.dataset), str(plan.method)): outcome
            for plan, outcome in zip(plans, outcomes, strict=True)
            if isinstance(outcome, BenchError)
        },
    )


def _runner(
    datasets: Sequence[DatasetLike], metrics: Sequence[str], overwrite: Overwrite, results: str | Path | None
) -> Runner:
    at_hand = {dataset.spec: dataset for dataset in datasets if isinstance(dataset, Dataset)}

    def load(spec: Spec) -> Dataset:
        return at_hand[str(spec)] if str(spec) in at_hand else load_dataset(str(spec))

    return Runner(
        results_folder() if results is None else expanded(results),
        load=load,
        build=registered.build_method,
        overwrite=overwrite,
        metrics=parse_metrics(names("metrics", metrics)),
    )

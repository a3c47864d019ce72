"""The Python API of robustness: `bench.stress`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from bench.api.arguments import names
from bench.api.catalogue import DatasetLike, MethodLike, dataset_spec, method_spec
from bench.base.config import current_session
from bench.base.errors import BenchError, UsageError
from bench.base.paths import expand_path, results_folder
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.metrics import DEFAULT_METRICS, parse_metric
from bench.registry import build_method, load_dataset
from bench.results.settings import Keywords, check_settings
from bench.robustness.measure import Subject
from bench.robustness.perturbation import choose
from bench.robustness.report import Effect, Stress, with_family, write_stress

if TYPE_CHECKING:
    from pathlib import Path


def stress(
    methods: MethodLike | Sequence[MethodLike],
    dataset: DatasetLike = "starter",
    perturbations: Sequence[str] = (),
    *,
    metric: str = "recall@5",
    seed: int = 0,
    results: str | Path | None = None,
    **settings: Unpack[Keywords],
) -> Stress:
    """Measure what breaks methods: each is asked on the dataset as it is and as perturbed. The same as `bench stress`.

    Losses are paired, query by query, with intervals over units of independence. Results on the dataset as it is are
    made or kept as by `bench.run`; what built-in perturbations do by recall@5 with seed 0 is stored beside
    them, in `stress.json`.

    Args:
        methods: a method or a list of methods, as `bench.run` takes them.
        dataset: a dataset.
        perturbations: names, with arguments in parentheses; a kind (`request`, `library`, `attack`, `absence`,
            `growth`) for all of it; or a function of your own, `module:function`. All built-in ones if empty.
        metric: a metric of rankings with a cut-off, which is also the k of `capture@k`.
        seed: of all draws.
        results: the results folder; `$BENCH_RESULTS` or `results` if None.
        **settings: `split`, `limit`, `template` and `depth`, as for `bench.run`.

    Returns:
        The effects by method; `print` shows them as tables, and `report` has the numbers.

    Raises:
        UsageError: an unknown name, or a perturbation that loses a gold tool or a query, repeats an id or returns
            nothing.
        BenchError: a method fails.

    Examples:
        >>> stressed = bench.stress(["bm25", "random"], "starter", ["typing-errors", "clone"])
        >>> [effect.perturbation for effect in stressed.report.methods[0].effects]
        ['typing-errors', 'clone']
    """
    chosen, measured = choose(names("perturbations", perturbations)), parse_metric(metric)
    if measured.measure.kind != "ranking" or not isinstance(measured.cutoff, int):
        raise UsageError(f"{metric} cannot be stressed; give a metric of rankings with a cut-off, such as recall@5.")
    given = check_settings(settings).non_defaults()
    if fixed := sorted({"cut", "cut_at", "repeats"} & given.keys()):
        raise UsageError(f"{fixed[0]} cannot be set: perturbed rankings are not cut or repeated; leave it out.")
    listed: Sequence[Any] = methods if isinstance(methods, list | tuple) else [methods]
    specs = [method_spec(each) for each in listed]
    plans = [Plan(dataset_spec(dataset), spec, **given) for spec in dict.fromkeys(specs)]
    progress = current_session().progress
    runner = Runner(
        results_folder() if results is None else expand_path(results),
        load=lambda spec: dataset if isinstance(dataset, Dataset) else load_dataset(spec, progress),
        build=lambda spec: build_method(spec, progress=progress),
        progress=progress,
        metrics=[] if metric in DEFAULT_METRICS else [measured],
    )
    done, texts = [], dict[tuple[str, str], str]()
    for plan, outcome in zip(plans, list(runner.run(plans)), strict=True):
        if isinstance(outcome, BenchError):
            raise outcome
        subject = Subject(runner, plan.normal(runner.dataset(plan.dataset)), outcome, measured, seed)
        effects = list[Effect]()
        for item in chosen:
            made = subject.stress([item])
            # At once: what is measured is not lost with a later perturbation that fails.
            write_stress(outcome.folder, made)
            effects += made.effects
        done.append(made.model_copy(update={"effects": effects}))
        texts |= subject.reworded
    data = runner.dataset(plans[0].dataset)
    return Stress(with_family(done), {query.query_id: query.text for query in data.queries}, texts)

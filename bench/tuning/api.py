"""The Python API of tuning: `bench.tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.api.catalogue import DatasetLike, MethodLike, ensure_loaded, method_spec, value_of
from bench.base.config import current_session
from bench.base.errors import UsageError
from bench.data.template import Template
from bench.metrics import parse_metric
from bench.registry import methods as registered
from bench.results.settings import check_setting
from bench.tuning.tune import Tuning, tune_method


def tune(
    method: MethodLike,
    dataset: DatasetLike,
    grid: Mapping[str, Sequence[object]],
    *,
    metric: str = "recall@5",
    template: Template | None = None,
    seed: int = 0,
) -> Tuning:
    """Try every combination of parameter values on the dev queries. Equivalent to `bench tune`.

    Methods learn from train only, and test queries are never used. Without a dev split, a fifth of train is held out,
    in whole groups of dependent queries.

    Args:
        method: a method, with its fixed parameters.
        dataset: a dataset with dev or train queries.
        grid: parameter -> values to try.
        metric: the metric to maximise, with a cut-off.
        template: the text of a tool; the dataset's default if None.
        seed: selects the train queries that are held out, if there is no dev split.

    Returns:
        All points, best first; `tuning.best` is the spec of the best for `bench.run`, `tuning.value` its mean with an
        interval, and `tuning.default` its test against the default.

    Raises:
        UsageError: neither dev nor train queries, an empty or huge grid, an invalid parameter, or a metric without a
            cut-off.

    Examples:
        >>> tuning = bench.tune("bm25", "starter", {"k1": [0.5, 1.2], "b": [0.0, 0.75]})
        >>> len(tuning.table)
        4
        >>> bench.build_method(tuning.best).spec.name
        'bm25'
    """
    if isinstance(dataset, Mapping):
        raise UsageError("bench.tune takes the dataset before the grid: bench.tune(method, dataset, grid).")
    if not isinstance(grid, Mapping) or any(isinstance(values, str) for values in grid.values()):
        raise UsageError(f"grid is {grid!r:.80}; write {{parameter: [value, ...]}}.")
    progress = current_session().progress
    return tune_method(
        lambda point: registered.build_method(point, progress=progress),
        method_spec(method),
        {name: [value_of(name, value) for value in values] for name, values in grid.items()},
        ensure_loaded(dataset),
        parse_metric(metric),
        seed=seed,
        template=check_setting("template", template),
        progress=progress,
    )

"""Available methods, datasets and metrics as DataFrames: `bench.methods()`, `bench.datasets()`, `bench.metrics()`.

`bench.methods`, `bench.datasets` and `bench.metrics` are also packages; calling one calls the function of the same name
here (`bench/__init__.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.metrics import measures
from bench.metrics.catalogue import describe_measure
from bench.registry.listing import dataset_rows, defaults, method_rows
from bench.registry.methods import method_class
from bench.show.objects import frame

if TYPE_CHECKING:
    import pandas

_SIZES = ("tools", "train", "dev", "test")


def methods() -> pandas.DataFrame:
    """One row per method, built-in or from an installed plug-in, indexed by name.

    Columns: `kind` (`ranks`, `scores`, `embeds`, `recommends sets`, `floor` or `oracle`); `needs`, past queries or a
    language model; `parameters` with their defaults; `summary`.

    Raises:
        MethodError: the module of a method cannot be imported.
        UnavailableError: pandas is not installed.

    Examples:
        >>> bench.methods().loc["bm25", ["kind", "parameters"]].tolist()
        ['scores', 'k1=1.2, b=0.75, tokens=words']
    """
    rows: list[dict[str, object]] = []
    for row in method_rows():
        needs = {"past queries": row["needs_history"], "a language model": row["needs_llm"]}
        named = ", ".join(need for need, needed in needs.items() if needed)
        rows.append({**row, "needs": named, "parameters": ", ".join(defaults(method_class(row["name"])))})
    return _index_by_name(rows, ("name", "kind", "needs", "parameters", "summary"))


def datasets() -> pandas.DataFrame:
    """One row per dataset, built-in, from an installed plug-in, or added by you, indexed by id.

    Columns: `title`; `tools`; `train`, `dev` and `test`, the queries of each split; `licence`; `redistribution`,
    whether the licence allows redistribution; `template`, the default text of a tool; `needs`, the files that you have
    to provide if it cannot be downloaded. Sizes that a card does not state are missing.

    Raises:
        UnavailableError: pandas is not installed.

    Examples:
        >>> bench.datasets().loc["starter", ["tools", "test"]].tolist()
        [179, 134]
    """
    rows: list[dict[str, object]] = []
    for row in dataset_rows():
        counts = row["counts"] or dict.fromkeys(_SIZES)
        rows.append({**row, "name": row["id"], "needs": row["obtain"], **{name: counts[name] for name in _SIZES}})
    columns = ("name", "title", *_SIZES, "licence", "redistribution", "template", "needs")
    # A nullable type keeps whole numbers if some are missing.
    return _index_by_name(rows, columns).astype(dict.fromkeys(_SIZES, "Int64"))


def metrics() -> pandas.DataFrame:
    """One row per measure, built-in or from an installed plug-in, indexed by name, in the order of the reference.

    Columns: `written`, its forms, such as `ndcg@k`; `kind` (`ranking`, `set`, `abstention`, `forbidden`,
    `destructive` or `confidence`); `parameters` with their defaults; `higher_is_better`; `reproduction_only`;
    `definition`.

    Raises:
        UsageError: the metric of a plug-in cannot be loaded.
        UnavailableError: pandas is not installed.

    Examples:
        >>> bench.metrics().loc["rbp", ["written", "parameters"]].tolist()
        ['rbp@k', 'p=0.8']
    """
    rows: list[dict[str, object]] = []
    for name, measure in measures().items():
        row = describe_measure(measure)
        parameters = ", ".join(f"{key}={value['default']}" for key, value in row["parameters"].items())
        rows.append({**row, "name": name, "written": row["metric"], "parameters": parameters})
    columns = ("written", "kind", "parameters", "higher_is_better", "reproduction_only", "definition")
    return _index_by_name(rows, ("name", *columns))


def _index_by_name(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> pandas.DataFrame:
    return frame(rows, columns).set_index("name")

"""Stored results as rows of a table: their order, their marks, and which of them compete.

Commands that print tables of results, comparisons and the site use it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.base.errors import BenchError
from bench.base.protocol import DEFAULT_DEPTH
from bench.data.template import template_name
from bench.registry import method_class, method_names
from bench.results.comparability import (
    S,
    Stored,
    describe_packages,
    list_names,
    metric_difference,
    numeric_packages,
    other_packages,
)
from bench.results.manifest import Mark
from bench.results.scoring_code import current_code

#: Means that differ by less are equal: the difference is rounding.
_SAME = 1e-12
#: The text of the mark of the kind `gold`.
ORDER_DEPENDS_ON_GOLD = "order depends on gold"


def order_results(results: Sequence[S], metric: str) -> list[S]:
    """Best first by the mean of a metric; oracles, which do not compete, come last."""
    return sorted(results, key=lambda item: (item.manifest.method.oracle, -_mean(item, metric), item.label))


def doubtful_leads(rows: Sequence[Stored], metric: str) -> list[bool]:
    """(rows,) whether a row's lead over the next is within the tie bands (rule 1 of the protocol).

    Such a lead disappears if ties are broken against the first method and for the second.
    """
    doubtful = [False] * len(rows)
    for i, (first, second) in enumerate(itertools.pairwise(rows)):
        a, b = first.metrics.metrics.get(metric), second.metrics.metrics.get(metric)
        if a is None or b is None or first.manifest.method.oracle != second.manifest.method.oracle:
            continue
        worst = a.mean if a.tie_low is None else a.tie_low
        best = b.mean if b.tie_high is None else b.tie_high
        doubtful[i] = a.mean > b.mean and worst <= best
    return doubtful


def lenient_mean(result: Stored, metric: str) -> float | None:
    """The lenient mean of a metric; None if the result has none."""
    lenient = result.metrics.lenient
    return None if lenient is None else lenient.means.get(metric)


def reversals(rows: Sequence[Stored], metric: str) -> list[tuple[int, int]]:
    """Pairs of rows whose order by a metric depends on tools that read like a gold tool.

    Any change of the sign of the difference counts, however small, because a table orders rows by their means; ranks
    show which orders are established. Oracles do not compete, and lenient means of different code do not compare.

    Returns:
        Positions of pairs: the first has the larger mean, and the second the larger lenient mean.
    """
    measured = [
        (i, row.metrics.metrics[metric].mean, lenient)
        for i, row in enumerate(rows)
        if metric in row.metrics.metrics
        and (lenient := lenient_mean(row, metric)) is not None
        and not row.manifest.method.oracle
    ]
    turned = [
        (i, j)
        for (i, mean, lenient), (j, other_mean, other_lenient) in itertools.permutations(measured, 2)
        if mean - other_mean > _SAME and other_lenient - lenient > _SAME
    ]
    return [(i, j) for i, j in turned if _same_code(rows[i], rows[j], metric)]


def _same_code(first: Stored, second: Stored, metric: str) -> bool:
    one, other = first.metrics.lenient, second.metrics.lenient
    return (
        one is not None
        and other is not None
        and current_code("lenient", one.code) == current_code("lenient", other.code)
        and metric_difference(first.manifest, second.manifest, metric) is None
    )


def reversal_marks(
    rows: Sequence[Stored], names: Sequence[str], metric: str, rivals: Collection[int] | None = None
) -> list[Mark | None]:
    """(rows,) the mark of rows whose position by a metric depends on tools that read like gold tools; None for others.

    Args:
        rows: results that compare.
        names: (rows,) their names.
        metric: the metric that orders them.
        rivals: positions of the rows that each one is compared with; all if None.
    """
    others = range(len(rows)) if rivals is None else rivals
    pairs = reversals(rows, metric)
    row_marks: list[Mark | None] = []
    for i in range(len(rows)):
        above = [names[j] for k, j in pairs if k == i and j in others]
        below = [names[k] for k, j in pairs if j == i and k in others]
        parts = [f"{where} {list_names(them)}" for where, them in (("above", above), ("below", below)) if them]
        usual = f"{metric} puts it {' and '.join(parts)}"
        why = f"{usual}; if tools that read like a gold tool count, the order is reversed"
        row_marks.append(Mark(kind="gold", text=ORDER_DEPENDS_ON_GOLD, why=why) if parts else None)
    return row_marks


@dataclass(frozen=True)
class Usual:
    """What most results of a group have, so that rows do not repeat it.

    Attributes:
        template: the text of a tool.
        packages: the version of each package that numbers depend on.
    """

    template: str
    packages: Mapping[str, str]


def usual(results: Sequence[Stored]) -> Usual:
    """What most results of a group have; if counts are equal, the first by name."""
    packages: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        for name, version in numeric_packages(result.manifest.environment.packages).items():
            packages[name].append(version)
    return Usual(usual_template(results), {name: _most_often(versions) for name, versions in packages.items()})


def marks(result: Stored, usual: Usual) -> list[Mark]:
    """The marks that a reader must know; `usual` is what most rows of the group have."""
    manifest = result.manifest
    row_marks = []
    if manifest.method.oracle:
        row_marks.append(
            Mark(kind="oracle", text="oracle", why="it is shown the gold: an upper bound, not a competitor")
        )
    row_marks += [*manifest.marks, *manifest.dataset.marks]
    if manifest.method.run_file:
        why = "a scored run file: no method of this harness ran, and its cost is not known"
        row_marks.append(Mark(kind="run file", text="run file", why=why))
    elif manifest.depth != DEFAULT_DEPTH:
        why = f"it returned {manifest.depth} tools per query instead of the protocol's {DEFAULT_DEPTH}"
        row_marks.append(Mark(kind="depth", text=f"depth {manifest.depth}", why=why))
    if manifest.repeats > 1:
        why = f"each query's value is the mean of {manifest.repeats} answers; in other rows it is that of one"
        row_marks.append(Mark(kind="repeats", text=f"{manifest.repeats} repeats", why=why))
    if manifest.dataset.template != usual.template:
        why = f"its tools are indexed as {manifest.dataset.tool_text}; most rows have {template_name(usual.template)}"
        row_marks.append(Mark(kind="text", text=f"text: {manifest.dataset.tool_text}", why=why))
    if other := other_packages(manifest.environment.packages, usual.packages):
        told = describe_packages(other, "{} {} (most rows: {})")
        why = f"made with other versions of packages: {told}; a small difference may come from there"
        row_marks.append(Mark(kind="packages", text="other packages", why=why))
    return row_marks


def competes(result: Stored) -> bool:
    """Whether a result's method is neither a floor nor an oracle: those have separate tests and ranks."""
    method = result.manifest.method
    return not method.oracle and (method.run_file is not None or not _is_floor(method.spec.partition("(")[0]))


@cache
def _is_floor(name: str) -> bool:
    # A result may name any `module:Class`: only registered methods are ever imported.
    if name not in method_names():
        return False
    try:
        return method_class(name).is_floor
    except BenchError:
        return False


def usual_template(results: Sequence[Stored]) -> str:
    """The tool text that most results of a group have."""
    return _most_often([result.manifest.dataset.template for result in results])


def _most_often(values: Sequence[str]) -> str:
    return max(sorted(set(values)), key=values.count)


def _mean(result: Stored, metric: str) -> float:
    value = result.metrics.metrics.get(metric)
    return -1.0 if value is None else value.mean

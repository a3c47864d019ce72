"""The audit of dependence: correlation of methods' scores within units, and a proposal for a dataset's unit.

The audit ranks the judged queries of the default split with a few cheap methods and measures recall@5. For each
relation of `bench.data.units`, it reports the number and sizes of the units, the correlation of two queries of a unit,
and the design effect: the ratio of the variance of a mean to that of independent queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data.card import RELATIONS, Relation, UnitSizes
from bench.data.dataset import Dataset
from bench.data.units import judged_units, unit_name, unit_sizes
from bench.evaluation.ask import ask, prepare
from bench.interface import Library, Method
from bench.metrics import parse_metric
from bench.metrics.evaluate import evaluate
from bench.stats.units import design_effect, intraclass_correlation

_METRIC = parse_metric("recall@5")
_DEPTH = 5
#: A relation is proposed if it puts at least this share of the queries in a unit with another, and if the design effect
#: grows by at least this share.
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Likeness:
    """The correlation of one method's recall@5 within units; None if it is undefined.

    Attributes:
        correlation: intraclass correlation of two queries of a unit.
        effect: the design effect of the mean.
    """

    correlation: float | None
    effect: float | None


@dataclass(frozen=True)
class UnitRule:
    """One rule of independence on a dataset.

    Attributes:
        name: as in `unit_name`.
        sizes: the sizes of its units.
        methods: method -> its correlation within units.
    """

    name: str
    sizes: UnitSizes
    methods: Mapping[str, Likeness]


@dataclass(frozen=True)
class Dependence:
    """The findings of the audit about the units of a dataset.

    Attributes:
        card: the rule of the dataset's card.
        proposed: the name of the rule that the data support.
        rules: each relation on its own, then the card's rule and the proposed one if they differ from these.
    """

    card: UnitRule
    proposed: str
    rules: tuple[UnitRule, ...]


def audit_units(dataset: Dataset, methods: Sequence[Method]) -> Dependence:
    """Measure dependence for each relation, and propose a rule.

    Relations are tried in the order of `RELATIONS`. The proposal takes one if it puts at least 5% of the queries in a
    unit with another, and if the design effect (the median of the methods) is at least 5% more with it than with the
    relations taken before. A proposal is not a decision: the authors of the queries know whether several come from one
    template or script, and a few near-duplicates between large units can join all of them.

    The dataset needs no train split; the methods are fresh instances that do not learn from past queries.

    Raises:
        MethodError: a method fails.
    """
    rows = dataset.rows(dataset.card.split)
    rows = rows[dataset.gold.counts[rows] > 0]
    names = [str(method.spec) for method in methods]
    # A single query has no variance, and without queries there is no recall.
    values = np.stack([_recall(method, dataset, rows) for method in methods], axis=1) if len(rows) > 1 else None
    proposed = _propose_unit(dataset, values)
    wanted: list[tuple[Relation, ...]] = [(relation,) for relation in RELATIONS]
    wanted += [by for by in (tuple(dataset.card.unit.by), proposed) if unit_name(by) not in map(unit_name, wanted)]
    rules = {unit_name(by): _rule(dataset, by, names, values) for by in wanted}
    return Dependence(rules[dataset.unit], unit_name(proposed), tuple(rules.values()))


def _propose_unit(dataset: Dataset, values: NDArray[np.float64] | None) -> tuple[Relation, ...]:
    chosen: tuple[Relation, ...] = ()
    if values is None:
        return chosen
    # Without units the design effect is 1.
    effect = 1.0
    for relation in RELATIONS:
        sizes = np.bincount(judged_units(dataset, [relation]))
        if sizes[sizes > 1].sum() < _LEAST_SHARE * sizes.sum():
            continue
        effects = design_effect(values, judged_units(dataset, [*chosen, relation]))
        effects = effects[~np.isnan(effects)]
        if len(effects) and np.median(effects) >= (1 + _LEAST_SHARE) * effect:
            chosen = (*chosen, relation)
            effect = float(np.median(effects))
    return chosen


def _rule(
    dataset: Dataset, by: Sequence[Relation], methods: Sequence[str], values: NDArray[np.float64] | None
) -> UnitRule:
    units = judged_units(dataset, by)
    if values is None:
        return UnitRule(unit_name(by), unit_sizes(units), {name: Likeness(None, None) for name in methods})
    pairs = zip(intraclass_correlation(values, units).tolist(), design_effect(values, units).tolist(), strict=True)
    alike = [Likeness(*(None if math.isnan(value) else value for value in pair)) for pair in pairs]
    return UnitRule(unit_name(by), unit_sizes(units), dict(zip(methods, alike, strict=True)))


def _recall(method: Method, dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(rows,) recall@5 of each query."""
    library = Library.of(dataset, dataset.card.template)
    depth = min(_DEPTH, len(library))
    prepare(method, library)
    ranking = ask(method, dataset, rows, depth).ranking
    return evaluate(ranking.tools, dataset.gold.take(rows), [_METRIC], unanswered=ranking.failed).column(_METRIC)

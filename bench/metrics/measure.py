"""`Measure` and `Metric`: a measure is declared once; a metric is a measure at a cut-off.

A metric's canonical string (`ndcg@5`, `rbp(p=0.9)@10`) is its identity: it parses, prints back the same, and is the key
in every file and table. Parameters at their defaults are left out. `measures` declares them, `evaluate` computes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.base.parameters import ParameterSet, short_spec
from bench.base.protocol import DEFAULT_DEPTH
from bench.data.gold import Gold
from bench.stats.bounded import Span

LARGEST_CUTOFF = 1_000_000

Cutoff = int | Literal["gold"] | None
CutoffForm = Literal["k", "gold", "none"]
Values = NDArray[np.float64]
Counts = NDArray[np.int64]

#: The fields of a measure that are functions.
_FUNCTIONS = ("ranked", "chosen", "confident", "largest")
_CUT = re.compile(r"@(?:[0-9]+|gold)$")


@dataclass(frozen=True)
class SetSizes:
    """Input of set metrics: sizes of the recommended sets R, per query.

    Attributes:
        size: (queries,) int64, |R|.
        hits: (queries,) int64, |R ∩ G|.
        n: (queries,) int64, |G|.
    """

    size: Counts
    hits: Counts
    n: Counts


@dataclass(frozen=True)
class Confidence:
    """Input of measures of confidence, per query.

    Attributes:
        score: (queries,) float64, the score of the first tool; -inf if nothing was returned.
        has_gold: (queries,) whether a tool of the library answers the query.
        first: (queries,) int64, the rank of the first gold tool; `MISSING` without one.
        failed: (queries,) whether the query failed; then its score is the worst possible.
    """

    score: Values
    has_gold: NDArray[np.bool_]
    first: Counts
    failed: NDArray[np.bool_]


@dataclass(frozen=True)
class Draws:
    """Input of measures against chance, per query with gold.

    Attributes:
        first: (queries,) the rank of the first gold tool; `MISSING` without one, and if the query failed.
        fitting: (queries,) int64, number of tools that meet a requirement, alternatives included.
        library: number of tools in the library.
    """

    first: NDArray[np.int32]
    fitting: Counts
    library: int


@dataclass(frozen=True)
class Measure:
    """A family of metrics that differ in their cut-off.

    Attributes:
        name: the part of `ndcg@5` before the `@`.
        kind: `ranking` reads ranks of gold tools, `set` recommended sets, `abstention` the number of returned
            tools, `forbidden` whether a forbidden tool is returned, `destructive` the number of unneeded tools that may
            destroy something (`bench.metrics.destructive`), `confidence` the score of the first tool, `chance` the gain
            over random draws (`bench.metrics.chance`).
        cutoffs: allowed cut-offs: `k` an integer, `gold` the number of gold tools, `none` no cut-off.
        definition: one line of words.
        edge_cases: behaviour in edge cases.
        source: source of the definition.
        ranked: `(GoldRanks, k) -> (queries,)` for kind `ranking`; k is (queries,) int64.
        chosen: `(SetSizes) -> (queries,)` for sets, and for the first k of a ranking. For kind `forbidden` the
            sizes are those of the set of forbidden tools, for kind `destructive` those of the unneeded destructive
            tools.
        confident: `(Confidence, k) -> (queries,)` for kind `confidence`, `(Draws, k) -> (queries,)` for kind
            `chance`: values whose mean is a statistic of all queries together; each is the statistic plus the query's
            influence on it.
        formula: the definition as LaTeX mathematics; G is the set of gold tools, n its size, h_1, h_2, ... the ranking,
            r_g the rank of the gold tool g, R a recommended set.
        higher_is_better: False for differences.
        reproduction_only: a paper's own variant, never used to rank methods.
        on_no_gold: True for a measure on queries without gold only (rule 3) or, if its kind is `set`, on all queries.
        monotone: False if moving a gold tool up can lower the value, so that the best and worst order of tied tools
            are not those of the gold; such a metric has no tie band.
        span: its smallest and largest value, which intervals respect; infinite if it has no limit, None if the
            limit is unknown.
        largest: `(k, n) -> float`, the largest value at a cut-off k if a query has at most n gold tools; for
            measures whose largest value depends on these.
        parameters: a class of parameters, each with a default. The functions receive them as keywords:
            `ranked(gold, k, p=0.8)`.
    """

    name: str
    kind: Literal["ranking", "set", "abstention", "forbidden", "destructive", "confidence", "chance"]
    cutoffs: frozenset[CutoffForm]
    definition: str
    edge_cases: str
    source: str
    ranked: Callable[..., Values] | None = None
    chosen: Callable[..., Values] | None = None
    confident: Callable[..., Values] | None = None
    formula: str = ""
    higher_is_better: bool = True
    reproduction_only: bool = False
    on_no_gold: bool = False
    monotone: bool = True
    span: tuple[float, float] | None = None
    largest: Callable[..., float] | None = None
    parameters: type[ParameterSet] = ParameterSet

    def __post_init__(self) -> None:
        if fields := self.parameters.model_fields:
            if lacking := [name for name, field in fields.items() if field.is_required()]:
                raise ValueError(f"the parameter {lacking[0]!r} of the measure {self.name} needs a default")
            # The functions without parameters: a bare name means the defaults.
            for name, function in self.functions().items():
                given = function.keywords if isinstance(function, partial) else {}
                defaults = {key: field.get_default() for key, field in fields.items() if key not in given}
                object.__setattr__(self, name, partial(function, **defaults))
        if self.on_no_gold and (self.chosen is None or "gold" in self.cutoffs):
            raise ValueError(
                f"{self.name} is defined on queries without gold: it needs `chosen` and cannot have the cut-off gold"
            )

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Its fields that are functions and are set."""
        return {name: function for name in _FUNCTIONS if (function := getattr(self, name)) is not None}

    def at(self, parameters: ParameterSet) -> Measure:
        """The measure with these parameter values, which its name shows unless they are the defaults."""
        values = {name: getattr(parameters, name) for name in self.parameters.model_fields}
        given: dict[str, Any] = {name: partial(function, **values) for name, function in self.functions().items()}
        return replace(self, name=str(short_spec(self.name, parameters)), **given)

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """(queries,) the queries it applies to: a metric is NaN on all others, which do not count in its mean."""
        judged = gold.counts > 0
        if self.kind == "forbidden":
            return np.zeros(len(gold), dtype=np.bool_) if gold.forbidden is None else gold.forbidden.counts > 0
        if self.kind in {"destructive", "chance"}:
            # Properties of tools and the size of the library are not part of the gold: other modules compute these
            # values (`bench.metrics.destructive`, `bench.metrics.chance`).
            return np.zeros(len(gold), dtype=np.bool_)
        if self.kind == "confidence":
            # It needs queries of both kinds.
            return np.full(len(gold), bool(judged.any() and not judged.all()))
        if self.on_no_gold:
            return np.ones_like(judged) if self.kind == "set" else ~judged
        return judged


@dataclass(frozen=True)
class Metric:
    """A measure at a cut-off; `str(metric)` is canonical."""

    measure: Measure
    cutoff: Cutoff = None

    def __str__(self) -> str:
        return self.measure.name if self.cutoff is None else f"{self.measure.name}@{self.cutoff}"

    @property
    def needs_sets(self) -> bool:
        """True if the metric is only defined on recommended sets."""
        return self.measure.chosen is not None and self.cutoff is None

    @property
    def on_gold_ranks(self) -> bool:
        """True if its values depend only on the ranks of gold tools."""
        return self.measure.kind in {"ranking", "set"} and not self.needs_sets

    def span(self, gold: ArrayLike) -> Span:
        """The range of its mean over queries with these numbers of gold tools."""
        low, high = self.measure.span or (-math.inf, math.inf)
        if self.measure.largest is not None and not self.needs_sets:
            most = int(np.max(gold, initial=0))
            high = self.measure.largest(most if self.cutoff == "gold" else self.cutoff or DEFAULT_DEPTH, most)
        return Span(low, high, each=self.measure.confident is None)

    def depths(self, n: Counts) -> Counts:
        """(queries,) cut-off of each query, given its number of gold tools; the protocol's depth for a bare metric."""
        if self.cutoff == "gold":
            return n
        return np.full(len(n), self.cutoff or DEFAULT_DEPTH, dtype=np.int64)


def measure_name(metric: str) -> str:
    """The measure in a metric's name: `rbp(p=0.9)` of `rbp(p=0.9)@10`."""
    return _CUT.sub("", metric)

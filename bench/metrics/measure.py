"""Measures by kind, and `Metric`: a measure is declared once; a metric is a measure at a cut-off.

A metric's canonical string (`ndcg@5`, `rbp(p=0.9)@10`) is its identity: it parses, prints back the same, and is the key
in every file and table. Parameters at their defaults are left out. `measures` declares them, `evaluate` computes them.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

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


@dataclass(frozen=True, kw_only=True)
class Measure(ABC):
    """A family of metrics that differ in their cut-off. The kinds below define the arguments of its function.

    Attributes:
        kind: the kind, in a word; `averages`: True if a metric is the mean of its values over queries, False if it is
            a statistic of all queries together.
        name: the part of `ndcg@5` before the `@`.
        function: gives (queries,) float64 values; its arguments are those of the kind.
        definition: one line of words.
        edge_cases: behaviour in edge cases.
        source: source of the definition.
        formula: the definition as LaTeX mathematics; G is the set of gold tools, n its size, h_1, h_2, ... the ranking,
            r_g the rank of the gold tool g, R a recommended set.
        cutoffs: allowed cut-offs: `k` an integer, `gold` the number of gold tools, `none` no cut-off.
        span: its smallest and largest value, which intervals respect; infinite if it has no limit, None if the
            limit is unknown.
        largest: `(k, n) -> float`, the largest value at a cut-off k if a query has at most n gold tools; for
            measures whose largest value depends on these.
        higher_is_better: False for differences.
        reproduction_only: a paper's own variant, never used to rank methods.
        parameters: a class of parameters, each with a default. The functions receive them as keywords:
            `function(gold, k, p=0.8)`.
    """

    kind: ClassVar[str]
    averages: ClassVar[bool] = True

    name: str = field(kw_only=False)
    function: Callable[..., Values]
    definition: str
    edge_cases: str
    source: str
    formula: str = ""
    cutoffs: tuple[CutoffForm, ...] = ("k",)
    span: tuple[float, float] | None = None
    largest: Callable[..., float] | None = None
    higher_is_better: bool = True
    reproduction_only: bool = False
    parameters: type[ParameterSet] = ParameterSet

    @abstractmethod
    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """(queries,) the queries it applies to: a metric is NaN on all others, which do not count in its mean."""

    def __post_init__(self) -> None:
        if fields := self.parameters.model_fields:
            if lacking := [name for name, field in fields.items() if field.is_required()]:
                raise ValueError(f"the parameter {lacking[0]!r} of the measure {self.name} needs a default")
            # The functions without parameters: a bare name means the defaults.
            for name, function in self.functions().items():
                given = function.keywords if isinstance(function, partial) else {}
                defaults = {key: field.get_default() for key, field in fields.items() if key not in given}
                object.__setattr__(self, name, partial(function, **defaults))

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Its fields that are functions and are set."""
        return {"function": self.function} | ({} if self.largest is None else {"largest": self.largest})

    def at(self, parameters: ParameterSet) -> Measure:
        """The measure with these parameter values, which its name shows unless they are the defaults."""
        values = {name: getattr(parameters, name) for name in self.parameters.model_fields}
        given: dict[str, Any] = {name: partial(function, **values) for name, function in self.functions().items()}
        return replace(self, name=str(short_spec(self.name, parameters)), **given)


@dataclass(frozen=True, kw_only=True)
class RankingMeasure(Measure):
    """A measure of where gold tools are ranked: `function(GoldRanks, k)`; k is (queries,) int64.

    Attributes:
        monotone: False if moving a gold tool up can lower the value, so that the best and worst order of tied tools
            are not those of the gold; such a metric has no tie band.
    """

    kind = "ranking"

    monotone: bool = True

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """Queries with gold."""
        return gold.counts > 0


@dataclass(frozen=True, kw_only=True)
class SetMeasure(Measure):
    """A measure of recommended sets, or of the first k of a ranking as a set: `function(SetSizes)`.

    Attributes:
        queries: the queries it applies to: those with `gold`, those with `no gold` (rule 3), or `all`.
    """

    kind = "set"

    cutoffs: tuple[CutoffForm, ...] = ("none",)
    queries: Literal["gold", "no gold", "all"] = "gold"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queries != "gold" and "gold" in self.cutoffs:
            raise ValueError(f"{self.name} is defined on queries without gold and cannot have the cut-off gold")

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """Queries with gold, without, or all."""
        judged = gold.counts > 0
        if self.queries == "gold":
            return judged
        return ~judged if self.queries == "no gold" else np.ones_like(judged)


@dataclass(frozen=True, kw_only=True)
class AbstentionMeasure(SetMeasure):
    """A measure of how many tools are returned: `function(SetSizes)`."""

    kind = "abstention"

    cutoffs: tuple[CutoffForm, ...] = ("k", "none")


@dataclass(frozen=True, kw_only=True)
class ForbiddenMeasure(SetMeasure):
    """A measure of whether forbidden tools are returned: `function(SetSizes)`, with the forbidden tools as gold."""

    kind = "forbidden"

    cutoffs: tuple[CutoffForm, ...] = ("k", "none")

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """Queries that name forbidden tools."""
        return np.zeros(len(gold), dtype=np.bool_) if gold.forbidden is None else gold.forbidden.counts > 0


@dataclass(frozen=True, kw_only=True)
class DestructiveMeasure(SetMeasure):
    """A measure of unneeded tools that may destroy something: `function(SetSizes)`, with these tools as gold.

    What a tool may do is not part of the gold: `bench.metrics.destructive` computes the values.
    """

    kind = "destructive"

    cutoffs: tuple[CutoffForm, ...] = ("k", "none")

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """None that the gold names."""
        return np.zeros(len(gold), dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class ConfidenceMeasure(Measure):
    """A measure of the score of the first tool: `function(Confidence, k)`.

    The mean of its values is a statistic of all queries together: each value is the statistic plus the query's
    influence on it.
    """

    kind = "confidence"
    averages = False

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """All queries if some have gold and some have none, else no query."""
        judged = gold.counts > 0
        return np.full(len(gold), bool(judged.any() and not judged.all()))


@dataclass(frozen=True, kw_only=True)
class ChanceMeasure(Measure):
    """A measure of the gain over random draws: `function(Draws, k)`, with values as in `ConfidenceMeasure`.

    The size of the library is not part of the gold: `bench.metrics.chance` computes the values.
    """

    kind = "chance"
    averages = False

    def taken(self, gold: Gold) -> NDArray[np.bool_]:
        """None that the gold names."""
        return np.zeros(len(gold), dtype=np.bool_)


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
        return isinstance(self.measure, SetMeasure) and self.cutoff is None

    @property
    def on_gold_ranks(self) -> bool:
        """True if its values depend only on the ranks of gold tools."""
        return self.measure.kind in {"ranking", "set"} and not self.needs_sets

    @property
    def has_tie_band(self) -> bool:
        """True if the best and the worst order of tied tools are those of their gold tools."""
        monotone = not isinstance(self.measure, RankingMeasure) or self.measure.monotone
        return self.on_gold_ranks and monotone

    def span(self, gold: ArrayLike) -> Span:
        """The range of its mean over queries with these numbers of gold tools."""
        low, high = self.measure.span or (-math.inf, math.inf)
        if self.measure.largest is not None and not self.needs_sets:
            most = int(np.max(gold, initial=0))
            high = self.measure.largest(most if self.cutoff == "gold" else self.cutoff or DEFAULT_DEPTH, most)
        return Span(low, high, each=self.measure.averages)

    def depths(self, n: Counts) -> Counts:
        """(queries,) cut-off of each query, given its number of gold tools; the protocol's depth for a bare metric."""
        if self.cutoff == "gold":
            return n
        return np.full(len(n), self.cutoff or DEFAULT_DEPTH, dtype=np.int64)


def measure_name(metric: str) -> str:
    """The measure in a metric's name: `rbp(p=0.9)` of `rbp(p=0.9)@10`."""
    return _CUT.sub("", metric)

"""Which retrieval metric predicts the choice of a language model, and how many tools should it be shown?

From stored choices (`methods/choose.py`) of one picker over several methods and numbers of tools, and the rankings that
it chose from, on the same queries. Three questions are kept apart: does a metric order the systems as the accuracy of
their choices does; does it tell, within a system, which queries succeed; and how well does it forecast a success.

A choice can only be right if all gold is shown. So recall at the depth that is shown goes with accuracy by
construction, and each correlation has beside it that given that all gold was shown. Intervals speak of other queries of
the kind, for these systems; they do not speak of other systems.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.base.spec import Spec, parse
from bench.metrics.measures import chance_of_hit
from bench.results.choices import UNANSWERED, Choices, is_choice, read_choices
from bench.results.comparability import metric_difference
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.store import StoredResult
from bench.results.units import number_units, sample
from bench.show.numbers import dagger, format_fixed
from bench.show.tables import Cell, Table
from bench.stats.association import (
    brier_skill,
    cross_fitted,
    difference_p,
    folds_of,
    kendall_tau_b,
    tau_b_with_success,
    unit_draws,
)
from bench.stats.bootstrap import bca_intervals
from bench.stats.multiple import holm
from bench.stats.noninferiority import LEVEL, enough_units
from bench.stats.tiers import p_of_pairs

#: Measures that are taken at the number of tools that was shown, and metrics at one depth.
AT_SHOWN = ("recall", "hit", "pass", "precision", "ndcg")
FIXED = ("recall@5", "ndcg@5", "map@10", "mrr@10")
RECALL, BITS, SHOWN, TOKENS = "recall@k", "bits_over_random@k", "k", "tokens in"
#: Fewer points have no rank correlation worth a word.
FEWEST_POINTS = 3
RESAMPLES = 2000
#: Numbers in a block of draws.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval by units of independence.

    Attributes:
        value: None where it is not defined: the metric or the outcome does not vary.
        low, high: None where it has no value, and where units are too few to decide.
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChoicePoint:
    """The choices of a picker among the first tools of one method.

    Attributes:
        base: the method.
        shown: how many tools.
        accuracy: share of right choices.
        all_shown: share of queries whose gold was all shown.
        given_shown: share of right choices among those.
        tokens_in, tokens_cached, tokens_out: means of a query; cached ones are among those in.
        per_1000_tokens: accuracy for 1,000 tokens in; None where the endpoint counts none.
        metrics: each metric's value on these queries; None for the bits of a method without a hit.
    """

    base: str
    shown: int
    accuracy: Estimate
    all_shown: float
    given_shown: Estimate
    tokens_in: float
    tokens_cached: float
    tokens_out: float
    per_1000_tokens: float | None
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Predictor:
    """How one metric goes with right choices.

    Attributes:
        metric: its name; `@k` is the number of tools that was shown.
        across_systems: Kendall's tau-b of the points' means with their accuracy.
        across_queries: tau-b of the value of a query with its success, within each point; the mean over the points
            where both vary.
        skill: Brier skill against the base rate of a logistic regression of success on the value, over all points, each
            unit forecast by a fit without it.
        systems_given_shown, queries_given_shown: the two correlations with the success of queries whose gold was all
            shown, over the points with enough of these.
        less_recall: `across_systems` less that of recall@k; of k and of tokens the strength, whatever the sign. Metrics
            that are noisier order a sample of queries less well. No ends for recall@k itself.
        p: of no such difference (`bench.stats.association.difference_p`), Holm-corrected over the metrics; None for
            recall@k itself, for a metric that does not vary, and for too few units.
    """

    metric: str
    across_systems: Estimate
    across_queries: Estimate
    skill: Estimate
    systems_given_shown: Estimate
    queries_given_shown: Estimate
    less_recall: Estimate
    p: float | None


@dataclass(frozen=True)
class BestShown:
    """How many tools of one method to show.

    Attributes:
        base: the method.
        best: the number with the best accuracy, the smallest of equals.
        accuracy: with that number.
        smallest: the smallest number that is not shown to be worse than the best: paired tests by units of all pairs of
            numbers, Holm-corrected, since the best is chosen on the same queries. None for too few units.
        per_token: the number with the most accuracy for a token in; None where the endpoint counts none.
    """

    base: str
    best: int
    accuracy: float
    smallest: int | None
    per_token: int | None


@dataclass(frozen=True)
class Prediction:
    """What predicts the choices of one picker on one dataset.

    Attributes:
        dataset: its spec, and the split unless it is test.
        picker: the model, the form of the question and the order of the tools.
        queries, units: queries with gold that all points have, and their units of independence.
        decided: whether units are enough for intervals and tests.
        points: by method and number of tools.
        predictors: one for each metric that all points have.
        best_shown: one for each method with several numbers of tools.
        given_shown: share of right choices among the queries whose gold was all shown, over all points.
        left_out: choices of this picker that are no point, and why.
    """

    dataset: str
    picker: str
    queries: int
    units: int
    decided: bool
    points: tuple[ChoicePoint, ...]
    predictors: tuple[Predictor, ...]
    best_shown: tuple[BestShown, ...]
    given_shown: Estimate
    left_out: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Which metrics order the systems otherwise than recall@k, in a sentence."""
        size = f"{len(self.points)} points, {sample(self.queries, self.units)}"
        if not self.decided:
            return f"Too few groups of queries tell no metric from recall@k ({size})."
        told = [item for item in self.predictors if item.p is not None and item.p < LEVEL]
        words = [
            f"{_listed(names)} {'goes' if len(names) == 1 else 'go'} {how} with accuracy across systems than "
            f"recall@k ({size}; p < {LEVEL}, Holm)."
            for how, names in (
                ("better", [item.metric for item in told if (item.less_recall.value or 0.0) > 0]),
                ("worse", [item.metric for item in told if (item.less_recall.value or 0.0) < 0]),
            )
            if names
        ]
        return " ".join(words) or (
            f"No metric is shown to go better or worse with accuracy across systems than recall@k ({size})."
        )

    @property
    def conditional(self) -> str:
        """What goes with accuracy where all gold was shown, in a sentence: there recall has no part by construction."""
        words = f"Of choices with all gold shown, {_in_short(self.given_shown)} are right"
        # Whether a metric has found the gold is settled; how many other tools stand beside it is not.
        asked = {"precision@k", "ndcg@k", SHOWN}
        known = [
            item for item in self.predictors if item.metric in asked and item.systems_given_shown.value is not None
        ]
        if not known:
            return f"{words}."
        told = [
            f"{item.metric} {_in_short(item.systems_given_shown)}"
            for item in known
            if item.systems_given_shown.low is not None
            and item.systems_given_shown.high is not None
            and item.systems_given_shown.low * item.systems_given_shown.high > 0
        ]
        if not told:
            names = ", ".join(item.metric for item in known)
            return f"{words}; across systems, none of {names} is shown to go with that."
        return f"{words}; with that go, across systems: {', '.join(told)}."

    @property
    def advice(self) -> str:
        """How many tools to show, in a sentence; empty where no method was shown with several numbers."""
        if not self.best_shown:
            return ""
        told = []
        for item in self.best_shown:
            words = f"{item.base} with {item.best} ({item.accuracy:.3f}"
            if item.smallest is not None and item.smallest < item.best:
                words += f"; {item.smallest} not shown to be worse"
            told.append(words + ")")
        return f"Tools shown at the best accuracy: {', '.join(told)}."


# Which results belong together -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """A choice with the result that it chose from."""

    source: StoredResult
    base: str
    shown: int
    choices: Choices
    created: str


@dataclass(frozen=True)
class _Metric:
    """A metric of all points on the same queries.

    Attributes:
        name: of the metric.
        values: (queries, points).
        hits, chance: (queries, points) of bits over random, whose value is no mean of those of queries.
    """

    name: str
    values: NDArray[np.float64]
    hits: NDArray[np.float64] | None = None
    chance: NDArray[np.float64] | None = None

    def of(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        """(samples, points) its value over the queries of each draw."""
        if self.hits is None or self.chance is None:
            means: NDArray[np.float64] = draws @ self.values / draws.sum(axis=1, keepdims=True)
            return means
        return bits_over_random(draws @ self.hits, draws @ self.chance)


def bits_over_random(hits: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """log2(share of hits / share that a random ranking is expected to have); minus infinity without a hit."""
    with np.errstate(divide="ignore"):
        bits: NDArray[np.float64] = np.log2(hits / chance)
    return bits


def predictions(choices: Sequence[StoredResult], sources: Sequence[StoredResult]) -> tuple[Prediction, ...]:
    """What predicts the choices of each picker on each dataset.

    A point is a choice among the first k tools of a stored ranking. Rankings that hold planted gold, and whole
    libraries, are no points. Of several choices by one method and number, that on the most queries counts, and of those
    the latest. Points are taken on the queries that all of them have; a choice on far fewer queries than the others is
    left out.

    Args:
        choices: results of choices; others among them are passed over.
        sources: results whose rankings they chose from, and any others.

    Returns:
        One for each dataset and picker with at least `FEWEST_POINTS` points.

    Raises:
        BenchError: a result cannot be read.
    """
    by_picker: dict[tuple[str, ...], list[StoredResult]] = defaultdict(list)
    for choice in choices:
        if not is_choice(choice):
            continue
        given = dict(parse(choice.manifest.method.full_spec).arguments)
        data = choice.manifest.dataset
        picker = ", ".join(str(given[name]) for name in ("llm", "form", "order"))
        # What else is asked for makes another picker.
        for name in sorted(given.keys() - {"base", "shown", "context", "llm", "form", "order"}):
            if name != "seed" or given[name]:
                picker += f", {name}={given[name]}"
        by_picker[data.content_hash, data.split, data.template, picker].append(choice)
    made = (_predict(group, sources, key[-1]) for key, group in by_picker.items())
    return tuple(item for item in made if item is not None)


def _predict(group: Sequence[StoredResult], sources: Sequence[StoredResult], picker: str) -> Prediction | None:
    cases: dict[tuple[str, int], _Case] = {}
    left_out = []
    for choice in group:
        case = _match(choice, sources)
        if case is None:
            continue
        if isinstance(case, str):
            left_out.append(f"{choice.label}: {case}")
            continue
        key = (case.base, case.shown)
        cases[key] = max((case, cases.get(key, case)), key=lambda item: (len(item.choices.queries), item.created))
    if not cases:
        return None
    asked = {key: frozenset(case.choices.queries) for key, case in cases.items()}
    common = max(asked.values(), key=lambda ids: (len(ids) * sum(ids <= other for other in asked.values()), len(ids)))
    points = []
    for key, case in sorted(cases.items()):
        if common <= asked[key]:
            points.append(case)
        else:
            left_out.append(f"{case.base}, {case.shown} shown: on other queries")
    if len(points) < FEWEST_POINTS:
        return None
    return _of_points(points, sorted(common), group[0], picker, tuple(left_out))


def _match(choice: StoredResult, sources: Sequence[StoredResult]) -> _Case | str | None:
    """The case of a choice, or why it has none; None where it is another kind of choice."""
    given = dict(parse(choice.manifest.method.full_spec).arguments)
    base, shown = given["base"], given["shown"]
    if not isinstance(base, Spec) or base.name in {"planted", "oracle"} or not isinstance(shown, int) or not shown:
        return None
    data = choice.manifest.dataset
    read = read_choices(choice)
    why = "the result that it chose from is not stored"
    wanted = f"recall@{shown}"
    for source in sorted(sources, key=lambda item: item.manifest.environment.created, reverse=True):
        manifest = source.manifest
        theirs = manifest.dataset
        if (theirs.content_hash, theirs.split, theirs.template) != (data.content_hash, data.split, data.template):
            continue
        if manifest.method.run_file is not None or parse(manifest.method.spec) != base:
            continue
        rows = _rows(source, read.queries)
        if rows is None:
            why = "the result that it chose from is on other queries"
        elif wanted not in source.metrics.metrics:
            why = f"{wanted} of the result that it chose from is not stored"
        elif not _same_shown(choice, read, source.of_repeat().values(wanted)[rows]):
            why = "it was shown other tools than the stored ranking has"
        else:
            return _Case(source, manifest.method.label, shown, read, choice.manifest.environment.created)
    return why


def _rows(result: StoredResult, ids: Sequence[str]) -> NDArray[np.int64] | None:
    """(ids,) the rows of queries in the table of a result; None where it lacks one."""
    places = {query: row for row, query in enumerate(result.per_query["query_id"].to_pylist())}
    if not places.keys() >= set(ids):
        return None
    return np.array([places[query] for query in ids], dtype=np.int64)


def _same_shown(choice: StoredResult, read: Choices, recall: NDArray[np.float64]) -> bool:
    """Whether the shown tools hold as much gold as the first ones of a stored ranking, wherever a model answered."""
    pairs = zip(read.notes, read.outcomes, strict=True)
    asked = np.array([note is not None and outcome not in UNANSWERED for note, outcome in pairs], dtype=np.bool_)
    shown = choice.of_repeat().values("recall@100")
    judged = asked & ~np.isnan(shown)
    return bool((np.abs(shown - recall)[judged] < 1e-9).all())


# What predicts the choice ------------------------------------------------------------------------------------------


def _of_points(
    points: Sequence[_Case], ids: Sequence[str], example: StoredResult, picker: str, left_out: tuple[str, ...]
) -> Prediction | None:
    first = points[0].source.of_repeat().per_query
    gold = dict(zip(first["query_id"].to_pylist(), first["n_gold"].to_pylist(), strict=True))
    names = dict(zip(first["query_id"].to_pylist(), first["unit"].to_pylist(), strict=True))
    ids = [query for query in ids if gold[query]]
    if not ids:
        return None
    n_gold = np.array([gold[query] for query in ids], dtype=np.int64)
    unit_names = [str(names[query]) for query in ids]
    units = number_units(np.unique(unit_names, return_inverse=True)[1].astype(np.int64))
    decided = enough_units(units)
    right = np.empty((len(ids), len(points)), dtype=np.bool_)
    tokens = np.empty((len(ids), len(points), 3))
    for j, point in enumerate(points):
        places = {query: row for row, query in enumerate(point.choices.queries)}
        rows = [places[query] for query in ids]
        right[:, j] = [point.choices.outcomes[row] == "right" for row in rows]
        tokens[:, j] = _tokens(point.choices, rows)
    metrics = list(_metrics(points, ids, n_gold, tokens[:, :, 0]))
    recall = next(item for item in metrics if item.name == RECALL)
    # A choice is right only among queries whose gold was all shown, whatever a mean of floats rounds to.
    shown = (recall.values >= 1 - 1e-9) | right
    draws = unit_draws(units, RESAMPLES if decided else 1, BOOTSTRAP_SEED)
    draws = np.concatenate([np.ones((1, len(ids))), draws])
    predictors = _predictors(metrics, right, shown, draws, folds_of(unit_names), units, decided)
    data = example.manifest.dataset
    return Prediction(
        dataset=data.spec if data.split == "test" else f"{data.spec}, {data.split}",
        picker=picker,
        queries=len(ids),
        units=int(units.max()) + 1,
        decided=decided,
        points=tuple(_describe(points, metrics, right, shown, tokens, units)),
        predictors=predictors,
        best_shown=tuple(_best_shown(points, right, tokens[:, :, 0].mean(axis=0), units, decided)),
        given_shown=_estimate(_share((draws @ right).sum(axis=1), (draws @ shown).sum(axis=1)), decided),
        left_out=left_out,
    )


def _tokens(choices: Choices, rows: Sequence[int]) -> NDArray[np.float64]:
    """(rows, 3) tokens in, cached and out; of queries that were not answered, the means of the others."""
    notes = [choices.notes[row] for row in rows]
    known = np.array([note is not None and not note.failed for note in notes], dtype=np.bool_)
    table = np.array(
        [(0, 0, 0) if note is None else (note.input_tokens, note.cached_tokens, note.output_tokens) for note in notes],
        dtype=np.float64,
    )
    if known.any():
        table[~known] = table[known].mean(axis=0)
    return table


def _metrics(
    points: Sequence[_Case], ids: Sequence[str], n_gold: NDArray[np.int64], tokens: NDArray[np.float64]
) -> Iterator[_Metric]:
    """The metrics that every point has, by the same code."""
    sources = [point.source for point in points]
    wanted = {f"{name}@k": [f"{name}@{point.shown}" for point in points] for name in AT_SHOWN}
    wanted |= {name: [name] * len(points) for name in FIXED}
    rows = [_rows(source, ids) for source in sources]
    hits = None
    for name, stored in wanted.items():
        if not all(
            one in source.metrics.metrics and metric_difference(sources[0].manifest, source.manifest, one) is None
            for one, source in zip(stored, sources, strict=True)
        ):
            continue
        values = np.column_stack(
            [source.of_repeat().values(one)[row] for one, source, row in zip(stored, sources, rows, strict=True)]
        )
        hits = values if name == "hit@k" else hits
        yield _Metric(name, values)
    if hits is not None:
        tools = sources[0].manifest.dataset.tools
        # Results count the gold and not its alternatives, which count in the metric of that name.
        table = np.column_stack([chance_of_hit(n_gold, np.full(len(n_gold), point.shown), tools) for point in points])
        yield _Metric(BITS, -hits * np.log2(table), hits, table)
    yield _Metric(SHOWN, np.tile([float(point.shown) for point in points], (len(ids), 1)))
    yield _Metric(TOKENS, tokens)


def _predictors(
    metrics: Sequence[_Metric],
    right: NDArray[np.bool_],
    shown: NDArray[np.bool_],
    draws: NDArray[np.float64],
    folds: NDArray[np.int64],
    units: NDArray[np.int64],
    decided: bool,
) -> tuple[Predictor, ...]:
    """One for each metric; the first draw is the queries themselves."""
    total = draws.sum(axis=1, keepdims=True)
    accuracy = draws @ right / total
    # Points with enough queries whose gold was shown; a draw without one of these has nothing of its own to say.
    some = [j for j in range(right.shape[1]) if decided and _enough(units, shown[:, j])]
    given = _share(draws @ right, draws @ shown)[:, some]
    given = np.where(np.isnan(given), given[:1], given)
    systems = {item.name: kendall_tau_b(item.of(draws), accuracy) for item in metrics}
    # More tools may predict fewer right choices as well as more.
    strength = {name: np.abs(taus) if name in {SHOWN, TOKENS} else taus for name, taus in systems.items()}
    differences = {name: _known(taus) - _known(systems[RECALL]) for name, taus in strength.items()}
    # A metric that never orders the systems, as one that does not vary, is no rival.
    rivals = [name for name in systems if name != RECALL and decided and not math.isnan(systems[name][0])]
    tests = holm([difference_p(differences[name][0], differences[name][1:]) for name in rivals])
    p = dict(zip(rivals, tests.tolist(), strict=True))
    made = []
    for item in metrics:
        name = item.name
        less = (
            differences[name] if not math.isnan(systems[name][0] + systems[RECALL][0]) else np.full(len(draws), np.nan)
        )
        made.append(
            Predictor(
                metric=name,
                across_systems=_estimate(systems[name], decided),
                across_queries=_estimate(_within(item.values, right, np.ones_like(right), draws), decided),
                skill=_skill(item.values, right, draws, folds, decided),
                systems_given_shown=_estimate(
                    kendall_tau_b(item.of(draws)[:, some], given)
                    if len(some) >= FEWEST_POINTS
                    else np.full(len(draws), np.nan),
                    decided,
                ),
                queries_given_shown=_estimate(
                    _within(item.values[:, some], right[:, some], shown[:, some], draws), decided
                ),
                less_recall=_estimate(less, decided and name != RECALL),
                p=p.get(name),
            )
        )
    return tuple(made)


def _within(
    values: NDArray[np.float64], right: NDArray[np.bool_], kept: NDArray[np.bool_], draws: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(samples,) tau-b of value and success among the kept queries of a point, in the mean over points."""
    step = max(1, _BLOCK // len(values))
    columns = []
    for j in range(values.shape[1]):
        rows = np.flatnonzero(kept[:, j])
        own, success = values[rows, j], right[rows, j]
        if not len(rows) or np.ptp(own) < 1e-12 or success.all() or not success.any():
            continue
        blocks = (draws[start : start + step] for start in range(0, len(draws), step))
        parts = (block if kept[:, j].all() else block[:, rows] for block in blocks)
        columns.append(np.concatenate([tau_b_with_success(own, success, part) for part in parts]))
    if not columns:
        return np.full(len(draws), np.nan)
    # A draw in which a point does not vary has no correlation to add.
    means: NDArray[np.float64] = _known(np.column_stack(columns)).mean(axis=1)
    return means


def _skill(
    values: NDArray[np.float64],
    right: NDArray[np.bool_],
    draws: NDArray[np.float64],
    folds: NDArray[np.int64],
    decided: bool,
) -> Estimate:
    if len(np.unique(folds)) < 2 or right.all() or not right.any():
        return Estimate(None)
    rows = np.repeat(folds, values.shape[1])
    fitted, rate = (part.reshape(values.shape) for part in cross_fitted(values.ravel(), right.ravel(), rows))
    return _estimate(brier_skill(fitted, rate, right, draws), decided)


def _enough(units: NDArray[np.int64], kept: NDArray[np.bool_]) -> bool:
    """Whether the kept queries are enough to decide."""
    return bool(kept.any()) and enough_units(number_units(units[kept]))


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        share: NDArray[np.float64] = part / whole
    return share


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A correlation that is not defined shows none."""
    return np.where(np.isnan(values), 0.0, values)


def _estimate(values: NDArray[np.float64], decided: bool) -> Estimate:
    """The first of the values, with the percentile interval of the others.

    A rank correlation of draws lies nearer to zero than that of the sample, so the interval reaches at least to the
    estimate.
    """
    value = float(values[0])
    if math.isnan(value):
        return Estimate(None)
    if not decided:
        return Estimate(value)
    low, high = np.quantile(_known(values[1:]), (0.025, 0.975)).tolist()
    return Estimate(value, min(low, value), max(high, value))


def _describe(
    points: Sequence[_Case],
    metrics: Sequence[_Metric],
    right: NDArray[np.bool_],
    shown: NDArray[np.bool_],
    tokens: NDArray[np.float64],
    units: NDArray[np.int64],
) -> Iterator[ChoicePoint]:
    ones = np.ones((1, len(right)))
    means = {item.name: item.of(ones)[0] for item in metrics}
    for j, point in enumerate(points):
        accuracy = _accuracy(right[:, j], units)
        given_in, cached, out = tokens[:, j].mean(axis=0).tolist()
        yield ChoicePoint(
            base=point.base,
            shown=point.shown,
            accuracy=accuracy,
            all_shown=float(shown[:, j].mean()),
            given_shown=_accuracy(right[shown[:, j], j], units[shown[:, j]]),
            tokens_in=given_in,
            tokens_cached=cached,
            tokens_out=out,
            per_1000_tokens=1000 * (accuracy.value or 0.0) / given_in if given_in else None,
            metrics={name: float(row[j]) if math.isfinite(row[j]) else None for name, row in means.items()},
        )


def _accuracy(right: NDArray[np.bool_], units: NDArray[np.int64]) -> Estimate:
    """The share of right choices, with its interval where units are enough."""
    if not len(right):
        return Estimate(None)
    codes = number_units(units)
    share = float(right.mean())
    if not enough_units(codes):
        return Estimate(share)
    ends = bca_intervals(right[:, None].astype(np.float64), seed=BOOTSTRAP_SEED, units=codes, span=(0.0, 1.0))[0]
    return Estimate(share, float(ends[0]), float(ends[1]))


def _best_shown(
    points: Sequence[_Case],
    right: NDArray[np.bool_],
    tokens: NDArray[np.float64],
    units: NDArray[np.int64],
    decided: bool,
) -> Iterator[BestShown]:
    for base in dict.fromkeys(point.base for point in points):
        columns = [j for j, point in enumerate(points) if point.base == base]
        if len(columns) < 2:
            continue
        shown = [points[j].shown for j in columns]
        values = right[:, columns].astype(np.float64)
        means = values.mean(axis=0)
        best = int(np.argmax(means))
        smallest = None
        if decided:
            one, other = np.triu_indices(len(columns), 1)
            p = holm(p_of_pairs(values, one, other, units, seed=BOOTSTRAP_SEED))
            worse = {
                pair
                for pair, value in zip(zip(one.tolist(), other.tolist(), strict=True), p, strict=True)
                if value < LEVEL
            }
            smallest = min(shown[i] for i in range(len(columns)) if (min(i, best), max(i, best)) not in worse)
        paid = means / tokens[columns] if tokens[columns].all() else None
        yield BestShown(
            base=base,
            best=shown[best],
            accuracy=float(means[best]),
            smallest=smallest,
            per_token=None if paid is None else shown[int(np.argmax(paid))],
        )


# As a table --------------------------------------------------------------------------------------------------------


def prediction_table(prediction: Prediction) -> Table:
    """A row for each metric: its correlations with accuracy, and its skill."""
    heads = ["metric", "across systems", "across queries", "skill"]
    table = Table(heads, right=range(1, 4), whole=range(4), tight=True)
    for item in prediction.predictors:
        mark = "" if item.p is None else dagger(item.p)
        cells = (item.across_systems, item.across_queries, item.skill)
        table.add(item.metric, *(Cell(_in_short(cell), mark if not i else "") for i, cell in enumerate(cells)))
    return table


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _in_short(estimate: Estimate) -> str:
    """A number and its interval in a few letters: `.71 [.52,.83]`."""
    value, low, high = (
        format_fixed(number, 2).replace("0.", ".") for number in (estimate.value, estimate.low, estimate.high)
    )
    return value if estimate.low is None else f"{value} [{low},{high}]"

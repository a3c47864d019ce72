"""Evaluate every rule of a policy on a candidate and its baseline. Every gate calls it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError
from bench.base.protocol import DEFAULT_DEPTH
from bench.gating.across import Across, GoldMoves, across_catalogues
from bench.gating.baseline import DECIMALS, Baseline, rounded_values
from bench.gating.budgets import latency_rules, token_rules
from bench.gating.candidate import Candidate
from bench.gating.capture import capture_rules
from bench.gating.policy import Policy, Rule, SliceOf
from bench.gating.report import (
    EXIT_CODES,
    MOST_NAMED,
    GateReport,
    Moved,
    MovedQuery,
    RuleReport,
    Side,
    as_read,
    not_judged,
    outcome_of,
)
from bench.interface.marks import ALL_ALIKE, FLAKY, NAMES_DROPPED, REMOTE
from bench.metrics import parse_metric
from bench.results.across_catalogues import CatalogueChange, QueryChange, unreached_sentence
from bench.results.comparability import ScoredResult, describe_packages, differences, metric_difference, other_packages
from bench.results.manifest import MethodIdentity
from bench.results.units import number_units
from bench.stats.bounded import Span
from bench.stats.noninferiority import FEWEST_UNITS, at_least, enough_units, non_inferiority
from bench.stats.units import effective_units

if TYPE_CHECKING:
    from bench.data.dataset import Dataset

#: Loads the baseline's dataset; `True` forbids downloads.
Loader = Callable[[bool], "Dataset"]

#: If fewer queries differ from the most common value, the bootstrap says little about the tails (`benchmarks/gate.py`
#: shows how little).
FEW_DIFFERING = 10
_UNANSWERED = (
    "judged queries that failed or were not answered: {}, and {} in the baseline; they count as missed (max_failed in "
    "the policy sets a limit)"
)
_MAY_CHANGE = '; `catalogue = "may change"` in the policy compares across catalogues'


def judge(candidate: Candidate, baseline: Baseline, policy: Policy, load: Loader) -> GateReport:
    """Judge a candidate against its baseline.

    Args:
        candidate, baseline, policy: the three.
        load: loads the candidate's dataset: used if it is not the baseline's, if a rule has a slice, and (without
            downloads) for the texts of moved queries.

    Returns:
        The report. It says what cannot be compared or judged, which is not a pass.

    Raises:
        UsageError: a rule names a slice that the dataset does not have.
        BenchError: the dataset of a rule with a slice cannot be loaded.
    """
    sides = (side_of(candidate), baseline_side(baseline))
    changed: CatalogueChange | None = None
    queries: QueryChange | None = None
    metrics = [rule.metric for rule in policy.rule]
    other = candidate.dataset.content_hash != baseline.dataset.content_hash
    differing = not_comparable(candidate, baseline, metrics, across=other)
    if other and not differing:
        brought = _bring_together(candidate, baseline, policy, load)
        if isinstance(brought, Across):
            candidate, baseline, changed, queries = brought.candidate, brought.baseline, brought.change, brought.queries
        else:
            differing = brought or not_comparable(candidate, baseline, metrics)
    differing = differing or _other_queries(candidate, baseline) or _too_many(queries, policy)
    if differing:
        return not_judged("not comparable", differing, *sides)
    if policy.require_tools_given and candidate.not_given:
        reason = f"the policy has require_tools_given, and the candidate was not given the tools: {candidate.not_given}"
        return not_judged("not run", [reason], *sides)
    allowed = baseline.n_failed if policy.max_failed is None else policy.max_failed
    # If every query failed, nothing was measured.
    allowed = min(allowed, max(0, baseline.n - 1))
    more_failed = candidate.n_failed > allowed
    # An edited tool may leave a query without an answer: an effect of the edit, not a fault of the run.
    edited = changed is not None and changed.size > 0
    if more_failed and (not edited or policy.max_failed is not None):
        reason = (
            f"{candidate.n_failed} of {baseline.n} judged queries failed or were not answered, but at "
            f"most {allowed} may: find the cause and run it again (max_failed in the policy raises "
            "the limit)"
        )
        return not_judged("not run", [reason, *_failed(candidate)], *sides)
    rows = _RuleRows(baseline, load, changed)
    rules: list[RuleReport] = []
    moves: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Rule]] = {}
    for rule in policy.rule:
        rules += _judge_rule(rule, policy, candidate, baseline, rows, moves)
    rules += latency_rules(policy, candidate, baseline) + token_rules(policy, candidate, baseline)
    rules += capture_rules(policy, candidate)
    outcome = outcome_of(rules)
    moved_tools = GoldMoves(candidate, baseline, changed)
    tools = moved_tools.tools()
    return GateReport(
        outcome=outcome,
        exit_code=EXIT_CODES[outcome],
        candidate=sides[0],
        baseline=sides[1],
        dataset=baseline.dataset.spec,
        content_hash=baseline.dataset.content_hash,
        power=policy.power,
        catalogue=changed if changed is not None and changed.size else None,
        queries=queries if queries is not None and queries.size else None,
        warnings=_warnings(candidate, changed, queries),
        rules=rules,
        moved=_list_moved(moves, load, candidate, baseline, moved_tools),
        tools=tools[:MOST_NAMED],
        n_tools=len(tools),
        notes=[
            *_notes(candidate, baseline, rules),
            *([_UNANSWERED.format(candidate.n_failed, baseline.n_failed)] if more_failed else []),
            *_failed(candidate),
            *(changed.notes if changed else []),
        ],
    )


def _bring_together(candidate: Candidate, baseline: Baseline, policy: Policy, load: Loader) -> Across | list[str]:
    """The two on the queries that they share, if their datasets differ; or why they cannot be compared."""
    must_agree = policy.catalogue == "must agree"
    if must_agree and (baseline.asked is None or candidate.dataset.spec != baseline.dataset.spec):
        return []
    try:
        brought = across_catalogues(candidate, baseline, load)
    except BenchError:
        if must_agree:
            return []
        raise
    if isinstance(brought, Across) and must_agree and brought.change.size:
        return [f"the tools differ: {brought.change.words} since the baseline{_MAY_CHANGE}"]
    return brought


def _too_many(queries: QueryChange | None, policy: Policy) -> list[str]:
    """Why the queries have changed too much for a verdict; empty if they have not."""
    most = policy.max_changed_queries
    if queries is None or most is None or queries.size <= most:
        return []
    return [
        f"more than {most} queries changed since the baseline (max_changed_queries in the policy): {queries.words}; "
        "bless the baseline again"
    ]


def _warnings(candidate: Candidate, changed: CatalogueChange | None, queries: QueryChange | None) -> list[str]:
    """Warnings for readers: the verdict may be about something else."""
    lost = queries is not None and queries.size > len(queries.added)
    left_out = f"not all queries of the baseline are judged: {queries.words}" if queries and lost else ""
    unreached = "" if changed is None else unreached_sentence(candidate.label, candidate.not_given, changed)
    flaky = next((mark.why for mark in candidate.marks if mark.text == FLAKY), "")
    once = f"{flaky}: one run does not decide; `bench run --repeats K` averages several" if flaky else ""
    told = [f"{mark.text}: {mark.why}" for mark in candidate.marks if mark.text in {ALL_ALIKE, NAMES_DROPPED}]
    return [sentence for sentence in (unreached, left_out, once, *told) if sentence]


def _failed(candidate: Candidate) -> list[str]:
    return [f"failed: {reason}" for reason in candidate.failures]


def side_of(candidate: Candidate) -> Side:
    """The candidate in the report."""
    return Side(label=candidate.label, result_id=candidate.result_id, method_hash=candidate.method_hash)


def baseline_side(baseline: Baseline) -> Side:
    """The baseline in the report."""
    return Side(
        label=baseline.label,
        result_id=baseline.result_id,
        method_hash=baseline.method.hash,
        blessed_by=baseline.blessed.by,
        blessed_at=baseline.blessed.at,
        reason=baseline.blessed.reason,
    )


def not_comparable(
    candidate: ScoredResult, baseline: Baseline, metrics: Sequence[str], *, across: bool = False
) -> list[str]:
    """Why two are not comparable (rule 8 of the protocol), as sentences; empty if they are.

    Args:
        candidate, baseline: the two.
        metrics: judged metrics. If other code computed one of them, its rules are not run; if all of them, nothing is.
        across: whether the content of the dataset may differ.
    """
    if differing := differences(candidate, baseline, across=across):
        return [difference.sentence("the candidate", "the baseline") for difference in differing]
    other = [_other_code(candidate, baseline, metric) for metric in metrics]
    return list(dict.fromkeys(other)) if all(other) else []


def _other_code(candidate: ScoredResult, baseline: Baseline, metric: str) -> str:
    difference = metric_difference(candidate, baseline, metric)
    if difference is None:
        return ""
    said = difference.sentence("the candidate", "the baseline")
    return f"{said}; if the baseline has the older code, bless it again from a result that was scored again"


def _other_queries(candidate: Candidate, baseline: Baseline) -> list[str]:
    ids = candidate.per_query["query_id"].to_pylist()
    if ids != baseline.query_ids:
        ours, blessed = set(ids), set(baseline.query_ids)
        return [
            f"the queries differ: {len(ours - blessed)} only in the candidate, {len(blessed - ours)} "
            "only in the baseline"
        ]
    if candidate.per_query["n_gold"].to_pylist() != baseline.n_gold:
        return ["the queries differ in their number of gold tools"]
    if candidate.units != baseline.units:
        return ["the queries are in other units of independence; bless the baseline again"]
    return []


def _notes(candidate: Candidate, baseline: Baseline, rules: list[RuleReport]) -> list[str]:
    """What does not prevent the comparison but should be known to readers."""
    notes = [f"{mark.text}: {mark.why}" for mark in candidate.dataset.marks]
    if candidate.names:
        notes.append(candidate.names)
    if candidate.dataset.template != baseline.dataset.template:
        notes.append(
            f"the text of a tool differs: {candidate.dataset.tool_text} now, {baseline.dataset.tool_text} blessed"
        )
    if candidate.depth != baseline.depth:
        notes.append(f"the depth differs: {candidate.depth} now, {baseline.depth} blessed")
    other = other_packages(candidate.packages, baseline.packages)
    if candidate.method_hash is not None and candidate.method_hash == baseline.method.hash:
        notes.append(
            _same_method(baseline.method, known=bool(candidate.packages and baseline.packages), other=bool(other))
        )
    if other:
        told = describe_packages(other, "{} {} now, {} blessed")
        notes.append(f"the packages differ: {told}; a small difference may come from there")
    levels = [rule.level for rule in rules if rule.level is not None]
    if len(levels) > 1:
        notes.append(
            f"family: {len(levels)} tests. Passing needs no correction (it holds at the largest of "
            "their levels). If every loss were exactly at its limit, the probability of at least one "
            f"false alarm would be at most {min(1.0, sum(levels)):.2f}"
        )
    return notes


def _same_method(method: MethodIdentity, *, known: bool, other: bool) -> str:
    """What it means that the candidate has the hash of the blessed method.

    Args:
        method: the method.
        known: whether the package versions of both are known.
        other: whether these differ.
    """
    if method.run_file is not None:
        # Nothing is known about the system behind a run file.
        return "the candidate is the run file that was blessed: same content"
    if any(mark.text == REMOTE for mark in method.marks):
        return "the candidate calls the blessed service: no version of it is given, so its code may have changed"
    what = "code, parameters, models and packages" if known and not other else "code, parameters and models"
    return f"the candidate is the method that was blessed: same {what}"


class _RuleRows:
    """Which queries a rule is about; the dataset is loaded for the first slice."""

    def __init__(self, baseline: Baseline, load: Loader, changed: CatalogueChange | None = None) -> None:
        self.baseline = baseline
        #: Queries that lost a tool may have left their slice with it, and would no longer count.
        self.torn = changed is not None and bool(changed.gold_removed)
        self.load = load
        self.known: dict[str, NDArray[np.object_]] = {}

    def of(self, slice_of: SliceOf | None) -> NDArray[np.bool_]:
        """(queries,) whether each belongs to the slice."""
        queries = len(self.baseline.query_ids)
        if slice_of is None:
            return np.ones(queries, dtype=np.bool_)
        if slice_of.name not in self.known:
            from bench.results.slices import NO_VALUE, slice_values  # few rules have a slice

            values = slice_values(self.load(False), slice_of.name)
            column = [values.get(query, NO_VALUE) for query in self.baseline.query_ids]
            self.known[slice_of.name] = np.array(column, dtype=object)
        mask: NDArray[np.bool_] = self.known[slice_of.name] == slice_of.value
        return mask

    def values(self, name: str) -> str:
        """The values of a slice, in words, for a message."""
        distinct = sorted(set(self.known[name]))
        return ", ".join(distinct[:20]) + (", ..." if len(distinct) > 20 else "")


def _name_of(rule: Rule) -> str:
    return rule.metric if rule.slice is None else f"{rule.metric} where {rule.slice.name} = {rule.slice.value}"


def _judge_rule(
    rule: Rule,
    policy: Policy,
    candidate: Candidate,
    baseline: Baseline,
    rows: _RuleRows,
    moves: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Rule]],
) -> list[RuleReport]:
    """A rule's margin, floor and count; newly failing or fixed queries are added to `moves`."""
    name = _name_of(rule)
    measure = parse_metric(rule.metric).measure
    higher = measure.higher_is_better
    margin, level = policy.margin_of(rule), policy.level_of(rule)
    demands: list[tuple[str, float]] = [] if margin is None else [("margin", margin)]
    demands += [] if rule.floor is None else [("floor", rule.floor)]
    demands += [] if rule.max_broken is None else [("broken", rule.max_broken)]

    def without(note: str) -> list[RuleReport]:
        return [
            RuleReport.model_validate(
                {"name": name, "kind": kind, "verdict": "not run", "threshold": limit, "note": note}
                | {"higher_is_better": higher}
            )
            for kind, limit in demands
        ]

    if rule.slice is not None and rows.torn:
        return without(
            "tools that queries need were removed, so it is not known which queries are in this slice; bless again"
        )
    now = candidate.values(rule.metric)
    stored = baseline.values.get(rule.metric)
    if now is None:
        return without(f"the candidate has no values of {rule.metric}: run it with --metric {rule.metric}")
    if stored is None:
        return without(
            f"the baseline has no values of {rule.metric}: bless it again with --metric {rule.metric}, "
            "from a result that has them"
        )
    if other := _other_code(candidate, baseline, rule.metric):
        return without(other)
    now, then = rounded_values(now), stored.array()
    mask = rows.of(rule.slice)
    if rule.slice is not None and not mask.any():
        return without(f"no query has this value; {rule.slice.name} has {rows.values(rule.slice.name)}")
    apart = int((np.isnan(now) != np.isnan(then))[mask].sum())
    if apart:
        return without(
            f"{rule.metric} covers other queries than in the baseline ({apart} of them): a method that gives sets "
            "for some queries, or a changed baseline"
        )
    taken = mask & ~np.isnan(now)
    if not taken.any():
        return without(f"{rule.metric} covers none of these queries")
    sign = 1.0 if higher else -1.0
    # In the direction in which more is better.
    gains = sign * (now[taken] - then[taken])
    units = number_units(np.array(baseline.units, dtype=np.int64)[taken])
    span = parse_metric(rule.metric).span(baseline.n_gold)
    same = _same_answers(candidate, baseline)
    common = {
        "name": name,
        "higher_is_better": higher,
        "level": level,
        "n": int(taken.sum()),
        "units": int(units.max()) + 1,
        "baseline": float(then[taken].mean()),
        "candidate": float(now[taken].mean()),
        "better": int((gains > 0).sum()),
        "worse": int((gains < 0).sum()),
        "difference": round(float(now[taken].mean() - then[taken].mean()), 12) + 0.0,
    }
    reports = []
    failing, fixed = taken & (then > 0) & (now == 0), taken & (then == 0) & (now > 0)
    if not higher:
        failing, fixed = fixed, failing
    for kind, limit in demands:
        if kind == "broken":
            count = int(failing.sum())
            read: dict[str, object] = {
                "verdict": "pass" if count <= limit else "regression",
                "level": None,
                "broken": count,
            }
        elif kind == "margin":
            gained = span.of_differences()
            (bounded,) = non_inferiority(gains[:, None], limit, level, policy.power, units=units, span=gained)
            note = _roughness(gains, units, True, gained)
            if same and not gains.any():
                # Not a sample of answers with equal scores by chance: every answer is the same.
                bounded = dataclasses.replace(bounded, lower=0.0, upper=0.0, verdict="pass", needed=None)
                note = same
            read = as_read(bounded, sign) | {"note": note}
        else:
            better = span if sign > 0 else span.negated()
            (bounded,) = at_least(
                sign * now[taken][:, None], sign * limit, level, policy.power, units=units, span=better
            )
            read = as_read(bounded, sign) | {"note": _roughness(now[taken], units, False, span)}
        reports.append(RuleReport.model_validate(common | {"kind": kind, "threshold": limit} | read))
    whole = rule.slice is None or all(other.metric != rule.metric or other.slice for other in policy.rule)
    # If another rule judges the metric on all queries, the slice adds no moved query.
    told = (margin is not None and higher) or rule.max_broken is not None
    if told and whole and (failing | fixed).any():
        ids = np.array(baseline.query_ids, dtype=object)
        moves.setdefault((tuple(ids[failing]), tuple(ids[fixed])), []).append(rule)
    return reports


def _same_answers(candidate: Candidate, baseline: Baseline) -> str:
    """Whether the candidate answers like the baseline, in words; empty if it does not.

    Equal values of one metric may be chance: in 30 queries a loss that occurs in one of fifty often does not show.
    Equal rankings are not, nor are equal values of all metrics if one is as deep as a ranking: then no gold tool has
    moved. (Other tools may swap positions with the last bits of embeddings on another processor.)
    """
    if baseline.rankings and candidate.rankings == baseline.rankings:
        return "all rankings are the baseline's"
    cutoffs = [parse_metric(name).cutoff for name in baseline.values]
    if not any(isinstance(cutoff, int) and cutoff >= DEFAULT_DEPTH for cutoff in cutoffs):
        return ""
    for name, stored in baseline.values.items():
        now = candidate.values(name)
        if now is None or not np.array_equal(rounded_values(now), stored.array(), equal_nan=True):
            return ""
    return "no gold tool has moved: every stored value is the baseline's"


def _roughness(values: NDArray[np.float64], units: NDArray[np.int64], differences: bool, span: Span) -> str:
    """A remark on a mean's bounds; empty if there are enough units with more than one value.

    Args:
        values: (queries,) the values of the mean.
        units: (queries,) their units of independence.
        differences: whether these are differences from the baseline.
        span: range of the mean; bounds from it apply if few values differ.
    """
    count = int(units.max()) + 1
    what = "queries" if count == len(values) else "groups of dependent queries"
    if count == 1:
        return (
            f"a single {'query' if len(values) == 1 else 'group of dependent queries'} gives no estimate of the spread"
        )
    if not enough_units(units):
        if count < FEWEST_UNITS:
            return f"{count} {what} are too few; at least {FEWEST_UNITS} are needed"
        worth = effective_units(units)
        return f"{count} {what} of unequal size are worth {worth:.0f} and too few; {FEWEST_UNITS} are needed"
    # Differences of equal values may differ in their last bits.
    rounded = np.round(values, DECIMALS)
    levels, counts = np.unique(rounded, return_counts=True)
    common = levels[counts.argmax()]
    other = len(np.unique(units[rounded != common]))
    if other >= FEW_DIFFERING:
        return ""
    kind = "difference" if differences else "value"
    if differences and not common:
        remark = f"only {other} {what} differ" if other else "no query differs"
    else:
        remark = f"only {other} {what} have another {kind}" if other else f"all queries have the same {kind}"
    if span.bounds_values:
        return f"{remark}: the bounds allow for values that the sample does not have"
    return f"the bounds are approximate: {remark}" if other else f"{remark}, which says nothing of the spread"


def _list_moved(
    moves: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Rule]],
    load: Loader,
    candidate: Candidate,
    baseline: Baseline,
    tools: GoldMoves,
) -> list[Moved]:
    texts = _texts(load) if moves else {}
    moved = []
    for (failing, fixed), rules in moves.items():
        metric = rules[0].metric
        now = candidate.values(metric)
        assert now is not None
        before = dict(zip(baseline.query_ids, baseline.values[metric].array().tolist(), strict=True))
        after = dict(zip(baseline.query_ids, rounded_values(now).tolist(), strict=True))
        first_failing, first_fixed = (
            [
                MovedQuery(
                    query_id=query,
                    text=texts.get(query),
                    before=before[query],
                    after=after[query],
                    tools=tools.of(query),
                )
                for query in queries[:MOST_NAMED]
            ]
            for queries in (failing, fixed)
        )
        moved.append(
            Moved(
                rules=[_name_of(rule) for rule in rules],
                n_failing=len(failing),
                n_fixed=len(fixed),
                failing=first_failing,
                fixed=first_fixed,
            )
        )
    return moved


def _texts(load: Loader) -> dict[str, str]:
    """Texts of queries, if the dataset is available."""
    try:
        dataset = load(True)
    except BenchError:
        return {}
    return {query.query_id: query.text for query in dataset.queries}

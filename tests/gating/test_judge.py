"""Verdicts: every kind of rule, what is not comparable, and what was not run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from kit.results import scored_by

from bench.base.errors import UsageError
from bench.cli.schemas import shipped_schema
from bench.gating.report import GateReport
from bench.gating.wording import text
from bench.results.manifest import DatasetIdentity, Latency, Mark, MethodIdentity, ScoringCode

Judged = Callable[..., GateReport]

RANDOM = np.random.default_rng(11)
THEN = RANDOM.choice([0.0, 0.5, 1.0], p=[0.1, 0.2, 0.7], size=269)
#: Thirty of the queries that had something have nothing now.
WORSE = THEN.copy()
WORSE[np.flatnonzero(THEN)[:30]] = 0.0
#: Half of the queries have another's value: no loss that one could show, and no proof of its absence.
NOISY = np.where(np.arange(269) % 2, np.roll(THEN, 2), THEN)

RECALL: dict[str, Any] = {"rule": [{"metric": "recall@5", "margin": 0.02}]}


@pytest.mark.parametrize(
    ("now", "outcome", "code"),
    [(THEN, "pass", 0), (WORSE, "regression", 1), (NOISY, "inconclusive", 2), (np.maximum(THEN, 0.5), "pass", 0)],
)
def test_a_candidate_passes_regresses_or_is_not_decided(
    judged: Judged, now: np.ndarray, outcome: str, code: int
) -> None:
    report = judged({"recall@5": THEN}, {"recall@5": now}, RECALL)
    assert (report.outcome, report.exit_code) == (outcome, code)
    (rule,) = report.rules
    assert rule.difference == pytest.approx(now.mean() - THEN.mean(), abs=1e-9)
    assert rule.better == (now > THEN).sum()
    assert rule.worse == (now < THEN).sum()
    assert rule.lower is not None
    assert rule.upper is not None
    assert rule.lower is not None
    assert rule.difference is not None
    assert rule.lower <= rule.difference <= rule.upper
    if outcome == "inconclusive":
        assert rule.needed is not None
        assert rule.needed > 269
    jsonschema.validate(report.model_dump(mode="json"), shipped_schema("gate-report"))


def test_the_same_inputs_give_the_same_report(judged: Judged) -> None:
    one = judged({"recall@5": THEN}, {"recall@5": NOISY}, RECALL)
    assert one == judged({"recall@5": THEN}, {"recall@5": NOISY}, RECALL)


def test_the_last_bits_of_a_value_are_no_difference(judged: Judged) -> None:
    report = judged({"recall@5": THEN}, {"recall@5": np.nextafter(THEN, 2)}, {"rule": [{"metric": "recall@5"}]} | ZERO)
    # Nor proof that the answers are the same: with other rankings no sample shows a loss of exactly nothing.
    assert report.outcome == "inconclusive"
    assert report.rules[0].worse == report.rules[0].better == 0


ZERO = {"margin": 0.0}
ALLOWED = ": the bounds allow for values that the sample does not have"


def test_where_less_is_better_a_rise_is_the_loss_and_the_floor_a_ceiling(judged: Judged) -> None:
    policy = {"rule": [{"metric": "size_diff", "margin": 0.1, "floor": 1.5}]}
    sizes = RANDOM.integers(0, 3, size=200).astype(float)
    # All but every tenth; if all rose alike, nothing would be known of the spread.
    larger = sizes + (np.arange(200) % 10 > 0)
    up = judged({"size_diff": sizes}, {"size_diff": larger}, policy)
    assert [rule.verdict for rule in up.rules] == ["regression", "regression"]
    margin = up.rules[0]
    assert (margin.difference, margin.worse) == (0.9, 180)
    assert margin.lower is not None
    assert margin.upper is not None
    assert 0.8 < margin.lower < 0.9 < margin.upper < 1
    down = judged({"size_diff": larger}, {"size_diff": sizes}, policy)
    assert [rule.verdict for rule in down.rules] == ["pass", "pass"]
    assert down.rules[0].difference == -0.9
    floor = down.rules[1]
    assert floor.lower is not None
    assert floor.upper is not None
    assert floor.lower < sizes.mean() < floor.upper < 1.5
    assert not down.moved
    # No difference has no sign.
    same = judged({"size_diff": sizes}, {"size_diff": sizes}, policy).rules[0]
    assert (str(same.difference), same.lower, same.upper) == ("0.0", None, None)


def test_a_floor_is_held_against_the_bounds_of_the_candidate_alone(judged: Judged) -> None:
    def verdict(floor: float) -> str:
        policy = {"rule": [{"metric": "recall@5", "floor": floor}]}
        (rule,) = judged({"recall@5": WORSE}, {"recall@5": THEN}, policy).rules
        return rule.verdict

    assert [verdict(floor) for floor in (0.7, round(float(THEN.mean()), 3), 0.9)] == [
        "pass",
        "inconclusive",
        "regression",
    ]


def test_queries_on_which_a_metric_is_not_taken_take_no_part(judged: Judged) -> None:
    then, now = THEN.copy(), WORSE.copy()
    then[200:], now[200:] = np.nan, np.nan
    (rule,) = judged({"recall@5": then}, {"recall@5": now}, RECALL).rules
    assert rule.n == 200


def test_choices_have_a_margin_of_their_own_and_count_queries_without_gold(judged: Judged) -> None:
    policy = {"margin": 0.01, "rule": [{"metric": "choice", "margin": 0.05}]}
    then = np.where(np.arange(300) % 3, 1.0, 0.0)
    # A hundred queries have no gold, and calling no tool is right for them.
    n_gold = [0 if i % 3 == 1 else 1 for i in range(300)]
    more = {"n_gold": n_gold, "before": {"n_gold": n_gold}}
    few, many = then.copy(), then.copy()
    few[[1, 4]], many[1:180:3] = 0.0, 0.0
    kept, lost = (judged({"choice": then}, {"choice": now}, policy, **more) for now in (few, many))
    assert (kept.outcome, kept.exit_code, kept.rules[0].n, kept.rules[0].worse) == ("pass", 0, 300, 2)
    assert (lost.outcome, lost.exit_code, lost.rules[0].n, lost.rules[0].worse) == ("regression", 1, 300, 60)


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_metric_that_is_taken_on_other_queries_than_before_was_not_run(judged: Judged, side: str) -> None:
    """Or a baseline without the queries that are lost now would let them go."""
    fewer = THEN.copy()
    fewer[np.flatnonzero(THEN)[:30]] = np.nan
    then, now = (THEN, fewer) if side == "candidate" else (fewer, WORSE)
    report = judged({"recall@5": then}, {"recall@5": now}, RECALL)
    assert (report.outcome, report.exit_code) == ("not run", 3)
    assert "covers other queries than in the baseline (30 of them)" in report.rules[0].note


def test_moved_queries_are_named_once_for_the_rules_that_see_them_and_ten_at_most(judged: Judged) -> None:
    texts = [SimpleNamespace(query_id=f"q{i:04}", text=f"text {i}") for i in range(269)]
    policy = {"margin": 0.02, "rule": [{"metric": "recall@5"}, {"metric": "ndcg@5"}]}
    requests = []

    def load(at_hand: bool) -> Any:
        requests.append(at_hand)
        return SimpleNamespace(queries=texts)

    now = WORSE.copy()
    now[np.flatnonzero(THEN == 0)[:3]] = 1.0
    report = judged({"recall@5": THEN, "ndcg@5": THEN}, {"recall@5": now, "ndcg@5": now}, policy, load=load)
    (moved,) = report.moved
    assert moved.rules == ["recall@5", "ndcg@5"]
    assert (moved.n_failing, moved.n_fixed) == (30, 3)
    assert len(moved.failing) == 10
    first = int(np.flatnonzero(THEN)[0])
    assert (moved.failing[0].query_id, moved.failing[0].text) == (f"q{first:04}", f"text {first}")
    assert requests == [True]
    # Without the dataset, ids alone.
    bare = judged({"recall@5": THEN}, {"recall@5": now}, RECALL).moved[0]
    assert bare.failing[0].text is None


# Slices -------------------------------------------------------------------------------------------------------------


def sliced(*values: str) -> Callable[[bool], Any]:
    """A dataset with one slice, `kind`, whose values alternate."""
    queries = [
        SimpleNamespace(query_id=f"q{i:04}", text="t", slices={"kind": values[i % len(values)]}, gold={"t": 1})
        for i in range(269)
    ]
    return lambda at_hand: SimpleNamespace(queries=queries, slice_names=("kind",), spec="tiny", tools=[], edges=[])


def test_a_rule_on_a_slice_sees_its_queries_alone(judged: Judged) -> None:
    now = np.where(np.arange(269) % 2, 0.0, THEN)
    rules = [{"metric": "recall@5", "margin": 0.05, "slice": {"name": "kind", "value": v}} for v in ("even", "odd")]
    report = judged({"recall@5": THEN}, {"recall@5": now}, {"rule": rules}, load=sliced("even", "odd"))
    even, odd = report.rules
    assert (even.verdict, even.n, even.name) == ("pass", 135, "recall@5 where kind = even")
    assert (odd.verdict, odd.n) == ("regression", 134)


def test_a_slice_without_queries_was_not_run_and_an_unknown_one_is_told(judged: Judged) -> None:
    rule = {"metric": "recall@5", "margin": 0.02, "slice": {"name": "kind", "value": "purple"}}
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, {"rule": [rule]}, load=sliced("even", "odd"))
    assert (report.outcome, report.exit_code) == ("not run", 3)
    assert "kind has even, odd" in report.rules[0].note
    rule["slice"] = {"name": "colour", "value": "purple"}
    with pytest.raises(UsageError, match="no slice 'colour'"):
        judged({"recall@5": THEN}, {"recall@5": THEN}, {"rule": [rule]}, load=sliced("even"))


@pytest.mark.parametrize(("count", "end"), [(20, "v19"), (21, "v19, ...")])
def test_the_values_of_a_slice_are_listed_up_to_the_twentieth(judged: Judged, count: int, end: str) -> None:
    rule = {"metric": "recall@5", "margin": 0.02, "slice": {"name": "kind", "value": "purple"}}
    values = sliced(*(f"v{i:02}" for i in range(count)))
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, {"rule": [rule]}, load=values)
    assert report.rules[0].note.endswith(f", v18, {end}")


# Not comparable, not run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"content_hash": "d" * 64}, "the content of the dataset differs"),
        ({"split": "dev"}, "the split differs: dev for the candidate"),
        ({"limit": 7}, "the limit of queries differs: 7"),
        ({"protocol": "1.0"}, "the version of the protocol differs"),
        ({"unit": ["q0000"] * 269}, "the queries are in other units of independence"),
        (
            {"scoring": ScoringCode(**scored_by("t", ["recall@5"]))},
            "the version of the scoring code of recall differs: t for the candidate",
        ),
        ({"query_ids": [f"r{i:04}" for i in range(269)]}, "269 only in the candidate, 269 only in the baseline"),
        ({"n_gold": [2] * 269}, "number of gold tools"),
    ],
)
def test_what_was_not_measured_on_the_same_is_not_compared(judged: Judged, more: dict[str, Any], said: str) -> None:
    data: dict[str, Any] = {key: more.pop(key) for key in ("content_hash", "split", "limit") if key in more}
    if data:
        same = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL)
        assert same.outcome == "pass"
        from_conftest = DatasetIdentity(
            spec="tiny", title="Tiny", content_hash="a" * 64, split="test", limit=None, queries=0, judged=0, no_gold=0,
            tools=5, history=0, template="description",
        )  # fmt: skip
        more["dataset"] = from_conftest.model_copy(update=data)
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL, **more)
    assert (report.outcome, report.exit_code, report.rules) == ("not comparable", 9, [])
    assert said in report.reasons[0]


def test_failed_queries_above_what_is_allowed_are_no_measurement(judged: Judged) -> None:
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL, n_failed=1)
    assert (report.outcome, report.exit_code) == ("not run", 3)
    assert "1 of 269 judged queries failed" in report.reasons[0]
    assert judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL | {"max_failed": 1}, n_failed=1).outcome == "pass"
    # Whatever the policy allows: where all failed, nothing was measured.
    for failed, outcome in ((268, "pass"), (269, "not run")):
        lenient = RECALL | {"max_failed": 1000}
        assert judged({"recall@5": THEN}, {"recall@5": THEN}, lenient, n_failed=failed).outcome == outcome


def test_a_metric_that_either_side_lacks_was_not_run(judged: Judged) -> None:
    for then, now in (({"recall@5": THEN}, {"ndcg@5": THEN}), ({"ndcg@5": THEN}, {"recall@5": THEN})):
        report = judged(then, now, RECALL)
        assert (report.outcome, report.exit_code) == ("not run", 3)
        assert "--metric recall@5" in report.rules[0].note


def test_a_regression_that_was_found_stands_whatever_else_could_not_be_judged(judged: Judged) -> None:
    policy = {"margin": 0.02, "rule": [{"metric": "ndcg@5"}, {"metric": "recall@5"}]}
    assert judged({"recall@5": THEN}, {"recall@5": WORSE}, policy).exit_code == 1
    assert judged({"recall@5": THEN}, {"recall@5": NOISY}, policy).exit_code == 3


def test_one_query_is_not_enough_unless_it_is_the_same(judged: Judged) -> None:
    report = judged({"recall@5": [1.0]}, {"recall@5": [0.5]}, RECALL)
    assert report.outcome == "inconclusive"
    assert "a single query" in report.rules[0].note
    assert judged({"recall@5": [1.0]}, {"recall@5": [1.0]}, RECALL).outcome == "inconclusive"
    same = judged({"recall@5": [1.0]}, {"recall@5": [1.0]}, RECALL, rankings="blessed")
    assert (same.outcome, same.rules[0].note) == ("pass", "all rankings are the baseline's")


def test_the_same_values_by_other_rankings_are_a_sample_like_any_other(judged: Judged) -> None:
    """A loss of 0.02 shows in none of 30 queries with probability 0.54: 30 equal values do not exclude it."""
    few, many = np.ones(30), np.ones(269)
    (rule,) = judged({"recall@5": few}, {"recall@5": few}, RECALL).rules
    assert (rule.verdict, rule.difference) == ("inconclusive", 0.0)
    assert rule.note == f"no query differs{ALLOWED}"
    (rule,) = judged({"recall@5": few}, {"recall@5": few}, RECALL, rankings="blessed").rules
    assert (rule.verdict, rule.lower, rule.upper) == ("pass", 0.0, 0.0)
    (rule,) = judged({"recall@5": many}, {"recall@5": many}, RECALL).rules
    assert rule.verdict == "pass"
    # Where a stored metric looks as deep as a ranking goes, no gold tool can have moved unseen.
    deep = {"recall@5": few, "map@100": np.linspace(0.5, 1, 30)}
    (rule,) = judged(deep, deep, RECALL).rules
    assert (rule.verdict, rule.note) == ("pass", "no gold tool has moved: every stored value is the baseline's")
    moved = {"recall@5": few, "map@100": np.append(np.linspace(0.5, 1, 30)[:-1], 0.99)}
    (rule,) = judged(deep, moved, RECALL).rules
    assert rule.verdict == "inconclusive"
    (rule,) = judged(deep, {"recall@5": few}, RECALL).rules
    assert rule.verdict == "inconclusive"
    # An older baseline may not know its rankings.
    (rule,) = judged({"recall@5": few}, {"recall@5": few}, RECALL, rankings="", before={"rankings": ""}).rules
    assert rule.verdict == "inconclusive"


def test_copies_of_a_query_are_no_evidence_for_or_against_a_candidate(judged: Judged) -> None:
    """30 requests in 9 wordings each; the candidate fails all wordings of three requests."""
    names = [f"q{i // 9 * 9:04}" for i in range(270)]
    dependent: dict[str, Any] = {"unit": names, "before": {"units": [i // 9 for i in range(270)]}}
    then, now = np.ones(270), np.ones(270)
    now[:27] = 0.0
    policy = {"rule": [{"metric": "recall@5", "margin": 0.02, "floor": 0.85}]}
    alone = judged({"recall@5": then}, {"recall@5": now}, policy).rules
    assert [(rule.verdict, rule.units) for rule in alone] == [("regression", 270), ("pass", 270)]
    grouped = judged({"recall@5": then}, {"recall@5": now}, policy, **dependent).rules
    assert [(rule.verdict, rule.n, rule.units) for rule in grouped] == [("inconclusive", 270, 30)] * 2
    assert [rule.difference for rule in grouped] == [rule.difference for rule in alone]
    assert grouped[0].note == f"only 3 groups of dependent queries differ{ALLOWED}"


def test_few_differing_queries_are_named_as_a_weak_ground(judged: Judged) -> None:
    now = THEN.copy()
    now[np.flatnonzero(THEN)[:2]] = 0.0
    (rule,) = judged({"recall@5": THEN}, {"recall@5": now}, RECALL).rules
    assert rule.note == f"only 2 queries differ{ALLOWED}"


def test_where_the_largest_value_is_not_known_few_differing_queries_make_bounds_approximate(judged: Judged) -> None:
    sizes = np.ones(100)
    now = sizes.copy()
    now[:2] = 2.0
    (rule,) = judged({"size_diff": sizes}, {"size_diff": now}, {"rule": [{"metric": "size_diff", "margin": 1}]}).rules
    assert rule.note == "the bounds are approximate: only 2 queries differ"


@pytest.mark.parametrize(
    ("differing", "note"),
    [(9, f"only 9 queries differ{ALLOWED}"), (10, "")],
)
def test_from_ten_differing_queries_on_the_bounds_are_not_called_rough(
    judged: Judged, differing: int, note: str
) -> None:
    now = THEN.copy()
    now[np.flatnonzero(THEN)[:differing]] = 0.0
    (rule,) = judged({"recall@5": THEN}, {"recall@5": now}, RECALL).rules
    assert rule.note == note


@pytest.mark.parametrize(
    ("now", "note"),
    [
        (np.ones(50), f"all queries have the same value{ALLOWED}"),
        (
            np.append(np.ones(46), np.zeros(4)),
            f"only 4 queries have another value{ALLOWED}",
        ),
        (
            np.append(np.ones(41), np.zeros(9)),
            f"only 9 queries have another value{ALLOWED}",
        ),
        (np.append(np.ones(40), np.zeros(10)), ""),
        (np.append(np.ones(25), np.zeros(25)), ""),
    ],
)
def test_a_floor_on_values_that_hardly_vary_says_so(judged: Judged, now: np.ndarray, note: str) -> None:
    (rule,) = judged({"recall@5": now}, {"recall@5": now}, {"rule": [{"metric": "recall@5", "floor": 0.3}]}).rules
    assert (rule.verdict, rule.note) == ("pass", note)


def test_a_difference_that_is_the_same_everywhere_says_so(judged: Judged) -> None:
    then = np.full(30, 0.72)
    (rule,) = judged({"recall@5": then}, {"recall@5": then + 0.01}, RECALL).rules
    said = f"all queries have the same difference{ALLOWED}"
    assert (rule.verdict, rule.note) == ("inconclusive", said)


def test_a_handful_of_queries_neither_keeps_nor_breaks_a_rule_unless_all_are_the_same(judged: Judged) -> None:
    policy = {"rule": [{"metric": "recall@5", "margin": 0.02, "floor": 0.99}]}
    for now, kept in ((np.ones(29), ["pass", "inconclusive"]), (np.zeros(29), ["inconclusive", "inconclusive"])):
        report = judged(
            {"recall@5": np.ones(29)}, {"recall@5": now}, policy, rankings="blessed" if now.any() else "other"
        )
        assert [rule.verdict for rule in report.rules] == kept
        assert report.rules[1].note == "29 queries are too few; at least 30 are needed"
        assert "enclose" not in text(report)
    result = judged({"recall@5": np.ones(30)}, {"recall@5": np.zeros(30)}, policy)
    assert [rule.verdict for rule in result.rules] == ["regression", "regression"]


# Budgets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "p95", "verdict"),
    [
        ({"p95_ratio": 2.0}, 0.04, "pass"),
        ({"p95_ratio": 2.0}, 0.041, "regression"),
        ({"p95_seconds": 0.03}, 0.03, "pass"),
        ({"p95_seconds": 0.03}, 0.031, "regression"),
    ],
)
def test_latency_is_held_against_the_baseline_s_or_a_budget(
    judged: Judged, budget: dict[str, float], p95: float, verdict: str
) -> None:
    latency = Latency(p50=0.01, p95=p95, queries=50, cached=False)
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, {"latency": budget}, latency=latency)
    assert report.rules[0].verdict == verdict


MACHINE: dict[str, str | int] = {"processor": "X", "architecture": "x86_64", "cores": 2}


def test_a_ratio_of_times_on_two_machines_says_nothing(judged: Judged) -> None:
    policy = {"latency": {"p95_ratio": 2.0}}
    other = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, hardware=MACHINE | {"processor": "Y"})
    assert (other.outcome, other.rules[0].note) == ("inconclusive", "hardware differs from the baseline")
    cached = Latency(p50=0.01, p95=0.01, queries=50, cached=True)
    assert judged({"recall@5": THEN}, {"recall@5": THEN}, policy, latency=cached).outcome == "inconclusive"


@pytest.mark.parametrize("missing", ["processor", "architecture", "cores"])
def test_machines_of_which_something_is_not_known_are_not_taken_for_alike(judged: Judged, missing: str) -> None:
    policy = {"latency": {"p95_ratio": 2.0}}
    unknown = {key: value for key, value in MACHINE.items() if key != missing}
    assert judged({"recall@5": THEN}, {"recall@5": THEN}, policy, hardware=MACHINE).outcome == "pass"
    both = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, hardware=unknown, before={"hardware": unknown})
    assert (both.outcome, both.rules[0].note) == ("inconclusive", "hardware differs from the baseline")
    faster = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, hardware=MACHINE | {"accelerator": "G"})
    assert faster.outcome == "inconclusive"


def test_a_time_without_encoding_keeps_no_budget_and_may_break_one(judged: Judged) -> None:
    def verdict(p95: float) -> str:
        cached = Latency(p50=0.01, p95=p95, queries=50, cached=True)
        policy = {"latency": {"p95_seconds": 0.03}}
        (rule,) = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, latency=cached).rules
        assert rule.note == "embeddings came from the cache: encoding time is excluded"
        return rule.verdict

    assert [verdict(0.02), verdict(0.04)] == ["inconclusive", "regression"]


@pytest.mark.parametrize("p95", [0.001, 9.0])
def test_a_few_timed_queries_say_nothing_of_the_slowest_in_twenty(judged: Judged, p95: float) -> None:
    policy = {"latency": {"p95_ratio": 2.0, "p95_seconds": 0.03}}
    few, enough = (Latency(p50=0.001, p95=p95, queries=queries, cached=False) for queries in (19, 20))
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, latency=few)
    assert [rule.verdict for rule in report.rules] == ["inconclusive", "inconclusive"]
    assert report.rules[0].note == "only 19 queries were timed; at least 20 are needed"
    ratio, budget = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, before={"latency": few}).rules
    assert (ratio.verdict, budget.verdict) == ("inconclusive", "pass")
    decided = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, latency=enough)
    assert {rule.verdict for rule in decided.rules} == {"pass" if p95 < 1 else "regression"}


@pytest.mark.parametrize("policy", [{"latency": {"p95_ratio": 2.0}}, {"latency": {"p95_seconds": 2.0}}])
def test_a_latency_that_nobody_measured_was_not_run(judged: Judged, policy: dict[str, Any]) -> None:
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, latency=None)
    assert (report.outcome, report.exit_code) == ("not run", 3)


def test_tokens_are_held_against_a_budget(judged: Judged) -> None:
    def verdict(limit: float, key: str = "top_5") -> str:
        report = judged({"recall@5": THEN}, {"recall@5": THEN}, {"tokens": {key: limit}})
        return report.rules[0].verdict

    assert [verdict(100), verdict(99), verdict(5, "recommended")] == ["pass", "regression", "not run"]


@pytest.mark.parametrize(("scoring", "then", "difference"), [("s", 100.0, 0.0), ("t", None, None)])
def test_tokens_are_compared_only_with_those_of_the_same_code(
    judged: Judged, scoring: str, then: float | None, difference: float | None
) -> None:
    same = scored_by("s", ["recall@5"])
    code = ScoringCode(**same | {"tokens": scoring})
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, {"tokens": {"top_5": 100}}, scoring=code)
    (rule,) = [rule for rule in report.rules if rule.name == "tokens top_5"]
    assert (rule.verdict, rule.candidate, rule.baseline, rule.difference) == ("pass", 100.0, then, difference)
    assert ("the version of the code that counts tokens differs" in rule.note) == (scoring == "t")


def test_the_family_and_what_differs_without_forbidding_the_comparison_are_noted(judged: Judged) -> None:
    policy = {"margin": 0.02, "rule": [{"metric": "recall@5"}, {"metric": "recall@5", "slice": KIND}]}
    load = sliced("even", "odd")
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, policy, load=load, depth=10)
    assert any(note.startswith("family: 2 tests") and "at most 0.10" in note for note in report.notes)
    assert "the depth differs: 10 now, 100 blessed" in report.notes


KIND = {"name": "kind", "value": "odd"}


def test_a_report_says_where_the_queries_come_from(judged: Judged) -> None:
    from bench.gating.forms import junit, markdown
    from bench.gating.wording import text

    data = DatasetIdentity(
        spec="tiny", title="Tiny", content_hash="a" * 64, split="test", limit=None, queries=269, judged=269, no_gold=0,
        tools=5, history=0, template="description", unit="none", origins={"model some-model": 200, "traces": 69},
    )  # fmt: skip
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL, dataset=data)
    assert report.outcome == "pass"
    assert "synthetic queries: 200 of 269 queries are written by some-model" in report.notes
    for said in (text(report), markdown(report), junit(report)):
        assert "synthetic queries: 200 of 269 queries are written by some-model" in said
        assert "from traces: 69 of 269 queries are taken from logs: called is not the same as right" in said
    plain = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL)
    assert "queries are" not in text(plain)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "same code, parameters and models"),
        ({"run_file": "answers.jsonl"}, "same content"),
        (
            {"marks": [Mark.from_method("remote", "asks elsewhere")]},
            "no version of it is given, so its code may have changed",
        ),
    ],
    ids=["a method", "a run file", "a service without a version"],
)
def test_what_equal_hashes_say_is_said_and_no_more(judged: Judged, more: dict[str, Any], said: str) -> None:
    method = MethodIdentity(
        spec="m", full_spec="m()", hash="d" * 64, revisions={}, code="", oracle=False, needs_llm=False, **more
    )
    report = judged({"recall@5": THEN}, {"recall@5": THEN}, RECALL, before={"method": method}, method_hash="d" * 64)
    (note,) = [note for note in report.notes if note.startswith("the candidate")]
    assert said in note


def test_other_versions_of_packages_are_told_and_are_not_the_same_environment(judged: Judged) -> None:
    then = {"bench": "1", "python": "3.11.7", "numpy": "2.4.6", "torch": "2.13.0"}
    values = {"recall@5": THEN}

    def notes(now: dict[str, str]) -> str:
        more: dict[str, Any] = {"before": {"packages": then}, "method_hash": "b" * 64, "packages": now}
        return "\n".join(judged(values, values, RECALL, **more).notes)

    assert "same code, parameters, models and packages" in notes(then | {"bench": "2"})
    assert "the packages differ" not in notes(then | {"bench": "2"})
    other = notes(then | {"numpy": "2.5.0"})
    assert "same code, parameters and models\n" in other
    assert "the packages differ: numpy 2.5.0 now, 2.4.6 blessed; a small difference may come from there" in other
    # Whoever gives a result away chooses what its manifest says.
    flood = notes(then | dict.fromkeys(then, "9" * 100000 + "\x1b[2J"))
    assert len(flood) < 1000
    assert "\x1b" not in flood
    # A candidate that does not use a package has no version of it.
    assert "the packages differ" not in notes({"python": "3.11.8", "numpy": "2.4.6"})

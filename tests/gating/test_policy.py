"""Policies: what they may say, and what is told to who says something else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.base.errors import UsageError
from bench.gating.policy import Policy, read_policy

Write = Callable[[str], Path]

FULL = """
level = 0.1
power = 0.9
margin = 0.02
max_failed = 3

[[rule]]
metric = "recall@5"
margin = 0.03
floor = 0.6
level = 0.01

[[rule]]
metric = "recall@5"
slice = { name = "gold", value = "2" }

[latency]
p95_ratio = 2
p95_seconds = 0.05

[tokens]
top_5 = 400
"""


def test_a_full_policy_is_read(policy_file: Write) -> None:
    policy = read_policy(policy_file(FULL))
    first, second = policy.rule
    assert (policy.margin_of(first), policy.level_of(first)) == (0.03, 0.01)
    assert (policy.margin_of(second), policy.level_of(second)) == (0.02, 0.1)
    assert second.slice is not None
    assert (second.slice.name, second.slice.value) == ("gold", "2")
    assert (policy.latency.p95_ratio, policy.tokens.top_5, policy.max_failed) == (2.0, 400.0, 3)


def test_a_metric_is_known_by_its_canonical_name(policy_file: Write) -> None:
    (rule,) = read_policy(policy_file('[[rule]]\nmetric = " map "\nmargin = 0.01')).rule
    assert rule.metric == "map@100"


def test_a_difference_of_sizes_is_no_share(policy_file: Write) -> None:
    (rule,) = read_policy(policy_file('[[rule]]\nmetric = "size_diff"\nmargin = 2\nfloor = 3')).rule
    assert (rule.margin, rule.floor) == (2.0, 3.0)


def test_bits_are_no_share_and_have_no_slices(policy_file: Write) -> None:
    text = '[[rule]]\nmetric = "bits_over_random@5"\nmargin = 1.5\nfloor = 3\n'
    (rule,) = read_policy(policy_file(text)).rule
    assert (rule.margin, rule.floor) == (1.5, 3.0)
    with pytest.raises(UsageError, match="compares queries of all slices"):
        read_policy(policy_file(text + 'slice = {name = "gold", value = "1"}'))


RULE = '[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no rule"),
        ("margin = 0.02", "it has no rule"),
        ("[latency]\n[tokens]", "it has no rule"),
        ("margn = 0.02\n" + RULE, "no key 'margn' (did you mean 'margin'?)"),
        (RULE + "florr = 0.5", "no key 'rule[1].florr'"),
        (RULE + "[latency]\np95_sconds = 1", "did you mean 'p95_seconds'?"),
        (RULE + '[[rule]]\nmetric = "ndcg@5"\nmargin = 0.1\nslice = {name = "gold"}', "rule[2].slice.value: field"),
        ('[[rule]]\nmetric = "recal@5"\nmargin = 0.02', "rule[1].metric: there is no metric 'recal'"),
        ('[[rule]]\nmetric = "recall@5"', "no margin, no floor and no max_broken"),
        (RULE + RULE, "two rules for recall@5"),
        (RULE.replace("0.02", "-0.02"), "rule[1].margin"),
        (RULE.replace("0.02", "true"), "rule[1].margin"),
        (RULE.replace("0.02", '"0.02"'), "rule[1].margin"),
        (RULE.replace("0.02", "nan"), "rule[1].margin"),
        (RULE.replace("0.02", "inf"), "rule[1].margin"),
        (RULE.replace("0.02", "2"), "recall@5 has the margin 2: margins are proportions: 0.02 is two points"),
        ("margin = 1\n" + RULE.replace("margin = 0.02", ""), "margins are proportions"),
        (RULE + "floor = 60", "recall@5 has the floor 60"),
        (RULE + "floor = 0", "recall@5 has the floor 0,"),
        ("level = 0.5\n" + RULE, "level"),
        ("power = 1\n" + RULE, "power"),
        ("max_failed = -1\n" + RULE, "max_failed"),
        ('catalogue = "may chnge"\n' + RULE, "catalogue"),
        (RULE + "max_broken = -1", "rule[1].max_broken"),
        ('[[rule]]\nmetric = "auroc"\nmax_broken = 0', "no value for a single query"),
        ("rule = 3", "rule"),
        ("level = ", "is not TOML"),
    ],
)
def test_what_a_policy_may_not_say_is_told_with_its_place(policy_file: Write, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_policy(policy_file(text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the policy"):
        read_policy(tmp_path / "gate.toml")
    with pytest.raises(UsageError, match="cannot read the policy"):
        read_policy(tmp_path)
    (tmp_path / "gate.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_policy(tmp_path / "gate.toml")


@given(st.text(max_size=60))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_policy_or_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    # Any other exception fails the test; few texts are policies.
    with contextlib.suppress(UsageError):
        assert isinstance(read_policy(path), Policy)

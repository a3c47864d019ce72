"""Rules without an interval: latency and token budgets. `judge` calls it."""

from __future__ import annotations

from typing import Literal

from bench.base.errors import install_command
from bench.gating.baseline import Baseline
from bench.gating.candidate import Candidate
from bench.gating.policy import Policy
from bench.gating.report import RuleReport, RuleVerdict
from bench.results.comparability import token_difference
from bench.results.manifest import Latency
from bench.show.numbers import several

#: Fields that make two machines equally fast, as far as a manifest knows. Every manifest has these...
_SPEED = ("processor", "architecture", "cores")
#: ...and this one if there is one.
_ACCELERATOR = "accelerator"
#: With fewer timed queries, the 95th percentile is little more than the slowest of them.
FEWEST_TIMED = 20
_NOT_COUNTED = (
    f"the candidate's tokens were not counted: the tokenizer was not installed ({install_command('models')} brings it)"
)


def latency_rules(policy: Policy, candidate: Candidate, baseline: Baseline) -> list[RuleReport]:
    """p95 latency of a single query: relative to the baseline's, and absolute.

    A ratio of times from two machines, or with cached embeddings on one side only, is inconclusive. So is any time from
    fewer than `FEWEST_TIMED` queries, and a time within its budget that excludes encoding; a time beyond its budget is
    too long even so.
    """
    reports = []
    now, then = candidate.latency, baseline.latency
    p95, p95_then = (None if taken is None else taken.p95 for taken in (now, then))
    if policy.latency.p95_ratio is not None:
        limit, note = policy.latency.p95_ratio, ""
        verdict: RuleVerdict = "not run"
        if now is None or then is None:
            note = f"the {'candidate' if now is None else 'baseline'} has no latency measurement"
        elif few := _few_timed(now, then):
            verdict, note = "inconclusive", few
        elif not _as_fast(candidate.hardware, baseline.hardware):
            verdict, note = "inconclusive", "hardware differs from the baseline"
        elif now.cached != then.cached:
            verdict, note = "inconclusive", "embeddings came from the cache on one side only"
        else:
            # A clock cannot distinguish a microsecond from nothing.
            verdict = _within(now.p95 / max(then.p95, 1e-6), limit)
            note = "embeddings came from the cache: encoding time is excluded on both sides" if now.cached else ""
        reports.append(_rule("latency p95, relative to the baseline", "ratio", verdict, limit, p95, p95_then, note))
    if policy.latency.p95_seconds is not None:
        limit = policy.latency.p95_seconds
        note = "the candidate has no latency measurement" if now is None else ""
        verdict = _within(p95, limit)
        if now is not None and (few := _few_timed(now)):
            verdict, note = "inconclusive", few
        elif now is not None and now.cached:
            note = "embeddings came from the cache: encoding time is excluded"
            verdict = "inconclusive" if verdict == "pass" else verdict
        reports.append(_rule("latency p95, seconds", "budget", verdict, limit, p95, p95_then, note))
    return reports


def token_rules(policy: Policy, candidate: Candidate, baseline: Baseline) -> list[RuleReport]:
    """Mean tokens of the tool text that a query puts before the agent, against their budgets."""
    reports = []
    for key, limit in policy.tokens.model_dump().items():
        if limit is None:
            continue
        now, then = candidate.tokens.get(key), baseline.tokens.get(key)
        why = "the candidate recommends no sets" if candidate.tokens else _NOT_COUNTED
        note = why if now is None else ""
        if other := token_difference(candidate, baseline):
            # The budget still applies; only the baseline's count is not comparable.
            then, note = None, note or other.sentence("the candidate", "the baseline")
        reports.append(_rule(f"tokens {key}", "budget", _within(now, limit), limit, now, then, note))
    return reports


def _few_timed(*sides: Latency) -> str:
    """What is wrong with times of too few queries; empty if there are enough."""
    fewest = min(side.queries for side in sides)
    timed = several(fewest, "query was timed", "queries were timed")
    return "" if fewest >= FEWEST_TIMED else f"only {timed}; at least {FEWEST_TIMED} are needed"


def _as_fast(one: dict[str, str | int], other: dict[str, str | int]) -> bool:
    """Whether two machines are known to be alike: unknown fields may differ."""
    known = all(one.get(key) and one.get(key) == other.get(key) for key in _SPEED)
    return known and one.get(_ACCELERATOR) == other.get(_ACCELERATOR)


def _within(value: float | None, limit: float) -> RuleVerdict:
    if value is None:
        return "not run"
    return "pass" if value <= limit else "regression"


def _rule(
    name: str,
    kind: Literal["ratio", "budget"],
    verdict: RuleVerdict,
    limit: float,
    now: float | None,
    then: float | None,
    note: str,
) -> RuleReport:
    return RuleReport(
        name=name,
        kind=kind,
        verdict=verdict,
        threshold=limit,
        higher_is_better=False,
        baseline=then,
        candidate=now,
        difference=None if now is None or then is None else round(now - then, 6),
        note=note,
    )

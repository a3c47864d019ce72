"""Rules without an interval: seconds and tokens against what the policy allows."""

from __future__ import annotations

from typing import Literal

from bench.gate.baseline import Baseline
from bench.gate.candidate import Candidate
from bench.gate.policy import Policy
from bench.gate.report import RuleReport, Verdict
from bench.run.manifest import Latency

#: What makes two machines as fast as one another, as far as a manifest knows.
_SPEED = ("processor", "architecture", "cores", "accelerator")


def latency_rules(policy: Policy, candidate: Candidate, baseline: Baseline) -> list[RuleReport]:
    """p95 of a single query: against the baseline's, and in itself.

    A ratio of times that were taken on two machines, or with the embeddings from the cache on one side alone, says
    nothing, and is inconclusive.
    """
    found = []
    now, then = candidate.latency, baseline.latency
    if policy.latency.p95_ratio is not None:
        limit, note = policy.latency.p95_ratio, ""
        verdict: Verdict = "not run"
        if now is None or then is None:
            note = f"the {'candidate' if now is None else 'baseline'} has no latency: none was measured"
        elif any(candidate.hardware.get(key) != baseline.hardware.get(key) for key in _SPEED):
            verdict, note = "inconclusive", "measured on other hardware than the baseline"
        elif now.cached != then.cached:
            verdict, note = "inconclusive", "embeddings came from the cache on one side, and not on the other"
        else:
            # A clock cannot tell a microsecond from nothing.
            verdict = _within(now.p95 / max(then.p95, 1e-6), limit)
        found.append(_rule("latency p95, times the baseline's", "ratio", verdict, limit, now, then, note))
    if policy.latency.p95_seconds is not None:
        limit = policy.latency.p95_seconds
        note = "the candidate has no latency: none was measured" if now is None else ""
        if now is not None and now.cached:
            note = "embeddings came from the cache: the time to encode is not in it"
        verdict = _within(None if now is None else now.p95, limit)
        found.append(_rule("latency p95, seconds", "budget", verdict, limit, now, then, note))
    return found


def token_rules(policy: Policy, candidate: Candidate, baseline: Baseline) -> list[RuleReport]:
    """Mean tokens of the tool text that a query puts before the agent, against their budgets."""
    found = []
    for key, limit in policy.tokens.model_dump().items():
        if limit is None:
            continue
        now, then = candidate.tokens.get(key), baseline.tokens.get(key)
        found.append(
            RuleReport(
                name=f"tokens {key}",
                kind="budget",
                verdict=_within(now, limit),
                threshold=limit,
                higher_is_better=False,
                baseline=then,
                candidate=now,
                difference=None if now is None or then is None else now - then,
                note="the candidate recommends no sets" if now is None else "",
            )
        )
    return found


def _within(value: float | None, limit: float) -> Verdict:
    if value is None:
        return "not run"
    return "pass" if value <= limit else "regression"


def _rule(
    name: str,
    kind: Literal["ratio", "budget"],
    verdict: Verdict,
    limit: float,
    now: Latency | None,
    then: Latency | None,
    note: str,
) -> RuleReport:
    candidate, baseline = (None if taken is None else taken.p95 for taken in (now, then))
    return RuleReport(
        name=name,
        kind=kind,
        verdict=verdict,
        threshold=limit,
        higher_is_better=False,
        baseline=baseline,
        candidate=candidate,
        difference=None if candidate is None or baseline is None else round(candidate - baseline, 6),
        note=note,
    )

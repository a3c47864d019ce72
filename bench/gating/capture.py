"""Rules about attackers: the share of queries with one among the first tools. `judge` calls it."""

from __future__ import annotations

import numpy as np

from bench.base.errors import BenchError
from bench.base.plugins import function
from bench.gating.candidate import Candidate
from bench.gating.policy import Policy
from bench.gating.report import RuleReport, as_read
from bench.results.units import number_units
from bench.stats.bounded import SHARE
from bench.stats.noninferiority import at_least, enough_units


def capture_rules(policy: Policy, candidate: Candidate) -> list[RuleReport]:
    """Is the share of captured queries at most `max_capture`? A rule for each built-in attack.

    A rule passes if the upper one-sided bound does not exceed the limit, and is a regression if the lower one does.
    """
    limit = policy.max_capture
    if limit is None:
        return []
    captured, note = dict[str, list[str] | None](), ""
    try:
        if candidate.folder is not None:
            captured = function("captured-queries", "attacks cannot be judged")(candidate.folder)
    except BenchError as error:
        note = str(error).rstrip(".")
    fixed = {"kind": "floor", "threshold": limit, "higher_is_better": False}
    if not captured:
        note = note or "no attack was measured on this result; `bench stress METHOD -d DATASET -p attack` does it"
        return [RuleReport.model_validate(fixed | {"name": "capture", "verdict": "not run", "note": note})]
    queries, units = candidate.per_query["query_id"].to_pylist(), number_units(np.array(candidate.units))
    few = "" if enough_units(units) else "there are too few groups of dependent queries for a verdict"
    reports = []
    for name, ids in captured.items():
        if ids is None:
            said = "it was not measured; `bench stress METHOD -d DATASET -p attack` does it"
            reports.append(RuleReport.model_validate(fixed | {"name": name, "verdict": "not run", "note": said}))
            continue
        among = np.isin(queries, ids).astype(np.float64)
        (bounded,) = at_least(-among[:, None], -limit, policy.level, policy.power, units=units, span=SHARE.negated())
        measured = {"n": len(queries), "units": bounded.units, "level": policy.level, "note": few}
        reports.append(
            RuleReport.model_validate(
                fixed | measured | {"name": name, "candidate": float(among.mean())} | as_read(bounded, -1.0)
            )
        )
    return reports

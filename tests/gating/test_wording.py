"""What the gate says of a rule."""

from __future__ import annotations

import pytest

from bench.gating.report import RuleReport
from bench.gating.wording import explanation


@pytest.mark.parametrize(
    ("kind", "higher", "threshold", "bounds", "inside"),
    [
        ("margin", True, 0.02, (-0.03, 0.01), True),
        ("margin", True, 0.02, (-0.01, 0.03), False),
        ("margin", False, 0.02, (-0.01, 0.03), True),
        ("margin", False, 0.02, (-0.03, 0.01), False),
        ("floor", True, 0.8, (0.7, 0.9), True),
        ("floor", True, 0.8, (0.82, 0.9), False),
    ],
)
def test_bounds_are_said_to_contain_the_limit_only_where_they_do(
    kind: str, higher: bool, threshold: float, bounds: tuple[float, float], inside: bool
) -> None:
    # Fifty-seven queries in groups that are too few to decide, whatever their bounds.
    rule = RuleReport.model_validate(
        {
            "name": "recall@5",
            "kind": kind,
            "verdict": "inconclusive",
            "threshold": threshold,
            "higher_is_better": higher,
            "n": 57,
            "units": 34,
            "lower": bounds[0],
            "upper": bounds[1],
            "needed": 45,
            "better": 3,
            "worse": 4,
        }
    )
    assert ("the bounds contain the limit" in explanation(rule)) == inside

"""What an explanation says must be what the ranking has."""

from __future__ import annotations

import pytest

from bench.interface.explanation import Position, agrees


@pytest.mark.parametrize(
    ("stored", "told", "same"),
    [
        (1e6, 1e6 + 5, True),  # of a large score, within 1e-5 of its size
        (1e6, 1e6 + 20, False),
        (1e-3, 1e-3 + 5e-6, True),  # of a small one, within 1e-5
        (1e-3, 1e-3 + 2e-5, False),
        (-2.0, 2.0, False),
        (None, 2.0, True),
        (2.0, None, True),
    ],
)
def test_scores_agree_up_to_rounding(stored: float | None, told: float | None, same: bool) -> None:
    assert agrees(Position(1, stored), told) == same

"""Tests of the difference between systems, in a tenth of their time."""

from __future__ import annotations

from types import FunctionType

import pytest

from bench.stats import differences, randomisation, ranking
from bench.stats.randomisation import FLIPS


def draw_fewer(patch: pytest.MonkeyPatch) -> int:
    """Draw a tenth of the random sign vectors, in all tests and intervals alike: their number, which is returned.

    What is said of the pairs still has to agree with itself; the numbers are not those that users see.
    """
    fewer = FLIPS // 10
    for module in (randomisation, differences, ranking):
        for function in vars(module).values():
            if isinstance(function, FunctionType) and FLIPS in (defaults := function.__defaults__ or ()):
                patch.setattr(function, "__defaults__", tuple(fewer if value == FLIPS else value for value in defaults))
    return fewer

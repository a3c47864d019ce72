"""What a comparison could have seen: the minimum detectable effect."""

from __future__ import annotations

import math
from statistics import NormalDist


def minimum_detectable_effect(sd: float, queries: int, level: float = 0.05, power: float = 0.8) -> float:
    """The mean difference that a two-sided test of this size finds with probability `power`.

    (z_{1 - level/2} + z_{power}) · sd / √n, by the normal approximation of a paired test (Cohen 1988, chapter 2).

    Args:
        sd: standard deviation of the differences.
        queries: number of differences, at least 1.
        level: size of the test.
        power: probability of finding an effect of the returned size.
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * sd / math.sqrt(queries)

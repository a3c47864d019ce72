"""Percentiles of times. Runs and gates report them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: With fewer times, the 99th percentile is about the slowest of them, which says little about future times.
FEWEST_FOR_P99 = 100


def percentiles(seconds: Sequence[float]) -> tuple[float, float, float | None]:
    """p50, p95 and p99 by linear interpolation between the sorted times; p99 is None with fewer than a hundred.

    Args:
        seconds: the times, at least one.
    """
    p50, p95, p99 = (float(value) for value in np.percentile(seconds, [50, 95, 99]))
    return p50, p95, p99 if len(seconds) >= FEWEST_FOR_P99 else None

"""Values as whole numbers, whose sums are exact in any order. Tests and intervals use them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def as_integers(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values as whole multiples of a small unit, so that any sum over all queries is exact in float64.

    Sums of whole numbers below 2^53 are exact in any order, so the same inputs give the same intervals to the last bit,
    whatever the BLAS, the number of threads and the number of columns.
    """
    largest = np.maximum(1.0, np.abs(values).max(axis=0, initial=0.0))
    _, exponents = np.frexp(largest)
    unit = np.ldexp(1.0, exponents + math.ceil(math.log2(len(values))) - 52)
    return np.rint(values / unit), unit

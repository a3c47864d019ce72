"""Multiple-testing correction: Holm and Benjamini-Hochberg."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Significance level; with several comparisons it applies to corrected p-values.
LEVEL = 0.05


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values of a family that control its family-wise error rate (Holm 1979).

    The i-th smallest of m p-values (from 0) is multiplied by m - i; an adjusted value is never below that of a smaller
    p-value, and never above 1. It makes no assumption on the dependence of the tests.

    Args:
        p: (tests,) p-values between 0 and 1.

    Returns:
        (tests,) in the order given.

    Raises:
        ValueError: a value is no number between 0 and 1.
    """
    values = _check_p(p)
    order = np.argsort(values, kind="stable")
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values of a family that control its false discovery rate (Benjamini and Hochberg 1995).

    Among the tests whose adjusted value is at most q, the expected share of false discoveries is at most q. This is
    weaker than Holm's guarantee of none; it holds if tests are independent or positively dependent, as metrics on the
    same queries are. Args, returns and errors as in `holm`.
    """
    values = _check_p(p)
    order = np.argsort(-values, kind="stable")
    ranks = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(values[order] * (len(values) / ranks)), 1.0)
    return adjusted


def _check_p(p: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values must be a list of numbers between 0 and 1")
    return values

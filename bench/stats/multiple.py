"""Multiple-testing correction: Holm and Benjamini-Hochberg."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: p-values below it tell two apart; where several are compared, corrected ones.
LEVEL = 0.05


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values of a family, which control its family-wise error rate (Holm 1979).

    The i-th smallest of m p-values (from 0) is multiplied by m - i; an adjusted value is never below that of a smaller
    p-value, and never above 1. It makes no assumption on how the tests depend on one another.

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
    """Adjusted p-values of a family, which control its false discovery rate (Benjamini and Hochberg 1995).

    Of the tests whose adjusted value is at most q, no more than the share q is expected to have found something in
    nothing. Weaker than Holm's promise, which is that there is none; it holds where tests are independent or
    positively dependent, as metrics on the same queries are. Args, returns and errors as of `holm`.
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

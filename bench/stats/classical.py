"""Classical paired tests (t-test, Wilcoxon) from scipy, defined for every input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.stats.exact import as_integers
from bench.stats.units import dependence, robust_mean, unit_sums

#: Differences whose sign vectors are all enumerated, as by scipy.
_FEW = 13


def paired_t(differences: NDArray[np.float64], units: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Two-sided p-values of the paired t test (Student 1908) of a zero mean, by `scipy.stats.ttest_1samp`.

    With units, t is the mean divided by its CR2 standard error, with Satterthwaite's degrees of freedom
    (`bench.stats.units.robust_mean`), which is Student's test where each unit is one query.

    Args:
        differences: (queries, columns) first - second, finite. Those that are zero but for rounding (far below 1e-12)
            are zero, and those that lie within 1e-12 of the column's largest are the same.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.

    Returns:
        (columns,) p-values, never NaN: 1 for identical systems and for a single unit, which say nothing; 0 where all
        differences, or the means of all units, are the same and not zero, since t is then infinite. That is what the
        formula says, not a proof: of two queries, the randomisation test makes 0.5.

    Raises:
        ValueError: there are no queries, a value is not finite, or units are not numbered from 0 without a gap, or not
            one for each query.
    """
    from scipy.stats import ttest_1samp

    values = _checked(differences)
    codes = dependence(units, len(values))
    if codes is not None:
        return _robust_t(values, codes)
    whole, _ = as_integers(values)
    p = np.ones(values.shape[1])
    if len(values) < 2:
        return p
    constant = np.ptp(values, axis=0) <= 1e-12 * np.abs(values).max(axis=0)
    p[constant & whole.any(axis=0)] = 0.0
    if not constant.all():
        p[~constant] = ttest_1samp(values[:, ~constant], 0.0, axis=0).pvalue
    # Noise around zero varies, but is zero.
    p[~whole.any(axis=0)] = 1.0
    return p


def wilcoxon(differences: NDArray[np.float64], units: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Two-sided p-values of the signed-rank test (Wilcoxon 1945), by `scipy.stats.wilcoxon`.

    Its hypothesis is that differences are symmetric about zero, not that their mean is zero. Queries without a
    difference are left out. Where at most 50 differences remain and no two are of the same size it is exact, and where
    at most 13 remain; otherwise scipy approximates by the normal distribution. Of at most 13 differences the signs are
    enumerated here: scipy does the same, 2,000 times more slowly.

    With units, the test is that of the mean differences of units. Each unit counts the same, whatever its number of
    queries, so the hypothesis is about units: the mean over queries can differ from zero where that over units is zero.

    Args:
        differences: (queries, columns) first - second, finite. Sizes that differ by less than 1e-12 of the column's
            largest share their rank.
        units: (queries,) the unit of independence of each query, numbered from 0 without a gap. None for independent
            queries.

    Returns:
        (columns,) p-values, never NaN: 1 for identical systems and where a single query or unit differs.

    Raises:
        ValueError: there are no queries, a value is not finite, or units are not numbered from 0 without a gap, or not
            one for each query.
    """
    from scipy.stats import wilcoxon as signed_rank

    values = _checked(differences)
    codes = dependence(units, len(values))
    if codes is not None:
        sums, sizes = unit_sums(values, codes)
        # A unit whose differences cancel but for rounding has none.
        sums[np.abs(sums) <= 1e-12 * np.abs(values).max(axis=0)] = 0.0
        values = sums / sizes[:, None]
    whole, _ = as_integers(values)
    p = np.ones(values.shape[1])
    for column in range(values.shape[1]):
        found = values[whole[:, column] != 0, column]
        rounded = np.round(found / np.abs(found).max(initial=0), 12)
        rounded = rounded[rounded != 0]
        if len(rounded) >= 2:
            p[column] = _enumerated(rounded) if len(rounded) <= _FEW else signed_rank(rounded).pvalue
    return p


def _enumerated(differences: NDArray[np.float64]) -> float:
    """The p-value of the signed-rank test over all sign vectors of a few differences; ties share their rank."""
    from scipy.stats import rankdata

    # Shared ranks are halves: twice the rank is a whole number, and sums are exact.
    doubled = np.rint(2 * rankdata(np.abs(differences))).astype(np.int64)
    vectors = (np.arange(1 << len(doubled))[:, None] >> np.arange(len(doubled))) & 1
    # The rank sum of one sign less that of the other.
    found = 2 * int(doubled[differences > 0].sum()) - int(doubled.sum())
    return float(np.mean(np.abs(2 * (vectors @ doubled) - doubled.sum()) >= abs(found)))


def _robust_t(values: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(columns,) p-values of the t test with a standard error that holds for dependent queries."""
    from scipy.stats import t

    p = np.ones(values.shape[1])
    if not codes.any():
        return p
    means, errors, freedom = robust_mean(values, codes)
    # Noise around zero, or differences that cancel but for rounding, have a mean of zero.
    some = (np.abs(means) > 1e-12 * np.abs(values).max(axis=0)) & as_integers(values)[0].any(axis=0)
    p[some & (errors == 0)] = 0.0
    tested = some & (errors > 0)
    p[tested] = 2 * t.sf(np.abs(means[tested]) / errors[tested], freedom[tested])
    return p


def _checked(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("differences must be a table of finite numbers, one row for each query")
    return values

"""Classical paired tests (t-test, Wilcoxon), defined for every input. `bench compare --details` prints them.

The formulas are those of `scipy.stats`, and tests compare every p-value with it; importing it takes as long as
everything else in a comparison.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.stats.distributions import student_tails
from bench.stats.exact import as_integers
from bench.stats.units import dependence, robust_mean, unit_sums

#: Up to this many differences, all sign vectors are enumerated, as by scipy.
_FEW = 13
#: Up to this many differences without ties, the distribution of the rank sum is exact, as by scipy.
_COUNTED = 50


def paired_t(differences: NDArray[np.float64], units: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Two-sided p-values of the paired t test (Student 1908) of a zero mean, as from `scipy.stats.ttest_1samp`.

    With units, t is the mean divided by its CR2 standard error, with Satterthwaite's degrees of freedom
    (`bench.stats.units.robust_mean`), which is Student's test where each unit is one query.

    Args:
        differences: (queries, columns) first - second, finite. Differences that are zero up to rounding (far below
            1e-12) are zero, and those within 1e-12 of the column's largest are equal.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.

    Returns:
        (columns,) p-values, never NaN: 1 for identical systems and for a single unit; 0 if all differences, or the
        means of all units, are equal and not zero, because t is then infinite. This follows the formula and is no
        proof: for two queries, the randomisation test gives 0.5.

    Raises:
        ValueError: there are no queries, a value is not finite, or units are not as `dependence` takes them.
    """
    values = check_differences(differences)
    codes = dependence(units, len(values))
    if codes is not None:
        return _robust_t(values, codes)
    whole, _ = as_integers(values)
    p = np.ones(values.shape[1])
    if len(values) < 2:
        return p
    constant = np.ptp(values, axis=0) <= 1e-12 * np.abs(values).max(axis=0)
    # Noise around zero varies, but is zero.
    some = whole.any(axis=0)
    p[constant & some] = 0.0
    tested = values[:, some & ~constant]
    errors = tested.std(axis=0, ddof=1) / np.sqrt(len(values))
    p[some & ~constant] = _two_sided(tested.mean(axis=0) / errors, len(values) - 1)
    return p


def wilcoxon(differences: NDArray[np.float64], units: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Two-sided p-values of the signed-rank test (Wilcoxon 1945), as from `scipy.stats.wilcoxon`.

    Its hypothesis is that differences are symmetric about zero, not that their mean is zero. Queries without a
    difference are left out. It is exact for at most 50 differences without ties, and for at most 13; otherwise it uses
    the normal approximation with the correction for ties.

    With units, the test is on the mean differences of units. Each unit counts the same, whatever its number of queries,
    so the hypothesis is about units: the mean over queries can differ from zero although that over units is zero.

    Args:
        differences: (queries, columns) first - second, finite. Sizes that differ by less than 1e-12 of the column's
            largest share their rank.
        units: (queries,) as of `bench.stats.units.dependence`; None for independent queries.

    Returns:
        (columns,) p-values, never NaN: 1 for identical systems, and if only one query or unit differs. Errors are those
        of `paired_t`.
    """
    values = check_differences(differences)
    codes = dependence(units, len(values))
    if codes is not None:
        sums, sizes = unit_sums(values, codes)
        # A unit whose differences cancel up to rounding has no difference.
        sums[np.abs(sums) <= 1e-12 * np.abs(values).max(axis=0)] = 0.0
        values = sums / sizes[:, None]
    whole, _ = as_integers(values)
    p = np.ones(values.shape[1])
    for column in range(values.shape[1]):
        nonzero = values[whole[:, column] != 0, column]
        rounded = np.round(nonzero / np.abs(nonzero).max(initial=0), 12)
        rounded = rounded[rounded != 0]
        if len(rounded) >= 2:
            p[column] = _enumerate_p(rounded) if len(rounded) <= _FEW else _signed_rank(rounded)
    return p


def tied_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(values,) ranks from 1 for the smallest; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = (last - (counts - 1) / 2)[places.reshape(-1)]
    return means


def _enumerate_p(differences: NDArray[np.float64]) -> float:
    """The p-value of the signed-rank test over all sign vectors of a few differences; ties share their rank."""
    # Shared ranks are halves: twice the rank is a whole number, so sums are exact.
    doubled = np.rint(2 * tied_ranks(np.abs(differences))).astype(np.int64)
    vectors = (np.arange(1 << len(doubled))[:, None] >> np.arange(len(doubled))) & 1
    # The rank sum of one sign minus that of the other.
    observed = 2 * int(doubled[differences > 0].sum()) - int(doubled.sum())
    return float(np.mean(np.abs(2 * (vectors @ doubled) - doubled.sum()) >= abs(observed)))


def _signed_rank(differences: NDArray[np.float64]) -> float:
    """The p-value of the signed-rank test of non-zero differences."""
    count, sizes = len(differences), np.abs(differences)
    _, ties = np.unique(sizes, return_counts=True)
    positive = float(tied_ranks(sizes)[differences > 0].sum())
    if count <= _COUNTED and (ties == 1).all():
        # How many of the 2**count sign vectors have each rank sum: whole numbers below 2**53.
        vectors = np.zeros(count * (count + 1) // 2 + 1)
        vectors[0] = 1.0
        for rank in range(1, count + 1):
            vectors[rank:] += vectors[:-rank].copy()
        least = round(min(positive, len(vectors) - 1 - positive))
        return float(min(1.0, 2 * vectors[: least + 1].sum() / 2.0**count))
    mean = count * (count + 1) / 4
    variance = (count * (count + 1) * (2 * count + 1) - (ties**3 - ties).sum() / 2) / 24
    return math.erfc(abs(positive - mean) / math.sqrt(2 * variance))


def _two_sided(statistics: NDArray[np.float64], freedom: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided p-values of Student's t, with degrees of freedom."""
    return 2 * student_tails(np.abs(statistics), freedom)


def _robust_t(values: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(columns,) p-values of the t test with a standard error that is valid for dependent queries."""
    p = np.ones(values.shape[1])
    if not codes.any():
        return p
    means, errors, freedom = robust_mean(values, codes)
    # Noise around zero, or differences that cancel up to rounding, have a mean of zero.
    some = (np.abs(means) > 1e-12 * np.abs(values).max(axis=0)) & as_integers(values)[0].any(axis=0)
    p[some & (errors == 0)] = 0.0
    tested = some & (errors > 0)
    p[tested] = _two_sided(means[tested] / errors[tested], float(freedom[0]))
    return p


def check_differences(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table; raises `ValueError` unless it consists of finite numbers, with a row per query."""
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError("differences must be a table of finite numbers, one row for each query")
    return values

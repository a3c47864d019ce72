"""How far one quantity predicts another: rank correlations, their bootstrap, and a calibrated regression.

The draws of a bootstrap are numbers of times that each query is drawn. All statistics of the same queries take the same
draws, so that what is paired stays paired, and a difference of two statistics is the difference draw by draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Folds of a cross-fitted regression.
FOLDS = 10
#: Values that differ by less are equal: rounding alone puts them apart.
_SAME = 1e-12
#: Values up to which counting them is a product of matrices.
_FEW_LEVELS = 100
#: A fit ends where no coefficient moves by more.
_CONVERGED = 1e-10
_MOST_STEPS = 100


def unit_draws(units: NDArray[np.int64], resamples: int, seed: int = 0) -> NDArray[np.float64]:
    """How many times each query is drawn in each sample of a cluster bootstrap: whole units, with replacement.

    Args:
        units: (queries,) the unit of each query, numbered from 0 without a gap.
        resamples: samples.
        seed: the same seed gives the same draws.

    Returns:
        (resamples, queries) whole numbers; equal for the queries of one unit.
    """
    count = int(units.max()) + 1
    drawn = np.random.default_rng(seed).integers(count, size=(resamples, count))
    drawn += np.arange(resamples)[:, None] * count
    counts = np.bincount(drawn.ravel(), minlength=resamples * count).reshape(resamples, count)
    draws: NDArray[np.float64] = counts.astype(np.float64)[:, units]
    return draws


def kendall_tau_b(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kendall's tau-b along the last axis: (C - D) / √(U V) of C concordant and D discordant pairs (Kendall 1945).

    U and V are the pairs that are not tied in the first and in the second.

    Args:
        first, second: (..., items), infinite values allowed, no NaN.

    Returns:
        (...) between -1 and 1; NaN where all items are tied in one of the two.
    """
    one, other = np.triu_indices(first.shape[-1], 1)
    signs = []
    for values in (first, second):
        left, right = values[..., one], values[..., other]
        with np.errstate(invalid="ignore"):
            step = left - right
            signs.append(np.where((left == right) | (np.abs(step) <= _SAME), 0.0, np.sign(step)))
    untied = [np.abs(sign).sum(axis=-1) for sign in signs]
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: NDArray[np.float64] = (signs[0] * signs[1]).sum(axis=-1) / np.sqrt(untied[0] * untied[1])
    return tau


def tau_b_with_success(
    values: NDArray[np.float64], success: NDArray[np.bool_], draws: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Kendall's tau-b of a value with a success or failure, over the queries of each draw.

    Args:
        values: (queries,) finite.
        success: (queries,) the other quantity.
        draws: (samples, queries) how many times each query is taken.

    Returns:
        (samples,) NaN where all drawn queries are tied in one of the two.
    """
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-np.inf) > _SAME)
    if len(starts) <= _FEW_LEVELS:
        level = np.empty(len(values), dtype=np.int64)
        level[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
        cells = np.zeros((len(values), len(starts), 2))
        cells[np.arange(len(values)), level, success.astype(np.int64)] = 1
        counts = (draws @ cells.reshape(len(values), -1)).reshape(len(draws), -1, 2)
        wrong, right = counts[:, :, 0], counts[:, :, 1]
    else:
        taken = draws[:, order]
        right = np.add.reduceat(taken * success[order], starts, axis=1)
        wrong = np.add.reduceat(taken, starts, axis=1) - right
    n_right, n_wrong = right.sum(axis=1), wrong.sum(axis=1)
    # Of a pair of a right and a wrong one: the right one has the larger value, the same, or the smaller one.
    concordant = (right * (np.cumsum(wrong, axis=1) - wrong)).sum(axis=1)
    pairs = n_right * n_wrong
    discordant = pairs - concordant - (right * wrong).sum(axis=1)
    untied = ((n_right + n_wrong) ** 2 - ((right + wrong) ** 2).sum(axis=1)) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: NDArray[np.float64] = (concordant - discordant) / np.sqrt(untied * pairs)
    return tau


def folds_of(units: Sequence[str], folds: int = FOLDS) -> NDArray[np.int64]:
    """(queries,) a fold for each query, by the hash of its unit, so that no unit is in two folds."""
    return np.array([int(hashlib.sha256(unit.encode()).hexdigest()[:8], 16) % folds for unit in units], dtype=np.int64)


def cross_fitted(
    values: NDArray[np.float64], success: NDArray[np.bool_], folds: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The probability of success given a value, and the base rate, each learnt from the other folds.

    A logistic regression on the standardised value with the penalty β² / 2 on its slope, scikit-learn's default: where
    a value of zero rules out success, as recall does, a slope without a penalty has no end.

    Args:
        values: (rows,) finite.
        success: (rows,) what is predicted.
        folds: (rows,) the fold of each row; at least two.

    Returns:
        (rows,) probabilities by the regression, and (rows,) shares of successes.
    """
    fitted, rate = np.empty(len(values)), np.empty(len(values))
    for fold in np.unique(folds):
        held, seen = folds == fold, folds != fold
        right = success[seen].astype(np.float64)
        rate[held] = right.mean()
        scale = float(values[seen].std())
        if scale <= _SAME or right.min() == right.max():
            fitted[held] = rate[held]
            continue
        centre = float(values[seen].mean())
        x = (values[seen] - centre) / scale
        intercept, slope = logistic_ridge(np.column_stack([np.ones_like(x), x]), right, np.array([0.0, 1.0]))
        fitted[held] = probability(intercept + slope * (values[held] - centre) / scale)
    return fitted, rate


def logistic_ridge(
    design: NDArray[np.float64], right: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Coefficients of a logistic regression with a ridge penalty, by Newton's method.

    They make -log likelihood + Σ penalty β² / 2 as small as can be; a step that would raise it is halved.

    Args:
        design: (rows, features) the constant among them.
        right: (rows,) 1 for a success, else 0.
        penalty: (features,) not negative.

    Returns:
        (features,)
    """

    def loss(coefficients: NDArray[np.float64]) -> float:
        z = design @ coefficients
        return float((np.logaddexp(0.0, z) - right * z).sum() + (penalty * coefficients**2).sum() / 2)

    now = np.zeros(design.shape[1])
    for _ in range(_MOST_STEPS):
        p = probability(design @ now)
        gradient = design.T @ (p - right) + penalty * now
        curvature = (design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        size, here = 1.0, loss(now)
        while loss(now - size * step) > here and size > _CONVERGED:
            size /= 2
        now = now - size * step
        if float(np.abs(size * step).max()) <= _CONVERGED:
            break
    return now


def probability(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-z)), without an overflow."""
    p: NDArray[np.float64] = np.exp(-np.logaddexp(0.0, -z))
    return p


def brier_skill(
    predicted: NDArray[np.float64],
    reference: NDArray[np.float64],
    success: NDArray[np.bool_],
    draws: NDArray[np.float64],
) -> NDArray[np.float64]:
    """1 - B / B₀, the Brier score of predictions against that of a reference (Brier 1950; Murphy 1973).

    1 for a prediction without an error, 0 for one as good as the reference, negative for a worse one.

    Args:
        predicted, reference: (queries, systems) probabilities of success.
        success: (queries, systems).
        draws: (samples, queries) how many times each query is taken.

    Returns:
        (samples,) NaN where the reference has no error.
    """
    own, base = (((p - success) ** 2).sum(axis=1) for p in (predicted, reference))
    with np.errstate(invalid="ignore", divide="ignore"):
        skill: NDArray[np.float64] = 1 - (draws @ own) / (draws @ base)
    return skill


def difference_p(observed: float, draws: NDArray[np.float64]) -> float:
    """Two-sided p-value of no difference between two statistics, from the differences of the draws of a bootstrap.

    The larger of two: the share of draws on the far side of zero, doubled, and the share of draws that lie as far from
    their mean as the difference does from zero. A rank correlation of draws lies nearer to zero than that of the
    sample, the more so the noisier a value is; each of the two alone takes that for a difference too often.

    Args:
        observed: the difference in the sample.
        draws: (samples,) the difference in each draw.

    Returns:
        At least one draw of all, so that none is 0.
    """
    n = len(draws)
    tails = [1 + np.count_nonzero(side) for side in (draws <= _SAME, draws >= -_SAME)]
    far = 1 + np.count_nonzero(np.abs(draws - draws.mean()) >= abs(observed) - _SAME)
    return min(1.0, max(2 * min(tails), far) / (1 + n))

"""Several metrics tested together: the numbers of each table are those of the table alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.stats.best_of_many import best_of_many, best_of_tables
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE, Span
from bench.stats.differences import intervals_and_p_values
from bench.stats.paired import compare_pairs
from bench.stats.ranking import p_of_tables
from bench.stats.stacks import stack_tables

FLIPS = 700


def tables(dependent: bool) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int64]], list[Span]]:
    """Shares on two scales of steps, token counts, a table of fewer queries, and one of another number of systems."""
    random = np.random.default_rng(5)
    units = (np.arange(80) // 2 if dependent else np.arange(80)).astype(np.int64)
    shares, thirds = random.binomial(1, 0.4, (80, 3)).astype(float), random.binomial(3, 0.5, (80, 3)) / 3
    counts, few, wide = random.integers(0, 9000, (80, 3)) / 7, thirds[:60].copy(), random.binomial(1, 0.5, (80, 4)) / 1
    wide[:, 3] = wide[:, 2]
    values = [shares, counts, thirds, few, wide]
    return values, [units, units, units, units[:60], units], [SHARE, Span(low=0), SHARE, SHARE, SHARE]


@pytest.mark.parametrize("dependent", [False, True])
def test_tests_and_intervals_of_tables_are_those_of_each_alone(dependent: bool) -> None:
    values, units, spans = tables(dependent)
    differences = [span.of_differences() for span in spans]
    pairs = [np.triu_indices(table.shape[1], 1) for table in values]
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    p = p_of_tables(values, first, second, units, differences, FLIPS)
    for i, table in enumerate(values):
        apart = table[:, first[i]] - table[:, second[i]]
        alone = [
            intervals_and_p_values(column[:, None], 0.95, units[i], differences[i], FLIPS)[1][0] for column in apart.T
        ]
        assert p[i].tolist() == alone
    stacks = list(stack_tables(values, units, spans))
    # Only what has one scale, one span and the same queries stands together.
    assert [stack.tables for stack in stacks] == [(0, 2, 4), (1,), (3,)]
    for stack in stacks:
        ends = bca_intervals(stack.values, resamples=500, units=stack.units, span=stack.span)
        span, sizes = stack.span.of_differences(), np.full(sum(len(first[i]) for i in stack.tables), 3)
        columns = stack.columns(first), stack.columns(second)
        p_values = np.concatenate([p[i] for i in stack.tables])
        compared = compare_pairs(stack.values, *columns, p_values, sizes, stack.units, span, p_values)
        for i, part in stack.parts([table.T for table in values]):
            assert (
                ends[part].tolist() == bca_intervals(values[i], resamples=500, units=units[i], span=spans[i]).tolist()
            )
        for i, part in stack.parts(first):
            size = sizes[: len(first[i])]
            assert compared[part] == compare_pairs(
                values[i], first[i], second[i], p[i], size, units[i], differences[i], p[i]
            )


@pytest.mark.parametrize("queries", [12, 80])
def test_the_best_of_many_of_tables_is_that_of_each_alone(queries: int) -> None:
    values, units, _ = tables(dependent=True)
    together = [values[i][:queries] for i in (0, 1, 4)]
    families = [np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 1, 2, 2])]
    p = best_of_tables(together, families, 0, units=units[0][:queries], flips=FLIPS)
    for table, family, found in zip(together, families, p, strict=True):
        assert found.tolist() == best_of_many(table, family, 0, units=units[0][:queries], flips=FLIPS).tolist()

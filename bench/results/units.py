"""Units of independence of a result, and their text in reports: `269 queries, 82 groups (effective 55)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base import arrow
from bench.results.manifest import DatasetIdentity
from bench.show.numbers import count, several
from bench.stats.units import effective_units

if TYPE_CHECKING:
    from bench.data.dataset import Dataset


def number_units(units: NDArray[np.int64]) -> NDArray[np.int64]:
    """The units of some queries, as codes from 0 without gaps."""
    codes: NDArray[np.int64] = np.unique(units, return_inverse=True)[1]
    return codes.astype(np.int64)


def unit_counts(units: NDArray[np.int64]) -> tuple[int, float]:
    """The number of units of queries, and their effective number of independent queries (`effective_units`).

    Args:
        units: (queries,) the unit of each query.
    """
    if not len(units):
        return 0, 0.0
    codes = number_units(units)
    return int(codes.max()) + 1, round(effective_units(codes), 2)


def unit_names(dataset: Dataset, rows: NDArray[np.int64]) -> pa.Array:
    """The unit of independence of each query, named by the first query of the unit."""
    _, first = np.unique(dataset.units, return_index=True)
    return arrow.chosen([dataset.queries[row].query_id for row in first], dataset.units[rows])


def sample(n: int, units: int | None, effective: float | None = None, what: str = "query") -> str:
    """The size of a sample in words: `269 queries, 82 groups (effective 55)`.

    Groups are left out if each query is its own group, or if they are unknown.
    """
    if units is None or units == n:
        return several(n, what)
    words = f"{several(n, what)}, {several(units, 'group')}"
    return words if effective is None else f"{words} (effective {count(effective)})"


def judged_sample(data: DatasetIdentity) -> str:
    """The judged queries of a result in words."""
    return sample(data.judged, data.units, data.effective, "judged query")

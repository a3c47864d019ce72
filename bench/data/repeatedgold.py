"""Evaluated queries that ask for exactly the tools that some past query asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.tables import SPLITS


def repeated_gold(dataset: Dataset, rows: NDArray[np.int64], evaluated: NDArray[np.int64]) -> int:
    """How many judged queries have the same gold set as a past query; a method that recalls past bundles knows it.

    Past queries are those that methods may learn from: train and dev, less the evaluated split. Grades do not count.

    Args:
        dataset: the queries.
        rows: (queries,) those that are asked.
        evaluated: (queries,) the whole evaluated split, also where only a part of it is asked.
    """
    past = dataset.splits != SPLITS.index("test")
    past[evaluated] = False
    known = {frozenset(dataset.queries[row].gold) for row in np.flatnonzero(past)} - {frozenset()}
    return sum(frozenset(dataset.queries[row].gold) in known for row in rows.tolist())

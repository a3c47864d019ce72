"""Novelty of a query's gold relative to past queries: seen, mixed or unseen tools, and repeated gold sets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.parents import parent_of
from bench.data.tables import SPLITS, Query, Tool

#: All values of `novelty`, from most to least known.
NOVELTY = ("seen", "dev", "mixed", "unseen")


def novelty(queries: Sequence[Query], unit_of: Mapping[str, Hashable]) -> dict[str, str]:
    """Classify every judged dev and test query by whether past queries share its gold.

    A tool is seen if it is gold for a train query, as the protocol says. The values:

    - `seen`: all of the query's gold is seen.
    - `unseen`: none of it is, and none is gold for a dev query.
    - `mixed`: some is seen, and the rest is not gold for a dev query.
    - `dev`: some is not seen but gold for a dev query. Methods may learn from dev as well, so some methods know it and
      others do not; only test queries have this value.

    Args:
        queries: all queries of a dataset.
        unit_of: tool_id -> what can be seen or not: its parent, or the tool itself. Gold tools without a unit are
            ignored.

    Returns:
        query_id -> value, without train queries.
    """
    units = {query.query_id: {unit_of[tool] for tool in query.gold if tool in unit_of} for query in queries}
    train, dev = (
        {unit for query in queries if query.split == split for unit in units[query.query_id]}
        for split in ("train", "dev")
    )
    values = {}
    for query in queries:
        gold_units = units[query.query_id]
        if query.split == "train" or not gold_units:
            continue
        new = gold_units - train
        if not new:
            values[query.query_id] = "seen"
        elif query.split == "test" and new & dev:
            values[query.query_id] = "dev"
        else:
            values[query.query_id] = "unseen" if new == gold_units else "mixed"
    return values


def with_slice(queries: Iterable[Query], name: str, values: Mapping[str, str]) -> list[Query]:
    """The queries, with the slice `name` for those that `values` (query_id -> value) contains."""
    return [
        replace(query, slices={**query.slices, name: values[query.query_id]}) if query.query_id in values else query
        for query in queries
    ]


def with_parent_slice(queries: Sequence[Query], tools: Iterable[Tool]) -> list[Query]:
    """The queries with the slice `parent`: how novel the parents of their gold are."""
    return with_slice(queries, "parent", novelty(queries, {tool.tool_id: parent_of(tool) for tool in tools}))


def repeated_gold(dataset: Dataset, rows: NDArray[np.int64], evaluated: NDArray[np.int64]) -> int:
    """Count judged queries whose gold set a past query has too; a method that recalls past sets knows it.

    Past queries are those that methods may learn from: train and dev, without the evaluated split. Grades do not count.

    Args:
        dataset: the queries.
        rows: (queries,) whether a query is asked.
        evaluated: (queries,) the whole evaluated split, even if only part of it is asked.
    """
    past = dataset.splits != SPLITS.index("test")
    past[evaluated] = False
    known = {frozenset(dataset.queries[row].gold) for row in np.flatnonzero(past)} - {frozenset()}
    return sum(frozenset(dataset.queries[row].gold) in known for row in rows.tolist())

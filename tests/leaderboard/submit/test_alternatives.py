"""Submissions on gold with alternatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bench.data.dataset import Dataset
from bench.leaderboard.submit.tables import EvaluatedQueries, per_query_faults
from bench.registry import load_dataset
from bench.results.store import PER_QUERY_SCHEMA
from bench.results.units import unit_names


@pytest.mark.parametrize(("tied", "faults"), [(0, 0), (1, 0), (2, 1)])
def test_a_tool_that_ties_beyond_the_depth_may_be_an_alternative(tied: int, faults: int) -> None:
    starter = load_dataset("starter")
    row = int(starter.rows("test")[0])
    tools = [tool.tool_id for tool in starter.tools[:3]]
    queries = [
        replace(query, gold={tools[0]: 1}, any_of={tools[0]: (tools[1],)}) if code == row else query
        for code, query in enumerate(starter.queries)
    ]
    dataset = Dataset.build("starter", starter.card, replace(starter.rows_again(), queries=queries))
    rows = np.array([row])
    table = pa.table(
        {
            "query_id": [dataset.queries[row].query_id],
            "unit": unit_names(dataset, rows),
            "n_gold": pa.array([1], pa.int32()),
            "failed": [False],
            "tied_beyond": pa.array([1], pa.int32()),
            "tied_beyond_gold": [[tools[tied]]],
            "recommended": pa.array([None], pa.list_(pa.string())),
        },
        PER_QUERY_SCHEMA,
    )
    coded = {"query_id": table["query_id"].dictionary_encode()}
    for name, column in coded.items():
        table = table.set_column(table.column_names.index(name), name, column)
    lists = table["tied_beyond_gold"].combine_chunks()
    offsets, values = lists.offsets, lists.values.dictionary_encode()
    place = table.column_names.index("tied_beyond_gold")
    table = table.set_column(place, "tied_beyond_gold", pa.ListArray.from_arrays(offsets, values))
    result = per_query_faults(table, EvaluatedQueries(dataset, rows, 100))
    assert len([fault for fault in result if "is gold for the query" in fault]) == faults

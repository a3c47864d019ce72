"""Gold as sparse rows, against plain lists of dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.gold import Gold

rows_of_gold = st.lists(st.dictionaries(st.integers(0, 30), st.integers(1, 5), max_size=6), max_size=12)


def rows_in(gold: Gold) -> list[dict[int, int]]:
    return [
        dict(zip(gold.tools[a:b].tolist(), gold.grades[a:b].tolist(), strict=True))
        for a, b in zip(gold.starts[:-1], gold.starts[1:], strict=True)
    ]


@given(rows_of_gold)
@settings(deadline=None)
def test_rows_come_back_with_their_tools_ascending(rows: list[dict[int, int]]) -> None:
    gold = Gold.of(rows)
    assert len(gold) == len(rows)
    assert rows_in(gold) == rows
    assert gold.counts.tolist() == [len(row) for row in rows]
    assert [gold.row(query).tolist() for query in range(len(gold))] == [sorted(row) for row in rows]
    assert (gold.starts.dtype, gold.tools.dtype, gold.grades.dtype) == (np.int64, np.int32, np.int32)


@given(rows_of_gold, st.data())
@settings(deadline=None)
def test_taken_rows_are_the_chosen_ones_in_the_order_given(rows: list[dict[int, int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=15)) if rows else []
    taken = Gold.of(rows).take(np.array(chosen, dtype=np.int64))
    assert rows_in(taken) == [rows[query] for query in chosen]
    assert taken.counts.tolist() == [len(rows[query]) for query in chosen]


@given(rows_of_gold)
@settings(deadline=None)
def test_padded_rows_end_in_minus_one_and_relevance_zero(rows: list[dict[int, int]]) -> None:
    width = max((len(row) for row in rows), default=0)
    tools, grades = Gold.of(rows).padded()
    assert tools.shape == grades.shape == (len(rows), width)
    assert tools.tolist() == [sorted(row) + [-1] * (width - len(row)) for row in rows]
    assert grades.tolist() == [[row[tool] for tool in sorted(row)] + [0] * (width - len(row)) for row in rows]


def test_no_queries_and_no_gold_are_empty_not_errors() -> None:
    assert len(Gold.of([])) == 0
    assert Gold.of([]).padded()[0].shape == (0, 0)
    assert Gold.of([{}, {}]).padded()[0].shape == (2, 0)
    assert Gold.of([{}, {3: 1}]).take(np.array([1, 0, 1])).counts.tolist() == [1, 0, 1]


def test_comparing_gold_is_no_error() -> None:
    assert isinstance(Gold.of([{1: 1}, {2: 1}]) == Gold.of([{1: 1}, {2: 1}]), bool)


def test_the_matrix_of_gold_has_a_row_for_each_query() -> None:
    matrix = Gold.of([{1: 1, 2: 3}, {}, {0: 2}]).matrix(4)
    assert matrix.toarray().tolist() == [[0, 1, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0]]

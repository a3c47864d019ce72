"""Rows and tables of a submission: rankings that are none, sets, ties, and Parquet files that are bombs."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from kit.submit_changes import at, column, everywhere, exchanged, reasons

from bench.data.dataset import Dataset
from bench.leaderboard.submit import tables
from bench.leaderboard.submit.check import CheckedSubmission
from bench.results.store import PER_QUERY, RUN

Checked = Callable[..., CheckedSubmission]


# Rows ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (column("tool_id", at(0, "no.such.tool")), "has no such tool"),
        (column("tool_id", at(0, "<script>alert(1)</script>\x1b[2J")), "has no such tool"),
        (column("tool_id", at(0, None)), "empty cell"),
        (column("query_id", at(0, "nobody")), "has no such query"),
        (column("query_id", at(0, None)), "empty cell"),
        (column("rank", at(0, 2)), "ranks 1, 2, 3"),
        (column("rank", at(0, 0)), "ranks 1, 2, 3"),
        (column("rank", at(0, -1)), "ranks 1, 2, 3"),
        (column("rank", at(0, 2**31 - 1)), "ranks 1, 2, 3"),
        (column("rank", at(0, None)), "empty cell"),
        (column("score", at(0, float("nan"))), "no finite number|not a finite number"),
        (column("score", at(0, float("inf"))), "not a finite number"),
        (column("score", at(0, None)), "scores for some tools only"),
        (column("score", at(0, -5.0)), "order of its scores"),
        (column("score", lambda values: [None] * len(values)), "mention ties"),
        (lambda table: table.slice(1), "ranks 1, 2, 3"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "rows; at most|ranks 1, 2, 3"),
        (lambda table: table.take(pa.array(list(range(len(table)))[::-1])), "ranks 1, 2, 3"),
        (lambda table: table.drop_columns(["score"]), "lacks the column score"),
        (
            lambda table: table.rename_columns(["query_id", "rank", "tool_id", "tool_id"]),
            "repeats a column|lacks the column",
        ),
        (lambda table: table.set_column(1, "rank", table["rank"].cast(pa.int64())), "lacks the column rank"),
        (lambda table: table.set_column(1, "rank", table["rank"].cast(pa.string())), "lacks the column rank"),
    ],
)
def test_a_ranking_must_be_one(made: Any, checked: Checked, change: Any, reason: str) -> None:
    sentences = reasons(checked(made.members(run=change)))
    assert any(part in sentences for part in reason.split("|"))
    assert sentences.replace("\n", "").isprintable()


def test_a_tool_stands_once_for_a_query(made: Any, checked: Checked) -> None:
    def twice(values: list[Any]) -> None:
        values[1] = values[0]

    assert "twice for" in reasons(checked(made.members(run=column("tool_id", twice))))


def test_ties_stand_in_the_order_of_tool_ids(made: Any, checked: Checked) -> None:
    run = made.result.run
    scores, queries = run["score"].to_pylist(), run["query_id"].to_pylist()
    place = next(i for i in range(len(scores) - 1) if scores[i] == scores[i + 1] and queries[i] == queries[i + 1])
    assert "ties by tool id" in reasons(checked(made.members(run=exchanged(place, place + 1))))


def test_a_better_ranking_under_the_old_numbers_is_refused(made: Any, checked: Checked) -> None:
    # The first query whose first tool is no gold, and whose second is.
    hits = np.flatnonzero((made.result.values("hit@1") == 0) & (made.result.values("hit@3") == 1))
    query = made.result.per_query["query_id"][int(hits[0])].as_py()
    start = made.result.run["query_id"].to_pylist().index(query)
    sentences = reasons(checked(made.members(run=exchanged(start, start + 1))))
    assert "order of its scores" in sentences or "scored again" in sentences


def test_a_failed_query_has_no_tools(made: Any, checked: Checked) -> None:
    assert "which failed" in reasons(checked(made.members(per_query=column("failed", at(0, True)))))


def test_a_query_without_an_answer_has_failed(made: Any, checked: Checked) -> None:
    query = made.result.per_query["query_id"][0].as_py()
    without = made.members(run=lambda table: table.filter(pc.not_equal(table["query_id"], query)))
    assert "another failed" in reasons(checked(without))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.slice(1), "lacks 1 of them"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "rows; at most 134"),
        (lambda table: table.take(pa.array([1, 0, *range(2, len(table))])), "another order"),
        (column("query_id", at(0, "nobody")), "has no such query"),
        (column("query_id", at(0, None)), "has no such query"),
        (column("n_gold", at(0, 9)), "another n_gold"),
        (column("n_gold", at(0, None)), "empty cell"),
        (column("tied_beyond", at(0, 10**6)), "tie beyond"),
        (column("tied_beyond", at(0, -5)), "tie beyond"),
        (column("tied_beyond_gold", at(0, ["no.such"])), "has no such tool"),
        (column("recommended", at(0, [])), "for some queries only"),
        (column("recommended", lambda values: [["no.such"]] * len(values)), "has no such tool"),
        (lambda table: table.drop_columns(["failed"]), "lacks the column failed"),
        (lambda table: table.drop_columns(["recall@5"]), "lacks the values of recall@5"),
    ],
)
def test_per_query_rows_must_be_those_of_the_split(made: Any, checked: Checked, change: Any, reason: str) -> None:
    assert reason in reasons(checked(made.members(per_query=change)))


def test_sets_that_the_method_did_not_recommend_are_scored_and_refused(
    made: Any, checked: Checked, starter: Dataset
) -> None:
    ids = made.result.per_query["query_id"].to_pylist()
    gold = [sorted(starter.queries[starter.query_codes[name]].gold) for name in ids]
    assert "lacks the metric tracc." in reasons(
        checked(made.members(per_query=column("recommended", lambda values: gold)))
    )
    twice = [[*tools, *tools] for tools in gold]
    assert "twice in recommended" in reasons(
        checked(made.members(per_query=column("recommended", lambda values: twice)))
    )


def test_gold_that_ties_beyond_must_be_gold_and_not_returned(made: Any, checked: Checked, starter: Dataset) -> None:
    query = starter.queries[starter.query_codes[made.result.per_query["query_id"][0].as_py()]]
    other = next(tool.tool_id for tool in starter.tools if tool.tool_id not in query.gold)
    assert "wrongly says that a tool is gold" in reasons(
        checked(made.members(per_query=column("tied_beyond_gold", at(0, [other]))))
    )
    values = column("tied_beyond_gold", at(0, sorted(query.gold)))
    both = made.members(per_query=lambda table: column("tied_beyond", at(0, len(query.gold)))(values(table)))
    assert "tie beyond a ranking where none can" in reasons(checked(both))


# Tables that are bombs ----------------------------------------------------------------------------------------------


def test_a_table_of_too_many_rows_is_not_read(made: Any, checked: Checked) -> None:
    many = pa.table({"query_id": pa.nulls(3_000_000, pa.string())})
    members = made.members(run=lambda table: many)
    assert len(members[RUN]) < 100_000
    assert "3000000 rows; at most" in reasons(checked(members))


def test_a_row_of_too_many_values_is_not_read(made: Any, checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_CELLS", 100_000)
    tool = made.result.run["tool_id"][0].as_py()
    members = made.members(per_query=column("recommended", lambda values: [[tool] * 200_000] + [[]] * 133))
    assert len(members[PER_QUERY]) < 100_000
    assert "more than 100000 values" in reasons(checked(members))


def test_a_long_name_on_every_row_takes_no_more_than_its_bytes(made: Any, checked: Checked) -> None:
    # 20 MB, 13,000 times: 260 GB as plain strings.
    members = made.members(run=everywhere("tool_id", "x" * 20_000_000))
    assert len(members[RUN]) < 1 << 20
    assert "has no such tool" in reasons(checked(members))


@pytest.mark.parametrize("name", ["query_id", "recommended", "tied_beyond_gold"])
def test_a_long_name_of_every_query_is_made_once(made: Any, checked: Checked, name: str) -> None:
    members = made.members(per_query=everywhere(name, "x" * 5_000_000))
    assert len(members[PER_QUERY]) < 1 << 20
    tracemalloc.start()
    try:
        assert "has no such" in reasons(checked(members))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000  # 134 of them are 670 MB
    finally:
        tracemalloc.stop()


def test_a_list_longer_than_the_library_is_not_made(made: Any, checked: Checked, starter: Dataset) -> None:
    members = made.members(per_query=everywhere("recommended", starter.tools[0].tool_id, 3_000_000))
    assert len(members[PER_QUERY]) < 1 << 20
    tracemalloc.start()
    try:
        assert "twice in recommended" in reasons(checked(members))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_column(2, "tool_id", table["tool_id"].dictionary_encode()),
        lambda table: table.set_column(2, "tool_id", table["tool_id"].cast(pa.large_string())),
        lambda table: table.set_column(2, "tool_id", table["tool_id"].cast(pa.string_view())),
        lambda table: table.cast(
            table.schema.set(
                2, table.schema.field(2).with_metadata({"ARROW:extension:name": "arrow.py_extension_type"})
            )
        ),
    ],
)
def test_a_file_has_the_types_of_bench_and_not_only_their_values(made: Any, checked: Checked, change: Any) -> None:
    # Whoever reads the file later would get others: views, dictionaries, or what a pickle makes.
    sentences = reasons(checked(made.members(run=change)))
    assert "lacks the column tool_id of the type string" in sentences or "with metadata or a dictionary" in sentences


def test_lists_whose_values_have_another_name_are_refused(made: Any, seal: Any, checked: Checked) -> None:
    buffer = io.BytesIO()
    table = made.result.per_query
    place = table.column_names.index("tied_beyond_gold")
    field = pa.field("tied_beyond_gold", pa.list_(pa.field("item", pa.string())))
    pq.write_table(table.cast(table.schema.set(place, field)), buffer, use_compliant_nested_type=False)
    sentences = reasons(checked(seal({**made.parts, PER_QUERY: buffer.getvalue()})))
    assert "per_query.parquet lacks the strings tied_beyond_gold.list.element" in sentences


def test_a_table_that_takes_too_much_memory_ends_its_reader_alone(
    made: Any, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MEMORY", 500 << 20)
    assert checked(made.members()).outcome == "accepted"
    members = made.members(per_query=everywhere("query_id", "x" * 250_000_000))
    assert len(members[PER_QUERY]) < 1 << 20
    sentences = reasons(checked(members))
    assert "cannot be read within" in sentences or "not a readable Parquet file" in sentences


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
@pytest.mark.parametrize("name", [RUN, PER_QUERY])
def test_bytes_that_are_no_table_are_refused(made: Any, seal: Any, checked: Checked, name: str, data: bytes) -> None:
    assert f"{name} is not a readable Parquet file" in reasons(checked(seal({**made.parts, name: data})))


def test_strings_that_are_no_text_are_refused(made: Any, checked: Checked) -> None:
    def broken(table: pa.Table) -> pa.Table:
        wrong = pa.array([b"\xff\xfe"] * len(table), pa.binary())
        buffers = wrong.buffers()
        return table.set_column(0, "query_id", pa.Array.from_buffers(pa.string(), len(wrong), buffers))

    assert "not a readable Parquet file" in reasons(checked(made.members(per_query=broken)))

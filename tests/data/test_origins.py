"""Where queries come from, in numbers and in words."""

from __future__ import annotations

import pytest

from bench.data.origins import count_origins, from_traces, synthetic, written_by
from bench.data.tables import Query


def test_queries_of_people_are_not_counted() -> None:
    origins = ["", "traces", written_by("small"), written_by("large"), "", written_by("large")]
    queries = [Query(f"q{i}", "text", {}, origin=origin) for i, origin in enumerate(origins)]
    result = count_origins(queries)
    assert list(result.items()) == [("model large", 2), ("model small", 1), ("traces", 1)]
    assert count_origins(queries[:1]) == {}


BY = "queries are written by"


@pytest.mark.parametrize(
    ("origins", "logged", "written"),
    [
        ({}, "", ""),
        ({"traces": 3}, "3 of 9 queries are taken from logs: called is not the same as right", ""),
        ({"model gpt-x": 9}, "", f"9 of 9 {BY} gpt-x"),
        ({"model a": 4, "model b": 2}, "", f"6 of 9 {BY} language models: a (4), b (2)"),
        ({f"model {i}": 1 for i in range(4)}, "", f"4 of 9 {BY} language models: 0 (1), 1 (1), 2 (1) and 1 more"),
        ({"model a\n\x1b[2Jb": 1}, "", f"1 of 9 {BY} a �[2Jb"),
        ({"model " + "x" * 500: 1}, "", f"1 of 9 {BY} " + "x" * 79 + "…"),
        ({"something else": 9}, "", ""),
    ],
)  # fmt: skip
def test_sentences_name_what_wrote_them(origins: dict[str, int], logged: str, written: str) -> None:
    assert (from_traces(origins, 9), synthetic(origins, 9)) == (logged, written)

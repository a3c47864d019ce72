"""Files of queries: forms, names of tools, and faults with candidates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError, UsageError
from bench.data.tables import Query, Tool
from bench.importing.queries import queries_of, read_queries

TOOLS = [
    Tool("post/send", "send", "", parent="post"),
    Tool("archive/send", "send", "", parent="archive"),
    Tool("archive/find_letter", "find_letter", "", parent="archive"),
    Tool(
        "api/getPet", "getPet", "", category="api", parent="pets", annotations='{"method": "GET", "path": "/pets/{id}"}'
    ),
]
ROWS: list[dict[str, Any]] = [
    {"query": "Send it", "tools": ["post/send"]},
    {"query": "Find, then send", "tools": ["find_letter", "archive/send"], "split": "train", "id": "both"},
    {"query": "Which pet?", "tools": {"GET /pets/{id}": 2, "pets/getPet": 2}},
    {"query": "Nothing", "tools": []},
]
FOUND = [
    Query("q1", "Send it", {"post/send": 1}),
    Query("both", "Find, then send", {"archive/find_letter": 1, "archive/send": 1}, "train"),
    Query("q3", "Which pet?", {"api/getPet": 2}),
    Query("q4", "Nothing", {}),
]
CSV = """id,query,tools,split
,Send it,post/send,
both,"Find, then send",find_letter; archive/send,train
,Which pet?,GET /pets/{id},test
,Nothing,,
"""


def fault(rows: Any) -> str:
    with pytest.raises(DataError) as caught:
        queries_of([(f"line {number}", row) for number, row in enumerate(rows, start=1)], TOOLS, "f")
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("q.json", json.dumps(ROWS)),
        # JSON is YAML.
        ("q.yaml", json.dumps(ROWS)),
        ("q.yml", "".join(f"- {json.dumps(row)}\n" for row in ROWS)),
    ],
)
def test_every_form_has_the_same_queries(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_queries(tmp_path / name, TOOLS) == FOUND


@pytest.mark.parametrize("text", [CSV, "\ufeff" + CSV.replace("\n", "\r\n")])
def test_csv_separates_tools_by_semicolons_and_has_no_grades(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.csv").write_bytes(text.encode())
    expected = [*FOUND[:2], Query("q3", "Which pet?", {"api/getPet": 1}), FOUND[3]]
    assert read_queries(tmp_path / "q.csv", TOOLS) == expected


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"query": "x", "tools": ["send"]}, "tools: 'send' may mean archive/send, post/send; use the id"),
        ({"query": "x", "tools": ["find_leter"]}, "tools: there is no tool 'find_leter' (near: archive/find_letter)"),
        ({"query": "x", "tools": ["zzz"]}, "tools: there is no tool 'zzz'"),
        ({"query": "x"}, "the tools are missing; write an empty list for a query that no tool answers"),
        ({"query": "x", "tools": 3}, "the tools are missing"),
        ({"tools": []}, "the query is missing or not a text"),
        ({"query": " ", "tools": []}, "the query is missing or not a text"),
        ({"query": "x", "tools": [], "forbid": []}, "the field 'forbid' is none of query, tools, id, split, forbidden"),
        ({"query": "x", "tools": [], "forbidden": ["zzz"]}, "forbidden: there is no tool 'zzz'"),
        ({"query": "x", "tools": [], "forbidden": 3}, "forbidden must be a list of texts"),
        ({"query": "x", "tools": ["post/send"], "forbidden": "post/send"}, "'post/send' is both right and forbidden"),
        (
            {"query": "x", "tools": ["post/send | archive/send"], "forbidden": ["archive/send"]},
            "'archive/send' is both right and forbidden",
        ),
        ({"query": "x", "tools": [["post/send", "zzz"]]}, "tools: there is no tool 'zzz'"),
        ({"query": "x", "tools": [[]]}, "tools: a requirement names no tool"),
        ({"query": "x", "tools": "post/send | "}, "tools: a requirement names no tool"),
        (
            {"query": "x", "tools": [["post/send", "archive/send"], "post/send", "archive/send"]},
            "'post/send | archive/send' is required more than once",
        ),
        ({"query": "x", "tools": [], "tags": {"kind": None}}, "tags must be words, or an object of names and texts"),
        ({"query": "x", "tools": [], "tags": {"": "a"}}, "a tag has no name or no value"),
        ({"query": "x", "tools": [], "context": [{"role": "user"}]}, "context must be a list of texts, or of objects"),
        ({"query": "x", "tools": [], "context": 3}, "context must be a list of texts, or of objects"),
        ({"query": "x", "tools": [], "searches": {"a": 1}}, "searches must be a list of texts"),
        ({"query": "x", "tools": [], "group": True}, "the group is not a text"),
        ({"query": "x", "tools": [], "origin": "me"}, "the origin is neither traces nor model NAME"),
        ({"query": "x", "tools": [], "origin": "model "}, "the origin is neither traces nor model NAME"),
        ({"query": "x", "tools": ["post/send"] * 1001}, "it names more than 1000 tools"),
        ({"query": "x", "tools": [], "split": "valid"}, "the split 'valid' is none of train, dev, test"),
        ({"query": "x", "tools": {"post/send": 1.5}}, "tools: the relevance of 'post/send' is not a whole number"),
        (
            {"query": "x", "tools": {"GET /pets/{id}": 2, "pets/getPet": 0}},
            "tools: 'pets/getPet' is judged twice, with 2 and with 0",
        ),
        ({"query": "x", "tools": {"post/send": True}}, "tools: the relevance of 'post/send' is not a whole number"),
        (["x"], "it is not an object with query and tools"),
        (None, "it is not an object with query and tools"),
    ],
)
def test_a_fault_is_said_with_its_line(row: Any, sentence: str) -> None:
    assert fault([ROWS[0], row]).startswith(f"f, line 2: {sentence}")


def test_what_users_need_is_read_alike_from_a_table_and_from_json(tmp_path: Path) -> None:
    row = {
        "query": "Send it",
        "tools": [["post/send", "archive/send"], "find_letter"],
        "forbidden": ["getPet"],
        "tags": ["mail", "confusable"],
        "searches": ["send mail", "post; letter"],
        "context": [{"role": "user", "content": "hello"}, "and then?"],
        "group": 7,
        "origin": "model m-1",
    }
    (tmp_path / "q.json").write_text(json.dumps([row]))
    table = (
        "query,tools,forbidden,tags,searches,context,group,origin\n"
        "Send it,post/send | archive/send; find_letter,getPet,mail;confusable,send mail|post; letter,and then?,7,"
        "model m-1\n"
    )
    (tmp_path / "q.csv").write_text(table)
    expected = Query(
        "q1",
        "Send it",
        {"archive/find_letter": 1, "post/send": 1},
        slices={"mail": "yes", "confusable": "yes"},
        group="7",
        any_of={"post/send": ("archive/send",)},
        forbidden=("api/getPet",),
        searches=("send mail", "post; letter"),
        context=("user: hello", "and then?"),
        origin="model m-1",
    )
    assert read_queries(tmp_path / "q.json", TOOLS) == [expected]
    assert read_queries(tmp_path / "q.csv", TOOLS) == [replace(expected, context=("and then?",))]


def test_alternatives_have_one_relevance_and_tags_may_have_values() -> None:
    rows = [("a", {"query": "x", "tools": {"post/send | archive/send": 3}, "tags": {"kind": "one", "size": 2}})]
    (query,) = queries_of(rows, TOOLS, "f")
    assert (query.gold, query.any_of) == ({"post/send": 3}, {"post/send": ("archive/send",)})
    assert query.slices == {"kind": "one", "size": "2"}
    assert query.meeting == {"post/send": 3, "archive/send": 3}


def test_a_requirement_with_one_tool_keeps_it() -> None:
    rows = [("a", {"query": "x", "tools": [["post/send", "archive/send"], "post/send"]})]
    (query,) = queries_of(rows, TOOLS, "f")
    assert (query.gold, query.any_of) == ({"post/send": 1, "archive/send": 1}, {"archive/send": ("post/send",)})


def test_a_file_cannot_make_a_column_of_every_query() -> None:
    rows = [(f"line {n}", {"query": "x", "tools": [], "tags": [f"tag{n}"]}) for n in range(201)]
    with pytest.raises(DataError, match="f has 201 different tags; at most 200 are allowed"):
        queries_of(rows, TOOLS, "f")
    assert len(queries_of(rows[:200], TOOLS, "f")) == 200


def test_a_name_with_a_bar_is_a_name_if_there_is_such_a_tool() -> None:
    tools = [Tool("a | b", "a | b", ""), Tool("a", "a", ""), Tool("b", "b", "")]
    (query,) = queries_of([("a", {"query": "x", "tools": ["a | b"]})], tools, "f")
    assert query.gold == {"a | b": 1}


def test_all_faults_are_counted_and_five_are_shown() -> None:
    said = fault([{"query": "x", "tools": [f"no{number}"]} for number in range(9)])
    assert said.startswith("f has 9 faults: line 1: tools: there is no tool 'no0'")
    assert said.endswith("; and 4 more.")
    assert said.count("there is no tool") == 5


def test_unknown_names_in_a_large_catalogue_take_no_time() -> None:
    tools = [Tool(f"server{number}/do_a_thing_{number}", f"do_a_thing_{number}", "") for number in range(5000)]
    rows = [("line", {"query": "x", "tools": [f"do_a_think_{number}" * 3]}) for number in range(3000)]
    with pytest.raises(DataError, match="f has 3000 faults"):
        queries_of(rows, tools, "f")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        (
            "q.csv",
            b"query,gadget\nx,y\n",
            "must begin with a line of column names, query and tools among them, each once; for other names give",
        ),
        ("q.csv", b"query,tools,tools\nx,y,z\n", "must begin with a line of column names"),
        ("q.csv", b"", "must begin with a line of column names"),
        ("q.csv", b"query,tools\nx\n", "line 2: expected 2 columns."),
        ("q.csv", b"query,tools\nx,y,z\n", "line 2: expected 2 columns."),
        ("q.csv", b"query,tools\n\xff,y\n", "is not UTF-8"),
        ("q.csv", b'query,tools\n"x,y\n', "line 2: it is not CSV ("),
        ("q.csv", b"query,tools\n", "has no queries."),
        ("q.json", b"[]", "has no queries."),
        ("q.jsonl", b'{"query": "x", "tools": []}\n{', "line 2 is not JSON"),
        ("q.yaml", b"query: x\ntools: {a: 1", "is not YAML"),
    ],
)
def test_a_malformed_file_is_said_in_a_sentence(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_queries(tmp_path / name, TOOLS)
    assert str(tmp_path / name) in str(caught.value)
    assert sentence in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"cannot read gone\.csv"):
        read_queries(Path("gone.csv"), TOOLS)


def test_names_of_tools_that_are_not_there_can_be_left_out() -> None:
    rows = [
        {"id": "part", "query": "Send it, then burn it", "tools": ["post/send", "burn"]},
        {"id": "whole", "query": "Burn it", "tools": ["burn"]},
        {"id": "other", "query": "Send or burn", "tools": [["burn", "post/send", "archive/send"]]},
        {"id": "harm", "query": "Send it", "tools": ["post/send"], "forbidden": ["burn", "getPet"]},
        {"id": "none", "query": "Nothing", "tools": [], "forbidden": ["burn"]},
    ]
    unknown: list[tuple[str, str]] = []
    placed = [(f"line {number}", row) for number, row in enumerate(rows, start=1)]
    assert queries_of(placed, TOOLS, "f", unknown) == [
        Query("part", "Send it, then burn it", {"post/send": 1}),
        Query("other", "Send or burn", {"post/send": 1}, any_of={"post/send": ("archive/send",)}),
        Query("harm", "Send it", {"post/send": 1}, forbidden=("api/getPet",)),
        # No tool answers it, which is something else.
        Query("none", "Nothing", {}),
    ]
    assert unknown == [(name, "burn") for name in ("part", "whole", "other", "harm", "none")]
    # A name that several tools have stays an error.
    with pytest.raises(DataError, match="tools: 'send' may mean archive/send, post/send; use the id"):
        queries_of([("line 1", {"query": "Send it", "tools": ["send", "burn"]})], TOOLS, "f", unknown)

"""Rows of queries as other projects keep them, each in the shape that its own documentation gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError, UsageError
from bench.data.tables import Query, Tool
from bench.importing.queries import queries_of, read_queries
from bench.importing.query_rows import FieldNames, at_path

TOOLS = [
    Tool(f"{server}/{name}", name, "", parent=server)
    for server, name in (
        *(("fs", "read"), ("fs", "write"), ("fs", "delete_file"), ("fs", "delete_folder"), ("mail", "send")),
        *(("shop", "find_order"), ("shop", "cancel_order"), ("geo", "geometry.area")),
    )
]
Gold = tuple[str, list[str], list[str]]


def read(tmp_path: Path, content: str, name: str = "q.yaml", **fields: str) -> tuple[list[Query], list[str]]:
    (tmp_path / name).write_text(content, "utf-8")
    notes: list[str] = []
    return read_queries(tmp_path / name, TOOLS, fields=FieldNames.of(fields.items()), notes=notes), notes


def gold(queries: list[Query]) -> list[Gold]:
    """Text, gold with alternatives after `|`, forbidden."""
    return [
        (q.text, ["|".join((tool, *q.any_of.get(tool, ()))) for tool in q.gold], list(q.forbidden)) for q in queries
    ]


def test_rows_with_many_names_of_fields(tmp_path: Path) -> None:
    rows = """
        {"prompt": "open notes.txt", "expected_tool": "read"}
        {"prompt": "how are you?", "expected_tool": null}
        {"input": "save this", "expectedTools": ["write"]}
        {"query": "tell Ann", "toolsUsed": ["send"], "toolsNotUsed": ["read"], "requireAny": []}
        {"question": "open or save", "requireAny": ["fs:read", "fs:write"]}
        {"Question": "Which order?", "Expected Tools": ["find_order"], "id": 7}
        {"query": "nothing", "tools": ""}
    """
    queries, notes = read(tmp_path, rows, "q.jsonl")
    assert gold(queries) == [
        ("open notes.txt", ["fs/read"], []),
        ("how are you?", [], []),
        ("save this", ["fs/write"], []),
        ("tell Ann", ["mail/send"], ["fs/read"]),
        ("open or save", ["fs/read|fs/write"], []),
        ("Which order?", ["shop/find_order"], []),
        ("nothing", [], []),
    ]
    assert queries[5].query_id == "7"
    assert notes[0].startswith("6 names of tools were mapped to ids (")
    assert notes[1:] == ["2 queries are answered by no tool, as their tools say: null (1), empty (1)"]


NO_TEXT = "is a list, but not of messages with one of a user; expected one text: write a row for each"


@pytest.mark.parametrize(
    ("head", "cells"),
    [
        ("prompt,expected_tool", "read"),
        ("input,expectedTools", '"read; send"'),
        ("text,tools", '"[""read"", ""send""]"'),
        # As pandas writes a list.
        ("question,gold_tools", "\"['read', 'send']\""),
        ("query,tools", '"read, send"'),
        ("query,tools", '"read\nsend"'),
        ("user_input,tool", '"[{""name"": ""read""}]"'),
    ],
)
def test_tables_with_other_names_and_ways_to_list(tmp_path: Path, head: str, cells: str) -> None:
    queries, _ = read(tmp_path, f"{head}\nopen it,{cells}\nhello,\nhello again,none\n", "q.csv")
    both = ["fs/read", "mail/send"] if "send" in cells else ["fs/read"]
    assert gold(queries) == [("open it", both, []), ("hello", [], []), ("hello again", [], [])]


def test_tabs_separate_columns_in_a_tsv(tmp_path: Path) -> None:
    queries, _ = read(tmp_path, "query\ttools\nopen, please\tread\n", "q.tsv")
    assert gold(queries) == [("open, please", ["fs/read"], [])]


def test_a_relevance_of_0_is_a_judgement_and_no_gold(tmp_path: Path) -> None:
    rows = '[{"query": "a", "tools": {"read": 2, "write": 0}}, {"query": "b", "tools": {"fs/send": 0, "send": 0}}]'
    with pytest.raises(DataError, match="entry 2: tools: there is no tool 'fs/send'"):
        read(tmp_path, rows, "q.json")
    queries, notes = read(tmp_path, rows.replace('"fs/send": 0, ', ""), "q.json")
    assert gold(queries) == [("a", ["fs/read"], []), ("b", [], [])]
    assert queries[0].gold == {"fs/read": 2}
    told = "2 judgements of relevance 0, which is not gold; queries with no other, which no tool answers: 1"
    assert told in notes


def test_bfcl_keeps_its_answers_in_another_file(tmp_path: Path) -> None:
    function = [{"name": "geometry.area", "description": "Area.", "parameters": {"type": "dict", "properties": {}}}]

    def question(number: str, *turns: str) -> dict[str, Any]:
        said = [[{"role": "user", "content": turn}] for turn in turns]
        return {"id": number, "question": said, "function": function}

    questions = [question("simple_0", "Area of a triangle?"), question("irrelevance_3", "Who won?")]
    answers = [{"id": "simple_0", "ground_truth": [{"geometry.area": {"base": [10], "height": [5]}}]}]
    (tmp_path / "possible_answer").mkdir()
    (tmp_path / "possible_answer" / "BFCL_v4_simple.json").write_text("\n".join(map(json.dumps, answers)))
    queries, notes = read(tmp_path, "\n".join(map(json.dumps, questions)), "BFCL_v4_simple.json")
    assert gold(queries) == [("Area of a triangle?", ["geo/geometry.area"], []), ("Who won?", [], [])]
    assert [query.query_id for query in queries] == ["simple_0", "irrelevance_3"]
    assert "fields that are not read (rows): function (2)" in notes
    # One row alone is an object of JSON.
    assert len(read(tmp_path, json.dumps(questions[0]), "BFCL_v4_simple.json")[0]) == 1
    # Without answers nothing is right, and nothing is guessed.
    with pytest.raises(DataError, match="the tools are missing"):
        read(tmp_path, json.dumps(questions[0]), "other.json")


def test_a_dialogue_of_bfcl_is_a_query_for_each_turn() -> None:
    row = {
        "id": "multi_turn_base_0",
        "question": [[{"role": "user", "content": "Open it."}], [{"role": "user", "content": "Now save and send it."}]],
        "ground_truth": [["read(path='a, b')"], ["write(path='a')", "send(to='Ann (home)')"]],
        "involved_classes": ["Files"],
    }
    queries = queries_of([("line 1", row)], TOOLS, "f")
    assert gold(queries) == [
        ("Open it.", ["fs/read"], []),
        ("Now save and send it.", ["fs/write", "mail/send"], []),
    ]
    assert [query.query_id for query in queries] == ["multi_turn_base_0_turn1", "multi_turn_base_0_turn2"]
    assert {query.group for query in queries} == {"multi_turn_base_0"}
    assert queries[1].context == ("user: Open it.",)


def test_xlam_keeps_answers_and_definitions_as_texts() -> None:
    row = {
        "id": 4,
        "query": "Where is my order?",
        "answers": '[{"name": "find_order", "arguments": {"id": 1}}, {"name": "find_order", "arguments": {"id": 2}}]',
        "tools": '[{"name": "find_order", "description": "Finds.", "parameters": {"id": {"type": "int"}}}]',
    }
    (query,) = queries_of([("line 1", row)], TOOLS, "f")
    assert (query.query_id, dict(query.gold)) == ("4", {"shop/find_order": 1})
    # Definitions alone do not say what is right.
    del row["answers"]
    with pytest.raises(DataError, match="tools defines tools and does not say which are right"):
        queries_of([("line 1", row)], TOOLS, "f")


def test_tau_bench_has_actions() -> None:
    rows = [
        {
            "user_id": "ann_1",
            "instruction": "You want to cancel your order.",
            "actions": [{"name": "find_order", "kwargs": {}}, {"name": "cancel_order", "arguments": {"id": "#1"}}],
            "outputs": [],
        },
        {
            "id": "12",
            "description": {"purpose": "test", "notes": None},
            "user_scenario": {
                "persona": None,
                "instructions": {
                    "domain": "shop",
                    "reason_for_call": "You want a refund.",
                    "known_info": "You are Ann.",
                    "unknown_info": None,
                    "task_instructions": "Be brief.",
                },
            },
            "initial_state": None,
            "evaluation_criteria": {
                "actions": [
                    {"action_id": "12_0", "name": "find_order", "arguments": {}, "info": None},
                    {"action_id": "12_1", "name": "toggle_roaming", "arguments": {}, "requestor": "user"},
                ],
                "nl_assertions": None,
            },
        },
        {"id": "13", "user_scenario": {"instructions": "Say hello."}, "evaluation_criteria": {"actions": None}},
    ]
    queries = queries_of([(f"entry {n}", row) for n, row in enumerate(rows, start=1)], TOOLS, "f")
    assert gold(queries) == [
        ("You want to cancel your order.", ["shop/find_order", "shop/cancel_order"], []),
        ("You want a refund.\nYou are Ann.\nBe brief.", ["shop/find_order"], []),
        ("Say hello.", [], []),
    ]


def test_inspect_has_samples(tmp_path: Path) -> None:
    rows = [
        {"input": "open it", "target": "read", "id": "a", "metadata": {"level": 1}},
        {
            "input": [
                {"role": "system", "content": "You are helpful."},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "hi"},
                {"role": "user", "content": [{"type": "text", "text": "save and send it"}]},
            ],
            "target": ["write", "send"],
        },
        {"input": "chat", "target": ""},
    ]
    queries, notes = read(tmp_path, "\n".join(map(json.dumps, rows)), "q.jsonl")
    assert gold(queries) == [
        ("open it", ["fs/read"], []),
        ("save and send it", ["fs/write", "mail/send"], []),
        ("chat", [], []),
    ]
    assert queries[1].context == ("user: hello", "assistant: hi")
    assert "fields that are not read (rows): metadata (1)" in notes


def test_promptfoo_has_vars_and_assertions(tmp_path: Path) -> None:
    queries, notes = read(
        tmp_path,
        """
prompts: ["{{task}}"]
providers: [openai:gpt-5-mini]
tests:
  - description: one
    vars: {task: Replace the title, fixture: a.docx}
    assert:
      - {type: tool-call-f1, value: [read, write], threshold: 0.5}
      - {type: javascript, value: "file://x.cjs"}
  - vars: {question: Tell Ann}
    assert:
      - {type: trajectory:tool-used, value: {name: send, min: 1}}
      - {type: trajectory:tool-used, value: {name: read, max: 0}}
      - {type: not-trajectory:tool-used, value: ["delete_*"]}
  - vars: {prompt: hello}
    assert: [{type: tool-call-f1, value: []}]
  - vars: {prompt: in turn}
    assert: [{type: trajectory:tool-sequence, value: {mode: exact, steps: [read, send]}}]
  - vars: {prompt: as text}
    assert: [{type: tool-call-f1, value: "read,send"}]
""",
    )
    assert gold(queries) == [
        ("Replace the title", ["fs/read", "fs/write"], []),
        ("Tell Ann", ["mail/send"], ["fs/read", "fs/delete_file", "fs/delete_folder"]),
        ("hello", [], []),
        ("in turn", ["fs/read", "mail/send"], []),
        ("as text", ["fs/read", "mail/send"], []),
    ]
    assert notes[1:] == [
        "1 query is answered by no tool, as their tools say: empty (1)",
        "assertions that may be about tools and are not read: tests 1 (javascript)",
        "fields that are not read (rows): prompts of the file (1), providers of the file (1), description (1)",
    ]
    with pytest.raises(DataError, match=r"tests 1: assert: no assertion names a tool \(of the kinds latency\)"):
        read(tmp_path, "tests: [{vars: {prompt: x}, assert: [{type: latency, threshold: 5}]}]")


def test_mcp_eval_has_cases_with_evaluators(tmp_path: Path) -> None:
    queries, _ = read(
        tmp_path,
        """
name: Basic
server_name: fs
cases:
  - name: one
    inputs: Open notes.txt
    expected_output: x
    evaluators:
      - ToolWasCalled: {tool_name: read}
      - ResponseContains: {text: x}
  - name: two
    inputs: Open and save
    evaluators:
      - ToolSequence: {expected_sequence: [read, write], allow_other_calls: false}
      - ExactToolCount: {tool_name: delete_file, expected_count: 0}
""",
    )
    assert gold(queries) == [
        ("Open notes.txt", ["fs/read"], []),
        ("Open and save", ["fs/read", "fs/write"], ["fs/delete_file"]),
    ]
    with pytest.raises(DataError, match="cases 1: evaluators: no assertion names a tool"):
        read(tmp_path, "cases: [{inputs: x, evaluators: [{ResponseContains: {text: x}}]}]")


def test_others_with_calls_or_names(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        # deepeval, ragas, ADK, OpenAI's calls, pymcpevals, a server beside the name, a call to count.
        {"input": "a", "actual_output": "x", "expected_tools": [{"name": "read", "description": None}]},
        {"user_input": "b", "reference_tool_calls": [{"name": "read", "args": {}}]},
        {"query": "c", "expected_tool_use": [{"tool_name": "read", "tool_input": {}}], "reference": "x"},
        {"prompt": "d", "expected_tool_calls": [{"type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"name": "e", "prompt": "e", "expected_result": "x", "expected_tools": ["read"], "threshold": 3.5},
        {"query": "f", "tools": [{"server": "fs", "tool": "read"}]},
        {"query": "g", "tools": [{"server_name": "fs", "tool_name": "read"}, {"tool_name": "fs__read"}]},
        {"query": "h", "ground_truth": {"read": {"path": "x"}}},
        {"vars": {"messages": "i"}, "expected": {"name": "read"}},
        {"inputs": {"question": "j"}, "expected": "fs.read"},
    ]
    queries, _ = read(tmp_path, json.dumps(rows), "q.json")
    assert gold(queries) == [(letter, ["fs/read"], []) for letter in "abcdefghij"]


USED = "trajectory:tool-used"


@pytest.mark.parametrize(
    ("test", "expected", "note"),
    [
        # Sets of assertions, in each other; with a threshold that one of them meets; weights.
        (
            "assert: [{type: assert-set, assert: [{type: assert-set, assert: [{type: USED, value: read}]}]}, "
            "{type: not-USED, value: send}]",
            (["fs/read"], ["mail/send"]),
            "",
        ),
        (
            "assert: [{type: assert-set, threshold: 0.5, assert: [{type: USED, value: read}, {type: USED, value: "
            "[send]}]}]",
            (["fs/read|mail/send"], []),
            "",
        ),
        (
            "threshold: 1, assert: [{type: USED, value: read}, {type: USED, value: send}]",
            (["fs/read", "mail/send"], []),
            "",
        ),
        (
            "threshold: 0.3, assert: [{type: USED, value: read}, {type: USED, value: send}]",
            (["fs/read|mail/send"], []),
            "",
        ),
        (
            "assert: [{type: USED, value: read, weight: 0}, {type: USED, value: send}]",
            (["mail/send"], []),
            "assertions that do not say which tools are right: USED of weight 0 (1)",
        ),
        # Kinds that say nothing, and kinds that may say something.
        (
            "assert: [{type: contains, value: read}, {type: contains, value: x}, {type: llm-rubric}, {type: USED, "
            "value: send}]",
            (["mail/send"], []),
            "assertions that do not say which tools are right: contains (2), llm-rubric (1)",
        ),
        (
            "assert: [{type: python, value: x}, {type: not-trajectory:tool-sequence, value: [read, send]}, {type: "
            "USED, value: send}]",
            (["mail/send"], []),
            "assertions that may be about tools and are not read: tests 1 (python), tests 1 "
            "(not-trajectory:tool-sequence)",
        ),
        (
            "assert: [{type: assert-set, threshold: 0.5, assert: [{type: USED, value: read}, {type: python}]}, {type: "
            "USED, value: send}]",
            (["mail/send"], []),
            "assertions that may be about tools and are not read: tests 1 (python), tests 1 (assert-set of threshold "
            "0.5)",
        ),
        # Bounds, also turned around.
        (
            "assert: [{type: not-USED, value: {name: read, max: 0}}, {type: USED, value: {name: write, min: 0}}]",
            (["fs/read"], []),
            "assertions that do not say which tools are right: USED with min 0 (1)",
        ),
        (
            "assert: [{type: not-USED, value: send}]",
            ([], ["mail/send"]),
            "1 query is answered by no tool, as their tools say: only forbidden tools (1)",
        ),
        (
            "assert: [{type: USED, value: '{{tool}}'}], vars: {prompt: x, tool: [read, send]}",
            (["fs/read", "mail/send"], []),
            "",
        ),
    ],
)
def test_assertions_of_promptfoo(tmp_path: Path, test: str, expected: Any, note: str) -> None:
    variables = "" if "vars:" in test else "vars: {prompt: x}, "
    queries, notes = read(tmp_path, f"tests: [{{{variables}{test}}}]".replace("USED", USED))
    assert gold(queries) == [("x", *expected)]
    assert notes[1:] == [note.replace("USED", USED)] * bool(note)


SHARED = """
assertionTemplates: {send: {type: USED, value: send}}
defaultTest:
  vars: {prompt: usual, other: 1}
  assert: [{type: USED, value: read}]
tests:
  - assert: [{$ref: '#/assertionTemplates/send'}]
  - vars: {prompt: alone}
    options: {disableDefaultAsserts: true}
    assert: [{type: USED, value: write}]
scenarios:
  - config: [{vars: {prompt: one}}, {vars: {prompt: two}}]
    tests: [{assert: [{type: USED, value: send}]}, {}]
"""


def test_what_holds_for_all_tests_is_read_with_each(tmp_path: Path) -> None:
    queries, _ = read(tmp_path, SHARED.replace("USED", USED))
    assert gold(queries) == [
        ("usual", ["fs/read", "mail/send"], []),
        ("alone", ["fs/write"], []),
        *((text, tools, []) for text in ("one", "two") for tools in (["fs/read", "mail/send"], ["fs/read"])),
    ]


def test_evaluators_of_a_dataset_are_those_of_each_case(tmp_path: Path) -> None:
    queries, notes = read(
        tmp_path,
        """
name: pydantic
cases:
  - {name: one, inputs: Open it}
  - {name: two, inputs: Open and send, evaluators: [EqualsExpected, {ToolWasCalled: send}]}
  - {name: three, inputs: Save, evaluators: [{name: MaxDuration, arguments: [1.0]}]}
evaluators: [ToolWasCalled: {tool_name: read}, IsInstance: str, HasMatchingSpan: {query: {name_contains: read}}]
""",
    )
    assert gold(queries) == [
        ("Open it", ["fs/read"], []),
        ("Open and send", ["fs/read", "mail/send"], []),
        ("Save", ["fs/read"], []),
    ]
    assert notes[1:3] == [
        "assertions that do not say which tools are right: IsInstance (3), EqualsExpected (1), MaxDuration (1)",
        "assertions that may be about tools and are not read: cases 1 (HasMatchingSpan), cases 2 (HasMatchingSpan), "
        "cases 3 (HasMatchingSpan)",
    ]
    # Evaluators that name no tool stand beside a field that does.
    case = "cases: [{inputs: Save, expected_tools: [write]}]\nevaluators: [IsInstance: str]"
    assert gold(read(tmp_path, case)[0]) == [("Save", ["fs/write"], [])]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("defaultTest: file://x.yaml\ntests: [{vars: {prompt: x}}]", "defaultTest: 'file://x.yaml' is not followed"),
        ("tests: file://x.yaml", "tests 1: 'file://x.yaml' is not followed"),
        ("tests: [{vars: {prompt: x}}, file://x.yaml]", "tests 2: 'file://x.yaml' is not followed"),
        ("scenarios: [{config: [file://x.yaml], tests: [{}]}]", "config 1, tests 1: 'file://x.yaml' is not followed"),
        ("tests: [{$ref: '#/no'}]", "tests 1: the query is missing or not a text; it has $ref"),
        ("a: {$ref: '#/a'}\ntests: [{$ref: '#/a'}]", "tests 1: the query is missing or not a text; it has $ref"),
        ("tests: [{vars: {prompt: x}, assert: [{$ref: '#/no'}]}]", "no assertion names a tool (of the kinds $ref)"),
        ("tests: [{vars: {prompt: x}, assert: [{type: USED}]}]", "a requirement names no tool"),
        ("tests: [{vars: {prompt: x}, assert: [{type: USED, value: ''}]}]", "(of the kinds USED without a tool)"),
        ("tests: [{vars: {prompt: x}, assert: [{type: javascript, value: read}]}]", "(of the kinds javascript)"),
        (
            "tests: [{vars: {prompt: x}, assert: [{type: USED, value: {name: read, min: 0}}]}]",
            "(of the kinds USED with min 0)",
        ),
        ("tests: [{vars: {prompt: x}, assert: []}]", "assert: no assertion names a tool (of the kinds none)"),
        (
            "cases: [{inputs: x}]\nevaluators: [IsInstance: str]",
            "evaluators: no assertion names a tool (of the kinds Is",
        ),
        (
            "tests: [{vars: {prompt: x}, threshold: 0.5, assert: [{type: USED, value: read}, {type: cost}]}]",
            "threshold 0.5",
        ),
        (
            "{id: 1, question: [[{role: user, content: a}], [{role: user, content: b}]], ground_truth: [[read()]]}",
            "question has 2 turns, and ground_truth no list of calls for each",
        ),
    ],
)
def test_what_other_projects_say_in_a_way_that_is_not_read(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, content.replace("USED", USED))
    assert sentence.replace("USED", USED) in str(caught.value)


def test_templates_that_double_each_other_are_not_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.importing.query_files.MOST_VALUES", 10_000)
    doubled = "".join(f"a{n}: [{{$ref: '#/a{n + 1}'}}, {{$ref: '#/a{n + 1}'}}]\n" for n in range(15))
    with pytest.raises(DataError, match="with its references written out, it has more than 10000 values"):
        read(tmp_path, f"{doubled}a15: []\ntests: [{{$ref: '#/a0'}}]")


# Tables and words -----------------------------------------------------------------------------------------------------

TABLE = 'query;tools\n"open; read it";read\nsend;"send; read"\n\n;\nnothing;None\n'
READ: list[Gold] = [("open; read it", ["fs/read"], []), ("send", ["mail/send", "fs/read"], []), ("nothing", [], [])]


@pytest.mark.parametrize(
    "data",
    [
        TABLE.encode(),
        TABLE.encode("utf-8-sig"),
        TABLE.encode("utf-16"),
        TABLE.replace(";", "\t").replace("open\t", "open;").replace("send\t read", "send; read").encode("utf-16"),
        TABLE.replace("\n", "\r\n").encode(),
        f"sep=;\r\n{TABLE}".encode("utf-8-sig"),
        f'"sep=;"\n{TABLE}'.encode(),
        TABLE.replace("query;tools", '"query";tools;;').replace("read\n", "read;;\n").encode(),
    ],
)
@pytest.mark.parametrize("name", ["q.csv", "q.tsv"])
def test_a_table_is_read_as_a_spreadsheet_writes_it(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert gold(read_queries(tmp_path / name, TOOLS)) == READ


def test_a_fault_in_a_table_has_the_first_line_of_its_row(tmp_path: Path) -> None:
    for first in ("", "sep=;\n"):
        with pytest.raises(DataError, match=f"q.csv, line {3 + bool(first)}: tools: there is no tool 'raed'"):
            read(tmp_path, f'{first}query;tools\na;read\n"two\nlines";raed\nb;read', "q.csv")
    with pytest.raises(DataError, match=r"commas or semicolons may separate its columns; write `sep=,` above"):
        read(tmp_path, "text,tools;x;query;tools\n", "q.csv", text="text", tools="tools;x;query;tools")


def test_utf_16_without_its_mark_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_bytes(TABLE.encode("utf-16-le"))
    with pytest.raises(DataError, match=r"q\.csv is not UTF-8 \(null characters, as in UTF-16 without its mark"):
        read_queries(tmp_path / "q.csv", TOOLS)


def test_expectations_of_promptfoo_stand_in_columns(tmp_path: Path) -> None:
    rows = f"prompt,__expected1,__expected2\na,{USED}: read,contains: x\nb,not-{USED}: send,{USED}(1):write\n"
    queries, notes = read(tmp_path, rows, "q.csv")
    assert gold(queries) == [("a", ["fs/read"], []), ("b", ["fs/write"], ["mail/send"])]
    assert notes[1:] == ["assertions that do not say which tools are right: contains (1)"]


NO_TOOL = ["none", "None", "NULL", "no_tool", "No tool", "", "[]"]


def test_words_for_no_tool_are_the_same_at_each_door(tmp_path: Path) -> None:
    cells = "".join(f'{number},"{word}"\n' for number, word in enumerate(NO_TOOL))
    values = [*NO_TOOL, None, [], {}, ["none"], [None], {"name": "no_tool"}, {"none": 1}]
    rows = [{"query": str(n), "expected_tool": value} for n, value in enumerate(values)]
    asserted = "".join(
        f"  - {{vars: {{prompt: x}}, assert: [{{type: {kind}, value: {value}}}]}}\n"
        for kind, value in (("tool-call-f1", "[]"), ("tool-call-f1", "none"), (USED, "None"))
    )
    for content, name in (
        (f"query,tools\n{cells}", "q.csv"),
        (json.dumps(rows), "q.json"),
        ("\n".join(map(json.dumps, rows)), "q.jsonl"),
        (f"tests:\n{asserted}", "q.yaml"),
    ):
        queries, notes = read(tmp_path, content, name)
        assert not any(query.gold for query in queries)
        assert notes[0].startswith(f"{len(queries)} queries are answered by no tool, as their tools say: ")
    # A library that has a tool of that name means the tool.
    (query,) = queries_of([("a", {"query": "x", "tools": "None"})], [*TOOLS, Tool("fs/none", "none", "")], "f")
    assert list(query.gold) == ["fs/none"]
    for tools in (["none", "read"], "read; none", ["read", None]):
        with pytest.raises(DataError, match=r"it names tools, and 'n.*' beside them"):
            queries_of([("a", {"query": "x", "tools": tools})], TOOLS, "f")


def test_a_relevance_below_0_is_0_and_counted(tmp_path: Path) -> None:
    queries, notes = read(tmp_path, '[{"query": "a", "tools": {"read": -2, "write": 0, "send": 1}}]', "q.json")
    assert (gold(queries), queries[0].gold) == ([("a", ["mail/send"], [])], {"mail/send": 1})
    assert "2 judgements of relevance 0 (1 below 0, which is read as 0), which is not gold" in notes


def test_rows_that_contradict_each_other_are_told_with_both_places(tmp_path: Path) -> None:
    rows = [{"id": "a", "query": "x", "tools": ["read"]}, {"id": "a", "query": "y", "tools": ["read"]}]
    with pytest.raises(DataError, match=r"q\.jsonl, line 2: the id 'a' is that of line 1, too\."):
        read(tmp_path, "\n".join(map(json.dumps, rows)), "q.jsonl")
    texts = [("x", ["read"]), ("X ", ["send"]), ("x", ["read", "send"]), ("x", [])]
    queries, notes = read(tmp_path, json.dumps([{"query": text, "tools": tools} for text, tools in texts]), "q.json")
    assert len(queries) == 4
    told = "2 queries have the text of an earlier one and no tool in common with it; the first: entry 1 and entry 2"
    assert notes[-1] == told
    with pytest.raises(DataError, match="line 1: in a text, an object has the key 'a' twice in line 1"):
        read(tmp_path, '{"query": "x", "tools": "{\\"a\\": 1, \\"a\\": 2}"}\n{}', "q.jsonl")


# Files beside the file ------------------------------------------------------------------------------------------------


def gevals(tmp_path: Path, assertions: str, path: str = "../tasks/*.yaml") -> Path:
    for folder in ("tasks", "agent"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tasks" / "a.yaml").write_text(
        "kind: Task\nmetadata: {name: make-a-pod, difficulty: easy}\nsteps:\n  prompt:\n    inline: Make a pod.\n"
    )
    (tmp_path / "tasks" / "b.yaml").write_text(
        "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: b}\nspec:\n  prompt: {file: b.md}\n"
    )
    (tmp_path / "tasks" / "b.md").write_text("List the pods.\n")
    file = tmp_path / "agent" / "eval.yaml"
    file.write_text(
        "kind: Eval\nmetadata: {name: k}\nconfig:\n  mcpConfigFile: ../mcp.yaml\n  taskSets:\n"
        f"    - glob: '{path}'\n      assertions: {assertions}\n"
    )
    return file


@pytest.mark.parametrize(
    ("assertions", "expected", "forbidden"),
    [
        ("{toolsUsed: [{server: fs, tool: read}], minToolCalls: 1}", ["fs/read"], []),
        ("{toolsUsed: [{server: fs, toolPattern: 'delete_.*'}]}", ["fs/delete_file|fs/delete_folder"], []),
        ("{requireAny: [{server: mail}, {server: shop, toolPattern: '^find'}]}", ["mail/send|shop/find_order"], []),
        (
            "{requireAny: [{server: fs}], toolsNotUsed: [{server: fs, toolPattern: '(delete_file|delete_folder)$'}]}",
            ["fs/read|fs/write"],
            ["fs/delete_file", "fs/delete_folder"],
        ),
        ("{callOrder: [{type: tool, server: fs, name: read}, {type: resource, server: fs, name: x}]}", ["fs/read"], []),
        ("{maxToolCalls: 0}", [], []),
        ("{toolsNotUsed: [{server: fs, tool: read}]}", [], ["fs/read"]),
    ],
)
def test_gevals_names_tasks_in_other_files(
    tmp_path: Path, assertions: str, expected: list[str], forbidden: list[str]
) -> None:
    queries = read_queries(gevals(tmp_path, assertions), TOOLS)
    assert gold(queries) == [("Make a pod.", expected, forbidden), ("List the pods.\n", expected, forbidden)]
    assert [query.query_id for query in queries] == ["make-a-pod", "b"]


@pytest.mark.parametrize(
    ("assertions", "path", "sentence"),
    [
        ("{minToolCalls: 1}", "../tasks/*.yaml", "taskSets 1, a.yaml: assertions: no assertion names a tool"),
        ("{toolsUsed: [{server: fs, toolPattern: '(a+)+$'}]}", "../tasks/*.yaml", "the pattern '(a+)+$' is more than"),
        ("{toolsUsed: [{server: fs, toolPattern: zzz}]}", "../tasks/*.yaml", "assertions: no tool matches 'fs/*zzz*'"),
        ("{toolsUsed: [{server: no, tool: read}]}", "../tasks/*.yaml", "there is no tool 'no/read' (near: fs/read"),
        ("{toolsUsed: [{server: fs}]}", "../../../../etc/*", "is outside the folders beside this file"),
        ("{toolsUsed: [{server: fs}]}", "/etc/*", "expected a path or a glob of tasks, relative to this file"),
        ("{toolsUsed: [{server: fs}]}", "../tasks/none*.yaml", "no file of tasks matches"),
        ("{toolsUsed: [{server: fs}]}", "*.yaml", "is not a task: expected steps.prompt or spec.prompt"),
    ],
)
def test_what_gevals_cannot_say_is_said(tmp_path: Path, assertions: str, path: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        read_queries(gevals(tmp_path, assertions, path), TOOLS)
    assert sentence in str(caught.value)


def test_a_link_out_of_the_folder_is_no_task(tmp_path: Path) -> None:
    file = gevals(tmp_path / "in", "{toolsUsed: [{server: fs}]}", "../tasks/c.yaml")
    outside = tmp_path / "c.yaml"
    outside.write_text("steps: {prompt: {inline: secret}}")
    (tmp_path / "in" / "tasks" / "c.yaml").symlink_to(outside)
    with pytest.raises(DataError, match="no file of tasks matches"):
        read_queries(file, TOOLS)
    (tmp_path / "in" / "tasks" / "b.md").unlink()
    (tmp_path / "in" / "tasks" / "b.md").symlink_to(outside)
    file.write_text(file.read_text().replace("c.yaml", "b.yaml"))
    with pytest.raises(DataError, match=r"the prompt 'b\.md' leads out of its folder"):
        read_queries(file, TOOLS)


# Names that a user gives ------------------------------------------------------------------------------------------


def test_a_user_names_fields_by_their_paths(tmp_path: Path) -> None:
    rows = [
        {"case": {"said": "open it", "calls": [{"fn": "read"}, {"fn": "send"}]}, "no": {"x": ["write"]}, "key": "k1"},
        {"case": {"said": "hello", "calls": []}, "key": "k2"},
        {"case": {"said": "bye", "calls": None}, "key": "k3"},
    ]
    queries, notes = read(
        tmp_path, json.dumps(rows), "q.json", text="case.said", tools="case.calls.fn", forbidden="no.x", id="key"
    )
    assert gold(queries) == [("open it", ["fs/read", "mail/send"], ["fs/write"]), ("hello", [], []), ("bye", [], [])]
    assert [query.query_id for query in queries] == ["k1", "k2", "k3"]
    assert not any("not read" in note for note in notes)


def test_a_user_decides_between_two_names(tmp_path: Path) -> None:
    row = json.dumps([{"prompt": "a", "question": "b", "expected_tools": ["read"], "target": "send", "note": 1}])
    with pytest.raises(DataError, match="prompt and question may each be the text; say which with --field text=NAME"):
        read(tmp_path, row, "q.json")
    queries, notes = read(tmp_path, row, "q.json", text="question", tools="target")
    assert gold(queries) == [("b", ["mail/send"], [])]
    assert notes[-1] == "fields that are not read (rows): prompt (1), expected_tools (1), note (1)"


def test_names_of_columns_may_be_given(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"give --field text=COLUMN --field tools=COLUMN; it has utt, fn"):
        read(tmp_path, "utt,fn\nopen it,read\n", "q.csv")
    queries, _ = read(tmp_path, "utt,fn\nopen it,read\n", "q.csv", text="utt", tools="fn")
    assert gold(queries) == [("open it", ["fs/read"], [])]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"text": "prompt", "gadget": "x"},
            "--field gadget: there is no such field; the fields are text",
        ),
        ({"text": " "}, "--field text= lacks the name"),
        ({"text": "a", "query": "b"}, "--field names query twice"),
    ],
)
def test_fields_that_are_none_are_said(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        FieldNames.of(fields.items())
    assert str(caught.value).startswith(sentence)


def test_a_path_that_no_row_has_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no field 'a\.b' \(--field query=a\.b\); it has prompt, expected_tool\."):
        read(tmp_path, '[{"prompt": "x", "expected_tool": "read"}]', "q.json", text="a.b")


def test_paths_lead_through_objects_lists_and_texts() -> None:
    row = {"a": [{"b": 1}, {"c": 2}, {"b": 3}], "d.e": 4, "f": '{"g": [5, 6]}', "h": {"i": {"j": 7}}}
    assert at_path(row, "a.b") == [1, 3]
    assert at_path(row, "a.0.b") == 1
    assert at_path(row, "d.e") == 4
    assert at_path(row, "f.g.1") == 6
    assert at_path(row, "h.i.j") == 7
    for path in ("a.9.b", "h.x", "a.x", "f.g.9", "d", ".", "a..b", "h.i.j.k"):
        assert not isinstance(at_path(row, path), int | list)


# Faults ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"prompt": "x", "expected_tool": "raed"}, "expected_tool: there is no tool 'raed' (near: fs/read"),
        (
            {"prompt": "x", "toolsUsed": ["read"], "requireAny": ["raed"]},
            "requireAny: there is no tool 'raed' (near: fs/read",
        ),
        (
            {"text": "x", "wanted": []},
            "the tools are missing; write an empty list for a query that no tool answers; it",
        ),
        (
            {"said": "x", "tools": []},
            "the query is missing or not a text; it has said, tools, and another name is given",
        ),
        ({"prompt": 3, "expected_tool": "read"}, "the query (prompt) is missing or not a text"),
        (
            {"vars": {"a": "x", "b": "y"}, "tools": []},
            "the query (vars) has no text under a known name among a, b; say which with --field text=vars.a.",
        ),
        ({"prompt": [{"role": "assistant", "content": "x"}], "tools": []}, f"the query (prompt) {NO_TEXT}"),
        ({"vars": [{"question": "x"}, {"question": "y"}], "tools": []}, f"the query (vars) {NO_TEXT}"),
        ({"vars": ["x"], "tools": []}, f"the query (vars) {NO_TEXT}"),
        ({"vars": {"question": ["x", "y"]}, "tools": []}, f"the query (vars) {NO_TEXT}"),
        ({"vars": "file://x.yaml", "tools": []}, "the query (vars) is 'file://x.yaml', and files are not followed; w"),
        ({"query": "file:///a/b.txt", "tools": []}, "the query is 'file:///a/b.txt', and files are not followed; "),
        ({"query": "x"}, "the tools are missing; write an empty list for a query that no tool answers"),
        ({"query": "x", "expected_tools": [{"arguments": {}, "b": 1}]}, "expected_tools: a requirement names no tool"),
        ({"query": "x", "tools": [], "toolsNotUsed": [[]]}, "toolsNotUsed: a requirement names no tool"),
        ({"query": "x", "tools": [], "forbiden": ["read"]}, "the field 'forbiden' is none of query, tools, id, split"),
        ({"query": "x", "tools": [3.5]}, "tools: a requirement names no tool: '3.5'"),
        ({"query": "x", "tools": [True]}, "tools: a requirement names no tool: 'True'"),
    ],
)
def test_a_fault_names_the_field_as_the_file_has_it(row: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        queries_of([("line 1", row)], TOOLS, "f")
    assert str(caught.value).startswith(f"f, line 1: {sentence}")
    assert str(caught.value).isprintable()


# What a request may see ---------------------------------------------------------------------------------------------


def test_a_request_may_see_servers_or_tools(tmp_path: Path) -> None:
    rows = """
        {"query": "a", "tools": ["read"], "servers": ["fs", "mail"]}
        {"query": "b", "expected_tool": "mail:send", "tools": ["mail:send", "fs__read"]}
        {"query": "c", "tools": [["fs/read", "fs/write"]], "available_tools": "fs/write; mail/send"}
        {"query": "d", "expected_tools": null, "tools": ["fs/read", "mail/send"]}
        {"query": "e", "tools": ["read", "send"]}
    """
    queries, _ = read(tmp_path, rows, "q.jsonl")
    everything = ["fs/read", "fs/write", "fs/delete_file", "fs/delete_folder", "mail/send"]
    assert [(query.text, list(query.gold), list(query.scope)) for query in queries] == [
        ("a", ["fs/read"], everything),
        ("b", ["mail/send"], ["mail/send", "fs/read"]),
        # Of a requirement's tools, those that the request may not see cannot meet it.
        ("c", ["fs/write"], ["fs/write", "mail/send"]),
        ("d", [], ["fs/read", "mail/send"]),
        ("e", ["fs/read", "mail/send"], []),
    ]
    assert not queries[2].any_of


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"servers": ["mail"]}, "tools: 'fs/read' is outside the scope of the request"),
        ({"servers": ["nowhere"]}, "servers: no tool belongs to the server 'nowhere'"),
        ({"scope": []}, "scope must be a list of names; leave it out where all tools may be seen"),
        ({"scope": [7]}, "scope must be a list of names"),
        ({"scope": ["fs/read", "nobody"]}, "scope: there is no tool 'nobody'"),
    ],
)
def test_a_scope_that_says_nothing_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        queries_of([("line 1", {"query": "a", "tools": ["fs/read"], **fields})], TOOLS, "q.jsonl")
    assert f"q.jsonl, line 1: {sentence}" in str(caught.value)


def test_tools_of_a_scope_that_the_catalogue_lacks_go_where_unknown_names_may() -> None:
    rows = [
        ("line 1", {"query": "a", "tools": ["fs/read"], "scope": ["fs/read", "nobody"]}),
        ("line 2", {"query": "b", "tools": ["nobody"], "scope": ["fs/read"]}),
    ]
    unknown: list[tuple[str, str]] = []
    (query,) = queries_of(rows, TOOLS, "q.jsonl", unknown)
    assert (query.scope, unknown) == (("fs/read",), [("q2", "nobody")])


def test_scopes_that_would_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.importing.queries._MOST_SEEN", 9)
    rows = [(f"line {i}", {"query": "a", "tools": ["fs/read"], "servers": ["fs"]}) for i in range(1, 4)]
    assert len(queries_of(rows[:2], TOOLS, "q.jsonl")) == 2
    with pytest.raises(DataError, match="line 3: the requests up to here may see 9 tools together"):
        queries_of(rows, TOOLS, "q.jsonl")

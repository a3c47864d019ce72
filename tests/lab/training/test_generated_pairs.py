"""Pairs that a language model makes from functions, against a server on loopback; and reading the functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.lab.training.generated import generated_pairs, read_functions
from bench.lab.training.pairs import ToolPair

if TYPE_CHECKING:
    from kit.chatserver import ChatServer

CODE = '''
def open_account(name, email):
    """Opens an account."""
    number = create(name, email)
    return {"account_number": number}


class Till:
    def close_account(self, account_number):
        check(account_number)
        remove(account_number)
        return True

    def helper(self): return 1


async def refund(order_id):
    order = await find(order_id)
    return order.amount
'''


def described(name: str, inputs: list[str], outputs: list[str]) -> str:
    return json.dumps(
        {
            "name": name,
            "description": f"Does {name}.",
            "inputs": [{"name": item, "description": "", "required": True} for item in inputs],
            "outputs": [{"name": item, "description": "", "unasked": 1} for item in outputs],
        }
    )


def steps(body: dict[str, Any]) -> tuple[str, str]:
    """Which of the three steps a request is, and its text."""
    system, user = (message["content"] for message in body["messages"])
    step = "verify" if "judge" in system else "generate" if "Invent" in system else "extract"
    return step, user


def answer(body: dict[str, Any]) -> str:
    """A model that works: what it invents takes what the given tool gives back."""
    step, text = steps(body)
    if step == "extract":
        name = text.split("def ")[1].split("(")[0]
        return (
            f"Here it is:\n```json\n{described(name, ['input_of_' + name], ['number_of_' + name])}\n```\nAnything else?"
        )
    if step == "generate":
        given = json.loads(text)
        return described("use_" + given["name"], [given["outputs"][0]["name"]], ["done"])
    return json.dumps({"reason": "it takes the number", "depends": "refund" not in text})


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """A file of functions."""
    path = tmp_path / "code.py"
    path.write_text(CODE)
    return path


def test_each_verified_function_makes_one_pair(functions: Path, chat_server: ChatServer) -> None:
    chat_server.answer = answer
    pairs = generated_pairs(str(functions), "model")
    assert len(chat_server.requests) == 3 * 3
    assert pairs == [
        ToolPair(
            f"use {name}. needs: number of {name}. gives: done. Does use_{raw}.",
            f"{name}. needs: input of {name}. gives: number of {name}. Does {raw}.",
            0,
            f"function {i}",
        )
        for i, (raw, name) in enumerate([("open_account", "open account"), ("close_account", "close account")])
    ]


def test_the_second_step_sees_the_document_and_the_third_both(functions: Path, chat_server: ChatServer) -> None:
    chat_server.answer = answer
    generated_pairs(str(functions), "model")
    requests = [steps(body) for body in chat_server.requests]
    assert [step for step, _ in requests] == ["extract"] * 3 + ["generate"] * 3 + ["verify"] * 3
    for step, text in requests:
        if step == "generate":
            assert "def " not in text, "the code itself is not shown again"
        if step == "verify":
            assert text.index('"use_') < text.index("Tool Y"), "the dependent tool is X"


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot do that.",
        "",
        '{"name": "", "description": "x"}',
        '{"name": "x"}',
        '{"name": 7, "description": "x"}',
        '{"name": "x", "description": "x", "inputs": "none"}',
        '["name"]',
        '{"name": "x", "description": "cut sh',
        "{" * 3000,
    ],
)
def test_a_reply_of_another_form_loses_its_function_only(functions: Path, chat_server: ChatServer, reply: str) -> None:
    chat_server.answer = lambda body: (
        reply if steps(body)[0] == "extract" and "open_account" in steps(body)[1] else answer(body)
    )
    assert [pair.group for pair in generated_pairs(str(functions), "model")] == ["function 1"]


def test_a_verdict_that_is_none_keeps_nothing(functions: Path, chat_server: ChatServer) -> None:
    for verdict in ('{"depends": "yes"}', "Yes.", '{"reason": "x"}', '{"depends": false}'):
        chat_server.answer = lambda body, verdict=verdict: verdict if steps(body)[0] == "verify" else answer(body)  # type: ignore[misc]
        assert generated_pairs(str(functions), f"model {verdict}") == []


def test_what_was_answered_is_not_asked_again(functions: Path, chat_server: ChatServer) -> None:
    chat_server.answer = answer
    whole = generated_pairs(str(functions), "model")
    count = len(chat_server.requests)
    assert generated_pairs(str(functions), "model") == whole
    assert len(chat_server.requests) == count


def test_functions_and_model_must_be_named(functions: Path) -> None:
    for given in (("", "model"), (str(functions), "")):
        with pytest.raises(UsageError, match="source=llm needs functions=PATH and llm=MODEL"):
            generated_pairs(*given)


# Functions ----------------------------------------------------------------------------------------------------------


def test_functions_and_methods_of_python_files_are_read_short_ones_left_out(functions: Path, tmp_path: Path) -> None:
    result = read_functions(functions)
    assert [code.split("(")[0].split()[-1] for code in result] == ["open_account", "close_account", "refund"]
    (tmp_path / "broken.py").write_text("def broken(:\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe def")
    assert read_functions(tmp_path) == result


def test_json_lines_of_codesearchnet_are_read(tmp_path: Path) -> None:
    code = "def f(x):\n    y = x\n    return y"
    path = tmp_path / "train.jsonl"
    path.write_text(
        "".join(json.dumps({field: code + field}) + "\n" for field in ("code", "whole_func_string", "code"))
    )
    assert read_functions(path) == [code + "code", code + "whole_func_string"]


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"text": "x"}', '{"code": 3}', "null", ""])
def test_a_line_without_code_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"code": "def f():\n  a\n  b"}) + f"\n{line}\n")
    with pytest.raises(DataError, match=r"train\.jsonl, line 2(: expected a JSON object with code| is not JSON)"):
        read_functions(path)


def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    for path in (tmp_path / "empty.py", tmp_path / "nowhere.jsonl", tmp_path / "nowhere.py"):
        with pytest.raises(UnavailableError, match=str(path.name)):
            read_functions(path)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ('<think>The form is {"reason": "x", "depends": true}. But no.</think>{"reason": "no", "depends": false}', 0),
        ('<think>Not {"depends": false}?</think>\n```json\n{"reason": "yes", "depends": true}\n```', 2),
        ('The tool is {"name": "a"}; my answer is {"reason": "no", "depends": true}', 0),
        ('{"depends": true, "depends": false}', 0),
    ],
)
def test_a_verdict_is_what_stands_behind_the_thoughts_and_alone(
    functions: Path, chat_server: ChatServer, said: str, kept: int
) -> None:
    chat_server.answer = lambda body: (
        (said if "open_account" in steps(body)[1] or "close_account" in steps(body)[1] else '{"depends": false}')
        if steps(body)[0] == "verify"
        else answer(body)
    )
    assert len(generated_pairs(str(functions), "model")) == kept

"""MCP servers and retrievers that misbehave: what they answer, and, as a program, processes that do it over pipes.

`python misbehaving.py CASE` is such a process. It says the key that its configuration gave it, or else that of a
language model, which it finds in the environment of bench.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

#: The variable with the key of a server in a client's configuration.
KEY = "SERVER_KEY"
GREETING = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
TOOL = {"name": "search", "description": "Finds.", "inputSchema": {"type": "object"}}
_HUGE = {**TOOL, "description": "x" * (7 << 20)}
_DEEP: dict[str, Any] = {"type": "object"}
for _ in range(400):
    _DEEP = {"type": "object", "properties": {"a": _DEEP}}
_USUAL: dict[str, Any] = {
    "initialize": GREETING,
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "[]"}]},
}


def _tools(*tools: object, **more: object) -> dict[str, Any]:
    return {"tools/list": {"tools": list(tools), **more}}


def _greeting(**more: object) -> dict[str, Any]:
    return {"initialize": {**GREETING, **more}}


def _content(*content: object, **more: object) -> dict[str, Any]:
    return {"tools/call": {"content": list(content), **more}}


#: Servers that are wrong in one place: what they give there in the place of the usual.
WRONG: dict[str, dict[str, Any]] = {
    "greeting is a list": {"initialize": []},
    "greeting is empty": {"initialize": {}},
    "greeting of wrong types": _greeting(serverInfo={"name": 5, "version": []}),
    "greeting of a strange version": _greeting(protocolVersion="9999-99-99"),
    "greeting with escapes": _greeting(serverInfo={"name": "\x1b[31m", "version": "\u202e" * 99}),
    "endless pages": _tools(TOOL, nextCursor="again"),
    "endless huge pages": _tools(_HUGE, nextCursor="again"),
    "cursor is a number": _tools(TOOL, nextCursor=7),
    "very many tools": _tools(*({**TOOL, "name": f"t{number}"} for number in range(60_000))),
    "tools of one name": _tools(TOOL, {**TOOL, "description": "Other."}),
    "tools are a text": {"tools/list": {"tools": "search"}},
    "a tool is null": _tools(None),
    "a tool without a name": _tools({"inputSchema": {}}),
    "names with escapes": _tools({**TOOL, "name": "\x1b]0;x\x07\n"}, TOOL),
    "half a character": _tools({**TOOL, "description": "\ud800"}),
    "a deep schema": _tools({**TOOL, "inputSchema": _DEEP}),
    "answer is a list": {"tools/call": []},
    "answer without content": {"tools/call": {}},
    "answer of wrong content": _content({"type": "text", "text": 5}, {"type": "none"}),
    "answer with escapes": _content({"type": "text", "text": "\x1b[31m"}, isError=True),
    "answer of unknown tools": _content({"type": "text", "text": '["a", "a", 5]'}),
}


#: Right answers with a key in one place.
ECHOES: dict[str, Callable[[str], dict[str, Any]]] = {
    "the key in the greeting": lambda key: _greeting(serverInfo={"name": f"w {key}", "version": key}),
    "the key in names of tools": lambda key: _tools({**TOOL, "name": key}, {**TOOL, "name": "other", key: 1}),
    "the key in a description": lambda key: _tools(
        {**TOOL, "description": key, "inputSchema": {"type": "object", "title": key}}
    ),
    "the key as an answer": lambda key: _content({"type": "text", "text": json.dumps([key])}),
    "the key in a structure": lambda key: _content(structuredContent={"tools": [key], key: key}),
    "the key in an error": lambda key: _content({"type": "text", "text": key}, isError=True),
}


def reply(question: dict[str, Any], wrong: dict[str, Any]) -> dict[str, Any]:
    """What a server says to a question, wrong in one place."""
    replies = {**_USUAL, **wrong}
    method = str(question.get("method"))
    answer = {"result": replies[method]} if method in replies else {"error": {"code": -32601, "message": "no"}}
    return {"jsonrpc": "2.0", "id": question.get("id"), **answer}


def _key() -> str:
    return os.environ.get(KEY) or os.environ["BENCH_LLM_KEY"]


def _put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _say(value: object) -> None:
    _put(json.dumps(value).encode() + b"\n")


def _ask() -> dict[str, Any]:
    """The next question; messages that ask nothing are passed over."""
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        if "id" in question:
            return question
    sys.exit(0)


def _always(*data: bytes) -> Callable[[], None]:
    """Writes this again and again, without being asked."""

    def run() -> None:
        while True:
            _put(b"".join(data))

    return run


def _answers(make: Callable[[dict[str, Any]], list[object]]) -> Callable[[], None]:
    """Says these values to each question."""

    def run() -> None:
        while True:
            for value in make(_ask()):
                _say(value)

    return run


def _serves(wrong: dict[str, Any]) -> Callable[[], None]:
    return _answers(lambda question: [reply(question, wrong)])


def _echoes(make: Callable[[str], dict[str, Any]]) -> Callable[[], None]:
    return _answers(lambda question: [reply(question, make(_key()))])


def _answers_bytes(data: bytes) -> Callable[[], None]:
    def run() -> None:
        while True:
            _ask()
            _put(data)

    return run


def _floods_errors() -> None:
    while True:
        sys.stderr.write("x" * 65536)


def _shuts_its_output() -> None:
    os.close(1)
    time.sleep(999)


def _will_not_end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _ask()
    _shuts_its_output()


def _leaves_a_child() -> None:
    subprocess.Popen(["sleep", "300"])
    _ask()


_NOTE = {"jsonrpc": "2.0", "method": "notifications/a"}
#: What processes do.
PROCESSES: dict[str, Callable[[], None]] = {
    "silence": lambda: time.sleep(999),
    "dies": lambda: sys.exit(3),
    "dies with the key as a message": lambda: sys.exit("\x1b[31m" + _key() * 99),
    "dies after a question": lambda: sys.exit(str(_ask())),
    "shuts its output": _shuts_its_output,
    "will not end": _will_not_end,
    "leaves a child with its pipes": _leaves_a_child,
    "an endless line": _always(b"[" * 65536),
    "endless lines": _always(b"{}\n" * 9999),
    "endless errors": _floods_errors,
    "no JSON": _answers_bytes(b"hello\x1b[31m\n"),
    "no text": _answers_bytes(b"\xff\xfe\n"),
    "deep": _answers_bytes(b"[" * 90_000 + b"\n"),
    "echo of the key": _answers(lambda question: [{**reply(question, {}), "tools": [_key()]}]),
    "the key as an error": _answers(
        lambda question: [{"jsonrpc": "2.0", "id": question["id"], "error": {"code": 1, "message": _key()}}]
    ),
    "a flood of messages": _answers(lambda question: [_NOTE] * 300_000),
    "questions back": _answers(
        lambda question: [
            {"jsonrpc": "2.0", "id": number, "method": "sampling/createMessage"} for number in range(9999)
        ]
    ),
    "wrong ids": _answers(lambda question: [{**reply(question, {}), "id": 10**9}]),
    "ids are objects": _answers(lambda question: [{**reply(question, {}), "id": {}}]),
    "each answer twice": _answers(lambda question: [reply(question, {})] * 2),
    **{name: _serves(wrong) for name, wrong in WRONG.items()},
    **{name: _echoes(make) for name, make in ECHOES.items()},
}


if __name__ == "__main__":
    next(itertools.islice(PROCESSES.values(), int(sys.argv[1]), None))()

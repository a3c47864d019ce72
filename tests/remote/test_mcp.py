"""The client of MCP servers, against services over HTTP that misbehave."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.searchservice import Request, Service

from bench.base.errors import UnavailableError
from bench.remote.answers import Unusable
from bench.remote.mcp import Listing, McpClient
from bench.remote.servers import SSE, Server, server_at

JSON = {"Content-Type": "application/json"}


def of_tools(answer: Callable[[Request], None]) -> Callable[[Request], None]:
    """A service that greets as it should, and then answers as given."""

    def reply(request: Request) -> None:
        requests: dict[str, Any] = request.sent or {}
        if request.command != "POST":
            request.reply({}, 405)
        elif requests.get("method") == "initialize":
            info = {"name": "w", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            request.reply({"jsonrpc": "2.0", "id": requests["id"], "result": result}, 200, JSON)
        elif requests.get("method") == "server/discover":
            request.reply(
                {"jsonrpc": "2.0", "id": requests["id"], "error": {"code": -32601, "message": "no"}}, 200, JSON
            )
        elif "id" not in requests:
            request.reply(b"", 202)
        else:
            answer(request)

    return reply


def result(request: Request, value: Any) -> None:
    request.reply({"jsonrpc": "2.0", "id": request.sent["id"], "result": value}, 200, JSON)


def flood(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.end_headers()
    for _ in range(200):
        request.wfile.write(b" " * 65536)


def endless_events(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "text/event-stream")
    request.end_headers()
    for _ in range(200):
        request.wfile.write(b": still here\n\n" * 5000)


def drip(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.end_headers()
    request.drip(b"{" * 100, 0.05)


def packed(request: Request) -> None:
    request.reply(gzip.compress(json.dumps({}).encode()), 200, {**JSON, "Content-Encoding": "gzip"})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda request: request.reply(b"<html>", 200, JSON), "an answer that is not MCP"),
        (lambda request: request.reply(b"hi", 200, {"Content-Type": "text/html"}), "Unexpected content type"),
        (lambda request: request.reply({}, 500, JSON), "the error -32603"),
        (lambda request: request.reply(b"", 302, {"Location": "http://192.0.2.1/"}), "not followed"),
        (
            lambda request: result(request, {"tools": 3}),
            "an answer that is not MCP: /tools: input should be a valid",
        ),
        (lambda request: result(request, {"tools": [], "nextCursor": 5}), "not MCP: /nextCursor: input should be"),
        (packed, "no answer"),
        (flood, "an answer of more than 8 MiB"),
        (endless_events, "an answer of more than 8 MiB"),
        (drip, "no answer within 1 seconds"),
    ],
)
def test_an_unusable_answer_is_one_reason_and_the_next_is_read(
    service: Service, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Request], None], reason: str
) -> None:
    # Not for the floods, which take as long as the machine lets them.
    monkeypatch.setattr("bench.remote.mcp.LISTING", 60.0 if answer in (flood, endless_events) else 1.0)
    monkeypatch.setattr("bench.remote.mcp.MOST_PAGES", 20)
    service.answer = of_tools(answer)
    client = McpClient(Server(url=service.url, headers={"X-Key": "k"}), "a test")
    try:
        assert client.info() == ("w", "1")
        with pytest.raises(Unusable, match=reason):
            client.tools()
        service.answer = of_tools(lambda request: result(request, {"tools": []}))
        assert client.tools() == Listing([])
    finally:
        client.close()
    assert {headers["X-Key"] for _, _, _, headers in service.seen} == {"k"}


@pytest.mark.parametrize("status", [404, 405, 400])
def test_a_server_of_the_transport_before_is_told_apart(service: Service, status: int) -> None:
    def greet(request: Request) -> None:
        if request.command != "GET":
            return request.reply(b"not here", status)
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream; charset=utf-8")
        request.end_headers()
        request.wfile.write(b": hello\r\n\r\nevent: endpoint\r\ndata: /messages?id=1\r\n\r\n")
        request.wfile.flush()
        time.sleep(3)  # the stream stays open
        return None

    service.answer = greet
    client = McpClient(Server(url=service.url, headers={"X-Key": "k"}, name="old"), "a test")
    try:
        with pytest.raises(UnavailableError) as caught:
            client.info()
        assert str(caught.value) == f"the MCP server 'old': {SSE}."
        # Another stream of events is none of it.
        service.answer = lambda request: request.reply(b"data: 1", 200, {"Content-Type": "text/event-stream"})
        with pytest.raises(Unusable):
            client.info()
    finally:
        client.close()
    assert {headers["X-Key"] for _, _, _, headers in service.seen} == {"k"}


def test_a_process_is_ended_with_what_it_started(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import os, pathlib, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {child.pid}')\n"
        "sys.stderr.write('x' * 1000000 + 'waiting for ever')\n"
        "sys.stderr.flush()\n"
        "child.wait()\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.remote.mcp.START", 1.5)
        patch.setattr("bench.remote.mcp._GRACE", 0.2)
        client = McpClient(server_at(f"{sys.executable} {program} {tmp_path / 'pids'}"), "a test")
        with pytest.raises(Unusable, match=r"no answer within 1\.5 seconds; it said 'x+waiting for ever'"):
            client.info()
        client.close()
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert ended(pid)


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for whoever inherits it to take note."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False

"""The method `mcp`, end to end with servers on pipes and over HTTP, also of the official SDK."""

from __future__ import annotations

import gc
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.datasets import loaded
from kit.runs import ran
from kit.searchservice import Request, Service
from kit.validation import assert_conforms

from bench.base.errors import UnavailableError, UsageError
from bench.base.spec import Spec, Value
from bench.interface import Library
from bench.interface.marks import OWN_CATALOGUE, REMOTE
from bench.registry import build_method
from bench.remote.asking import as_lines
from bench.results.store import StoredResult

ROOT = Path(__file__).resolve().parents[2]
SERVER = [sys.executable, str(ROOT / "tests" / "kit" / "mcpserver.py"), "finder"]


def run(results: Path, server: str, limit: int = 20, **more: Value) -> StoredResult:
    spec = Spec.of("mcp", {"server": server, "tool": "search", **more})
    return ran(results, spec, limit)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tools of the embedded dataset as the example of a command gets them."""
    data = loaded("starter")
    file = tmp_path_factory.mktemp("mcp") / "tools.jsonl"
    file.write_text(as_lines(Library.of(data, data.card.template)), "utf-8")
    return file


@pytest.fixture
def server(tools: Path) -> list[str]:
    """The command of a server with a search tool."""
    return [*SERVER, "--search", str(tools)]


@pytest.fixture
def address(server: list[str]) -> Iterator[str]:
    """The address of that server over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*server, "--version", "7", "--answer", "text", "--port", str(port)])
    try:
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_a_process_gives_what_the_example_of_a_command_gives_and_ends(
    server: list[str], expected: StoredResult, tmp_path: Path
) -> None:
    command = shlex.join([*server, "--sdk", "--answer", "wrapped", "--pid", str(tmp_path / "pid")])
    result = run(tmp_path / "r", command)
    assert result.metrics.n_failed == 0
    assert result.run["tool_id"].equals(expected.run["tool_id"])
    # It says no version.
    assert [mark.text for mark in result.manifest.marks] == [REMOTE, OWN_CATALOGUE]
    assert "not reproducible by hash" in result.manifest.marks[0].why
    del result
    gc.collect()
    assert gone(int((tmp_path / "pid").read_text()))


def test_an_agent_pays_for_the_texts_of_a_result_and_for_structured_content_where_there_are_none(
    server: list[str], expected: StoredResult, tmp_path: Path
) -> None:
    told = run(tmp_path, shlex.join([*server, "--answer", "told"]))
    assert told.run["tool_id"].equals(expected.run["tool_id"])
    assert told.metrics.tokens["answer"] == 100
    structured = run(tmp_path, shlex.join(server)).metrics.tokens["answer"]
    text = run(tmp_path, shlex.join([*server, "--answer", "text"])).metrics.tokens["answer"]
    # {"tools": [...]} has six tokens more than [...].
    assert structured == text + 6


def test_a_server_over_http_gives_the_same_at_once_and_its_version_is_no_proof(
    address: str, expected: StoredResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_OFFLINE", "1")  # it is one of this machine
    result = run(tmp_path, address, concurrency=8)
    assert result.metrics.n_failed == 0
    assert result.run["tool_id"].equals(expected.run["tool_id"])
    assert result.manifest.facts["asked_at_once"] == 8
    # Its search and its catalogue may have changed under the same version, so it is asked again.
    assert [mark.text for mark in result.manifest.marks] == [REMOTE, OWN_CATALOGUE]
    assert result.manifest.method.revisions == {address: "finder 7"}
    named = run(tmp_path, address, limit=2, revision="abc")
    assert named.manifest.method.revisions == {address: "abc"}
    assert [mark.text for mark in named.manifest.marks] == [OWN_CATALOGUE]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("error", "an error of the tool ('the index is gone')"),
        ("garbage", "an answer that is not JSON ('Here is what I found!')"),
        ("hang", "no answer within 0.3 seconds"),
        ("huge", "an answer of more than 8 MiB"),
    ],
)
def test_a_fault_fails_its_queries_alone(server: list[str], tmp_path: Path, fault: str, reason: str) -> None:
    limit = 4 if fault == "huge" else 9
    result = run(tmp_path, shlex.join([*server, "--fault", fault]), limit, timeout=0.3 if fault == "hang" else 30.0)
    assert 0 < result.metrics.n_failed < limit
    assert reason in result.manifest.failures[0].text


def test_a_process_that_dies_fails_its_query_alone_and_is_not_started_for_ever(
    server: list[str], tmp_path: Path
) -> None:
    result = run(tmp_path, shlex.join([*server, "--fault", "die"]), 4)
    assert result.manifest.failures[0].text.startswith("no answer: the process ended with 5")
    with pytest.raises(UnavailableError, match="ended 4 times"):
        run(tmp_path, shlex.join([*server, "--fault", "die"]), 20)


def test_a_process_passes_the_conformance_kit(server: list[str]) -> None:
    spec = Spec.of("mcp", {"server": shlex.join(server), "tool": "search"})
    assert_conforms(spec, loaded("starter"))


def test_what_cannot_work_is_said_before_the_run(
    server: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="needs a server and a tool"):
        ran(tmp_path, Spec.of("mcp"))
    with pytest.raises(UsageError, match="cannot split"):
        build_method(Spec.of("mcp", {"server": "a 'b"}))
    with pytest.raises(UsageError, match="has no tool 'find'; its tools are search"):
        run(tmp_path, shlex.join(server), tool="find")
    with pytest.raises(UnavailableError, match="cannot start the MCP server 'no-such-program'"):
        run(tmp_path, "no-such-program")
    with pytest.raises(UsageError, match="variable NO_TOKEN with the server's token is not set"):
        run(tmp_path, "http://127.0.0.1:1/mcp", token="NO_TOKEN")
    with pytest.raises(UnavailableError, match="did not list its tools: no answer"):
        run(tmp_path, "http://127.0.0.1:1/mcp")
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="cannot be asked offline"):
        run(tmp_path, "http://192.0.2.1/mcp")


def test_an_answer_that_has_a_key_twice_is_none_on_the_pipes(server: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"an answer in which an object has the key 'tools' twice in line 1"):
        run(tmp_path, shlex.join([*server, "--fault", "repeat"]))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_that_has_a_key_twice_is_none_over_http(service: Service, tmp_path: Path, kind: str) -> None:
    def answer(request: Request) -> None:
        asked = request.sent or {}
        about = {
            "initialize": {
                "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "finder", "version": "7"},
            },
            "tools/list": {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [], "structuredContent": {"tools": []}},
        }
        if asked.get("method") not in about:
            request.reply(b"", 202 if "id" not in asked else 404)
            return
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": about[asked["method"]]})
        events = kind == "text/event-stream"
        said = said.replace('{"tools": []}', f'{{"tools": [],{"" if events else chr(10)}"tools": []}}')
        request.reply(f"data: {said}\n\n".encode() if events else said.encode(), headers={"Content-Type": kind})

    service.answer = answer
    with pytest.raises(
        UnavailableError, match=r"the last with an answer in which an object has the key 'tools' (twice )?in line 1"
    ):
        run(tmp_path, service.url)

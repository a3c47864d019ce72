"""`bench data import` from live MCP servers."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.data.entries import dataset_entries
from bench.importing.tools.tool import canonical
from bench.registry import load_dataset
from bench.remote.servers import Server, server_of

Bench = Callable[..., Any]

SERVER = [sys.executable, str(Path(__file__).resolve().parents[1] / "kit" / "mcpserver.py")]


def command(*arguments: str) -> str:
    return shlex.join([*SERVER, *arguments])


def imported() -> list[tuple[str, str]]:
    return [(tool.tool_id, tool.parent) for tool in load_dataset("mine").tools]


@pytest.fixture
def address() -> Iterator[str]:
    """The address of an MCP server with three tools."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*SERVER, "web", "--tools", "a,b,c", "--page", "2", "--port", str(port)])
    try:
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_servers_are_merged_with_sources_page_by_page(bench: Bench, address: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("query,tools\nDo it,weather/a\nDo that,web/a\n")
    (tmp_path / "own.json").write_text('{"tools": [{"name": "a", "description": "own", "inputSchema": {}}]}')
    weather = command("weather", "--tools", "a,b,c,d,e", "--page", "2")
    said = bench(
        "data",
        "import",
        "mine",
        f"own={tmp_path}/own.json",
        "--mcp",
        weather,
        "--mcp",
        address,
        "--queries",
        tmp_path / "q.csv",
    )
    assert (said.out, said.err) == ("imported mine: 9 tools of 3 servers, 2 queries; next: bench data audit mine\n", "")
    expected = [("own/a", "own"), *((f"weather/{name}", "weather") for name in "abcde")]
    assert imported() == [*expected, *((f"web/{name}", "web") for name in "abc")]
    data = load_dataset("mine")
    # The schema is what the server sent, a default of null included.
    assert data.tools[1].schema() == {
        "type": "object",
        "properties": {"place": {"type": "string", "default": None}},
    }
    assert data.card.summary == "Imported from own.json, the MCP server weather, the MCP server web."


def test_a_configuration_names_its_servers_and_is_never_started_as_a_source(
    bench: Bench, address: str, tmp_path: Path
) -> None:
    run, *arguments = [*SERVER, "weather", "--tools", "a", "--pid", str(tmp_path / "pid")]
    servers = {"first": {"command": run, "args": arguments, "env": {"A": "b"}}, "second": {"url": address}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    said = bench("data", "import", "mine", tmp_path / "mcp.json", code=3)
    assert "a SOURCE never starts; --mcp-config asks them for their tools" in said.err
    assert not (tmp_path / "pid").exists()
    bench("data", "import", "mine", "--mcp-config", tmp_path / "mcp.json")
    assert imported() == [("first/a", "first"), *((f"second/{name}", "second") for name in "abc")]


def test_two_servers_of_one_name_must_be_named(bench: Bench) -> None:
    servers = [command("weather", "--tools", names) for names in ("a", "b")]
    said = bench("data", "import", "mine", "--mcp", servers[0], "--mcp", servers[1], code=2)
    assert "two MCP servers are called 'weather'" in said.err
    bench("data", "import", "mine", "--mcp", servers[0], "--mcp", f"other={servers[1]}")
    assert imported() == [("other/b", "other"), ("weather/a", "weather")]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("hang-start", "no answer within 4 seconds"),
        ("hang-listing", "no answer within 2 seconds"),
        ("die-listing", "no answer: the process ended with 3; it said 'the key is not �[31mset'"),
        ("flood-start", "an answer of more than 8 MiB"),
        ("endless", "an endless list of tools: 1 tool on 20 pages, and a cursor to more"),
    ],
)
def test_a_server_that_fails_is_one_sentence_and_ended_and_nothing_is_kept(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, sentence: str
) -> None:
    if fault == "hang-start":
        monkeypatch.setattr("bench.remote.mcp.START", 4.0)
    elif fault == "hang-listing":
        monkeypatch.setattr("bench.remote.mcp.LISTING", 2.0)
    monkeypatch.setattr("bench.remote.mcp.MOST_PAGES", 20)
    monkeypatch.setattr("bench.remote.mcp._GRACE", 0.3)
    bad = command("bad", "--fault", fault, "--pid", str(tmp_path / "pid"))
    said = bench("data", "import", "mine", "--mcp", command("good"), "--mcp", bad, code=4)
    hint = "leave out servers that fail with --skip-failed."
    assert " ".join(said.err.split()).endswith(f"did not list its tools: {sentence}; {hint}")
    assert "Traceback" not in said.err
    assert "mine" not in dataset_entries()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_servers_that_fail_are_all_named_and_left_out_on_request(bench: Bench, tmp_path: Path) -> None:
    run, *arguments = [*SERVER, "x", "--tools", "a", "--fault"]
    faults = {"good": "", "dead": "die-listing", "gone": "", "bare": "bare"}
    servers: dict[str, Any] = {name: {"command": run, "args": [*arguments, fault]} for name, fault in faults.items()}
    servers["gone"] = {"command": "no-such-program"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    options = ("--mcp-config", tmp_path / "mcp.json")
    said = " ".join(bench("data", "import", "mine", *options, code=4).err.split())
    assert "the MCP server 'dead' did not list its tools: no answer: the process ended with 3" in said
    assert "; cannot start the MCP server 'gone' (No such file or directory)" in said
    assert said.endswith("; leave out servers that fail with --skip-failed.")
    assert "mine" not in dataset_entries()
    said = bench("data", "import", "mine", *options, "--skip-failed")
    assert said.out.startswith("imported mine: 1 tool, 0 queries")
    assert said.err.startswith("the MCP server 'dead': left out: the MCP server 'dead' did not list its tools: ")
    assert imported() == [("good/a", "good")]
    known = "MCP servers left out on import (2 of 4): the MCP server 'dead', the MCP server 'gone'."
    assert load_dataset("mine").card.known_issues[0] == known
    assert "the MCP server bare: it has no tools" in load_dataset("mine").card.known_issues[1]
    # Where all fail there is nothing to import.
    servers = {name: servers[name] for name in ("dead", "gone")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    said = bench("data", "import", "mine", *options, "--skip-failed", "--replace", code=4)
    assert "--skip-failed" not in said.err
    assert imported() == [("good/a", "good")]


def test_live_tools_are_written_for_a_commit_and_import_as_the_same(bench: Bench, tmp_path: Path) -> None:
    weather = f"weather={command('w', '--tools', 'c,a,b', '--fault', 'shuffled')}"
    run, *arguments = [*SERVER, "odd", "--tools", "x"]
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a/b c": {"command": run, "args": arguments}}}))
    options = ("--mcp", weather, "--mcp-config", tmp_path / "mcp.json", "--out", "tools")
    said = bench("data", "fetch", *options)
    odd, file = sorted(Path("tools").iterdir())
    assert said.out == f"{odd}: written, 1 tool\n{file}: written, 3 tools\n"
    assert (file.name, odd.name.startswith("a-b-c-")) == ("weather.json", True)
    text = file.read_text()
    assert text.startswith('{\n  "server": "weather",\n  "tools": [\n    {\n      "name": "a",\n')
    assert text.endswith("]\n}\n")
    bench("data", "import", "live", *options[:4])
    bench("data", "import", "stored", "tools")
    assert [canonical(tool) for tool in load_dataset("stored").tools] == [
        canonical(tool) for tool in load_dataset("live").tools
    ]
    # Asked again, the server has its keys and tools in another order.
    before = file.stat().st_mtime_ns
    for _ in range(3):
        assert f"{file}: unchanged, 3 tools\n" in bench("data", "fetch", *options).out
    assert (file.read_text(), file.stat().st_mtime_ns) == (text, before)
    said = bench("data", "fetch", *options[:2], *options[4:])
    assert said.err == f"{odd}: belongs to none of the listed servers; delete it if its server is gone\n"
    assert bench("data", "fetch", *options, "--json").json[0] == {"place": str(odd), "became": "unchanged, 1 tool"}
    file.write_text("[1]")
    assert "weather.json cannot be imported" in bench("data", "fetch", *options, code=3).err
    assert file.read_text() == "[1]"


@pytest.mark.parametrize(
    "arguments", [[], ["starter", "--out", "x"], ["--mcp", "true"], ["starter", "--mcp", "true", "--out", "x"]], ids=str
)
def test_what_is_fetched_is_a_dataset_or_the_tools_of_servers(bench: Bench, arguments: list[str]) -> None:
    assert "name a DATASET; or servers with --mcp or --mcp-config" in bench("data", "fetch", *arguments, code=2).err


def test_lines_that_are_no_messages_are_passed_over(bench: Bench) -> None:
    bench("data", "import", "mine", "--mcp", command("noisy", "--fault", "noise"))
    assert imported() == [("noisy/search", "noisy")]


def test_what_is_no_server_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, code, sentence in [
        ([], 2, "there is nothing to import"),
        (["--mcp", ""], 2, "an MCP server needs a command or a URL"),
        (["--mcp", "a 'b"], 2, "cannot split the command"),
        (["--mcp", "no-such-program"], 4, "cannot start the MCP server 'no-such-program' (No such file"),
        (["--mcp", "true"], 4, "the MCP server 'true' did not list its tools: no answer: the process ended with 0"),
        (["--mcp", "http://127.0.0.1:1/mcp"], 4, "did not list its tools: no answer"),
        (["--mcp", "true", "--as", "openai"], 2, "lists its tools as mcp, not as openai"),
        (["--mcp-config", "nothing.json"], 2, "nothing.json"),
    ]:
        assert sentence in " ".join(bench("data", "import", "mine", *arguments, code=code).err.split())
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    said = bench("data", "import", "mine", "--mcp", "http://192.0.2.1/mcp", code=4)
    assert "cannot be asked offline" in said.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "names no servers"),
        ('{"mcpServers": {}}', "names no servers"),
        ('{"mcpServers": {"a": {}}}', "/mcpServers/a: a server is an object with either"),
        ('{"mcpServers": {"a": {"command": "x", "url": "y"}}}', "either `command` or `url`"),
        ('{"mcpServers": {"a": {"command": [1]}}}', "`command` must be a text, or a list of texts"),
        ('{"mcpServers": {"a": {"command": ["x", 1]}}}', "`args` must be a list of texts"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "`args` must be a list of texts"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}', "`env` must be an object of texts"),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "not a URL of HTTP"),
        ('{"mcpServers": {" ": {"command": "x"}}}', "the server's name is empty"),
    ],
)
def test_a_wrong_configuration_is_told(bench: Bench, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "mcp.json").write_text(text)
    said = bench("data", "import", "mine", "--mcp-config", tmp_path / "mcp.json", code=3)
    assert sentence in " ".join(said.err.split())


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("python a.py --b=c", Server(("python", "a.py", "--b=c"))),
        ("mine=python a.py --b='c d'", Server(("python", "a.py", "--b=c d"), name="mine")),
        ("http://localhost/mcp?a=b", Server(url="http://localhost/mcp?a=b")),
        ("mine=https://localhost/mcp?a=b", Server(url="https://localhost/mcp?a=b", name="mine")),
    ],
)
def test_a_server_is_named_before_an_equals_sign(text: str, server: Server) -> None:
    assert server_of(text) == server

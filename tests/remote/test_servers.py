"""Configurations of MCP clients, as their documentation shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError
from bench.importing.reading import Document
from bench.importing.tools.catalogue import Source, catalogue_of
from bench.remote.servers import Server, servers_in

STDIO = {"command": "npx", "args": ["-y", "files"], "env": {"ROOT": "/data"}}
FILES = Server(("npx", "-y", "files"), name="files", environment={"ROOT": "/data"})
WEB = Server(url="https://example.org/mcp", name="web", headers={"X-Team": "a"})
HTTP = {"url": "https://example.org/mcp", "headers": {"X-Team": "a"}}


def servers(tmp_path: Path, value: Any, name: str = "mcp.json") -> list[Server]:
    (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return servers_in(tmp_path / name, print)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"mcpServers": {"files": STDIO, "web": HTTP}}, id="Claude, Cursor"),
        pytest.param(
            {"mcpServers": {"files": {**STDIO, "type": "stdio"}, "web": {**HTTP, "type": "http"}}}, id="Claude Code"
        ),
        pytest.param(
            {
                "inputs": [{"type": "promptString", "id": "key", "password": True}],
                "servers": {"files": {**STDIO, "type": "stdio"}, "web": {**HTTP, "type": "http"}},
            },
            id="VS Code",
        ),
        pytest.param(
            {"editor.fontSize": 12, "mcp": {"servers": {"files": STDIO, "web": HTTP}}}, id="VS Code, settings"
        ),
        pytest.param(
            {"customizations": {"vscode": {"mcp": {"servers": {"files": STDIO, "web": HTTP}}}}}, id="container"
        ),
        pytest.param(
            {"mcpServers": {"files": STDIO, "web": {"serverUrl": HTTP["url"], "headers": HTTP["headers"]}}},
            id="Windsurf",
        ),
        pytest.param(
            {"mcpServers": {"files": STDIO, "web": {"httpUrl": HTTP["url"], "headers": HTTP["headers"]}}},
            id="Gemini CLI",
        ),
        pytest.param(
            {
                "mcpServers": {
                    "files": {**STDIO, "disabled": False, "autoApprove": []},
                    "web": HTTP,
                    "x": {**STDIO, "disabled": True},
                }
            },
            id="Cline",
        ),
        pytest.param({"mcpServers": [{"name": "files", **STDIO}, {"name": "web", **HTTP}]}, id="Continue"),
        pytest.param({"context_servers": {"files": {"source": "custom", **STDIO}, "web": HTTP}}, id="Zed"),
        pytest.param(
            {
                "mcp": {
                    "files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"ROOT": "/data"}},
                    "web": {"type": "remote", "enabled": True, **HTTP},
                    "x": {"type": "remote", "enabled": False, **HTTP},
                }
            },
            id="opencode",
        ),
        pytest.param({"files": STDIO, "web": HTTP}, id="a plug-in"),
        pytest.param(
            {"mcpServers": {"files": {**STDIO, "type": "local", "tools": ["*"]}, "web": {**HTTP, "tools": ["*"]}}},
            id="Copilot",
        ),
    ],
)
def test_servers_of_each_client_are_found(tmp_path: Path, value: Any) -> None:
    assert servers(tmp_path, value) == [FILES, WEB]
    # As a source, it is refused: nothing is started that no option names.
    with pytest.raises(DataError, match="a SOURCE never starts; --mcp-config asks them for their tools"):
        catalogue_of([(Document(value, "f", "f"), Source(Path()))])


def test_a_configuration_may_have_comments_and_last_commas(tmp_path: Path) -> None:
    text = """\
// servers of our team, "quoted
{
  /* a comment
     of two lines */
  "servers": {
    "files": {"command": "npx", "args": ["-y", "files",], "env": {"ROOT": "/data"}}, // a } brace
    "web": {"url": "https://example.org/mcp", "headers": {"X-Team": "a"},},
  },
}
"""
    assert servers(tmp_path, text) == [FILES, WEB]
    texts = {"command": "a // b", "args": ["/* c */", 'd",]\\', ",]", "\\"]}
    (server,) = servers(tmp_path, {"mcpServers": {"x": texts}})
    assert server.command == ("a // b", "/* c */", 'd",]\\', ",]", "\\")
    # What is wrong keeps its line.
    with pytest.raises(DataError, match="line 3"):
        servers(tmp_path, '/* one\n two */ {"a": 1,\n "b" 2}')
    for text in ("/*" * 100_000, '"' + "\\" * 100_001, "," + " " * 100_000, '"' * 100_001):
        with pytest.raises(DataError, match=r"is not JSON|is empty"):
            servers(tmp_path, text)


def test_a_configuration_may_be_yaml_or_toml(tmp_path: Path) -> None:
    text = """\
mcpServers:  # servers
  - name: files
    command: npx
    args: [-y, files]
    env: {ROOT: /data}
  - {name: web, type: streamable-http, url: "https://example.org/mcp", headers: {X-Team: a}}
"""
    assert servers(tmp_path, text, "config.yaml") == [FILES, WEB]
    text = """\
model = "m"
[mcp_servers.files]
command = "npx"
args = ["-y", "files"]
[mcp_servers.files.env]
ROOT = "/data"
[mcp_servers.web]
url = "https://example.org/mcp"
http_headers = { "X-Team" = "a" }
[mcp_servers.x]
enabled = false
command = "x"
"""
    assert servers(tmp_path, text, "config.toml") == [FILES, WEB]
    for text in ("a = ", "\xff", "[mcp_servers]\na = {"):
        with pytest.raises(DataError, match=r"config\.toml (is not TOML|names no servers)"):
            servers(tmp_path, text, "config.toml")


def test_a_server_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    (server,) = servers(tmp_path, {"servers": {"files": {"command": "npx", "cwd": "/srv"}}})
    assert server == Server(("npx",), name="files", folder="/srv")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "names no servers: it must be an object with servers by name under `mcpServers`, or `servers` as VS Code"),
        ({"servers": {"a": {"name": "x", "packages": []}}}, "names no servers"),
        ({"servers": [{"server": {"name": "org.example/a"}}]}, "names no servers"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "names no servers that are switched on"),
        ({"servers": {"a": {"command": "x"}, "b": 3}}, "/servers/b: a server is an object with either"),
        (
            {"mcp": {"servers": {"a": {"url": "u", "command": "x"}}}},
            "/mcp/servers/a: a server is an object with either",
        ),
        (
            {"servers": {"a": {"type": "sse", "url": "https://example.org/sse"}}},
            "/servers/a: its transport is sse, which",
        ),
        ({"servers": {"a": {"url": 3}}}, "`url` must be a text"),
        ({"mcpServers": {"a": {"httpUrl": 3}}}, "`httpUrl` must be a text"),
        ({"servers": {"a": {"command": "x", "cwd": 3}}}, "`cwd` must be a text"),
        (
            {"servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}},
            "/servers/a: ${input:key} is filled in by",
        ),
        (
            {"servers": {"a": {"url": "https://e.org", "headers": {"A": "Bearer ${env:KEY}"}}}},
            "${env:KEY} is filled in",
        ),
        (
            {"servers": {"a": {"command": "x", "args": ["${input:" + "y" * 500 + "}"]}}},
            "is filled in by its own client",
        ),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_place(tmp_path: Path, value: Any, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        servers(tmp_path, value)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))

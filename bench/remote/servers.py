"""Which MCP server is meant: a command, a URL, or the servers of a client's `mcp.json`. Nothing is started here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.base.errors import DataError, UsageError
from bench.base.paths import expand_path
from bench.base.secrets import keep
from bench.base.text import label, one_line
from bench.importing.reading import ByteBudget, parse_documents
from bench.importing.tools.tool import name_fault
from bench.remote.web import check_url

_URL = re.compile(r"https?://", re.IGNORECASE)
#: `SERVER=` before a command or URL: no white space, so that an `=` among the arguments of a command is none.
_NAMED = re.compile(r"([^\s=]+)=(.+)", re.DOTALL)
#: Names of headers and variables whose values are secret.
_SECRET = re.compile(r"auth|key|token|secret|passw|cookie", re.IGNORECASE)
_SHOWN = 80


@dataclass(frozen=True)
class Server:
    """An MCP server and how it is reached: by a command or by a URL.

    Attributes:
        command: program and arguments; empty for a server with a URL.
        url: of streamable HTTP; empty for a server with a command.
        name: as the user calls it; empty for what the server calls itself.
        environment: variables that a command gets besides those of this process.
        headers: sent with each request to a URL.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The server in words, for messages; without arguments, which may hold a key."""
        return f"the MCP server {one_line(self.name or self.url or label(self.command[0]), _SHOWN)!r}"

    @property
    def fallback(self) -> str:
        """A name for a server that has none: the host of its URL, or the program."""
        return httpx.URL(self.url).host if self.url else Path(self.command[0]).name


def server_at(text: str, name: str = "", *, headers: Mapping[str, str] | None = None) -> Server:
    """The server that a command or a URL stands for.

    Args:
        text: `http://…`, or a command, split as a POSIX shell would; no shell is started.
        name: of the server; empty if it names itself.
        headers: for a URL.

    Raises:
        UsageError: the command is empty or has an open quote, or the URL is none of HTTP or has a password.
    """
    if _URL.match(text):
        return Server(url=check_url(text), name=name, headers=headers or {})
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot split the command {one_line(text, 120)!r} ({error}).") from None
    if not command or not command[0]:
        raise UsageError('an MCP server needs a command or a URL, such as "python server.py" or http://localhost/mcp.')
    return Server(tuple(command), name=name)


def server_of(text: str) -> Server:
    """A server as it is typed for an import: `COMMAND ARGS`, `URL`, or one of them after `SERVER=`; raises as above."""
    named = None if _URL.match(text) else _NAMED.fullmatch(text)
    if named is None:
        return server_at(text)
    if fault := name_fault(named[1]):
        raise UsageError(f"the server's name {fault}.")
    return server_at(named[2], named[1])


def servers_in(file: Path) -> list[Server]:
    """The servers of a client's configuration: `{"mcpServers": {NAME: SERVER, …}}`.

    A server is an object with `command`, `args` and `env`, or with `url` and `headers`. Keys that say nothing about how
    a server is reached are passed over, and nothing in a value is expanded.

    Raises:
        UsageError: the file cannot be read.
        DataError: it is no such configuration.
    """
    file = expand_path(file)
    (document, *more) = parse_documents(file, file.name, ByteBudget().read(file))
    value = document.value
    listed = value.get("mcpServers") if isinstance(value, dict) and not more else None
    if not isinstance(listed, dict) or not listed:
        raise DataError(f"{file} names no servers: it must be an object with servers by name under `mcpServers`.")
    return [_read_server(name, record, f"{file}, /mcpServers/{one_line(name, 60)}") for name, record in listed.items()]


def _read_server(name: str, record: Any, where: str) -> Server:
    if fault := name_fault(name):
        raise DataError(f"{where}: the server's name {fault}.")
    if not isinstance(record, dict) or (("command" in record) == ("url" in record)):
        raise DataError(f"{where}: a server is an object with either `command` or `url`.")
    if "url" in record:
        url = record["url"]
        if not isinstance(url, str):
            raise DataError(f"{where}: `url` must be a text.")
        try:
            return Server(
                url=check_url(url, stored=False), name=name, headers=_texts(record.get("headers"), "headers", where)
            )
        except UsageError as error:
            raise DataError(f"{where}: {error}") from None
    command, arguments = record["command"], record.get("args", [])
    if not isinstance(command, str) or not command:
        raise DataError(f"{where}: `command` must be a text.")
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise DataError(f"{where}: `args` must be a list of texts.")
    return Server((command, *arguments), name=name, environment=_texts(record.get("env"), "env", where))


def _texts(value: Any, key: str, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise DataError(f"{where}: `{key}` must be an object of texts.")
    for name, text in value.items():
        if _SECRET.search(name):
            keep(text)
            keep(text.rpartition(" ")[2])  # `Bearer KEY`
    return dict(value)

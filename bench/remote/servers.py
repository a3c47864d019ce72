"""Specify MCP servers: a command, a URL, or the servers of a client's configuration. Nothing is started here."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.base.errors import DataError, UsageError
from bench.base.paths import expand_path
from bench.base.secrets import keep
from bench.base.text import label, one_line
from bench.importing.reading import ByteBudget, parse_documents, pointer
from bench.importing.tools.clients import COMMAND, URLS, configured_servers, without_comments
from bench.importing.tools.tool import name_fault
from bench.remote.web import check_url

_URL = re.compile(r"https?://", re.IGNORECASE)
#: `SERVER=` before a command or URL: no white space, so that an `=` among a command's arguments does not count.
_NAMED = re.compile(r"([^\s=]+)=(.+)", re.DOTALL)
#: Names of headers and variables whose values are secret.
_SECRET = re.compile(r"auth|key|token|secret|passw|cookie", re.IGNORECASE)
_SHOWN = 80
#: The message about servers with HTTP+SSE, the transport of MCP's revision 2024-11-05.
SSE = "its transport is sse, which bench does not speak; name its address of streamable HTTP"
#: The fields that are read, and those that a client shows or asks its user for.
_READ = {
    *(COMMAND, *URLS, "args", "cwd", "env", "environment", "headers", "http_headers", "disabled", "enabled", "type"),
    *("transport", "name", "description", "source", "autoApprove", "alwaysAllow", "trust"),
}
#: Placeholders that VS Code and Cursor fill in by asking the user or from their environment.
_BLANK = re.compile(r"\$\{((input|env|command|config):[^}]*|workspaceFolder\w*|userHome)\}")


@dataclass(frozen=True)
class Server:
    """An MCP server and how to reach it: by a command or a URL.

    Attributes:
        command: program and arguments; empty for a server with a URL.
        url: streamable HTTP address; empty for a server with a command.
        name: the user's name for it; empty to use its own.
        environment: additional environment variables of a command.
        headers: sent with each request to a URL.
        folder: working folder of a command; empty for the current one.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def words(self) -> str:
        """The server in words, for messages; without arguments, which may hold a key."""
        return f"the MCP server {one_line(self.name or self.url or label(self.command[0]), _SHOWN)!r}"

    @property
    def fallback(self) -> str:
        """A name for a server that has none: the host of its URL, or the program."""
        return httpx.URL(self.url).host if self.url else Path(self.command[0]).name


def server_at(text: str, name: str = "", *, headers: Mapping[str, str] | None = None) -> Server:
    """The server for a command or a URL.

    Args:
        text: `http://…`, or a command, split as by a POSIX shell; no shell is started.
        name: of the server; empty to use its own.
        headers: for a URL.

    Raises:
        UsageError: the command is empty or has an open quote, or the URL is not HTTP or contains a password.
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
    """A server typed for an import: `COMMAND ARGS`, `URL`, or one of them after `SERVER=`; raises as above."""
    named = None if _URL.match(text) else _NAMED.fullmatch(text)
    if named is None:
        return server_at(text)
    if fault := name_fault(named[1]):
        raise UsageError(f"the server's name {fault}.")
    return server_at(named[2], named[1])


def servers_in(file: Path, tell: Callable[[str], None]) -> list[Server]:
    """The enabled servers of a client's configuration.

    All clients that `bench.importing.tools.clients` knows are accepted: `{"mcpServers": {NAME: SERVER, …}}`, VS Code's
    `{"servers":
    …}`, and others, in JSON with or without comments, YAML or TOML. A server is an object with `command`, `args`, `env`
    and `cwd`, or with `url` and `headers`. Values are not expanded.

    Args:
        file: the configuration.
        tell: receives a sentence about each part that is not read.

    Raises:
        UsageError: the file cannot be read.
        DataError: it is not such a configuration.
    """
    file = expand_path(file)
    value = _read_configuration(file)
    place, listed = configured_servers(value) or (("mcpServers",), value.get("mcpServers"))
    if not isinstance(listed, dict) or not listed:
        raise DataError(
            f"{file} names no servers: it must be an object with servers by name under `mcpServers`, or `servers` as "
            "VS Code has it."
        )
    where = f"{file}, {pointer(*place, '')}"
    used = {name: record for name, record in listed.items() if not _is_off(record)}
    if not used:
        raise DataError(f"{file} names no servers that are switched on.")
    if off := [one_line(name, 60) for name in listed if name not in used]:
        tell(f"{file}: switched off and left out: {', '.join(off)}")
    if place and (others := configured_servers({key: part for key, part in value.items() if key != place[0]})):
        tell(f"{file}: the servers under {pointer(*others[0])} are not read, because {pointer(*place)} has servers")
    for name, record in used.items():
        if unread := [key for key in record if key not in _READ] if isinstance(record, dict) else []:
            tell(f"{where}{one_line(name, 60)}: keys that are not read: {one_line(', '.join(unread), 200)}")
    return [_read_server(name, record, f"{where}{one_line(name, 60)}") for name, record in used.items()]


def _read_configuration(file: Path) -> dict[str, Any]:
    data = ByteBudget().read(file)
    suffix = file.suffix.lower()
    if suffix == ".toml":
        try:
            value: Any = tomllib.loads(data.decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise DataError(f"{file} is not TOML: {one_line(str(error), 120)}.") from None
    else:
        documents = parse_documents(file, file.name, data if suffix in {".yaml", ".yml"} else without_comments(data))
        value = documents[0].value if len(documents) == 1 else None
    if isinstance(value, dict) and isinstance(entries := value.get("mcpServers"), list):  # Continue
        names = [each.get("name") if isinstance(each, dict) else None for each in entries]
        for number, name in enumerate(names):
            if not isinstance(name, str) or names.index(name) != number:
                raise DataError(f"{file}, {pointer('mcpServers', number)}: a server needs a name of its own.")
    return value if isinstance(value, dict) else {}


def _is_off(record: Any) -> bool:
    return isinstance(record, dict) and (record.get("disabled") is True or record.get("enabled") is False)


def _read_server(name: str, record: Any, where: str) -> Server:
    if fault := name_fault(name):
        raise DataError(f"{where}: the server's name {fault}.")
    addresses = [key for key in URLS if isinstance(record, dict) and record.get(key) is not None]
    if not isinstance(record, dict) or (record.get(COMMAND) is not None) + len(addresses) != 1:
        raise DataError(f"{where}: a server is an object with either `command` or `url`.")
    if "sse" in (record.get("type"), record.get("transport")):
        raise DataError(f"{where}: {SSE}.")
    if addresses:
        url = record[addresses[0]]
        if not isinstance(url, str):
            raise DataError(f"{where}: `{addresses[0]}` must be a text.")
        headers = _texts(record, ("headers", "http_headers"), where)
        _check_filled([url, *headers.values()], where)
        try:
            return Server(url=check_url(url, stored=False), name=name, headers=headers)
        except UsageError as error:
            raise DataError(f"{where}: {error}") from None
    command, arguments, folder = record[COMMAND], record.get("args") or [], record.get("cwd") or ""
    if isinstance(command, list) and command:  # opencode
        command, arguments = command[0], [*command[1:], *(arguments if isinstance(arguments, list) else [])]
    if not isinstance(command, str) or not command:
        raise DataError(f"{where}: `command` must be a text, or a list of texts.")
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise DataError(f"{where}: `args` must be a list of texts.")
    if not isinstance(folder, str):
        raise DataError(f"{where}: `cwd` must be a text.")
    environment = _texts(record, ("env", "environment"), where)
    _check_filled([command, *arguments, folder, *environment.values()], where)
    return Server((command, *arguments), name=name, environment=environment, folder=folder)


def _check_filled(texts: Iterable[str], where: str) -> None:
    """Raise DataError for a text that only the client itself can fill in."""
    if blank := next((match[0] for text in texts if (match := _BLANK.search(text))), ""):
        raise DataError(
            f"{where}: {one_line(blank, 60)} is filled in by its own client alone; write the value in its place."
        )


def _texts(record: Mapping[str, Any], keys: tuple[str, ...], where: str) -> dict[str, str]:
    """The texts by name under whichever of the keys is there."""
    given = [key for key in keys if record.get(key) is not None]
    if not given:
        return {}
    if len(given) > 1:
        raise DataError(f"{where}: it has {' and '.join(f'`{key}`' for key in given)}; keep one of them.")
    key, value = given[0], record[given[0]]
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise DataError(f"{where}: `{key}` must be an object of texts.")
    for name, text in value.items():
        if _SECRET.search(name):
            keep(text)
            keep(text.rpartition(" ")[2])  # `Bearer KEY`
    return dict(value)

"""Resolve tools by the names that people, gateways and clients use.

A gateway in front of several servers puts the server's name before the tool's, in its own way, and clients add their
own prefix: `fs:read`, `fs__read`, `mcp__fs__read`, `fs.read`, `fs/read`, `fs-read`, `functions.fs_read`, `_read`. A
library may have the longer name and a query the shorter one, or the other way round. Imports, queries, run files, live
answers and traces all resolve names here, so a name has the same meaning everywhere.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bench.base.protocol import MAPPED
from bench.base.text import one_line
from bench.data.tables import Tool

#: Maximum characters of a name; longer ones are not resolved, except ids.
LONGEST_NAME = 1_000
#: Separators of servers and words, and characters around a mention or a call: `@fs/read`, `read()`.
_SIGNS = re.compile(r"[\s_\-.:/()@#]+")
#: Function names have only letters, digits, `_` and `-`, so clients replace other characters of a server's name.
_NOT_IN_FUNCTIONS = re.compile(r"[^A-Za-z0-9_-]")
#: Prefixes of clients: OpenAI's `functions.`, Gemini's `default_api.`, and `mcp` of MCP clients.
_BEFORE_ALL = re.compile(r"_*(?:(?:functions?|tools?|default_api)[.:/]|mcp(?:_+|[.:/-]))+", re.IGNORECASE)
#: Separators between a server and a name, and those that also occur inside names.
_BETWEEN, _BETWEEN_OR_INSIDE = re.compile(r"__+|[:/.]"), re.compile(r"__+|[:/.]|[-_]")
#: Maximum places at which a name is cut.
_MOST_CUTS = 16
#: Maximum names whose resolution is cached.
_MOST_REMEMBERED = 100_000
#: Maximum tools to compare with an unknown name, letter by letter.
_MOST_COMPARED = 2_000
_SHOWN = 3


class ToolNames:
    """Resolves names of tools in one library.

    Args:
        tools: the library. A tool's code is its position.
        earlier: returns the library as it was, to find a tool's current name; None if it is unknown.
    """

    def __init__(self, tools: Sequence[Tool], earlier: Callable[[], Sequence[Tool]] | None = None) -> None:
        self.tools = tools
        self._earlier = earlier
        self._codes = {tool.tool_id: code for code, tool in enumerate(tools)}
        self._remembered: dict[str, tuple[int, ...]] = {}

    def find(self, name: str) -> tuple[int, ...]:
        """Codes of the tools that the name may stand for; empty if none.

        An id stands for its tool. Otherwise the library's own names count (the tool's name, `server/name`, `METHOD
        /path`), then these names as gateways and clients write them, ignoring case.
        """
        if (code := self._codes.get(name)) is not None:
            return (code,)
        if len(name) > LONGEST_NAME:
            return ()
        if name not in self._remembered:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[name] = self._look_up(name)
        return self._remembered[name]

    def of_server(self, server: str) -> Sequence[int]:
        """Codes of the tools of a server, in the order of the library; empty if the library has no such server."""
        return self._index.by_server.get(_key(server), ())

    def fault(self, name: str, *, near: bool = True, description: str = "") -> str:
        """What is wrong with a name that `find` resolves to no single tool, as the end of a sentence.

        Args:
            name: the name.
            near: whether to search for similar tools, which takes some milliseconds.
            description: description of the tool with this name elsewhere; empty if unknown.
        """
        shown = repr(one_line(name, 80))
        if codes := self.find(name):
            ids = [one_line(self.tools[code].tool_id, 80) for code in codes]
            more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
            return f"{shown} may mean {', '.join(sorted(ids)[:5])}{more}; use the id"
        if near and (renamed := self._renamed(name, description)):
            return f"there is no tool {shown}; {one_line(renamed[0], 80)!r} has its {renamed[1]}"
        close = ", ".join(one_line(tool, 80) for tool in self.near(name)) if near else ""
        return f"there is no tool {shown}" + (f" (near: {close})" if close else "")

    def _renamed(self, name: str, description: str) -> tuple[str, str] | None:
        """The id of the only tool with the text or the parameters of a tool that had the name, and which of the two
        matches.
        """
        before = self._before
        was = [before.tools[code] for code in before.find(name)] if before is not None else []
        texts = {_folded(each) for each in (description, *(tool.description for tool in was))} - {""}
        # Many tools have the same single parameter, such as `query`.
        shapes = [set(tool.parameters) for tool in was if len(tool.parameters) > 1]
        for what, meant in (
            ("description", [tool for tool in self.tools if texts and _folded(tool.description) in texts]),
            ("parameters", [tool for tool in self.tools if shapes and set(tool.parameters) in shapes]),
        ):
            if len(meant) == 1:
                return meant[0].tool_id, what
        return None

    @cached_property
    def _before(self) -> ToolNames | None:
        return None if self._earlier is None else ToolNames(self._earlier())

    def near(self, name: str, description: str = "") -> list[str]:
        """Ids of at most three candidate tools, nearest first.

        These are tools that the name may stand for, or the only tool with the description, and those with a similar
        name.
        """
        if codes := self.find(name):
            return sorted(self.tools[code].tool_id for code in codes)[:_SHOWN]
        renamed = self._renamed(name, description)
        first = [] if renamed is None else [renamed[0]]
        return list(dict.fromkeys([*first, *self._spelt_nearly(name)]))[:_SHOWN]

    def _spelt_nearly(self, name: str) -> list[str]:
        key = _key(_without_clients(name)) if len(name) <= LONGEST_NAME else ""
        if not key:
            return []
        spelt: defaultdict[str, list[int]] = defaultdict(list)
        for code in self._candidates(key):
            tool = self.tools[code]
            for each in {_key(text) for text in (tool.tool_id, tool.name, operation_of(tool)) if text}:
                spelt[each].append(code)
        close = difflib.get_close_matches(key, spelt, n=_SHOWN)
        codes = tuple(dict.fromkeys(code for each in close for code in spelt[each]))
        return [self.tools[code].tool_id for code in codes[:_SHOWN]]

    def _look_up(self, name: str) -> tuple[int, ...]:
        index, key, called = self._index, _key(name), _without_clients(name)
        bare, exact = _key(called), index.exact.get(name)
        # A separator that does not occur inside words shows where the server ends.
        told = [
            index.served.get(f"{server}/{_key(rest)}")
            for before, _, rest in _cuts(called, _BETWEEN)
            for server in _servers_of(_key(before))
        ]
        if any(told):
            return _each_once(exact, *told)
        if exact:
            # `fs_read` is the name of one tool, and may be what a gateway calls `read` of `fs`.
            return _each_once(exact, index.served.get(key))
        for form in dict.fromkeys((key, bare)):
            if codes := _each_once(index.served.get(form), index.plain.get(form)):
                return codes
        for form in dict.fromkeys((key, bare)):
            if codes := _each_once(index.tails.get(form)):
                return codes
        # The name starts with a server or gateway that the library does not know.
        for before, sign, rest in _cuts(called, _BETWEEN_OR_INSIDE):
            if sign in index.inside:
                continue
            form = _key(rest)
            codes = _each_once(index.served.get(form), () if _key(before) in index.by_server else index.alone.get(form))
            if codes:
                return codes
        return ()

    @cached_property
    def _index(self) -> _Index:
        """Built when a name is not an id for the first time."""
        index = _Index()
        for code, tool in enumerate(self.tools):
            index.add(code, tool)
        return index

    @cached_property
    def _by_beginning(self) -> dict[str, list[int]]:
        """The first three letters of each word of ids and names -> codes."""
        beginnings: defaultdict[str, list[int]] = defaultdict(list)
        for code, tool in enumerate(self.tools):
            for word in {word[:3] for text in (tool.tool_id, tool.name) for word in _key(text).split("_")}:
                beginnings[word].append(code)
        return dict(beginnings)

    def _candidates(self, key: str) -> Sequence[int]:
        if len(self.tools) <= _MOST_COMPARED:
            return range(len(self.tools))
        shared = Counter(
            code for word in {word[:3] for word in key.split("_")} for code in self._by_beginning.get(word, ())
        )
        return [code for code, _ in shared.most_common(_MOST_COMPARED)]


@dataclass
class _Index:
    """Codes of tools by their names.

    Attributes:
        exact: names as the library writes them: names, `server/name`, `METHOD /path`.
        plain: normalised ids and names.
        served: normalised servers with names, joined by `_`, and by `/` for names that show where the server ends.
        tails: normalised names without a server that is part of the id or the name.
        alone: normalised ids and names of tools whose server the library does not give.
        by_server: normalised servers.
        inside: separators that occur inside names, where nothing can be cut off.
    """

    exact: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    plain: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    served: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    tails: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    alone: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_server: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    inside: set[str] = field(default_factory=set)
    _keys_of_servers: dict[str, str] = field(default_factory=dict)

    def add(self, code: int, tool: Tool) -> None:
        """Add a tool."""
        identifier, name = tool.tool_id, tool.name
        servers = {tool.category, tool.parent} - {""}
        if identifier.endswith(f"/{name}") and len(identifier) > len(name) + 1:
            servers.add(identifier[: -len(name) - 1])
        exact = {name, *(f"{server}/{name}" for server in servers)}
        if operation := operation_of(tool):
            exact.add(operation)
        by_name = _key(name)
        plain, served, tails, cuts = {by_name}, set[str](), set[str](), 0
        by_server = {key for server in servers for key in self._server_keys(server)}
        if by_name:
            served |= {f"{key}{sign}{by_name}" for key in by_server for sign in "_/"}
            if tool.category and tool.parent:
                served.add(f"{self._server_key(tool.category)}_{self._server_key(tool.parent)}_{by_name}")
        for text in {identifier, name}:
            bare = _without_clients(text)
            plain |= {_key(text), _key(bare)}
            for before, _, rest in _cuts(bare, _BETWEEN):
                cuts += 1
                tails.add(_key(rest))
                by_server.add(self._server_key(before))
                served.add(f"{self._server_key(before)}/{_key(rest)}")
        for sign in "-_":
            if sign not in self.inside and sign in name.strip("_"):
                self.inside.add(sign)
        # Where ids are names, the parent is often a topic; the log or the answer may still name the server.
        is_alone = not cuts and (identifier == name or not servers)
        for table, forms in (
            (self.exact, exact),
            (self.plain, plain),
            (self.served, served),
            (self.tails, tails - plain - served),
            (self.alone, plain if is_alone else ()),
            (self.by_server, by_server),
        ):
            for form in forms:
                if form:
                    table[form].append(code)

    def _server_keys(self, server: str) -> Iterator[str]:
        """The normalised names of a server."""
        key = self._server_key(server)
        if not (key.isascii() and key.replace("_", "").isalnum()):
            yield from filter(None, [_key(_NOT_IN_FUNCTIONS.sub("_", server))])
        yield from filter(None, [key])

    def _server_key(self, server: str) -> str:
        if server not in self._keys_of_servers:
            self._keys_of_servers[server] = _key(server)
        return self._keys_of_servers[server]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def operation_of(tool: Tool) -> str:
    """`METHOD /path` of an operation of an API; empty for another tool."""
    if tool.annotations is None or '"path"' not in tool.annotations:
        return ""
    about = json.loads(tool.annotations)
    return f"{about.get('method')} {about['path']}" if isinstance(about.get("path"), str) else ""


def _key(text: str) -> str:
    """A name in lower case with one separator between its words; empty for a name without words."""
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _SIGNS.sub("_", folded).strip("_")


def _without_clients(name: str) -> str:
    """A name without the prefix of a client."""
    match = _BEFORE_ALL.match(name)
    return name if match is None else name[match.end() :]


def _servers_of(key: str) -> list[str]:
    """The names of a server, by the normalised prefix of a name.

    Claude Code calls the server of a plug-in `plugin_PLUGIN_SERVER`, and both names may have several words.
    """
    words = key.split("_")
    if words[0] != "plugin" or len(words) > _MOST_CUTS:
        return [key]
    return [key, *("_".join(words[start:]) for start in range(2, len(words)))]


def _cuts(name: str, signs: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """The parts before and after each separator in a name, with the separator, longest rest first."""
    for number, match in enumerate(signs.finditer(name)):
        if number == _MOST_CUTS:
            return
        before, rest = name[: match.start()], name[match.end() :]
        if before.strip("_") and rest:
            yield before, match[0][:2], rest


def _each_once(*groups: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(code for codes in groups for code in codes or ()))


class NameRecord:
    """How the names in one file or run were resolved, to report it once."""

    #: Maximum distinct names to keep.
    MOST = 100_000

    def __init__(self) -> None:
        self._mapped: Counter[tuple[str, str]] = Counter()
        self._times = 0
        # Name -> what was reported about the tool, and its count.
        self._unknown: dict[str, tuple[str, int]] = {}
        #: Names that were resolved.
        self.known = 0

    def take(self, name: str, identifier: str) -> None:
        """Record that a name stands for the tool with this id."""
        self.known += 1
        if name != identifier:
            self._times += 1
            pair = one_line(name, 120), identifier
            if pair in self._mapped or len(self._mapped) < self.MOST:
                self._mapped[pair] += 1

    def miss(self, name: str, description: str = "") -> None:
        """Record a name in an answer that stands for no tool or several."""
        if name in self._unknown or len(self._unknown) < self.MOST:
            known, times = self._unknown.get(name, ("", 0))
            self._unknown[name] = known or description, times + 1

    @property
    def missed(self) -> int:
        """Unresolved or ambiguous names, as often as they occurred."""
        return sum(times for _, times in self._unknown.values())

    @property
    def resolves_nothing(self) -> bool:
        """Whether there were names and none of them was resolved."""
        return bool(self._unknown) and not self.known

    def mapped(self) -> str:
        """A sentence, without the final period, about names that are not ids; empty if all are."""
        if not self._mapped:
            return ""
        first = ", ".join(
            f"{name} to {one_line(identifier, 120)} ({count})"
            for (name, identifier), count in self._mapped.most_common(_SHOWN)
        )
        count = len(self._mapped)
        more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
        at_least = "at least " if count >= self.MOST else ""
        many = f"{at_least}{count} names of tools were mapped to ids"
        names = "1 name of a tool was mapped to an id" if count == 1 else many
        return f"{names} ({self._times} {'time' if self._times == 1 else 'times'}): {first}{more}"

    def facts(self) -> dict[str, str]:
        """A note for readers of the result about names that are not ids."""
        return {MAPPED: self.mapped()} if self._mapped else {}

    def unknown(self, names: ToolNames) -> str:
        """Unresolved names, most frequent first, with the nearest ids; empty if there are none."""
        often = sorted(self._unknown.items(), key=lambda item: -item[1][1])
        first = [
            names.fault(name, description=description) + (f", in {times} answers" if times > 1 else "")
            for name, (description, times) in often[:_SHOWN]
        ]
        more = f"; and {len(often) - _SHOWN} more" if len(often) > _SHOWN else ""
        return "; ".join(first) + more

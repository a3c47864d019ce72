"""Read the answers of an external retriever. The clients of this room call it.

An answer is JSON. Without a mapping these shapes are accepted: a list of tools, or an object with such a list under one
of `LISTS`, or with such an object as its `content`; a tool is its id or name as a string, or an object with it under
one of `IDS`, optionally the server under one of `SERVERS`, and optionally a number under `score`. A mapping is a
JMESPath expression that returns the list. `bench.data.tool_names` resolves names.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.base.errors import UsageError, require
from bench.base.secrets import mask, mask_json, mask_so_far
from bench.base.strict_json import RepeatedKey, loads, refuse_constant
from bench.base.text import one_line
from bench.data.tables import Tool
from bench.data.tool_names import ToolNames

LISTS = ("tools", "results", "hits", "matches", "items", "data", "tool_references")
IDS = ("tool_id", "id", "name", "tool", "tool_name", "toolName", "function")
SERVERS = ("server", "server_name", "serverName", "server_label")
SCORE = "score"
#: Fields of an answer that are not about its tools: the repeated question, its type, its version.
_ABOUT = frozenset({"id", "query", "limit", "library", "type", "version"})

#: Maximum characters shown of a retriever's output, and kept of a description.
_SHOWN, _DESCRIBED = 80, 300
#: Bytes kept of a program's error output, and characters of its end that are shown.
KEPT, _LAST = 4096, 200


@dataclass(frozen=True)
class AnswerNote:
    """What to report about the answer to one query.

    Attributes:
        failed: why there is no usable answer; empty if there is one.
        unknown: unresolved names, with their descriptions. If there is an answer, they were left out of it.
        known: number of resolved names in an unusable answer.
    """

    failed: str = ""
    unknown: Mapping[str, str] = field(default_factory=dict)
    known: int = 0

    def __or__(self, other: AnswerNote) -> AnswerNote:
        """For a query with several calls."""
        return AnswerNote(self.failed or other.failed, {**other.unknown, **self.unknown}, self.known + other.known)


class Unusable(Exception):
    """An unusable answer; the text says why, without the query and without keys."""

    def __init__(self, why: str, unknown: Mapping[str, str] | None = None, known: int = 0) -> None:
        super().__init__(mask(why))
        self.note = AnswerNote(str(self), unknown or {}, known)


@dataclass(frozen=True)
class RankedAnswer:
    """The tools of an answer, best first.

    Attributes:
        tools: codes, distinct.
        scores: one for each tool, not ascending; None if not all tools have one.
        version: the retriever's version if the answer names it as `version` beside its tools; else empty.
        names: the name of each tool in the answer.
        note: names that were left out.
        unread: unknown fields: of the answer, and numbers of a tool.
        shown: the text that an agent would see.
    """

    tools: list[int]
    scores: list[float] | None
    version: str = ""
    names: list[str] = field(default_factory=list, compare=False)
    note: AnswerNote = field(default=AnswerNote(), compare=False)
    unread: frozenset[str] = field(default=frozenset(), compare=False)
    shown: str = field(default="", compare=False)


class AnswerReader:
    """Reads answers about one library.

    Args:
        tools: the library; a tool's code is its position.
        mapping: a JMESPath expression that returns the list of tools; empty for the shapes above.
        drop: whether to leave out names that the library lacks; otherwise they make an answer unusable.

    Raises:
        UsageError: the mapping is not a JMESPath expression.
        UnavailableError: there is a mapping, and jmespath is not installed.
    """

    def __init__(self, tools: Sequence[Tool], mapping: str = "", *, drop: bool = False) -> None:
        self._mapping = _compile_mapping(mapping)
        self._drop = drop
        self.names = ToolNames(tools)

    def read(self, reply: bytes, depth: int) -> RankedAnswer:
        """The first `depth` tools of an answer.

        Raises:
            Unusable: it is not JSON of a known shape, repeats a key, repeats a tool, or its scores ascend; or a
                name is ambiguous; or a name is unknown and names are not dropped, or all are unknown.
        """
        try:
            value = mask_json(loads(reply, parse_constant=refuse_constant))
        except RepeatedKey as error:
            raise Unusable(f"an answer in which {error}") from None
        except (ValueError, RecursionError):
            raise Unusable(f"an answer that is not JSON ({_quote(reply.decode('utf-8', 'replace'))})") from None
        return self.read_parsed(value, depth)

    def read_parsed(self, value: Any, depth: int) -> RankedAnswer:
        """The same for a parsed answer."""
        entries, unread = self._entries(value)
        version = value.get("version") if isinstance(value, dict) else None
        version = one_line(str(version), _SHOWN) if isinstance(version, str | int | float) else ""
        tools: list[int] = []
        names: list[str] = []
        scores: list[float] = []
        unknown: dict[str, str] = {}
        fault = ""
        for place, entry in enumerate(entries):
            if (len(tools) if self._drop else place) >= depth:
                break
            name, description, codes = self._find(entry)
            if len(codes) != 1:
                unknown[name] = description
                if codes or not self._drop:
                    fault = fault or self._fault(name, codes)
                continue
            tools.append(codes[0])
            names.append(name)
            numbers = {key: item for key, item in entry.items() if _is_number(item)} if isinstance(entry, dict) else {}
            if SCORE in numbers:
                scores.append(_finite(numbers.pop(SCORE)))
            unread |= {f"{key} of a tool" for key in numbers.keys() - {*IDS}}
        if unknown and not tools:
            fault = fault or f"no tool that is in the library ({', '.join(map(_quote, list(unknown)[:3]))})"
        if fault:
            raise Unusable(fault, unknown, len(tools))
        if len(set(tools)) < len(tools):
            twice = next(name for name, code in zip(names, tools, strict=True) if tools.count(code) > 1)
            raise Unusable(f"the tool {_quote(twice)} twice")
        scored = len(scores) == len(tools)
        if scored and any(after > before for before, after in itertools.pairwise(scores)):
            raise Unusable("scores that ascend: the best tool must come first")
        note = AnswerNote(unknown=unknown)
        return RankedAnswer(tools, scores if scored else None, version, names, note, frozenset(unread))

    def _entries(self, value: Any) -> tuple[list[Any], set[str]]:
        """The list of tools, and the unread fields beside it."""
        entries, unread = value, set[str]()
        if self._mapping is not None:
            from jmespath.exceptions import JMESPathError

            try:
                entries = self._mapping.search(value)
            except (JMESPathError, RecursionError) as error:
                raise Unusable(f"an answer that the mapping does not fit ({_quote(str(error))})") from None
        elif isinstance(value, dict):
            layers = [layer for layer in (value, value.get("content")) if isinstance(layer, dict)]
            lists = [layer[name] for layer in layers for name in LISTS if isinstance(layer.get(name), list)]
            entries = lists[0] if lists else value
            unread = {
                one_line(str(key), _SHOWN)
                for layer in layers
                for key, item in layer.items()
                if key not in _ABOUT and not any(item is inner for inner in layers) and _says_more(item, entries)
            }
        if not isinstance(entries, list):
            raise Unusable(f"an answer without a list of tools ({_quote(_show_entry(value))})")
        return entries, unread

    def _find(self, entry: Any) -> tuple[str, str, Sequence[int]]:
        """The name of a tool, its description, and the codes that it may stand for."""
        name, server, description = entry, "", ""
        for _ in range(2):  # {"tool": {"name": ...}} nests it one level deeper
            if isinstance(name, dict):
                server = next((name[key] for key in SERVERS if isinstance(name.get(key), str) and name[key]), server)
                description = text if isinstance(text := name.get("description"), str) else description
                name = next((name[key] for key in IDS if isinstance(name.get(key), str | dict)), None)
        if not isinstance(name, str):
            raise Unusable(f"a tool without an id ({_quote(_show_entry(entry))})")
        for called in [f"{server}/{name}", name] if server else [name]:
            if len(codes := self.names.find(called)) == 1:
                return called, description, codes
        return name, one_line(description, _DESCRIBED), codes

    def _fault(self, name: str, codes: Sequence[int]) -> str:
        if not codes:
            return f"the tool {_quote(name)}, which is not in the library"
        ids = " or ".join(_quote(self.names.tools[code].tool_id) for code in codes[:2])
        more = f" or {len(codes) - 2} others" if len(codes) > 2 else ""
        return f"the tool {_quote(name)}, which may be {ids}{more}"


def _compile_mapping(mapping: str) -> Any:
    if not mapping:
        return None
    require("jmespath", what="a mapping of answers")
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(mapping)
    except JMESPathError as error:
        raise UsageError(f"{mapping!r} is not a JMESPath expression ({one_line(str(error), 200)}).") from None


def _says_more(item: Any, entries: Any) -> bool:
    """Whether a field carries information: it is neither empty nor a second list of the same tools."""
    return not isinstance(item, str | int | float | list | dict | None) or bool(item and item != entries)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(score: float) -> float:
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unusable("a score that is not finite")
    return number


def _show_entry(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    try:
        return json.dumps(entry)[: 4 * _SHOWN]
    except (TypeError, ValueError, RecursionError):
        return type(entry).__name__  # of a function of Python


def _quote(text: str) -> str:
    return repr(one_line(mask(text), _SHOWN))


def last_words(output: bytes) -> str:
    """The end of a program's error output, without keys; the last line is usually the cause.

    Args:
        output: its last `KEPT` bytes so far, which may begin and end inside a key.
    """
    return one_line(mask_so_far(output.decode("utf-8", "replace")))[-_LAST:]

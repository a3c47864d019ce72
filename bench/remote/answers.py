"""Reading the answers of a retriever outside of bench.

An answer is JSON. Without a mapping these shapes are read: a list of tools, or an object with such a list under one of
`LISTS`, or with such an object as its `content`; a tool is its id or name as a string, or an object that has it under
one of `IDS`, possibly the server under one of `SERVERS`, and possibly a number under `score`. A mapping is a JMESPath
expression that gives the list. What a name means is for `bench.data.tool_names` to say.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.base.errors import UsageError, require
from bench.base.secrets import mask, mask_json, mask_so_far
from bench.base.text import one_line
from bench.data.tables import Tool
from bench.data.tool_names import ToolNames

LISTS = ("tools", "results", "hits", "matches", "items", "data", "tool_references")
IDS = ("tool_id", "id", "name", "tool", "tool_name", "toolName", "function")
SERVERS = ("server", "server_name", "serverName", "server_label")
SCORE = "score"

#: Characters of what a retriever said that are shown.
_SHOWN = 80
#: Bytes that are kept of a program's error output, and characters of their end that are shown.
KEPT, _LAST = 4096, 200


class Unusable(Exception):
    """An answer that cannot be used; the text says why, without the query and without keys."""

    def __init__(self, why: str) -> None:
        super().__init__(mask(why))


class UnknownTool(Unusable):
    """An answer with names that mean no tool, or may mean several; the text is about the first of `names`."""

    def __init__(self, why: str, name: str) -> None:
        super().__init__(why)
        self.names = [name]


@dataclass(frozen=True)
class RankedAnswer:
    """The tools of one answer, best first.

    Attributes:
        tools: codes, distinct.
        scores: one for each tool, not ascending; None if not all tools have one.
        version: of the retriever, where an answer names it as `version` beside its tools; else empty.
        names: what the answer calls each tool.
    """

    tools: list[int]
    scores: list[float] | None
    version: str = ""
    names: list[str] = field(default_factory=list, compare=False)


class AnswerReader:
    """Reads answers about one library.

    Args:
        tools: the library; a tool's code is its position.
        mapping: a JMESPath expression that gives the list of tools; empty for the shapes above.

    Raises:
        UsageError: the mapping is no JMESPath expression.
        UnavailableError: there is a mapping, and jmespath is not installed.
    """

    def __init__(self, tools: Sequence[Tool], mapping: str = "") -> None:
        self._mapping = _compile_mapping(mapping)
        self.names = ToolNames(tools)

    def read(self, reply: bytes, depth: int) -> RankedAnswer:
        """The first `depth` tools of an answer.

        Raises:
            UnknownTool: a name means no tool, or may mean several.
            Unusable: it is not JSON of a known shape, names a tool twice, or its scores ascend.
        """
        try:
            value = mask_json(json.loads(reply, parse_constant=_no_number))
        except (ValueError, RecursionError):
            raise Unusable(f"an answer that is not JSON ({_quote(reply.decode('utf-8', 'replace'))})") from None
        return self.read_parsed(value, depth)

    def read_parsed(self, value: Any, depth: int) -> RankedAnswer:
        """The same of an answer that was parsed."""
        entries = self._entries(value)
        version = value.get("version") if isinstance(value, dict) else None
        version = one_line(str(version), _SHOWN) if isinstance(version, str | int | float) else ""
        tools: list[int] = []
        names: list[str] = []
        scores: list[float] = []
        strange: UnknownTool | None = None
        for entry in entries[:depth]:
            try:
                code, name = self._code(entry)
            except UnknownTool as error:
                if strange is None:
                    strange = error
                else:
                    strange.names += error.names
                continue
            tools.append(code)
            names.append(name)
            score = entry.get(SCORE) if isinstance(entry, dict) else None
            if isinstance(score, int | float) and not isinstance(score, bool):
                scores.append(_finite(score))
        if strange is not None:
            raise strange
        if len(set(tools)) < len(tools):
            twice = next(entry for entry, code in zip(entries, tools, strict=False) if tools.count(code) > 1)
            raise Unusable(f"the tool {_quote(_show_entry(twice))} twice")
        if len(scores) < len(tools):
            return RankedAnswer(tools, None, version, names)
        if any(after > before for before, after in itertools.pairwise(scores)):
            raise Unusable("scores that ascend: the best tool must come first")
        return RankedAnswer(tools, scores, version, names)

    def _entries(self, value: Any) -> list[Any]:
        entries = value
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
        if not isinstance(entries, list):
            raise Unusable(f"an answer without a list of tools ({_quote(_show_entry(value))})")
        return entries

    def _code(self, entry: Any) -> tuple[int, str]:
        """The code of a tool, and what it is called."""
        name, server = entry, ""
        for _ in range(2):  # {"tool": {"name": ...}} names it one level further down
            if isinstance(name, dict):
                server = next((name[key] for key in SERVERS if isinstance(name.get(key), str) and name[key]), server)
                name = next((name[key] for key in IDS if isinstance(name.get(key), str | dict)), None)
        if not isinstance(name, str):
            raise Unusable(f"a tool without an id ({_quote(_show_entry(entry))})")
        for called in [f"{server}/{name}", name] if server else [name]:
            if len(codes := self.names.find(called)) == 1:
                return codes[0], called
        if codes:
            ids = " or ".join(_quote(self.names.tools[code].tool_id) for code in codes[:2])
            more = f" or {len(codes) - 2} others" if len(codes) > 2 else ""
            raise UnknownTool(f"the tool {_quote(name)}, which may be {ids}{more}", name)
        raise UnknownTool(f"the tool {_quote(name)}, which is not in the library", name)


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


def _finite(score: float) -> float:
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unusable("a score that is not finite")
    return number


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


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
    """The end of what a program wrote to its error output, without keys; the last line says most.

    Args:
        output: its last `KEPT` bytes so far, of which the first and the last may be parts of a key.
    """
    return one_line(mask_so_far(output.decode("utf-8", "replace")))[-_LAST:]

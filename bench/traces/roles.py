"""The role of a logged call: a tool, a search for tools, a bridge to the tool in its arguments, or none of these.

A tool of the catalogue always counts as a tool, whatever its name, unless it calls another tool of the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bench.data.tool_names import ToolNames
from bench.importing.dialects import words
from bench.traces.events import Call
from bench.traces.fields import MOST_TEXT, first_field, first_value, object_of, qualified_name, text_of

#: Why a call is not gold.
SEARCH = "searches for tools"
BUILT_IN = "built-in tool of the model or its host"
HANDOFF = "handoff to another agent"
ANSWER = "the agent's way to answer"
LOOKED_UP = "looks up what tools there are"
UNNAMED = "calls another tool, and the log does not say which"
FAILED = "every call failed"
ASIDE = (SEARCH, BUILT_IN, HANDOFF, ANSWER, LOOKED_UP, UNNAMED, FAILED)

#: Names without their server: literally, or by their letters and digits in lower case. Hosted searches are Anthropic's
#: `tool_search_tool_bm25` and OpenAI's `tool_search`; others belong to gateways and frameworks, such as
#: `mcp_tool_search` (LiteLLM), `search_tools` (pydantic-ai, FastMCP), `retrieve_tools` (LangGraph), `mcp-find`.
#: Handoffs are those of the Agents SDK, LangGraph, ADK (`transfer_to_...`), LlamaIndex (`handoff`) and CrewAI.
_ROLES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(mcp|composio|hosted|dynamic)?toolsearch(tool)?(bm25|regex|call)?"), SEARCH),
    (re.compile(r"(mcp|composio)?(search|retrieve|discover)(available|mcp|extra|deferred)?tools|mcpfind"), SEARCH),
    (re.compile(r"(describe|inspect|load|list)(available|mcp|extra|deferred)?tools|get(mcp)?toolschemas?"), LOOKED_UP),
    (re.compile(r"transfer_(back_)?to_\w+|transfer(Back)?To[A-Z]\w*|handoff(_to_\w+)?"), HANDOFF),
    (re.compile(r"delegateworktocoworker|askquestiontocoworker"), HANDOFF),
    (re.compile(r"final_answer|final_result(_\w+)?"), ANSWER),
)
#: Tools that call the tool named in their arguments: `call_tool`, `use_mcp_tool`, `ExecuteExtraTool`, `mcp-exec`, ...
_BRIDGE = re.compile(
    r"(call|execute|exec|run|use|invoke)(extra|mcp|dynamic|deferred|external|remote)*tools?"
    r"|(mcp|dynamic)?tool(call|execute|exec|invoke|use|run)|mcp(exec|call|server|calltool)"
    r"|executeaction|composio(multi)?execute(tool)?|multitooluseparallel"
)
#: Fields of a bridge with the tool's name, server and arguments, and with lists of such calls; arguments of a tool
#: search with the search text.
_INNER_NAMES, _INNER_SERVERS, _INNER_ARGUMENTS, _INNER_CALLS, _SEARCHED = (
    words("bridges", key) for key in ("names", "servers", "arguments", "calls", "searched")
)
#: Maximum nesting of calls, and maximum calls of one bridge.
_MOST_DEPTH, _MOST_INNER = 4, 100
_MOST_NAME = 256
#: Some logs wrap arguments in arguments.
_MOST_WRAPPED = 3


@dataclass(frozen=True)
class Role:
    """The role of a call.

    Attributes:
        call: the call, or the one inside a bridge.
        aside: why it is not gold; empty if it is a tool's.
        searches: its search texts.
    """

    call: Call
    aside: str = ""
    searches: tuple[str, ...] = ()


class Roles:
    """Classifies calls."""

    def __init__(
        self,
        search_tools: Collection[str] = (),
        bridge_tools: Collection[str] = (),
        names: ToolNames | None = None,
    ) -> None:
        """`search_tools`, `bridge_tools`: further names besides the known ones. `names`: the catalogue's."""
        self._search_tools = frozenset(search_tools)
        self._bridge_tools = frozenset(bridge_tools)
        self._names = names

    def of(self, call: Call, depth: int = 0) -> list[Role]:
        """The role of a call; several if a bridge calls several tools."""
        if is_named(call.tool, self._search_tools):
            return [Role(call, SEARCH, tuple(search_texts(call.arguments)))]
        known = not call.hosted and self.meanings(call.tool) > 0
        is_bridge, role = _named_like(call.tool)
        if is_bridge or is_named(call.tool, self._bridge_tools):
            arguments = object_of(call.arguments)
            inside = [self._of_catalogue(each) for each in _inner_calls(arguments, call)]
            if known:
                inside = [each for each in inside if self.meanings(each.tool)]
            if inside and depth < _MOST_DEPTH:
                return [inner for each in inside for inner in self.of(each, depth + 1)]
            if not known and not call.hosted and (inside or not isinstance(arguments, dict) or not arguments):
                return [Role(call, UNNAMED)]
        if known:
            return [Role(call)]
        if role == SEARCH:
            return [Role(call, SEARCH, tuple(search_texts(call.arguments)))]
        return [Role(call, role or (BUILT_IN if call.hosted else ""))]

    def meanings(self, tool: str) -> int:
        """How many tools of the catalogue a name may stand for; 0 without a catalogue."""
        return len(self._names.find(tool)) if self._names is not None else 0

    def _of_catalogue(self, call: Call) -> Call:
        """The call under its name in the catalogue, if the server that the bridge names is not there."""
        alone = call.tool.rpartition("/")[2]
        return replace(call, tool=alone) if self.meanings(alone) == 1 and not self.meanings(call.tool) else call


@lru_cache(maxsize=1 << 16)
def plain_names(tool: str) -> tuple[str, str]:
    """The letters and digits of a tool's name in lower case: of the full name, and without its server or namespace."""
    return _letters(tool), _letters(_tail(tool))


def are_alike(one: str, other: str) -> bool:
    """Whether two names may be the same: they differ only in case, punctuation, and a server in front of one."""
    (whole, tail), (whole_too, tail_too) = plain_names(one), plain_names(other)
    return whole in (whole_too, tail_too) or tail == whole_too


def _tail(tool: str) -> str:
    return re.split(r"[/.:]|__", tool[:_MOST_NAME])[-1]


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name[:_MOST_NAME]).lower()


@lru_cache(maxsize=1 << 16)
def _named_like(tool: str) -> tuple[bool, str]:
    """Whether a tool has the name of a bridge, and what else its name may be."""
    # `multi_tool_use.parallel` has a dot, `mcp_server:label` a colon in the name itself.
    names = (_tail(tool), *plain_names(tool), _letters(tool.partition(":")[0]))
    bridge = any(_BRIDGE.fullmatch(name) for name in names)
    return bridge, next((role for pattern, role in _ROLES if any(pattern.fullmatch(name) for name in names)), "")


def is_named(tool: str, names: Collection[str]) -> bool:
    """Whether a tool, with or without its server, is among some names."""
    return tool in names or tool.rpartition("/")[2] in names


def _inner_calls(arguments: Any, outer: Call) -> Iterator[Call]:
    """The calls in the arguments of a bridge."""
    if not isinstance(arguments, dict):
        return
    listed = next((arguments[key] for key in _INNER_CALLS if isinstance(arguments.get(key), list)), None)
    for given in [arguments] if listed is None else listed[:_MOST_INNER]:
        if isinstance(given, dict) and (call := _inner_call(given, outer)) is not None:
            yield call


def _inner_call(given: Mapping[str, Any], outer: Call) -> Call | None:
    named = first_value(given, *_INNER_NAMES)
    about = {**given, **named} if isinstance(named, dict) else given  # `{"function": {"name": ..., "arguments": ...}}`
    name = first_field(about, "name") if isinstance(named, dict) else named
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME or re.search(r"\s", name):
        return None
    name, server = name.removeprefix("functions."), first_field(about, *_INNER_SERVERS)
    arguments = first_value(about, *_INNER_ARGUMENTS)
    return replace(outer, tool=qualified_name(server, name), arguments=arguments, hosted=False)


def search_texts(arguments: Any) -> list[str]:
    """The search texts in the arguments of a tool search: texts and lists of texts.

    `select:NAME` loads a tool by its name and searches nothing.
    """
    texts = [text_of(each) for each in _searched(arguments, 0)]
    return [text[:MOST_TEXT] for text in dict.fromkeys(texts) if text and not text.startswith("select:")]


def _searched(given: Any, depth: int) -> list[Any]:
    given = object_of(given)
    if isinstance(given, dict) and depth < _MOST_WRAPPED:
        inner = [given[key] for key in _SEARCHED if isinstance(given.get(key), str | list | dict)]
        texts = [value for value in given.values() if isinstance(value, str)]
        return _searched(inner[0] if inner else texts[0] if len(texts) == 1 else [], depth + 1)
    if isinstance(given, list) and depth <= _MOST_WRAPPED:
        return [text for each in given[:_MOST_INNER] for text in _searched(each, depth + 1)]
    return [given]

"""Read which tools are right from calls, name patterns and assertions in files of other projects.

A kind of assertion (`dialects.toml`) names tools, or says nothing about which tools are right. Any other kind may be
about tools in an unknown way; readers report it. `query_rows` and `queries` call this module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.base.text import one_line
from bench.importing.dialects import TABLE, words
from bench.importing.reading import parse_cell

#: Kinds that name tools, and kinds that say nothing about which tools are right; lower case, letters and digits only.
_NAMING, _SILENT = (
    frozenset(kind for dialect in TABLE["assertions"] for kind in words("assertions", dialect, part))
    for part in ("naming", "silent")
)
_TOOL_KEYS, _SERVER_KEYS, _INSIDE, _LEAST, _MOST = (
    words("calls", key) for key in ("tools", "servers", "inside", "least", "most")
)
#: `not-trajectory:tool-used: NAME`, as in promptfoo's tables.
_IN_A_CELL = re.compile(r"((?:not-)?(?:trajectory:)?[\w-]+)(?:\([^()]*\))?(?::\s*(.*))?", re.DOTALL)
#: A call as BFCL writes it: `cd(folder='a')`.
_CALL = re.compile(r"([^\s()]{1,256})\(.*\)", re.DOTALL)
#: A name pattern that can be converted to a glob: names, `.*` and `|`.
_SIMPLE_PATTERN = re.compile(r"\^?\(?(?:[\w/-]|\.\*|\.|\|)+\)?\$?")
_LONGEST_PATTERN = 200


class UnreadablePatternError(Exception):
    """A name pattern cannot be read; the message says why."""


@dataclass(frozen=True)
class ToolPattern:
    """All tools of a server, or those with matching names.

    Attributes:
        server: empty for any.
        pattern: a glob; `*` matches any text.
    """

    server: str
    pattern: str = "*"


def fold(name: str) -> str:
    """A name in lower case, without signs."""
    return re.sub(r"[^a-z0-9]", "", name[:100].lower())


def call_of(entry: Any) -> str | ToolPattern | None:
    """The name of the tool that an entry calls; None if there is none.

    An entry is a name, a call `name(...)`, an object with the name and optionally the server, or BFCL's
    `{name: arguments}`.

    Raises:
        UnreadablePatternError: its name pattern has more than names, `.*` and `|`.
    """
    if isinstance(entry, str):
        return entry.strip() or None
    if isinstance(entry, ToolPattern):
        return entry
    if not isinstance(entry, Mapping):
        return str(entry) if isinstance(entry, int) and not isinstance(entry, bool) else None
    server = next((entry[key] for key in _SERVER_KEYS if isinstance(entry.get(key), str) and entry[key]), "")
    for key in _TOOL_KEYS:
        inner = entry.get(key)
        name = call_of(inner) if isinstance(inner, Mapping) and key in {"tool", "function"} else inner
        if isinstance(name, str) and name.strip():
            return f"{server}/{name.strip()}" if server else name.strip()
    if isinstance(pattern := entry.get("toolPattern"), str) and pattern:
        return ToolPattern(server, glob_of(pattern))
    if len(entry) == 1 and isinstance(next(iter(entry.values())), Mapping):
        return str(next(iter(entry)))
    return ToolPattern(server) if server else None


def without_arguments(name: str) -> str:
    """The name in `name(arguments)`; any other text unchanged."""
    match = _CALL.fullmatch(name)
    return match[1] if match is not None else name


def glob_of(pattern: str) -> str:
    """Convert a regular expression of names, `.*` and `|` to a glob with `|`. Refuse others: they might never end."""
    if len(pattern) > _LONGEST_PATTERN or not _SIMPLE_PATTERN.fullmatch(pattern):
        raise UnreadablePatternError(
            f"the pattern {one_line(pattern, 60)!r} is more than names, `.*` and `|`; name the tools instead"
        )
    # Go's `MatchString` finds a match anywhere in a name.
    starts, ends = pattern.startswith("^"), pattern.endswith("$")
    inner = pattern.removeprefix("^").removesuffix("$")
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    parts = [part.replace(".*", "*").replace(".", "?") for part in inner.split("|")]
    return "|".join(f"{'' if starts else '*'}{part}{'' if ends else '*'}" for part in parts)


@dataclass
class Assertions:
    """The tools that the assertions of a row require and forbid.

    Attributes:
        tools: required calls: entries for `call_of`, or lists of entries of which one is enough.
        forbidden: forbidden calls.
        is_told: whether any assertion names tools, or says that no tool is right.
        silent: kind that says nothing about which tools are right -> number.
        unclear: kinds that may be about tools and are not read.
    """

    tools: list[Any] = field(default_factory=list)
    forbidden: list[Any] = field(default_factory=list)
    is_told: bool = False
    silent: Counter[str] = field(default_factory=Counter)
    unclear: list[str] = field(default_factory=list)

    def take(self, value: Any) -> None:
        """Add assertions in any form: a list, an object by kind, an object with a `type`, a text."""
        for kind, about in _by_kind(value):
            self._take(kind, about)

    def _take(self, kind: str, about: Any) -> None:
        # promptfoo negates a kind by the prefix `not-`.
        folded, negated = fold(kind.removeprefix("not-")), kind.startswith("not-")
        known = about if isinstance(about, Mapping) else {}
        if known.get("weight") == 0:  # it is only measured and cannot fail
            self.silent[f"{kind} of weight 0"] += 1
        elif folded == "assertset" and not negated:
            self._take_set(known)
        elif about is None and folded in _NAMING | _SILENT:  # a key of an object without a value
            self.is_told = self.is_told or folded == "actions"
        elif folded == "maxtoolcalls" and about == 0:
            self.is_told = True
        elif folded in _SILENT:
            self.silent[kind] += 1
        elif folded not in _NAMING or (negated and folded in {"trajectorytoolargsmatch", "trajectorytoolsequence"}):
            # "Not in this order" and "not with these arguments" forbid no tool.
            self.unclear.append(kind)
        elif (entries := _entries(about)) is None:
            self.unclear.append(f"{kind} without a tool")
        elif folded == "requireany" or not entries:
            self.is_told = True
            self.tools += [entries] if entries else []
        else:
            for entry in entries:
                self._need(entry, kind, negated or folded == "toolsnotused")
            self.is_told = bool(self.is_told or self.tools or self.forbidden)

    def _need(self, entry: Any, kind: str, negated: bool) -> None:
        bounds = entry if isinstance(entry, Mapping) else {}
        least = next((bounds[key] for key in _LEAST if key in bounds), 1)
        most = next((bounds[key] for key in _MOST if key in bounds), None)
        pattern = entry if isinstance(entry, str) and "*" in entry else bounds.get("pattern")
        named = ToolPattern("", pattern[:_LONGEST_PATTERN]) if isinstance(pattern, str) else entry
        if negated and (least != 1 or most not in {None, 0}):
            self.unclear.append(kind)
        elif (most == 0) != negated:
            self.forbidden.append(named)
        elif least == 0 and most is None:
            self.silent[f"{kind} with min 0"] += 1
        else:
            self.tools.append(named)

    def _take_set(self, about: Mapping[str, Any]) -> None:
        """Add promptfoo's `assert-set`: all assertions must hold or, with a threshold, a share of their weights."""
        inner = Assertions()
        inner.take(about.get("assert"))
        weights = [each.get("weight", 1) for _, each in _by_kind(about.get("assert")) if isinstance(each, Mapping)]
        threshold = about.get("threshold", 1)
        numbers = [each for each in (threshold, *weights) if isinstance(each, int | float)]
        share = min(weights) / sum(weights) if len(numbers) == len(weights) + 1 and sum(weights) > 0 else 0
        names_alone = len(inner.tools) == len(weights) and not (inner.forbidden or inner.silent or inner.unclear)
        self.silent += inner.silent
        self.unclear += inner.unclear
        if share and threshold > 1 - share:
            self.tools += inner.tools
            self.forbidden += inner.forbidden
        elif share and 0 < threshold <= share and names_alone:
            self.tools.append(
                [each for entry in inner.tools for each in (entry if isinstance(entry, list) else [entry])]
            )
        elif inner.is_told:
            self.unclear.append(f"assert-set of threshold {one_line(str(threshold), 20)}")
            return
        self.is_told = self.is_told or inner.is_told


def _by_kind(value: Any) -> Iterator[tuple[str, Any]]:
    """(kind, subject) of each assertion."""
    value = parse_cell(value)
    if isinstance(value, list):
        for each in value:
            yield from _by_kind(each)
    elif isinstance(value, Mapping) and "type" in value:
        yield one_line(str(value["type"]), 60), value
    elif isinstance(value, Mapping) and value.keys() == {"name", "arguments"}:  # the long form of pydantic-evals
        yield one_line(str(value["name"]), 60), value["arguments"]
    elif isinstance(value, Mapping):
        yield from ((one_line(str(kind), 60), about) for kind, about in value.items())
    elif value is not None:
        match = _IN_A_CELL.fullmatch(str(value).strip())
        yield (match[1], {"value": match[2]}) if match else (one_line(str(value), 60), None)


def _entries(about: Any) -> list[Any] | None:
    """The tools that an assertion is about, without calls of the user, resources and prompts; None if it names none."""
    about = parse_cell(about)
    if isinstance(about, Mapping):
        inside = next((key for key in _INSIDE if key in about), None)
        return [about] if inside is None else _entries(about[inside])
    if isinstance(about, str):
        return [part.strip() for part in about.split(",") if part.strip()] or None
    if not isinstance(about, list):
        return None
    calls = (each if isinstance(each, Mapping) else {} for each in about)
    is_tool = [call.get("requestor") != "user" and call.get("type") not in {"resource", "prompt"} for call in calls]
    return [each for each, keep in zip(about, is_tool, strict=True) if keep]

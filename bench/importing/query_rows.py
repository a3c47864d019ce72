"""Rows of queries as people have them, in our own names of fields.

A row of bench has `query` and `tools`. Other projects keep the same under other names, and some inside other objects:
promptfoo under `vars` and `assert`, mcp-eval under `inputs` and `evaluators`, tau-bench under `instruction` and
`actions`, BFCL under `question` and `ground_truth`, gevals in a file of tasks beside a file of assertions. All names
are in one table, `NAMES`; what is inside other objects has a reader in `_READERS`.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bench.base.errors import UsageError
from bench.base.text import one_line

#: Our name of a field -> what it may be called, without case and signs: `expectedtool` is `expected_tool` and
#: `expectedTool`. The first is our own name, which goes before the others.
NAMES: Mapping[str, tuple[str, ...]] = {
    "query": (
        *("query", "prompt", "input", "inputs", "question", "text", "instruction", "userinput", "userquery", "request"),
        *("usermessage", "utterance", "inputprompt", "goal", "task", "vars", "userscenario"),
    ),
    "tools": (
        *(
            "tools",
            "tool",
            "toolname",
            "toolnames",
            "expectedtool",
            "expectedtools",
            "expectedtoolname",
            "expectedcalls",
        ),
        *("expectedtoolcall", "expectedtoolcalls", "expectedtooluse", "expectedfunction", "expectedfunctions", "gold"),
        *("goldtool", "goldtools", "toolsused", "referencetoolcalls", "correcttool", "correcttools", "relevanttools"),
        *("requiredtools", "answers", "groundtruth", "actions", "target", "expected", "assert", "evaluators"),
        *("evaluationcriteria", "assertions"),
    ),
    # One requirement that any of its tools meets.
    "any": ("requireany", "anyof"),
    "id": ("id", "queryid", "qid", "taskid", "testid", "caseid"),
    "split": ("split",),
    "forbidden": ("forbidden", "forbiddentools", "toolsnotused", "unexpectedtools"),
    # Tools, and servers, that the request may see.
    "scope": ("scope", "candidates", "candidatetools", "availabletools", "allowedtools", "visibletools"),
    "servers": ("servers", "availableservers", "allowedservers", "visibleservers"),
    "tags": ("tags",),
    "searches": ("searches",),
    "context": ("context", "history", "chathistory"),
    "group": ("group",),
    "origin": ("origin",),
}
#: Fields that say which tools are right, and no other. Beside one of them, names under `tools` are what was offered.
_RIGHT = tuple(name for name in NAMES["tools"] if name.startswith(("expected", "gold", "correct", "required")))
#: What `--field` calls a field besides our own name.
_OTHER_NAMES = {"text": "query"}
_FOLDED = {name: ours for ours, names in NAMES.items() for name in names}
#: Where a file keeps its rows, if it is one object.
CONTAINERS = (
    *("queries", "tests", "cases", "test_cases", "testCases", "samples", "examples", "evals", "evaluations", "tasks"),
    *("data", "rows"),
)
#: Where an object names a tool, and its server.
_TOOL_KEYS = ("tool_id", "tool", "tool_name", "toolName", "name", "function", "id")
_SERVER_KEYS = ("server", "server_name", "serverName", "server_label")
#: What tells the definition of a tool from the call of one.
_OF_DEFINITIONS = frozenset({"parameters", "inputSchema", "input_schema", "description"})
_ROLES_OF_USERS = frozenset({"user", "human"})
_ROLES_OF_TURNS = _ROLES_OF_USERS | {"assistant", "ai", "model"}
#: A name with its arguments, as BFCL writes a call: `cd(folder='a')`.
_CALL = re.compile(r"([^\s()]{1,256})\(.*\)", re.DOTALL)
#: A pattern of names that can be read without trying: names, `.*` and `|`.
_SIMPLE_PATTERN = re.compile(r"\^?\(?(?:[\w/-]|\.\*|\.|\|)+\)?\$?")
_MOST_PATTERN, _LONGEST_LITERAL = 200, 100_000
MISSING: Any = object()


@dataclass(frozen=True)
class ToolPattern:
    """All tools of a server, or those whose names match.

    Attributes:
        server: empty for any.
        pattern: a glob, in which `*` stands for any text.
    """

    server: str
    pattern: str = "*"


@dataclass
class FieldNames:
    """The names of fields in one file: those of the table, and those that a user gives.

    Attributes:
        given: our name -> path in a row, such as `case.prompt`.
        ignored: fields that nobody reads -> rows that have them.
        present: fields of `given` that some row has.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    present: set[str] = field(default_factory=set)

    @staticmethod
    def of(given: Mapping[str, str]) -> FieldNames:
        """Raises `UsageError` where a name is none of ours, or a path is empty."""
        paths = {}
        for name, path in given.items():
            ours = _OTHER_NAMES.get(name, name)
            if ours not in NAMES:
                known = ", ".join([*_OTHER_NAMES, *NAMES])
                raise UsageError(f"--field {one_line(name, 60)}: there is no such field; the fields are {known}.")
            if not path.strip():
                raise UsageError(f"--field {name}= lacks the name that the field has in the file.")
            if ours in paths:
                raise UsageError(f"--field names {name} twice.")
            paths[ours] = path.strip()
        return FieldNames(paths)

    def can_be(self, columns: Sequence[str]) -> bool:
        """Whether columns of a table hold the text and the tools of queries."""
        folded = {_FOLDED.get(fold(column)) for column in columns} | self.given.keys()
        return {"query", "tools"} <= folded or {"query", "any"} <= folded

    def read(self, row: Mapping[Any, Any], mistake: Callable[[str], None]) -> QueryRow:
        """A row in our names; what is wrong goes to `mistake`."""
        named: dict[str, list[tuple[str, Any]]] = {}
        paths = set(self.given.values())
        for key, value in row.items():
            ours = _FOLDED.get(fold(str(key)))
            if ours is not None and ours not in self.given:
                named.setdefault(ours, []).append((str(key), value))
            elif key not in paths and not any(path.startswith(f"{key}.") for path in paths):
                self._ignore(str(key), mistake)
        self._tell_offered(named)
        read = QueryRow()
        for ours, path in self.given.items():
            value = at_path(row, path)
            if value is not MISSING:
                self.present.add(ours)
                read.take(ours, path, value, mistake)
        for ours, candidates in named.items():
            chosen = self._choose(ours, candidates, mistake)
            if chosen is not None:
                read.take(ours, *chosen, mistake)
        return read

    def _tell_offered(self, named: dict[str, list[tuple[str, Any]]]) -> None:
        """Take names under `tools` for the request's scope, where another field says which of them are right."""
        fields = named.get("tools", [])
        right = "tools" in self.given or any(fold(key).startswith(_RIGHT) for key, _ in fields)
        offered = [(key, value) for key, value in fields if fold(key) == "tools" and _lists_names(value)]
        if right and offered:
            named["tools"] = [each for each in fields if each not in offered]
            named.setdefault("scope", []).extend(offered)

    def _ignore(self, key: str, mistake: Callable[[str], None]) -> None:
        # A slip in one of our own names would lose what it says.
        if (meant := _slip_of(fold(key))) and not self.given:
            known = ", ".join(name for name in NAMES if name != "any")
            mistake(f"the field {one_line(key, 40)!r} is none of {known} (did you mean {meant!r}?)")
        elif key in self.ignored or len(self.ignored) < 1_000:
            self.ignored[one_line(key, 60)] += 1

    def _choose(
        self, ours: str, candidates: list[tuple[str, Any]], mistake: Callable[[str], None]
    ) -> tuple[str, Any] | None:
        """The field that is meant, of those that may be: our own name, or the only one that says something."""
        if ours == "tools":
            definitions = [key for key, value in candidates if fold(key) == ours and _holds_definitions(value)]
            for key in definitions:
                self.ignored[one_line(key, 60)] += 1
            candidates = [(key, value) for key, value in candidates if key not in definitions]
            if definitions and not candidates:
                mistake(f"{definitions[0]} defines tools and does not say which are right; expected their names")
                return "", []
        if not candidates:
            return None
        for key, value in candidates:
            if key == ours and value not in (None, ""):
                for other, _ in candidates:
                    self.ignored.update([one_line(other, 60)] if other != key else [])
                return key, value
        telling = [(key, value) for key, value in candidates if value not in (None, "")]
        if len(telling) > 1 and any(value != telling[0][1] for _, value in telling):
            keys = " and ".join(one_line(key, 40) for key, _ in telling[:3])
            option = "text" if ours == "query" else ours
            mistake(f"{keys} may each be the {option}; say which with --field {option}=NAME")
        return (telling or candidates)[0]


@dataclass
class QueryRow:
    """A row in our names.

    Attributes:
        values: our name -> value.
        labels: our name -> what the file calls it.
    """

    values: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def take(self, ours: str, label: str, value: Any, mistake: Callable[[str], None]) -> None:
        """Take a field, and what stands inside it."""
        reader = _READERS.get(fold(label))
        if reader is not None and isinstance(value, dict | list):
            try:
                inside = reader(value)
            except _UnreadableError as error:
                mistake(f"{one_line(label, 60)}: {error}")
                inside = {ours: []}
        elif ours == "query":
            inside = _read_text(value)
        else:
            inside = {ours: value}
        for name, inner in inside.items():
            if name in self.values and name == "forbidden":
                self.values[name] = [*_listed(self.values[name]), *_listed(inner)]
            elif name not in self.values or name == ours:
                self.values[name] = inner
                self.labels[name] = one_line(label, 60)


@lru_cache(maxsize=1_000)
def _slip_of(folded: str) -> str:
    """Our name of an optional field that this one nearly is; empty if it is near to none."""
    optional = [name for name in NAMES if name not in {"query", "tools", "any", "id"}]
    close = difflib.get_close_matches(folded, optional, n=1, cutoff=0.8) if len(folded) < 40 else []
    return close[0] if close else ""


@lru_cache(maxsize=1_000)
def fold(name: str) -> str:
    """A name of a field without case and signs."""
    return re.sub(r"[^a-z0-9]", "", name[:100].lower())


def at_path(row: Any, path: str) -> Any:
    """The value at a dotted path, `MISSING` if there is none.

    A number is a place in a list. Without one, a path goes through all entries of a list. A text that holds JSON is
    what it holds.
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    head, _, rest = path.partition(".")
    value = parsed(row)
    if isinstance(value, list) and not re.fullmatch(r"[0-9]{1,9}", head):
        inner = [each for each in (at_path(item, path) for item in value) if each is not MISSING]
        return inner if inner or not value else MISSING
    if isinstance(value, list):
        value = value[int(head)] if int(head) < len(value) else MISSING
    else:
        value = value.get(head, MISSING) if isinstance(value, Mapping) else MISSING
    # Of nothing all is nothing: no calls have no names.
    return value if value is MISSING or value is None or not rest else at_path(value, rest)


def parsed(value: Any) -> Any:
    """The list or object that a text holds as JSON or as Python writes it; else the value."""
    if not isinstance(value, str) or value[:1] not in ("[", "{") or len(value) > _LONGEST_LITERAL:
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            inner = parse(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return inner if isinstance(inner, list | dict) else value
    return value


def call_of(entry: Any) -> str | ToolPattern | None:
    """The name of the tool that an entry calls; None if it names none.

    An entry is a name, a call `name(...)`, an object that has the name and maybe the server, or BFCL's
    `{name: arguments}`.
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
    if len(entry) == 1 and isinstance(next(iter(entry.values())), Mapping):
        return str(next(iter(entry)))
    return ToolPattern(server) if server else None


def without_arguments(name: str) -> str:
    """The name in `name(arguments)`; else the text."""
    match = _CALL.fullmatch(name)
    return match[1] if match is not None else name


def expand(row: Any) -> Iterator[Any]:
    """The row; of a dialogue with the calls of each turn, as BFCL has it, a row for each turn."""
    turns, calls = (row.get("question"), row.get("ground_truth")) if isinstance(row, dict) else (None, None)
    if (
        not isinstance(turns, list)
        or not isinstance(calls, list)
        or len(turns) < 2
        or len(turns) != len(calls)
        or not all(isinstance(each, list) for each in (*turns, *calls))
    ):
        yield row
        return
    before: list[Any] = []
    for number, (turn, called) in enumerate(zip(turns, calls, strict=True), start=1):
        changed = {"question": [turn], "ground_truth": called, "context": list(before)}
        if "id" in row:
            changed |= {"id": f"{row['id']}_turn{number}", "group": str(row["id"])}
        yield {**row, **changed}
        before += [{"role": "user", "content": _content(said)} for said in turn if isinstance(said, Mapping)]


def _listed(value: Any) -> list[Any]:
    value = parsed(value)
    return value if isinstance(value, list) else [part for part in str(value).split(";") if part.strip()]


def _lists_names(value: Any) -> bool:
    entries = parsed(value)
    return isinstance(entries, list) and len(entries) > 1 and all(isinstance(each, str) for each in entries)


def _holds_definitions(value: Any) -> bool:
    entries = parsed(value)
    entries = entries if isinstance(entries, list) else []
    inner = [each.get("function", each) for each in entries if isinstance(each, Mapping)]
    return bool(inner) and all(isinstance(each, Mapping) and _OF_DEFINITIONS & each.keys() for each in inner)


# Texts ----------------------------------------------------------------------------------------------------------------


def _read_text(value: Any) -> dict[str, Any]:
    """The request in a text, in messages, or in an object that has one; earlier turns are context."""
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        value = [message for turn in value for message in turn]
    if isinstance(value, Mapping):
        if isinstance(value.get("messages"), list):
            return _read_text(value["messages"])
        return _read_vars(value)
    if not isinstance(value, list) or not value or not all(isinstance(each, Mapping) for each in value):
        return {"query": value}
    said = [(str(each.get("role", "user")).lower(), _content(each)) for each in value]
    last = max((at for at, (role, text) in enumerate(said) if role in _ROLES_OF_USERS and text), default=None)
    if last is None:
        return {"query": None}
    context = [{"role": role, "content": text} for role, text in said[:last] if role in _ROLES_OF_TURNS and text]
    return {"query": said[last][1], **({"context": context} if context else {})}


def _content(message: Mapping[Any, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(each.get("text") or "") for each in content if isinstance(each, Mapping))
    return content.strip() if isinstance(content, str) else ""


def _read_vars(value: Any) -> dict[str, Any]:
    """promptfoo's `vars`, or the inputs of a case: the text under a usual name, or the only text."""
    if not isinstance(value, Mapping):
        return _read_text(value)
    named = [(key, inner) for key, inner in value.items() if _FOLDED.get(fold(str(key))) == "query"]
    texts = [inner for _, inner in named if isinstance(inner, str | list)] or [
        inner for inner in value.values() if isinstance(inner, str)
    ]
    return _read_text(texts[0]) if len(texts) == 1 else {"query": None}


def _read_scenario(value: Any) -> dict[str, Any]:
    """tau-bench's user: the reason for the call, what the user knows and is told to do."""
    told = value.get("instructions") if isinstance(value, Mapping) else None
    if isinstance(told, Mapping):
        parts = [told.get(key) for key in ("reason_for_call", "known_info", "task_instructions")]
        told = "\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
    return {"query": told}


# Assertions -----------------------------------------------------------------------------------------------------------


class _UnreadableError(Exception):
    """What is wrong with an assertion."""


def _read_promptfoo(value: Any) -> dict[str, Any]:
    """promptfoo's `assert`: `tool-call-f1` and the assertions on a trajectory that name tools."""
    tools: list[Any] = []
    forbidden: list[Any] = []
    is_told = False
    for each in value if isinstance(value, list) else [value]:
        kind = str(each.get("type", "")) if isinstance(each, Mapping) else ""
        into = forbidden if kind.startswith("not-") else tools
        name, wanted = kind.removeprefix("not-"), parsed(each.get("value")) if isinstance(each, Mapping) else None
        if name == "tool-call-f1":
            wanted = [part.strip() for part in wanted.split(",")] if isinstance(wanted, str) else wanted
        elif name == "trajectory:tool-sequence":
            wanted = wanted.get("steps") if isinstance(wanted, Mapping) else wanted
        elif name not in {"trajectory:tool-used", "trajectory:tool-args-match"}:
            continue
        is_told = True
        for entry in wanted if isinstance(wanted, list) else [wanted] if wanted else []:
            never = isinstance(entry, Mapping) and entry.get("max") == 0
            (forbidden if never else into).append(_promptfoo_entry(entry))
    if not is_told:
        raise _UnreadableError("no assertion names a tool (expected tool-call-f1 or trajectory:tool-used)")
    return {"tools": tools, **({"forbidden": forbidden} if forbidden else {})}


def _promptfoo_entry(entry: Any) -> Any:
    pattern = entry.get("pattern") if isinstance(entry, Mapping) else None
    pattern = entry if isinstance(entry, str) and "*" in entry else pattern
    return ToolPattern("", pattern[:_MOST_PATTERN]) if isinstance(pattern, str) else entry


def _read_mcp_eval(value: Any) -> dict[str, Any]:
    """mcp-eval's `evaluators`: those that name tools."""
    tools: list[Any] = []
    forbidden: list[Any] = []
    is_told = False
    for each in value if isinstance(value, list) else [value]:
        for kind, about in each.items() if isinstance(each, Mapping) else ():
            about = about if isinstance(about, Mapping) else {"tool_name": about}
            sequence = about.get("expected_sequence") or about.get("expected_tool_sequence")
            if isinstance(sequence, list):
                tools += sequence
                is_told = True
            elif str(kind).startswith(("Tool", "ExactTool")) and isinstance(about.get("tool_name"), str):
                never = about.get("expected_count") == 0 or about.get("max_times") == 0
                (forbidden if never else tools).append(about["tool_name"])
                is_told = True
    if not is_told:
        raise _UnreadableError("no evaluator names a tool (expected ToolWasCalled or ToolSequence)")
    return {"tools": tools, **({"forbidden": forbidden} if forbidden else {})}


def _read_criteria(value: Any) -> dict[str, Any]:
    """tau2-bench's criteria: the actions that are the agent's and not the user's."""
    actions = value.get("actions", []) if isinstance(value, Mapping) else value
    return {"tools": _read_actions([] if actions is None else actions)["tools"]}


def _read_actions(value: Any) -> dict[str, Any]:
    """tau-bench's actions."""
    if not isinstance(value, list):
        raise _UnreadableError("expected a list of actions")
    return {"tools": [each for each in value if not (isinstance(each, Mapping) and each.get("requestor") == "user")]}


def read_assertions(value: Any) -> dict[str, Any]:
    """gevals' assertions: tools that must, one of which must, and that must not be called."""
    if not isinstance(value, Mapping):
        raise _UnreadableError("expected an object with toolsUsed, requireAny or toolsNotUsed")
    read: dict[str, Any] = {}
    for key, ours in (("toolsUsed", "tools"), ("requireAny", "any"), ("toolsNotUsed", "forbidden")):
        if value.get(key) is not None:
            read[ours] = [_gevals_entry(each) for each in _listed(value[key])]
    order = value.get("callOrder")
    if isinstance(order, list):
        called = [each for each in order if isinstance(each, Mapping) and each.get("type") == "tool"]
        read["tools"] = [*read.get("tools", []), *called]
    if not read.keys() & {"tools", "any"}:
        if value.get("maxToolCalls") == 0 or "forbidden" in read:
            read["tools"] = []
        else:
            raise _UnreadableError("no assertion names a tool (expected toolsUsed or requireAny)")
    return read


def _gevals_entry(entry: Any) -> Any:
    if not isinstance(entry, Mapping) or not entry.get("toolPattern") or entry.get("tool"):
        return entry
    return ToolPattern(str(entry.get("server") or ""), glob_of(str(entry["toolPattern"])))


def glob_of(pattern: str) -> str:
    """A regular expression of names, `.*` and `|` as a glob with `|`; raises for others, which could take for ever."""
    if len(pattern) > _MOST_PATTERN or not _SIMPLE_PATTERN.fullmatch(pattern):
        raise _UnreadableError(
            f"the pattern {one_line(pattern, 60)!r} is more than names, `.*` and `|`; name the tools instead"
        )
    # Go's `MatchString` looks anywhere in a name.
    starts, ends = pattern.startswith("^"), pattern.endswith("$")
    inner = pattern.removeprefix("^").removesuffix("$")
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    parts = [part.replace(".*", "*").replace(".", "?") for part in inner.split("|")]
    return "|".join(f"{'' if starts else '*'}{part}{'' if ends else '*'}" for part in parts)


#: What stands inside objects, by the folded name of the field that holds them.
_READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "vars": _read_vars,
    "userscenario": _read_scenario,
    "assert": _read_promptfoo,
    "evaluators": _read_mcp_eval,
    "evaluationcriteria": _read_criteria,
    "actions": _read_actions,
    "assertions": read_assertions,
    "toolsused": lambda value: {"tools": [_gevals_entry(each) for each in _listed(value)]},
    "requireany": lambda value: {"any": [_gevals_entry(each) for each in _listed(value)]},
    "toolsnotused": lambda value: {"forbidden": [_gevals_entry(each) for each in _listed(value)]},
}

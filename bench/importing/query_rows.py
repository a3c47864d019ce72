"""Convert rows of queries from the field names of other projects to ours. `queries` and `query_files` call it.

A row of bench has `query` and `tools`. Other projects use other names and nested objects: promptfoo `vars` and
`assert`, mcp-eval `inputs` and `evaluators`, tau-bench `instruction` and `actions`, BFCL `question` and `ground_truth`,
gevals a file of tasks beside a file of assertions. The table `dialects.toml` has all names;
`bench.importing.assertions` reads assertions.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.importing.assertions import Assertions, fold
from bench.importing.dialects import TABLE, words
from bench.importing.reading import parse_cell

_Mistake = Callable[[str], None]
_Field = tuple[str, Any]

#: Our name of a field -> its possible names, lower case without signs; our own, which has priority, comes first.
NAMES: Mapping[str, tuple[str, ...]] = {
    ours: (ours, *words("queries", "fields", ours)) for ours in TABLE["queries"]["fields"]
}
#: Fields that only say which tools are right. If a row has one, names under `tools` are the offered tools.
_RIGHT = tuple(name for name in NAMES["tools"] if name.startswith(("expected", "gold", "correct", "required")))
#: Fields of assertions; fields that distinguish tool definitions from calls; roles of messages.
_ASSERTIONS, _OF_DEFINITIONS, _ROLES_OF_USERS, _ROLES_OF_ASSISTANTS = (
    frozenset(words("queries", "values", key)) for key in ("assertions", "definitions", "users", "assistants")
)
#: Names of fields in `--field` besides our own.
_OTHER_NAMES = {"text": "query"}
_FOLDED = {name: ours for ours, names in NAMES.items() for name in names}
#: A variable in a text of promptfoo: `{{ name }}`.
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
MISSING: Any = object()


@dataclass
class FieldNames:
    """The names of fields in one file: those of the table, and those from the user.

    Attributes:
        given: our name -> path in a row, such as `case.prompt`.
        ignored: field that is not read -> number of rows with it.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(given: Iterable[tuple[str, str]]) -> FieldNames:
        """Read `--field` options; raises `UsageError` for an unknown or repeated name, or an empty path."""
        paths: dict[str, str] = {}
        for name, path in given:
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
        """Whether columns of a table, or keys of an object, include the text and the tools of queries."""
        known = {_FOLDED.get(fold(column)) for column in columns}
        known |= {ours for ours, path in self.given.items() if path in columns or path.partition(".")[0] in columns}
        return {"query", "tools"} <= known or {"query", "any"} <= known

    def read(self, row: Mapping[Any, Any], mistake: _Mistake) -> QueryRow:
        """A row with our names; `mistake` receives its faults."""
        fields: defaultdict[str, list[_Field]] = defaultdict(list)
        paths = set(self.given.values())
        for key, value in row.items():
            ours = _FOLDED.get(fold(str(key)))
            if ours is not None and ours not in self.given:
                fields[ours].append((str(key), value))
            elif key not in paths and not any(path.startswith(f"{key}.") for path in paths):
                self._ignore(str(key), mistake)
        read = QueryRow()
        self._set_apart(fields, read, mistake)
        for ours, path in self.given.items():
            if (value := at_path(row, path)) is not MISSING:
                read.take(ours, path, value, mistake)
        for ours, candidates in fields.items():
            if candidates:
                read.take(ours, *self._choose(ours, candidates, mistake), mistake)
        return read

    def _ignore(self, key: str, mistake: _Mistake) -> None:
        # A misspelt field of ours would lose its content.
        if (meant := _slip_of(fold(key))) and not self.given:
            known = ", ".join(name for name in NAMES if name != "any")
            mistake(f"the field {one_line(key, 40)!r} is none of {known} (did you mean {meant!r}?)")
        elif key in self.ignored or len(self.ignored) < 1_000:
            self.ignored[one_line(key, 60)] += 1

    def _set_apart(self, fields: defaultdict[str, list[_Field]], read: QueryRow, mistake: _Mistake) -> None:
        """Remove from the fields of tools those that do not say which are right: offers, definitions, assertions."""
        candidates = fields["tools"]
        is_right = "tools" in self.given or any(fold(key).startswith(_RIGHT) for key, _ in candidates)
        if all(fold(key) != "tools" or value in (None, "") for key, value in candidates):
            for key, value in candidates[:] if len(candidates) > 1 else ():
                if _holds_assertions(key, value) and not (said := _read_assertions(key, value)).is_told:
                    read.silent, read.unclear = read.silent + said.silent, read.unclear + said.unclear
                    candidates.remove((key, value))
        for key, value in [each for each in candidates if fold(each[0]) == "tools"]:
            names = parse_cell(value)
            if _holds_definitions(names):
                self.ignored[one_line(key, 60)] += 1
                candidates.remove((key, value))
                if not candidates and not is_right:
                    mistake(f"{key} defines tools and does not say which are right; expected their names")
                    candidates.append((key, []))
                    return
            elif is_right and isinstance(names, list) and len(names) > 1 and all(isinstance(n, str) for n in names):
                candidates.remove((key, value))
                fields["scope"].append((key, value))

    def _choose(self, ours: str, candidates: list[_Field], mistake: _Mistake) -> _Field:
        """The field to read, of several possible ones: the one with our own name, or the only one with a value."""
        telling = [(key, value) for key, value in candidates if value not in (None, "")]
        for key, value in telling:
            if key == ours:
                self.ignored.update(one_line(other, 60) for other, _ in candidates if other != key)
                return key, value
        if len(telling) > 1 and any(value != telling[0][1] for _, value in telling):
            keys = " and ".join(one_line(key, 40) for key, _ in telling[:3])
            option = "text" if ours == "query" else ours
            mistake(f"{keys} may each be the {option}; say which with --field {option}=NAME")
        return (telling or candidates)[0]


@dataclass
class QueryRow:
    """A row with our names.

    Attributes:
        values: our name -> value.
        labels: our name -> name in the file.
        silent: kind of assertions that say nothing about which tools are right -> number.
        unclear: kinds of assertions that may be about tools and are not read.
        only_forbids: whether its assertions say which tools are wrong, but none that is right.
    """

    values: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    silent: Counter[str] = field(default_factory=Counter)
    unclear: list[str] = field(default_factory=list)
    only_forbids: bool = False

    def take(self, ours: str, label: str, value: Any, mistake: _Mistake) -> None:
        """Add a field, with the fields nested in it."""
        inside = {ours: value}
        if _holds_assertions(label, value):
            said = _read_assertions(label, value)
            self.silent, self.unclear = self.silent + said.silent, self.unclear + said.unclear
            if not said.is_told:
                kinds = ", ".join([*said.silent, *said.unclear][:5]) or "none"
                expected = "expected trajectory:tool-used, ToolWasCalled or the like, or --field tools=NAME"
                mistake(f"{one_line(label, 60)}: no assertion names a tool (of the kinds {kinds}); {expected}")
            inside = {"tools": said.tools, **({"forbidden": said.forbidden} if said.forbidden else {})}
            self.only_forbids = bool(said.forbidden) and not said.tools
        elif fold(label) == "userscenario" and isinstance(value, Mapping):
            inside = {"query": _read_scenario(value)}
        elif ours == "query":
            inside = _read_text(value)
        for name, inner in inside.items():
            if name in self.values and name == "forbidden":
                self.values[name] = [*_listed(self.values[name]), *_listed(inner)]
            elif name not in self.values or name == ours:
                self.values[name] = inner
                self.labels[name] = one_line(label, 60)


@lru_cache(maxsize=1_000)
def _slip_of(folded: str) -> str:
    """The optional field of ours that this name probably misspells; empty if there is none."""
    optional = [name for name in NAMES if name not in {"query", "tools", "any", "id"}]
    close = difflib.get_close_matches(folded, optional, n=1, cutoff=0.8) if len(folded) < 40 else []
    return close[0] if close else ""


def at_path(row: Any, path: str) -> Any:
    """The value at a dotted path, `MISSING` if there is none.

    A number is a position in a list; without one, a path continues in all entries of a list. JSON in a text is parsed.
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    head, _, rest = path.partition(".")
    value = parse_cell(row)
    if isinstance(value, list) and not re.fullmatch(r"[0-9]{1,9}", head):
        inner = [each for each in (at_path(item, path) for item in value) if each is not MISSING]
        return inner if inner or not value else MISSING
    if isinstance(value, list):
        value = value[int(head)] if int(head) < len(value) else MISSING
    else:
        value = value.get(head, MISSING) if isinstance(value, Mapping) else MISSING
    # Null stays null: without calls there are no names.
    return value if value is MISSING or value is None or not rest else at_path(value, rest)


def expand(row: Any, place: str, faults: list[str]) -> Iterator[Any]:
    """The rows of one entry.

    BFCL's dialogue with the calls of each turn becomes a row per turn. In promptfoo's assertions, variables are filled
    in, and a test's threshold becomes one of all its assertions together.
    """
    if not isinstance(row, dict):
        yield row
        return
    if isinstance(row.get("assert"), list):
        variables = row.get("vars")
        assertions = _fill(row["assert"], variables if isinstance(variables, dict) else {})
        if row.get("threshold") is not None:
            assertions = [{"type": "assert-set", "assert": assertions, "threshold": row["threshold"]}]
        row = {key: value for key, value in row.items() if key != "threshold"} | {"assert": assertions}
    turns, calls = row.get("question"), row.get("ground_truth")
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, list) for turn in turns):
        yield row
        return
    if not isinstance(calls, list) or len(calls) != len(turns) or not all(isinstance(each, list) for each in calls):
        faults.append(f"{place}: question has {len(turns)} turns, and ground_truth no list of calls for each")
        return
    before: list[Any] = []
    for number, (turn, called) in enumerate(zip(turns, calls, strict=True), start=1):
        changed = {"question": [turn], "ground_truth": called, "context": list(before)}
        if "id" in row:
            changed |= {"id": f"{row['id']}_turn{number}", "group": str(row["id"])}
        yield {**row, **changed}
        before += [{"role": "user", "content": _content(said)} for said in turn if isinstance(said, Mapping)]


def _fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """A value in which each `{{ name }}` is replaced by the variable of the test."""
    if isinstance(value, list):
        return [_fill(each, variables) for each in value]
    if isinstance(value, dict):
        return {key: _fill(each, variables) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    if (whole := _VARIABLE.fullmatch(value.strip())) is not None:
        return variables.get(whole[1], value)
    return _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), value)


def _listed(value: Any) -> list[Any]:
    value = parse_cell(value)
    return value if isinstance(value, list) else [part for part in str(value).split(";") if part.strip()]


def _holds_assertions(label: str, value: Any) -> bool:
    return isinstance(value, dict | list) and fold(label) in _ASSERTIONS


def _read_assertions(label: str, value: Any) -> Assertions:
    said = Assertions()
    said.take({"actions": value} if fold(label) == "actions" else value)
    return said


def _holds_definitions(entries: Any) -> bool:
    entries = entries if isinstance(entries, list) else []
    inner = [each.get("function", each) for each in entries if isinstance(each, Mapping)]
    return bool(inner) and all(isinstance(each, Mapping) and _OF_DEFINITIONS & each.keys() for each in inner)


# Texts ----------------------------------------------------------------------------------------------------------------


def _read_text(value: Any) -> dict[str, Any]:
    """The request in a text, in messages, or in an object with a text; earlier turns are context."""
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        value = [message for turn in value for message in turn]
    if isinstance(value, Mapping):
        if isinstance(value.get("messages"), list):
            return _read_text(value["messages"])
        # promptfoo's `vars`, or a case's inputs: the text under a usual name, or the only text.
        named = [inner for key, inner in value.items() if _FOLDED.get(fold(str(key))) == "query"]
        texts = [inner for inner in named if isinstance(inner, str | list)]
        texts = texts or [inner for inner in value.values() if isinstance(inner, str)]
        return _read_text(texts[0]) if len(texts) == 1 else {"query": value}
    if not isinstance(value, list) or not value or not all(isinstance(each, Mapping) for each in value):
        return {"query": value}
    # ragas calls the role of a message its type.
    said = [(str(each.get("role") or each.get("type") or "user").lower(), _content(each)) for each in value]
    last = max((at for at, (role, text) in enumerate(said) if role in _ROLES_OF_USERS and text), default=None)
    if last is None:
        return {"query": value}
    roles = _ROLES_OF_USERS | _ROLES_OF_ASSISTANTS
    context = [{"role": role, "content": text} for role, text in said[:last] if role in roles and text]
    return {"query": said[last][1], **({"context": context} if context else {})}


def _content(message: Mapping[Any, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(each.get("text") or "") for each in content if isinstance(each, Mapping))
    return content.strip() if isinstance(content, str) else ""


def _read_scenario(value: Mapping[Any, Any]) -> Any:
    """The instructions of tau-bench's user: the reason for the call, what the user knows and must do."""
    told = value.get("instructions")
    if isinstance(told, Mapping):
        parts = [told.get(key) for key in words("queries", "values", "scenario")]
        told = "\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
    return told

"""Parsing and printing specs such as `tgr(base=dense, graph=rules)`.

Manifests, tables, file names (hashed) and commands identify methods and datasets by spec, so the text form is the
identity: `parse(str(spec)) == spec`, and two spellings of the same spec print the same (arguments sorted by name,
numbers and quotes normalised).

Grammar
    spec   = name [ "(" [ key "=" value { "," key "=" value } ] ")" ]
    value  = spec-with-parentheses | list | number | true | false | null | "JSON string" | bare word
    list   = "[" [ value { "," value } ] "]"
    name, bare word = letters, digits and  _ . / : + - @ % ~ *  (a bare word may not look like a number)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from bench.base.errors import UsageError

Value = Union[None, bool, int, float, str, "Spec", tuple["Value", ...]]

_WORD = re.compile(r"[\w./:+\-@%~*]+")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_KEY = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 20
_LONGEST_NUMBER = 1000


@dataclass(frozen=True)
class Spec:
    """A name with arguments.

    `arguments` is sorted by key; `str(spec)` is canonical. Build one with `Spec.of` or `parse`.
    """

    name: str
    arguments: tuple[tuple[str, Value], ...] = field(default=())

    @staticmethod
    def of(name: str, arguments: Mapping[str, Value] | None = None) -> Spec:
        return Spec(name, tuple(sorted((arguments or {}).items())))

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        inner = ", ".join(f"{key}={format_value(value)}" for key, value in self.arguments)
        return f"{self.name}({inner})"

    def with_arguments(self, more: Mapping[str, Value]) -> Spec:
        """The same name with the arguments updated from `more`."""
        return Spec.of(self.name, {**dict(self.arguments), **more})


def format_value(value: Value) -> str:
    """The text of one value, from which `parse_value` returns the value."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"a spec cannot hold the number {value}.")
        return repr(value)
    if isinstance(value, int):
        if abs(value) >= 10 ** (_LONGEST_NUMBER - 1):
            raise UsageError(f"a spec cannot hold a number of more than {_LONGEST_NUMBER - 1} digits.")
        return str(value)
    if isinstance(value, Spec):
        # A nested spec without arguments keeps its parentheses; without them it would be a string.
        return str(value) if value.arguments else f"{value.name}()"
    if isinstance(value, tuple):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    plain = _WORD.fullmatch(value) and not _NUMBER.fullmatch(value) and value not in _KEYWORDS
    return value if plain else json.dumps(value, ensure_ascii=False)


def parse(text: str) -> Spec:
    """Parse a spec; raises `UsageError` with the position of the fault."""
    if _is_broken(text):
        raise UsageError(f"cannot read {text!r}: it is not valid Unicode; paths in a spec must be UTF-8.")
    reader = _SpecReader(text)
    spec = reader.spec()
    reader.end()
    return spec


def parse_value(text: str) -> Value:
    """Parse one value, as after `--set key=`.

    Text other than a list, spec, quoted string, number or keyword is used verbatim, so that paths and sentences need no
    quotes on the command line.
    """
    stripped = text.strip()
    looks_structured = stripped[:1] in {"[", '"'} or re.fullmatch(r"[\w./:+\-@%~*]+\(.*\)", stripped, re.DOTALL)
    if not looks_structured:
        scalar = _scalar(stripped) if _WORD.fullmatch(stripped) else text
        # White space around a text is part of it: some encoders need the prompt "query: ".
        return text if isinstance(scalar, str) else scalar
    reader = _SpecReader(stripped)
    value = reader.value(0)
    reader.end()
    return value


def _is_broken(text: str) -> bool:
    """Whether a text contains a lone surrogate, which files and terminals cannot represent."""
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def _scalar(word: str) -> Value:
    if word in _KEYWORDS:
        return _KEYWORDS[word]
    if _NUMBER.fullmatch(word):
        if re.fullmatch(r"[+-]?\d+", word):
            # Numbers longer than any parameter, which are slow to convert, stay text.
            return int(word) if len(word) <= _LONGEST_NUMBER else word
        number = float(word)
        return number if math.isfinite(number) else word
    return word


class _SpecReader:
    """A recursive-descent reader over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _peek(self) -> str:
        self._skip()
        return self.text[self.at : self.at + 1]

    def _fail(self, expected: str) -> UsageError:
        shown = self.text if len(self.text) <= 120 else self.text[:117] + "..."
        return UsageError(f"cannot read {shown!r}: expected {expected} at character {self.at + 1}.")

    def _take(self, char: str) -> bool:
        if self._peek() == char:
            self.at += 1
            return True
        return False

    def _match(self, pattern: re.Pattern[str], expected: str) -> str:
        self._skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self._fail(expected)
        self.at = match.end()
        return match[0]

    def spec(self, depth: int = 0) -> Spec:
        name = self._match(_WORD, "a name")
        return Spec.of(name, self._arguments(depth) if self._take("(") else {})

    def _arguments(self, depth: int) -> dict[str, Value]:
        arguments: dict[str, Value] = {}
        if self._take(")"):
            return arguments
        while True:
            key = self._match(_KEY, "an argument's name")
            if key in arguments:
                raise UsageError(f"cannot read {self.text!r}: argument {key!r} occurs twice.")
            if not self._take("="):
                raise self._fail("'='")
            arguments[key] = self.value(depth + 1)
            if self._take(")"):
                return arguments
            if not self._take(","):
                raise self._fail("',' or ')'")

    def value(self, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise UsageError(f"cannot read a spec nested deeper than {_MAX_DEPTH} levels.")
        head = self._peek()
        if head == "[":
            return self._list(depth)
        if head == '"':
            try:
                text = str(json.loads(self._match(_STRING, "a closing quote")))
            except json.JSONDecodeError:
                raise self._fail("a valid JSON string before here") from None
            if _is_broken(text):
                raise self._fail("a string of whole characters before here")
            return text
        word = self._match(_WORD, "a value")
        if self._take("("):
            return Spec.of(word, self._arguments(depth))
        return _scalar(word)

    def _list(self, depth: int) -> tuple[Value, ...]:
        self._take("[")
        items: list[Value] = []
        if self._take("]"):
            return ()
        while True:
            items.append(self.value(depth + 1))
            if self._take("]"):
                return tuple(items)
            if not self._take(","):
                raise self._fail("',' or ']'")

    def end(self) -> None:
        if self._peek():
            raise self._fail("the end")

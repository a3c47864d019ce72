"""Parse external JSON and refuse objects with a repeated key, naming both lines.

`json.loads` silently keeps only the last value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from bench.base.text import one_line

#: Tokens of valid JSON that show the objects and their keys. Possessive quantifiers keep the time linear.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]')


class RepeatedKey(ValueError):
    """An object has a key twice.

    Attributes:
        key: the key.
        lines: lines of its two occurrences in the text, from 1.
    """

    def __init__(self, key: str, lines: tuple[int, int]) -> None:
        self.key, self.lines = key, lines
        super().__init__(self.sentence())

    def sentence(self, before: int = 0) -> str:
        """The fault, as part of a sentence.

        Args:
            before: lines of the file before the text that was parsed.
        """
        first, second = (line + before for line in self.lines)
        where = f"twice in line {first}" if first == second else f"in line {first} and in line {second}"
        return f"an object has the key {one_line(self.key, 80)!r} {where}"


class _Repeated(Exception):
    """Raised while parsing, before the lines are known; not a `ValueError`, which parsers of numbers may catch."""


def loads(
    text: str | bytes,
    *,
    parse_constant: Callable[[str], Any] | None = None,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """Parse JSON as `json.loads` does.

    Args:
        text: the text; bytes are UTF-8, UTF-16 or UTF-32.
        parse_constant, parse_int: as in `json.loads`.

    Raises:
        RepeatedKey: an object has a key twice. It is a `ValueError`.
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=parse_constant, parse_int=parse_int)
    except _Repeated:
        if isinstance(text, bytes | bytearray):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        raise _locate(text) from None


def refuse_constant(name: str) -> NoReturn:
    """For `parse_constant`: NaN and infinities are not JSON."""
    raise ValueError(f"{name} is not a number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Repeated
    return value


def _locate(text: str) -> RepeatedKey:
    """The first object to end that has a key twice, in a text with such an object."""
    # For each open object, the positions of its keys; for each open list, None.
    open_: list[dict[str, int] | None] = []
    twice: list[tuple[str, int, int] | None] = []
    expected = False
    for match in _TOKENS.finditer(text):
        sign = match[0]
        if sign in "{[":
            open_.append({} if sign == "{" else None)
            twice.append(None)
            expected = sign == "{"
        elif sign in "}]":
            open_.pop()
            if (found := twice.pop()) is not None:
                key, first, second = found
                return RepeatedKey(key, (text.count("\n", 0, first) + 1, text.count("\n", 0, second) + 1))
            expected = False
        elif sign == ",":
            expected = open_[-1] is not None
        elif expected and (keys := open_[-1]) is not None:
            key = json.loads(sign, strict=False)
            if key in keys and twice[-1] is None:
                twice[-1] = (key, keys[key], match.start())
            keys.setdefault(key, match.start())
            expected = False
    raise AssertionError("the object that has a key twice has ended before the parser told of it")

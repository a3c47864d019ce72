"""JSON from outside: an object that has a key twice is refused, with the lines of both.

`json.loads` keeps the last of them without a word, so that one of two answers to the same question would be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from bench.base.text import one_line

#: The tokens of valid JSON that tell where an object begins and ends, and what its keys are. Possessive: linear time.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]')


class RepeatedKey(ValueError):
    """An object has a key twice.

    Attributes:
        key: the key.
        lines: of the first and of the second, from 1, within the text.
    """

    def __init__(self, key: str, lines: tuple[int, int]) -> None:
        self.key, self.lines = key, lines
        super().__init__(self.sentence())

    def sentence(self, before: int = 0) -> str:
        """What is wrong, as a part of a sentence.

        Args:
            before: lines of the file before the text that was parsed.
        """
        first, second = (line + before for line in self.lines)
        where = f"twice in line {first}" if first == second else f"in line {first} and in line {second}"
        return f"an object has the key {one_line(self.key, 80)!r} {where}"


class _Repeated(Exception):
    """Found while parsing, when the lines are not known yet; no `ValueError`, which parsers of numbers may catch."""


def loads(
    text: str | bytes,
    *,
    parse_constant: Callable[[str], Any] | None = None,
    parse_int: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text, as `json.loads` gives it.

    Args:
        text: the text; bytes are UTF-8, UTF-16 or UTF-32.
        parse_constant, parse_int: as of `json.loads`.

    Raises:
        RepeatedKey: an object has a key twice. It is a `ValueError`.
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=parse_constant, parse_int=parse_int)
    except _Repeated:
        if isinstance(text, bytes | bytearray):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        raise _locate(text) from None


def refuse_constant(name: str) -> NoReturn:
    """For `parse_constant`: NaN and infinities are no JSON."""
    raise ValueError(f"{name} is not a number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Repeated
    return value


def _locate(text: str) -> RepeatedKey:
    """The first object of a text to end that has a key twice; the text has one."""
    # Of each object or list that is open: the positions of its keys, and whether a key comes next. Of a list: None.
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

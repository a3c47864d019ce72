"""Strict parsers of language-model replies: JSON values, and lists of lines. Methods call them.

A parser returns what is clearly there, or None; it never guesses. A method that gets None uses its fallback, counts it,
and reports the count.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_LONGEST = 200_000  # maximum characters; no prompt asks for so many

#: Thoughts that some models print first; in a truncated reply they have no end.
_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\s*(```+|~~~+)[^`]*")

# JSON ---------------------------------------------------------------------------------------------------------------


def json_object(text: str) -> dict[str, Any] | None:
    """The one JSON object of a reply, with or without a fence, a preamble and an afterword.

    None if there is no complete one, if several differ, or if it repeats a key, or contains NaN or an overflowing
    number.
    """
    values = _values(text, dict)
    return values[0] if len(values) == 1 else None


def json_array(text: str) -> list[Any] | None:
    """The one JSON array of a reply; None as in `json_object`."""
    values = _values(text, list)
    return values[0] if len(values) == 1 else None


def _values(text: str, kind: type) -> list[Any]:
    """The distinct JSON values of a kind in a text that are not inside another value; empty if any is broken."""
    if len(text) > _LONGEST:
        return []
    text = _answer(text)
    values: dict[str, Any] = {}
    try:
        # Inside fences if there are any: the text around them is talk.
        for part in _fenced_blocks(text) or [text]:
            values |= {
                json.dumps(value, sort_keys=True): value for value in _decode_values(part) if isinstance(value, kind)
            }
    except (ValueError, RecursionError):
        return []
    return list(values.values())


def _decode_values(text: str) -> list[Any]:
    """Every JSON value in a text; raises `ValueError` at a truncated or malformed one.

    The inside of a broken value is not searched: part of an answer is not the answer.
    """
    values = []
    at = 0
    while match := _BEGIN.search(text, at):
        value, at = _DECODER.raw_decode(text, match.start())
        # An unpaired surrogate is not text.
        json.dumps(value, ensure_ascii=False).encode()
        values.append(value)
    return values


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("the number overflows")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


#: The beginning of JSON, well-formed or not. Other brackets (`[as asked]`, `{placeholder}`) are ordinary text.
_BEGIN = re.compile(r"\{\s*(?:[\"'“}/]|\w+\s*:)" r"|\[\s*(?:[\"'“{\[\]\-\d/]|(?:true|false|null)\b)")
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_number)


def parse_json(text: str) -> Any:
    """The value of a text that is only JSON; raises `ValueError` where `json_object` returns None."""
    return _DECODER.decode(text)


# Lines --------------------------------------------------------------------------------------------------------------

_LABEL = r"(?:query|question|description|tool|api|item|option|intent|request|step|line|task)"
#: A line marked as an item: `1.`, `1)`, `(1)`, `1:`, `#1`, `Query 1:`, `a)`, or a bullet. A number that belongs to the
#: text (`3 hotels`, `5-star`, `3.5 miles`) does not count.
_NUMBER = re.compile(
    rf"(?:{_LABEL}\s*)?#?\(?\d{{1,3}}(?:[.:]\)?(?=\s|\*\*|$)|\)[.:]?|[、．]|\s+[-–—](?=\s))\s*"
    rf"|{_LABEL}\s*:\s+"
    r"|#\d{1,3}\s+"
    r"|\(?[a-zA-Z]\)(?=\s)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[-*+–—](?=\s)\s*|[•‣◦▪●·]\s*")
_RULE = re.compile(r"(?:[-*_=]\s*){3,}|#{1,6}\s.*|(?:```|~~~).*")
_PREAMBLE = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely)\s*[,.!:]"
    r"|here(?:'s|’s| is| are)\b|below (?:is|are)\b|as requested\b",
    re.IGNORECASE,
)
_AFTERWORD = re.compile(
    r"(?:please )?let me know\b|please note\b|note(?: that\b|\s*:)|i hope\b|hope (?:this|these)\b|feel free\b"
    r"|these\s+(?:\w+\s+){0,2}(?:should|will|can|cover|are|would|may|help)\b"
    r"|if you\b.*\b(?:let me know|feel free|ask)\b|(?:would you like|do you want|is there anything)\b.*\?$",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "`": "`", "「": "」"}


def text_lines(text: str, most: int) -> list[str]:
    """The items of a reply with one per line, without numbers, bullets, quotes and surrounding talk.

    If any line is marked as an item (numbered, or with a bullet), the marked lines are the items. Otherwise every line
    is one, except openers such as `Sure, here are …` and closers such as `Let me know …`. A JSON list of texts is read
    as such.

    Args:
        text: the reply.
        most: maximum items to return.

    Returns:
        Items in order, none blank; empty if the reply has none.
    """
    text = _answer(text[:_LONGEST])
    lines = _list_of_texts(text)
    if lines is None:
        fences = _fenced_blocks(text)
        stripped = [line.strip() for line in (fences[0] if len(fences) == 1 else text).splitlines()]
        lines = _items([line for line in stripped if line and not _RULE.fullmatch(line)])
    items = [item for item in map(_bare, lines) if any(sign.isalnum() for sign in item)]
    return items[: max(0, most)]


def _list_of_texts(text: str) -> list[str] | None:
    """The texts of a reply that is a JSON list of them, or an object with only such a list."""
    if not "".join(_fenced_blocks(text) or [text]).lstrip().startswith(("[", "{")):
        return None
    value = json_array(text)
    if value is None and (whole := json_object(text)) is not None and len(whole) == 1:
        value = next(iter(whole.values()))
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return [" ".join(item.split()) for item in value]


def _items(lines: list[str]) -> list[str]:
    marked = [line for line in lines if _strip_mark(line) is not None]
    if marked:
        return marked
    while lines and (lines[0].endswith((":", "：")) or _PREAMBLE.match(lines[0])):
        lines = lines[1:]
    while lines and _AFTERWORD.match(lines[-1]):
        lines = lines[:-1]
    return lines


def _strip_mark(line: str) -> str | None:
    """The text of a line after its number or bullet; None if it has none."""
    plain = line.removeprefix("**").removeprefix("__") if line[:3] not in {"** ", "__ "} else line
    match = _NUMBER.match(plain) or _BULLET.match(plain)
    if match is None:
        return None
    rest = plain[match.end() :]
    # `**1.** text` and `**1. text**`
    return rest.removeprefix("**").removesuffix("**").strip() if plain is not line else rest.strip()


def _bare(line: str) -> str:
    """An item without markup and quotes, which may be nested: `- 1. "text",`."""
    while True:
        item = line.strip()
        inner = _strip_mark(item)
        if inner is not None:
            item = inner
        unlisted = item.removesuffix(",").rstrip()
        if len(unlisted) > 1 and _QUOTES.get(unlisted[0]) == unlisted[-1] and unlisted[0] not in unlisted[1:-1]:
            item = unlisted[1:-1].strip()
        for sign in ("**", "__", "*"):
            if len(item) > 2 * len(sign) and item.startswith(sign) and item.endswith(sign):
                item = item[len(sign) : -len(sign)].strip()
        if item == line:
            return item
        line = item


def _answer(text: str) -> str:
    """The reply without the thoughts in front."""
    text = text.removeprefix("\ufeff")
    thought = _THOUGHT.match(text)
    return text[thought.end() if thought else 0 :].strip()


def _fenced_blocks(text: str) -> list[str]:
    """The contents of the fenced blocks of a text."""
    blocks: list[str] = []
    inside: list[str] = []
    fence = ""
    # Not `splitlines`: JSON texts may contain what Unicode considers a line end.
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, inside = match[1], []
        elif fence and line.strip() == fence:
            blocks.append("\n".join(inside))
            fence = ""
        elif fence:
            inside.append(line)
    return blocks

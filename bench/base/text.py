"""Clean external text (names, specs, queries, error messages) for terminals, pages, reports and file names.

Each output format does its own escaping (HTML, XML, LaTeX, shell). `clean` only removes what no format should contain.
"""

from __future__ import annotations

import hashlib
import math
import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Zero-width joiners: they join letters in Persian and Hindi, and people in emoji.
_JOINERS = frozenset("\u200c\u200d")
#: Invisible, and without effect on other characters: soft hyphen, zero-width space, word joiner, byte order mark.
_INVISIBLE = frozenset("\u00ad\u200b\u2060\ufeff")
#: The folders of a path inside a spec, as in `dense(encoder=/home/me/models/mine)`.
_FOLDERS = re.compile(r"(?<![^\s(=,\[])(?:~|\.{1,2})?/(?:[^/\s(),=\[\]]+/)*(?=[^/\s(),=\[\]])")
#: A score as programs print it, in ASCII digits.
_DECIMAL = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DIGEST = re.compile(r"(?:^|-)[0-9a-f]{16}$")


def clean(text: str) -> str:
    """Remove characters that control a terminal, change the text direction, or are not allowed in XML.

    Control, direction, private-use and unassigned characters and lone surrogates become U+FFFD; line ends and tabs
    stay; invisible characters without effect are dropped.
    """
    # `isprintable` is false for exactly the categories C*, Zl, Zp and Zs (except the space).
    return text if text.isprintable() else "".join(map(_clean_sign, text))


def _clean_sign(sign: str) -> str:
    if sign.isprintable() or sign in "\t\n\r" or sign in _JOINERS:
        return sign
    return "" if sign in _INVISIBLE else " " if sign.isspace() else REPLACEMENT


def shorten(text: str, most: int) -> str:
    """Truncate a text to `most` characters; an ellipsis marks the cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int | None = None) -> str:
    """A cleaned text on one line, white space collapsed, of at most `most` characters."""
    if most is None:
        return clean(" ".join(text.split()))
    # Also cut first, so that a text of ten megabytes is not read character by character.
    return shorten(clean(" ".join(text[: 4 * most].split())), most)


def whole_number(text: str) -> int | None:
    """Parse ASCII digits with an optional minus; None for any other text, such as `1_0` or `+5`."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None


def finite_number(text: str) -> float | None:
    """Parse a finite number in ASCII digits with an optional point and exponent; None for any other text."""
    value = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def terminal_text(message: str, most: int = 4000) -> str:
    """A message for a terminal: cleaned, and of at most `most` characters.

    A long message is cut in the middle, because its end says what to do.
    """
    if len(message) > most:
        message = f"{message[: most - most // 4 - 3]} … {message[len(message) - most // 4 :]}"
    # A lone carriage return would overwrite the line.
    return clean(message.replace("\r\n", "\n").replace("\r", REPLACEMENT))


def label(text: str, most: int = 160) -> str:
    """A name or spec for a reader: one line, without the folders of paths, which are specific to a machine."""
    return shorten(_FOLDERS.sub("", one_line(text, 4 * most)), most)


def slug(text: str, most: int = 60) -> str:
    """A readable part of a file name: lower-case ASCII letters, digits, `_` and `-`; never empty. Not unique."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")[:most].strip("-") or "unnamed"


def unique_slug(text: str, *more: object) -> str:
    """A file name unique to this text and `more`: lower-case letters, digits and hyphens, at most 57 characters.

    A text that is its own slug keeps it. Any other gets a digest of the text and of `more`, so that two texts never
    share a name, even if somebody tries to construct a collision.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", label(text).lower()).strip("-")[:40].strip("-")
    # Texts that end like a digest get one too: they may imitate the name of another text.
    if plain and plain == text and not any(more) and not _DIGEST.search(plain):
        return plain
    digest = hashlib.sha256("\n".join([text, *map(repr, more)]).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain or 'unnamed'}-{digest[:16]}"

"""Untrusted names as plain text for exports."""

from __future__ import annotations

import hashlib
import re
import unicodedata

#: Controls, format characters (those that turn the direction of text among them), halves of surrogate pairs,
#: private and unassigned ones, line and paragraph separators.
_NO_TEXT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: The folders of a path within a spec, as in `dense(encoder=/home/me/models/mine)`.
_FOLDERS = re.compile(r"(?<![^\s(=,\[])(?:~|\.{1,2})?/(?:[^/\s(),=\[\]]+/)*(?=[^/\s(),=\[\]])")


def plain(text: str, most: int = 300) -> str:
    """A text on one line that holds nothing but visible signs and spaces, shortened."""
    if text.isascii() and text.isprintable() and len(text) <= most and "  " not in text and text == text.strip(" "):
        return text
    # Cut first as well: a text of ten megabytes is not looked at sign by sign.
    spaced = " ".join(text[: 4 * most].split())
    shown = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(sign) in _NO_TEXT else sign for sign in spaced)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def name(text: str, most: int = 160) -> str:
    """A method's or dataset's name for a reader: plain, and without the folders of this or that machine."""
    shown = _FOLDERS.sub("", plain(text, 4 * most))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def file_name(text: str, *more: object) -> str:
    """A file's name that only this text (and `more`) has: lower case letters, digits, hyphens, then a digest."""
    words = re.sub(r"[^a-z0-9]+", "-", name(text).lower()).strip("-")[:48].strip("-") or "unnamed"
    digest = hashlib.sha256("\n".join([text, *map(repr, more)]).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{words}-{digest[:10]}"

"""Word tokens for lexical methods."""

from __future__ import annotations

import re

#: Runs of letters and digits in any script; the underscore separates, so snake_case names fall apart.
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Lower-cased word tokens."""
    return _WORD.findall(text.lower())


def whitespace(text: str) -> list[str]:
    """Case-sensitive tokens between white space: what the papers' BM25 rows split by."""
    return text.split()

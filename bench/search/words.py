"""Tokens for lexical methods."""

from __future__ import annotations

from bench.base.words import words

__all__ = ["whitespace", "words"]


def whitespace(text: str) -> list[str]:
    """Case-sensitive tokens between white space: what the papers' BM25 rows split by."""
    return text.split()

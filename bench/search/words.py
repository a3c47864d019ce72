"""Tokens for lexical methods, and stop words."""

from __future__ import annotations

from bench.base.words import words

__all__ = ["FUNCTION_WORDS", "whitespace", "words"]

#: English stop words and parts of contractions. For other languages, the number of texts with a word decides.
FUNCTION_WORDS = frozenset(
    "a about after again all also am an and another any are as at be because been before being both but by can could d "
    "did do does doing don during each either else every few for from further had has have having he her here hers him "
    "his how i if in into is it its itself just let like ll m many may me might more most much must my myself need no "
    "nor not now of off on once one only onto or other our ours out over own per please re s same shall she should so "
    "some such t than thank thanks that the their theirs them then there these they this those through to too under "
    "until up upon us use used using ve very via want was we well were what when where whether which while who whom "
    "whose why will with within without would yes you your yours".split()
)


def whitespace(text: str) -> list[str]:
    """Case-sensitive tokens between white space: the tokens of the papers' BM25 rows."""
    return text.split()

"""Split a request into clauses: its sentences and their parts, each with one intent. Methods call it."""

from __future__ import annotations

import re

from bench.search.words import words

#: Boundaries of clauses: the end of a sentence, a comma or semicolon, a word that joins two requests.
_JOINING = r"(?:and|then|also|plus|as well as)\s+"
_BOUNDARY = re.compile(
    rf"[.!?;,][\"')\]]*\s+(?:{_JOINING})*|[\n。！？；，、]+\s*(?:{_JOINING})*|\s+(?:{_JOINING})+", re.IGNORECASE
)
_MOST_CLAUSES = 24


def clauses(query: str) -> list[str]:
    """The clauses of a query, in order; empty for a query without words.

    A fragment that is too short for a request ("Additionally", "Paris") is joined to the clause before it, or to the
    next one if it comes first.
    """
    # Collapse white space: the patterns of boundaries would be slow on long runs of it.
    lines = "\n".join(" ".join(line.split()) for line in query.splitlines())
    parts = [part.strip(" \n.,;:!?\"'") for part in _BOUNDARY.split(lines)]
    texts: list[str] = []
    pending = ""
    for part in parts:
        if not words(part):
            continue
        text = f"{pending} {part}".strip()
        if not _asks(part) and texts:
            texts[-1] = f"{texts[-1]}, {part}"
        elif len(texts) == _MOST_CLAUSES or not _asks(text):
            pending = text
        else:
            texts.append(text)
            pending = ""
    if pending and texts:
        texts[-1] = f"{texts[-1]}, {pending}"
    return texts or ([pending] if pending else [])


def _asks(text: str) -> bool:
    """Whether a fragment can be a request: two words, or four characters of a script without spaces between words."""
    return len(words(text)) >= 2 or (not text.isascii() and len(text) >= 4)

"""A request in clauses: what each of its sentences, and of the parts of a sentence, asks for."""

from __future__ import annotations

import re

from bench.search.words import words

#: What ends a clause: the end of a sentence, a comma or semicolon, a word that joins two requests.
_JOINING = r"(?:and|then|also|plus|as well as)\s+"
_BOUNDARY = re.compile(
    rf"[.!?;,][\"')\]]*\s+(?:{_JOINING})*|[\n。！？；，、]+\s*(?:{_JOINING})*|\s+(?:{_JOINING})+", re.IGNORECASE
)
_MOST_CLAUSES = 24


def clauses(query: str) -> list[str]:
    """The clauses of a query, in order; a query without words has none.

    A fragment too short to ask for anything ("Additionally", "Paris") is joined to the clause before it, or to the one
    after it where it comes first.
    """
    # Single spaces: the boundaries' patterns would take long on long runs of white space.
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
    """Whether a fragment can be a request: two words, or four signs of a script that puts no spaces between words."""
    return len(words(text)) >= 2 or (not text.isascii() and len(text) >= 4)

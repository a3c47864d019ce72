"""Whether a query gives a tool away by its name."""

from __future__ import annotations

import re

from bench.search.words import words

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def spells_out(text: str, name: str) -> bool:
    """Whether a text contains a tool's name, as it is or as its words side by side.

    `search_issues`, `searchIssues` and `Search issues` are one name here. A name that is a single ordinary word, such
    as `forecast`, gives nothing away: people use the word without knowing of the tool.
    """
    parts = _parts(name)
    if not parts or (len(parts) == 1 and parts[0].isalpha()):
        return False
    if name.casefold() in text.casefold():
        return True
    text_parts, width = _parts(text), len(parts)
    return any(text_parts[i : i + width] == parts for i in range(len(text_parts) - width + 1))


def _parts(text: str) -> list[str]:
    return words(_CAMEL.sub(" ", text))

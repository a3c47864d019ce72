"""Whether a query gives a tool away by its name."""

from __future__ import annotations

from bench.search.names import contains_words, name_parts


def spells_out(text: str, name: str) -> bool:
    """Whether a text contains a tool's name, as it is or as its words side by side.

    `search_issues`, `searchIssues` and `Search issues` are one name here. A name that is a single ordinary word, such
    as `forecast`, gives nothing away: people use the word without knowing of the tool.
    """
    parts = name_parts(name)
    if not parts or (len(parts) == 1 and parts[0].isalpha()):
        return False
    return name.casefold() in text.casefold() or contains_words(name_parts(text), parts)

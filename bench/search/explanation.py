"""Why a lexical method ranked as it did: the words that query and tool share, and each word's part of the score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.interface.explanation import (
    Case,
    Contribution,
    Explanation,
    Reason,
    differing,
    list_parts,
    number,
    parts_of_sum,
)
from bench.interface.views import Queries
from bench.search.lexical import WordCounts

_MOST_NAMED = 8


class WordScores(Protocol):
    """Anything that scores every tool for a query."""

    def score(self, queries: Queries) -> NDArray[np.float64]:
        """(queries, tools) scores."""
        ...


def explain_words(
    method: WordScores, case: Case, split: Callable[[str], list[str]], weights: Mapping[str, float] | None = None
) -> Explanation:
    """Explain a score that is a sum over the words that query and tool share.

    The part of a word is found by passing the word alone to the method, so the score must be linear in the query's
    words.

    Args:
        method: scores the tools.
        case: the query and the displayed tools.
        split: splits a text into words.
        weights: word -> its weight in the query, relative to that of the word alone; None uses its frequency.
    """
    counts = Counter(split(case.text))
    query_words = list(counts)
    documents = WordCounts.of([split(text) for text in case.library.texts])
    contained = _contains_words(documents, query_words)
    tools = np.array(case.tools, dtype=np.int64)
    alone = (
        method.score(Queries(tuple(query_words), np.arange(len(query_words))))
        if query_words
        else np.zeros((0, len(case.library)))
    )
    chosen = counts if weights is None else weights
    times = np.array([chosen.get(word, 0.0) for word in query_words], dtype=np.float64)
    adds = times[:, None] * alone[:, tools]
    shared = contained[:, tools]
    by_tool = {
        int(tool): Reason(float(adds[:, i].sum()), parts_of_sum(query_words, adds[:, i], shared[:, i]))
        for i, tool in enumerate(tools)
    }
    reasons = {
        tool: Reason(reason.score, reason.parts, because=_because(tool, case, by_tool) if tool in case.gold else "")
        for tool, reason in by_tool.items()
    }
    return Explanation(
        "words shared with the query, and what each adds", (), reasons, notes=_notes(query_words, contained)
    )


def _contains_words(documents: WordCounts, query_words: list[str]) -> NDArray[np.bool_]:
    """(words, tools) whether a word is in a tool's text."""
    contained = np.zeros((len(query_words), len(documents.lengths)), dtype=np.bool_)
    columns = documents.matrix.tocsc()
    for i, word in enumerate(query_words):
        column = documents.vocabulary.get(word)
        if column is not None:
            contained[i, columns.indices[columns.indptr[column] : columns.indptr[column + 1]]] = True
    return contained


def _because(tool: int, case: Case, by_tool: dict[int, Reason]) -> str:
    reason = by_tool[tool]
    has = f"it shares {_quote_words(reason.parts)}" if reason.parts else "it shares no word with the query"
    rival = case.rivals.get(tool)
    if rival is None or rival not in by_tool:
        return has
    gaps = differing(reason, by_tool[rival])
    name = f"{case.id_of(rival)} ({number(by_tool[rival].score or 0.0)})"
    return f"{has}; {name} gains by {_quote_words(gaps)}" if gaps else f"{has}; {name} has the same words"


def _quote_words(parts: Sequence[Contribution]) -> str:
    """The first few words in a sentence, in quotes."""
    return list_parts(Contribution(f"'{part.name}'", part.value) for part in parts)


def _notes(query_words: list[str], contained: NDArray[np.bool_]) -> tuple[str, ...]:
    """How rare the query's words are."""
    if not query_words:
        return ("The query has no words.",)
    frequency = contained.sum(axis=1)
    known = sorted((int(count), i) for i, count in enumerate(frequency) if count)
    notes = []
    if known:
        rarest = ", ".join(f"{query_words[i]} {count}" for count, i in known[:_MOST_NAMED])
        notes.append(f"Tools that have a word, of {contained.shape[1]}: {rarest}{_more(known)}.")
    missing = [word for word, count in zip(query_words, frequency, strict=True) if not count]
    if missing:
        notes.append(f"In no tool's text: {', '.join(missing[:_MOST_NAMED])}{_more(missing)}.")
    return tuple(notes)


def _more(items: list[str] | list[tuple[int, int]]) -> str:
    return f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""

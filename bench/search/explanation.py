"""Why a lexical method ranked as it did: the words that query and tool share, and what each adds to the score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.interface.explanation import Case, Contribution, Explanation, Reason, differing, listed, number, parts_of_sum
from bench.interface.views import Queries
from bench.search.lexical import Counts

_MOST_NAMED = 8


class Scores(Protocol):
    """What scores every tool for a query."""

    def score(self, queries: Queries) -> NDArray[np.float64]:
        """(queries, tools) scores."""
        ...


def explain_words(
    method: Scores, case: Case, split: Callable[[str], list[str]], weights: Mapping[str, float] | None = None
) -> Explanation:
    """Explain a score that is a sum over the words that query and tool share.

    What a word adds is found by putting the word alone to the method: the score must be linear in the query's words.

    Args:
        method: scores the tools.
        case: the query and the tools that are shown.
        split: gives the words of a text.
        weights: word -> its weight in the query, relative to that of the word alone; None takes how often it occurs.
    """
    counts = Counter(split(case.text))
    asked = list(counts)
    documents = Counts.of([split(text) for text in case.library.texts])
    contained = _contained(documents, asked)
    tools = np.array(case.tools, dtype=np.int64)
    alone = method.score(Queries(tuple(asked), np.arange(len(asked)))) if asked else np.zeros((0, len(case.library)))
    chosen = counts if weights is None else weights
    times = np.array([chosen.get(word, 0.0) for word in asked], dtype=np.float64)
    adds = times[:, None] * alone[:, tools]
    shared = contained[:, tools]
    found = {
        int(tool): Reason(float(adds[:, i].sum()), parts_of_sum(asked, adds[:, i], shared[:, i]))
        for i, tool in enumerate(tools)
    }
    reasons = {
        tool: Reason(reason.score, reason.parts, because=_because(tool, case, found) if tool in case.gold else "")
        for tool, reason in found.items()
    }
    return Explanation("words shared with the query, and what each adds", (), reasons, notes=_notes(asked, contained))


def _contained(documents: Counts, asked: list[str]) -> NDArray[np.bool_]:
    """(words, tools) whether a word is in a tool's text."""
    found = np.zeros((len(asked), len(documents.lengths)), dtype=np.bool_)
    columns = documents.matrix.tocsc()
    for i, word in enumerate(asked):
        column = documents.vocabulary.get(word)
        if column is not None:
            found[i, columns.indices[columns.indptr[column] : columns.indptr[column + 1]]] = True
    return found


def _because(tool: int, case: Case, found: dict[int, Reason]) -> str:
    own = found[tool]
    has = f"it shares {_quoted(own.parts)}" if own.parts else "it shares no word with the query"
    rival = case.rivals.get(tool)
    if rival is None or rival not in found:
        return has
    gaps = differing(own, found[rival])
    name = f"{case.id_of(rival)} ({number(found[rival].score or 0.0)})"
    return f"{has}; {name} gains by {_quoted(gaps)}" if gaps else f"{has}; {name} has the same words"


def _quoted(parts: Sequence[Contribution]) -> str:
    """The first few words in a sentence, in quotes."""
    return listed(Contribution(f"'{part.name}'", part.value) for part in parts)


def _notes(asked: list[str], contained: NDArray[np.bool_]) -> tuple[str, ...]:
    """How rare the query's words are."""
    if not asked:
        return ("The query has no words.",)
    frequency = contained.sum(axis=1)
    known = sorted((int(count), i) for i, count in enumerate(frequency) if count)
    notes = []
    if known:
        rarest = ", ".join(f"{asked[i]} {count}" for count, i in known[:_MOST_NAMED])
        notes.append(f"Tools that have a word, of {contained.shape[1]}: {rarest}{_more(known)}.")
    missing = [word for word, count in zip(asked, frequency, strict=True) if not count]
    if missing:
        notes.append(f"In no tool's text: {', '.join(missing[:_MOST_NAMED])}{_more(missing)}.")
    return tuple(notes)


def _more(items: list[str] | list[tuple[int, int]]) -> str:
    return f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""

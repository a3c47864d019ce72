"""Why a sparse method ranked as it did: the words that query and tool share, and what each adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.evidence.explain_vocabulary import Case, Explanation, Part, Reason, differing, listed, number, parts_of_sum
from bench.protocol import Method, Queries, ScoringMethod
from bench.search.lexical import Counts
from bench.search.words import whitespace, words

_MOST_NAMED = 8


def explain_words(method: Method, case: Case) -> Explanation:
    """bm25, bm25-okapi and tfidf: a score is a sum over the words that query and tool share.

    What a word adds is asked of the method itself, by putting the word alone to it: the scores are linear in the words
    of the query, but for TF-IDF's scaling of the query to length 1, which is made good here.
    """
    assert isinstance(method, ScoringMethod)
    split = words if method.parameters.tokens == "words" else whitespace
    counts = Counter(split(case.text))
    asked = list(counts)
    documents = Counts.of([split(text) for text in case.library.texts])
    contained = _contained(documents, asked)
    tools = np.array(case.tools, dtype=np.int64)
    alone = method.score(Queries(tuple(asked), np.arange(len(asked)))) if asked else np.zeros((0, len(case.library)))
    times = np.array([counts[word] for word in asked], dtype=np.float64)
    if method.name == "tfidf":
        times = _tfidf_query(times, contained.sum(axis=1), len(case.library), method.parameters.sublinear)
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
    """(words, tools) whether a word stands in a tool's text."""
    found = np.zeros((len(asked), len(documents.lengths)), dtype=np.bool_)
    columns = documents.matrix.tocsc()
    for i, word in enumerate(asked):
        column = documents.vocabulary.get(word)
        if column is not None:
            found[i, columns.indices[columns.indptr[column] : columns.indptr[column + 1]]] = True
    return found


def _tfidf_query(
    times: NDArray[np.float64], frequency: NDArray[np.int64], tools: int, sublinear: bool
) -> NDArray[np.float64]:
    """(words,) weights of the query's words, scaled to length 1; words that no tool has take no part."""
    tf = 1 + np.log(times) if sublinear else times
    weights = np.where(frequency > 0, tf * (np.log((1 + tools) / (1 + frequency)) + 1), 0.0)
    length = float(np.linalg.norm(weights))
    return np.asarray(weights / length if length else weights, dtype=np.float64)


def _because(tool: int, case: Case, found: dict[int, Reason]) -> str:
    own = found[tool]
    has = f"it shares {_quoted(own.parts)}" if own.parts else "it shares no word with the query"
    rival = case.rivals.get(tool)
    if rival is None or rival not in found:
        return has
    gaps = differing(own, found[rival])
    name = f"{case.id_of(rival)} ({number(found[rival].score or 0.0)})"
    return f"{has}; {name} gains by {_quoted(gaps)}" if gaps else f"{has}; {name} has the same words"


def _quoted(parts: Sequence[Part]) -> str:
    """The first few words in a sentence, told from the sentence's own."""
    return listed(Part(f"'{part.name}'", part.value) for part in parts)


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

"""Which words decide between two tools that are confused: over all queries that miss the one and show the other.

Of a method that ranks by words, each word of the query adds to a tool's score what it adds in `bench explain`. A word
**decides** a query if the tool that was shown would not be ahead without what the word adds to it: that is what
leaving the word out of its description comes to, but for the length of the text and the rarity of the word, which
change with it. Of other methods it is counted which words of the queries one of the two texts has alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.progress import QUIET, Progress
from bench.base.records import Record
from bench.comparison.confusions import Rivalry, ask_reasons, silent
from bench.data.dataset import Dataset
from bench.interface.explanation import Explanation
from bench.results.store import StoredResult
from bench.search.similar import TextVectors
from bench.search.words import words

#: Words of each kind that a pair names.
MOST_WORDS = 6
#: Queries of a pair that are taken apart; fewer where queries times tools would be more than a second's work or so.
_MOST_QUERIES, _MOST_SCORED = 25, 500_000
#: What adds less to a score decides nothing.
_NOTHING = 1e-9
#: A word that adds less than this part of what the first word adds is not named.
_SMALL = 0.02


class WordEffect(Record):
    """A word of a query that speaks for one of two tools.

    Attributes:
        word: the word.
        queries: in how many of the queries that were taken apart.
        adds: to the score of the tool more than to that of the other one, mean over these queries; null where the
            method does not rank by words.
        decides: in how many of them the other tool would be ahead without it; null as well.
    """

    word: str
    queries: int
    adds: float | None
    decides: int | None


class ConfusedPair(Record):
    """A tool that queries want and miss, and one that they show in its place.

    Attributes:
        missed, shown: ids.
        queries: how many miss the one and show the other; `explained` of them were taken apart.
        cosine: of the two texts, by their words (TF-IDF).
        example, rank: the query in which the missed tool ranks best, and its rank there; null if it is not ranked.
        both: words that both texts have, the rarest first.
        by: `method` if the method says what each word adds, else `words`.
        for_shown: words of the queries that speak for the tool that is shown, those that add most first.
        for_missed: words that speak for the tool that is missed.
    """

    missed: str
    shown: str
    queries: int
    explained: int
    cosine: float
    example: str
    rank: int | None
    both: list[str]
    by: Literal["method", "words"]
    for_shown: list[WordEffect]
    for_missed: list[WordEffect]


@dataclass(frozen=True)
class Pair:
    """A pair that is to be taken apart.

    Attributes:
        missed, shown: codes.
        rows: of the dataset, the queries, those first in which the missed tool ranks best.
        rank: of the missed tool in the first of them; None where it is not ranked.
    """

    missed: int
    shown: int
    rows: NDArray[np.int64]
    rank: int | None


def explain_pairs(
    result: StoredResult,
    dataset: Dataset,
    pairs: Sequence[Pair],
    library: TextVectors,
    *,
    repeat: int = 1,
    progress: Progress = QUIET,
) -> tuple[list[ConfusedPair], str]:
    """What decides between the tools of each pair; and in a sentence why the method was not asked, empty if it was.

    Args:
        result: the result, or one of its repeats.
        dataset: the data it was made on.
        pairs: the pairs.
        library: the texts of the tools that the method was given.
        repeat: which repeat it is.
        progress: where long work reports to.
    """
    most = max(1, min(_MOST_QUERIES, _MOST_SCORED // max(1, len(pairs) * len(dataset.tools))))
    cases = [Rivalry(int(row), pair.missed, pair.shown) for pair in pairs for row in pair.rows[:most].tolist()]
    explanations: list[Explanation | None] = [None] * len(cases)
    note = silent(result) if cases else ""
    if cases and not note:
        explanations, note = ask_reasons(result, dataset, cases, repeat, progress)
    left = iter(explanations)
    cosines = library.cosines(
        np.array([pair.missed for pair in pairs], dtype=np.int64), np.array([pair.shown for pair in pairs], np.int64)
    )
    return [
        _explain(dataset, pair, [next(left) for _ in pair.rows[:most].tolist()], library, float(cosine))
        for pair, cosine in zip(pairs, cosines.tolist(), strict=True)
    ], note


def _explain(
    dataset: Dataset, pair: Pair, explanations: Sequence[Explanation | None], library: TextVectors, cosine: float
) -> ConfusedPair:
    rows = pair.rows[: len(explanations)].tolist()
    texts = [dataset.queries[row].text for row in rows]
    added = [_by_word(explanation, pair, text) for explanation, text in zip(explanations, texts, strict=True)]
    known = [case for case in added if case is not None]
    effects = _weigh(known) if known else _count(texts, library.texts[pair.shown], library.texts[pair.missed])
    return ConfusedPair(
        missed=dataset.tools[pair.missed].tool_id,
        shown=dataset.tools[pair.shown].tool_id,
        queries=len(pair.rows),
        explained=len(known) or len(texts),
        cosine=cosine,
        example=dataset.queries[rows[0]].query_id,
        rank=pair.rank,
        both=_shared(library, pair)[:MOST_WORDS],
        by="method" if known else "words",
        for_shown=effects[0][:MOST_WORDS],
        for_missed=effects[1][:MOST_WORDS],
    )


def _shared(library: TextVectors, pair: Pair) -> list[str]:
    other = set(words(library.texts[pair.shown]))
    return library.rarest_first(word for word in dict.fromkeys(words(library.texts[pair.missed])) if word in other)


#: Word -> what it adds to the tool that is shown, and to the one that is missed.
_Added = dict[str, tuple[float, float]]


def _by_word(explanation: Explanation | None, pair: Pair, text: str) -> _Added | None:
    """What each word of a query adds to the two tools; None where the parts of their scores are no words of it."""
    if explanation is None or not {pair.missed, pair.shown} <= explanation.reasons.keys():
        return None
    sides = [{part.name: part.value for part in explanation.reasons[tool].parts} for tool in (pair.shown, pair.missed)]
    names = dict.fromkeys(name for side in sides for name in side)
    folded = text.casefold()
    if not names or not all(name.casefold() in folded for name in names):
        return None
    return {name: (sides[0].get(name, 0.0), sides[1].get(name, 0.0)) for name in names}


def _weigh(cases: Sequence[_Added]) -> tuple[list[WordEffect], list[WordEffect]]:
    """The words that speak for the shown and for the missed tool, by what they add over all queries."""
    gaps: defaultdict[str, list[float]] = defaultdict(list)
    decides: Counter[str] = Counter()
    for case in cases:
        ahead = sum(shown - missed for shown, missed in case.values())
        for word, (shown, missed) in case.items():
            gaps[word].append(shown - missed)
            # Without what it adds to the tool that is shown; of one that is behind already, nothing decides.
            decides[word] += ahead > _NOTHING >= ahead - shown
    sides: tuple[list[WordEffect], list[WordEffect]] = ([], [])
    for word, all_gaps in gaps.items():
        for side, sign in zip(sides, (1.0, -1.0), strict=True):
            mine = [sign * gap for gap in all_gaps if sign * gap > _NOTHING]
            if mine:
                decided = decides[word] if sign > 0 else 0
                side.append(WordEffect(word=word, queries=len(mine), adds=sum(mine) / len(mine), decides=decided))
    most = max((_whole(effect) for side in sides for effect in side), default=0.0)
    for side in sides:
        side[:] = [effect for effect in side if effect.decides or _whole(effect) >= _SMALL * most]
        side.sort(key=lambda effect: (-_whole(effect), effect.word))
    return sides


def _whole(effect: WordEffect) -> float:
    """What a word adds over all queries."""
    return (effect.adds or 0.0) * effect.queries


def _count(texts: Sequence[str], shown: str, missed: str) -> tuple[list[WordEffect], list[WordEffect]]:
    """The words of the queries that the text of one tool has and that of the other has not, by their queries."""
    sides = []
    has = set(words(shown)), set(words(missed))
    for mine, other in (has, has[::-1]):
        counts = Counter(word for text in texts for word in set(words(text)) if word in mine - other)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        sides.append([WordEffect(word=word, queries=count, adds=None, decides=None) for word, count in ordered])
    return sides[0], sides[1]

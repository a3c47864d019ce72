"""Why a tool that queries want loses to another: by the words that tell the two apart, and those that neither has.

Of a method that ranks by words, each word of the query adds to a tool's score what it adds in `bench explain`. A word
**decides** a query if the tool that was shown would not be ahead without what the word adds to it: that is what
leaving the word out of its description comes to, but for the length of the text and the rarity of the word, which
change with it. Of other methods (a run file, a service, a paid model, code that has changed since) it is counted which
words of the queries one of the two texts has alone.

Words that tell no tool from another are left out: function words, and what most descriptions have. What stands in no
description is named: a word of the queries by which no ranking of words can find the tool.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError
from bench.base.progress import QUIET, Progress
from bench.base.records import Record
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.nearcopies import COSINE
from bench.diagnosis.explain import AskedQuery, answers_today, read_ranking, show_tools, unexplainable
from bench.interface.explanation import Explanation
from bench.interface.method import Method
from bench.registry import build_method
from bench.results.store import StoredResult
from bench.search.similar import TextVectors
from bench.search.words import FUNCTION_WORDS, words
from bench.show.numbers import format_fixed

#: Words of each kind that a pair names.
_MOST_WORDS = 6
#: Queries of a pair that are taken apart; fewer where queries times tools would be more than a second's work or so.
_MOST_QUERIES, _MOST_SCORED = 25, 500_000
#: What adds less to a score decides nothing.
_NOTHING = 1e-9
#: A word that adds less than this part of what the first word adds is not named.
_SMALL = 0.02
#: A word that more of the tools have tells none from another, if they are not fewer than the second number.
_MANY, _FEW = 1 / 3, 5
#: What all common words of a query are called together.
_COMMON = "common words"


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
        common: what common words, which are not named, add together for the tool that is shown; null if nothing.
        missing: words of the queries that stand in no description, those first that are typical of these queries.
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
    common: WordEffect | None = None
    missing: list[str] = []

    def sentences(self) -> list[str]:
        """All that is known of the pair, for a reader."""
        told = [f"both have {_quote(self.both)}"] if self.both else []
        told += [f"the texts read nearly the same ({format_fixed(self.cosine, 2)})"] if self.cosine >= COSINE else []
        loses, gains = ("loses by", "gains by") if self.by == "method" else ("lacks", "alone has")
        losses = [self._phrase(effect, _quote([effect.word])) for effect in self.for_shown]
        losses += [] if self.common is None else [self._phrase(self.common, _COMMON)]
        told += [f"it {loses} {', '.join(losses)}"] if losses else []
        gained = ", ".join(self._phrase(effect, _quote([effect.word])) for effect in self.for_missed)
        told += [f"it {gains} {gained}"] if gained else []
        return [*told, *([f"stand in no description: {_quote(self.missing)}"] if self.missing else [])]

    def _phrase(self, effect: WordEffect, name: str) -> str:
        """What a word adds, in how many queries, and how many it decides."""
        adds = "" if effect.adds is None else f" {format_fixed(effect.adds, 2)}"
        often = f" in {effect.queries}" if self.explained > 1 else ""
        return f"{name}{adds}{often}" + (f" (decides {effect.decides})" if effect.decides else "")


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"'{one_line(name, 40)}'" for name in names)


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


@dataclass(frozen=True)
class Why:
    """What decides between the two tools of a pair, in words, and who says so.

    What a method says that does not rank by words is the sentence of `bench explain` on the example.
    """

    pair: ConfusedPair
    text: str
    by: Literal["method", "words"]


class WordStatistics:
    """What words say of the tools of a library.

    Args:
        library: the texts of the tools that the method was given.
        dataset: the data.
        rows: of the dataset, the queries that were asked.
    """

    def __init__(self, library: TextVectors, dataset: Dataset, rows: Iterable[int]) -> None:
        self.library, self._dataset = library, dataset
        wanting: defaultdict[str, set[str]] = defaultdict(set)
        for query in (dataset.queries[row] for row in rows):
            for word in words(query.text):
                if not library.frequency(word):
                    wanting[word].update(query.gold)
        self._wanting = {word: len(tools) for word, tools in wanting.items()}
        self._wanted = len({tool for row in rows for tool in dataset.queries[row].gold})

    def is_common(self, term: str) -> bool:
        """Whether a term tells no tool from another.

        A word in no text is common if it is in the queries for many tools: no edit of one description needs it.
        """
        return all(
            word in FUNCTION_WORDS
            or _many(self.library.frequency(word), len(self.library.texts))
            or _many(self._wanting.get(word, 0), self._wanted)
            for word in words(term)
        )

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Words of queries that stand in no text; no numbers, which are values.

        First come words of many of the queries, and of queries for few tools (as TF-IDF weighs them).
        """
        counts = Counter(word for text in texts for word in dict.fromkeys(words(text)))
        absent = [word for word in counts if word in self._wanting and not any(map(str.isdigit, word))]
        return sorted(
            (word for word in absent if not self.is_common(word)),
            key=lambda word: -counts[word] * np.log((1 + self._wanted) / max(1, self._wanting[word])),
        )

    def shared(self, pair: Pair) -> list[str]:
        """Words that both texts have, the rarest first."""
        other = set(words(self.library.texts[pair.shown]))
        mine = dict.fromkeys(words(self.library.texts[pair.missed]))
        return self.library.rarest_first(word for word in mine if word in other and not self.is_common(word))


def _many(count: int, of: int) -> bool:
    return count >= _FEW and count > of * _MANY


def explain_pairs(
    result: StoredResult,
    dataset: Dataset,
    pairs: Sequence[Pair],
    wording: WordStatistics,
    *,
    repeat: int = 1,
    ask: bool = True,
    progress: Progress = QUIET,
) -> tuple[list[Why], str]:
    """What decides between the tools of each pair; and in a sentence why the method was not asked, empty if it was.

    Args:
        result: the result, or one of its repeats.
        dataset: the data it was made on.
        pairs: the pairs.
        wording: what words say of the tools.
        repeat: which repeat it is.
        ask: whether the method is asked; the texts alone are compared if not.
        progress: where long work reports to.
    """
    most = max(1, min(_MOST_QUERIES, _MOST_SCORED // max(1, len(pairs) * len(dataset.tools))))
    cases = [(pair, int(row)) for pair in pairs for row in pair.rows[:most].tolist()]
    explanations: list[Explanation | None] = [None] * len(cases)
    note = _silence(result) if ask and cases else ""
    if ask and cases and not note:
        asked = [_case(result, dataset, pair, row) for pair, row in cases]
        answers = answers_today(result, dataset, asked, progress, repeat)
        explanations = [None if answer is None else answer.explanation for answer, _ in answers]
        note = "" if any(explanations) else next((said for _, said in answers if said), "")
    missed, shown = (np.array([getattr(pair, side) for pair in pairs], dtype=np.int64) for side in ("missed", "shown"))
    left = iter(explanations)
    return [
        _explain(dataset, pair, [next(left) for _ in pair.rows[:most]], wording, cosine)
        for pair, cosine in zip(pairs, wording.library.cosines(missed, shown).tolist(), strict=True)
    ], note


def _silence(result: StoredResult) -> str:
    """Why a method is not asked, in a sentence; empty if it is."""
    if note := unexplainable(result.manifest):
        return note
    try:
        with config_context(offline=True):
            method = build_method(result.manifest.method.full_spec)
    except BenchError as error:
        return f"The method cannot be made again: {error}"
    # A service would be asked for every query, and say nothing.
    return "" if type(method).explain is not Method.explain else "The method does not say how it ranks."


def _case(result: StoredResult, dataset: Dataset, pair: Pair, row: int) -> AskedQuery:
    """The gold tools of the query and the tool that is shown in place of one, as the ranking has them."""
    query = dataset.queries[row]
    ranking, scores = read_ranking(result, query.query_id)
    named = sorted({dataset.tools[pair.shown].tool_id, *query.meeting})
    # Best first; those that are not in the ranking come last.
    ids = [*(tool for tool in ranking if tool in named), *(tool for tool in named if tool not in ranking)]
    return row, show_tools(dataset, query, ids, ranking, scores), {pair.missed: pair.shown}


def _explain(
    dataset: Dataset, pair: Pair, explanations: Sequence[Explanation | None], wording: WordStatistics, cosine: float
) -> Why:
    queries = [dataset.queries[row] for row in pair.rows[: len(explanations)].tolist()]
    texts = [query.text for query in queries]
    added = [_by_word(explanation, pair, text) for explanation, text in zip(explanations, texts, strict=True)]
    known = [_join_common(case, wording) for case in added if case is not None]
    for_shown, for_missed = _weigh(known) if known else _count(texts, wording, pair)
    explained = ConfusedPair(
        missed=dataset.tools[pair.missed].tool_id,
        shown=dataset.tools[pair.shown].tool_id,
        queries=len(pair.rows),
        explained=len(known) or len(texts),
        cosine=cosine,
        example=queries[0].query_id,
        rank=pair.rank,
        both=wording.shared(pair)[:_MOST_WORDS],
        by="method" if known else "words",
        for_shown=[effect for effect in for_shown if effect.word != _COMMON][:_MOST_WORDS],
        for_missed=[effect for effect in for_missed if effect.word != _COMMON][:_MOST_WORDS],
        common=next((effect for effect in for_shown if effect.word == _COMMON), None),
        missing=wording.missing(texts)[:_MOST_WORDS],
    )
    reason = None if known or explanations[0] is None else explanations[0].reasons.get(pair.missed)
    text = "" if reason is None else reason.because
    by = "method" if text else explained.by
    return Why(explained, text or "; ".join(explained.sentences()) or "neither text has a word of the query", by)


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


def _join_common(case: _Added, wording: WordStatistics) -> _Added:
    """A case with one entry for all its common words."""
    joined: _Added = {}
    for word, (shown, missed) in case.items():
        name = _COMMON if wording.is_common(word) else word
        before = joined.get(name, (0.0, 0.0))
        joined[name] = (before[0] + shown, before[1] + missed)
    return joined


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


def _count(texts: Sequence[str], wording: WordStatistics, pair: Pair) -> tuple[list[WordEffect], list[WordEffect]]:
    """The words of the queries that the text of one tool has and that of the other has not, by their queries."""
    sides = []
    has = [set(words(wording.library.texts[tool])) for tool in (pair.shown, pair.missed)]
    for mine, other in (has, has[::-1]):
        telling = {word for word in mine - other if not wording.is_common(word)}
        counts = Counter(word for text in texts for word in set(words(text)) & telling)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        sides.append([WordEffect(word=word, queries=count, adds=None, decides=None) for word, count in ordered])
    return sides[0], sides[1]

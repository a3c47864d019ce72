"""Why a wanted tool loses to another: the words that separate the two, and query words that neither has.

For a method that ranks by words, each query word adds to a tool's score what it adds in `bench explain`. A word
**decides** a query if the shown tool would not be ahead without the word: this is the effect of removing the word from
its description, except for text length and word rarity, which change too. For other methods (a run file, a service, a
paid model, changed code) the query words that only one of the two texts has are counted.

Words that do not distinguish tools are left out: function words, and words of most descriptions. Query words in no
description are named, because no word-based ranking can find the tool by them. `tool_report` calls it.
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

#: Maximum words of each kind to name per pair.
_MOST_WORDS = 6
#: Maximum queries to analyse per pair; fewer if queries times tools would take more than about a second.
_MOST_QUERIES, _MOST_SCORED = 25, 500_000
#: Contributions below this decide nothing.
_NOTHING = 1e-9
#: A word that adds less than this share of the first word's contribution is not named.
_SMALL = 0.02
#: A word in more than this share of the tools does not distinguish them, if these are more than the second number.
_MANY, _FEW = 1 / 3, 5
#: The collective name of a query's common words.
_COMMON = "common words"


class WordEffect(Record):
    """A query word that favours one of two tools.

    Attributes:
        queries: in how many of the analysed queries.
        adds: mean difference of its contribution to the tool's score and to the other one's over these queries;
            null if the method does not rank by words.
        decides: in how many of them the other tool would be ahead without it; null in the same case.
    """

    word: str
    queries: int
    adds: float | None
    decides: int | None


class ConfusedPair(Record):
    """A wanted tool that is missed, and one that is shown in its place.

    Attributes:
        missed, shown: ids.
        queries: number of queries that miss the one and show the other; `explained` of them were analysed.
        cosine: TF-IDF cosine of the two texts.
        example, rank: the query in which the missed tool ranks best, and its rank there; null if it is not ranked.
        both: words that both texts have, rarest first.
        by: `method` if the method says what each word adds, else `words`.
        for_shown: query words that favour the shown tool, largest contribution first.
        for_missed: words that favour the missed tool.
        common: joint contribution of common words, which are not named, to the shown tool; null if there is none.
        missing: query words in no description, those first that are typical of these queries.
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
        """Everything known about the pair, for readers."""
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
    """A pair to analyse.

    Attributes:
        missed, shown: codes.
        rows: rows of its queries in the dataset, those first in which the missed tool ranks best.
        rank: rank of the missed tool in the first of them; None if it is not ranked.
    """

    missed: int
    shown: int
    rows: NDArray[np.int64]
    rank: int | None


@dataclass(frozen=True)
class Why:
    """What decides between the two tools of a pair, in words, and the source of this statement.

    For a method that does not rank by words, it is the sentence of `bench explain` on the example.
    """

    pair: ConfusedPair
    text: str
    by: Literal["method", "words"]


class WordStatistics:
    """Word statistics of the tools of a library.

    `library` are the texts that the method received, `rows` the queries in the dataset.
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
        """Whether a term does not distinguish tools.

        A word in no text is common if queries for many tools have it: it is no reason to edit one description.
        """
        return all(
            word in FUNCTION_WORDS
            or _many(self.library.frequency(word), len(self.library.texts))
            or _many(self._wanting.get(word, 0), self._wanted)
            for word in words(term)
        )

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Query words in no text, without numbers, which are values.

        Words of many of these queries, and of queries for few tools, come first (as TF-IDF weighs them).
        """
        counts = Counter(word for text in texts for word in dict.fromkeys(words(text)))
        absent = [word for word in counts if word in self._wanting and not any(map(str.isdigit, word))]
        return sorted(
            (word for word in absent if not self.is_common(word)),
            key=lambda word: -counts[word] * np.log((1 + self._wanted) / max(1, self._wanting[word])),
        )

    def shared(self, pair: Pair) -> list[str]:
        """Words that both texts have, rarest first."""
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
    """What decides between the tools of each pair, and a sentence if the method was not asked.

    Args:
        result, dataset: the result, or one of its repeats, and the data it was made on.
        ask: whether to ask the method; otherwise only texts are compared.
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
    """Why the method is not asked, in a sentence; empty if it is."""
    if note := unexplainable(result.manifest):
        return note
    try:
        with config_context(offline=True):
            method = build_method(result.manifest.method.full_spec)
    except BenchError as error:
        return f"The method cannot be made again: {error}"
    # A service would be asked every query and could not explain.
    return "" if type(method).explain is not Method.explain else "The method does not say how it ranks."


def _case(result: StoredResult, dataset: Dataset, pair: Pair, row: int) -> AskedQuery:
    """The gold tools of the query and the tool shown in place of one, with their ranks."""
    query = dataset.queries[row]
    ranking, scores = read_ranking(result, query.query_id)
    named = sorted({dataset.tools[pair.shown].tool_id, *query.meeting})
    # Best first; unranked tools come last.
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


#: Word -> its contribution to the shown tool and to the missed one.
_Added = dict[str, tuple[float, float]]


def _by_word(explanation: Explanation | None, pair: Pair, text: str) -> _Added | None:
    """The contribution of each query word to the two tools; None if the parts of their scores are not query words."""
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
    """The words that favour the shown and the missed tool, by their contribution over all queries."""
    gaps: defaultdict[str, list[float]] = defaultdict(list)
    decides: Counter[str] = Counter()
    for case in cases:
        ahead = sum(shown - missed for shown, missed in case.values())
        for word, (shown, missed) in case.items():
            gaps[word].append(shown - missed)
            # Without its contribution to the shown tool; if that one is behind already, nothing decides.
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
    """The contribution of a word over all queries."""
    return (effect.adds or 0.0) * effect.queries


def _count(texts: Sequence[str], wording: WordStatistics, pair: Pair) -> tuple[list[WordEffect], list[WordEffect]]:
    """Query words in the text of one tool and not in that of the other, by number of queries."""
    sides = []
    has = [set(words(wording.library.texts[tool])) for tool in (pair.shown, pair.missed)]
    for mine, other in (has, has[::-1]):
        telling = {word for word in mine - other if not wording.is_common(word)}
        counts = Counter(word for text in texts for word in set(words(text)) & telling)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        sides.append([WordEffect(word=word, queries=count, adds=None, decides=None) for word, count in ordered])
    return sides[0], sides[1]

"""The scripts of a dataset's tools and queries, and the methods that cannot read them. The audit reports them.

The script of a text is that of most of its words. For a tool, the text is its description, or its name if it has none:
names are in Latin letters in most languages. Scores show what a lexical method cannot read: if every gold tool of a
judged query scores 0, like a tool that shares nothing with it, the method cannot answer the query. For the embedded
encoder, two facts are known: how many of its tokens stand for unknown characters, and which languages its model card
declares. Nothing is known about other models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UnavailableError
from bench.base.words import script, words
from bench.data.dataset import Dataset
from bench.evaluation.ask import prepare
from bench.interface import Library, Method
from bench.interface.parts import models, needs_history
from bench.interface.views import Queries
from bench.models.declared import declared_languages
from bench.models.files import EMBEDDED
from bench.models.tokens import can_count_tokens, unknown_share
from bench.registry import build_method, method_class, method_names
from bench.search.scoring import ScoringMethod

LATIN, NO_WORDS = "Latin", "no words"
#: Scripts whose name differs from the first word of their characters' Unicode names.
_NAMES = {
    "CJK": "Han",
    "IDEOGRAPHIC": "Han",
    "HIRAGANA": "kana",
    "KATAKANA": "kana",
    "KATAKANA-HIRAGANA": "kana",
    "TAI": "Tai",
    "NEW": "Tai",
}
#: Number of queries scored at once; bounds memory.
_BLOCK = 256
#: Maximum number of texts per script that are tokenised.
_MOST_TEXTS = 1000


@dataclass(frozen=True)
class Script:
    """The texts of a dataset in one script.

    Attributes:
        name: for example Latin, Han, kana, Hangul or Thai; `no words` for texts without letters or digits.
        tools, queries: numbers of tools and queries in the script; queries of every split.
        judged: number of judged queries of the default split.
        unread: lexical method -> number of these queries for which every gold tool scores like a tool that shares
            nothing.
        unknown_tokens: share of unknown characters among the embedded encoder's tokens, over at most 1,000 tools and
            1,000 queries; None if the tokeniser is not installed, or there is no text.
    """

    name: str
    tools: int
    queries: int
    judged: int
    unread: Mapping[str, int]
    unknown_tokens: float | None


@dataclass(frozen=True)
class Scripts:
    """The scripts of a dataset.

    Attributes:
        rows: the scripts, the most frequent first.
        languages: those that the embedded encoder's model card declares; empty if it is not installed.
    """

    rows: tuple[Script, ...]
    languages: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether every text is in Latin letters."""
        return all(row.name == LATIN for row in self.rows)


def script_of(text: str) -> str:
    """The script of most words of a text; if counts are equal, the first by name. Digits belong to no script."""
    tokens = words(text)
    letters = (next(filter(str.isalpha, token), "") for token in tokens)
    names = (script(letter) for letter in letters if letter)
    counts = Counter(_NAMES.get(name, name.capitalize()) for name in names)
    if counts:
        return min(counts, key=lambda name: (-counts[name], name))
    return LATIN if tokens else NO_WORDS


def lexical_methods() -> list[Method]:
    """The lexical methods of bench: they score tools by words, without a model or past queries."""
    chosen = []
    for name in method_names():
        kind = method_class(name)
        if kind.__module__.startswith("bench.methods.") and issubclass(kind, ScoringMethod):
            # A method whose package is missing has a model.
            with suppress(UnavailableError):
                method = build_method(name)
                if not models(method) and not needs_history(method):
                    chosen.append(method)
    return chosen


def audit_scripts(dataset: Dataset, methods: Sequence[Method]) -> Scripts:
    """Find the scripts of a dataset, with or without queries, and the queries that methods cannot read.

    The methods are fresh lexical ones, which score every tool and do not learn from past queries.
    """
    tools = np.array([script_of(tool.description if words(tool.description) else tool.name) for tool in dataset.tools])
    queries = np.array([script_of(query.text) for query in dataset.queries], dtype=np.str_)
    rows = dataset.rows(dataset.card.split)
    rows = rows[dataset.gold.counts[rows] > 0]
    unread = {str(method.spec): _unread(method, dataset, rows) for method in methods} if len(rows) else {}
    counts = Counter(tools.tolist()) + Counter(queries.tolist())
    by_script = []
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        judged = queries[rows] == name
        by_script.append(
            Script(
                name,
                int((tools == name).sum()),
                int((queries == name).sum()),
                int(judged.sum()),
                {spec: int((judged & missed).sum()) for spec, missed in unread.items()},
                _unknown(dataset, tools == name, queries == name),
            )
        )
    return Scripts(tuple(by_script), declared_languages(EMBEDDED) if can_count_tokens() else ())


def _unread(method: Method, dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(rows,) whether every gold tool of a query scores 0."""
    if not isinstance(method, ScoringMethod):
        raise TypeError(f"{method.spec} does not score every tool")
    prepare(method, Library.of(dataset, dataset.card.template))
    gold = dataset.gold.members()
    missed = np.zeros(len(rows), dtype=np.bool_)
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        scores = method.score(Queries(tuple(dataset.queries[row].text for row in part), np.arange(len(part))))
        missed[start : start + _BLOCK] = [not scores[i, gold.row(int(row))].any() for i, row in enumerate(part)]
    return missed


def _unknown(dataset: Dataset, tools: NDArray[np.bool_], queries: NDArray[np.bool_]) -> float | None:
    if not can_count_tokens():
        return None
    texts = [dataset.tools[code].text(dataset.card.template) for code in np.flatnonzero(tools)[:_MOST_TEXTS]]
    texts += [dataset.queries[row].text for row in np.flatnonzero(queries)[:_MOST_TEXTS]]
    return unknown_share(texts)

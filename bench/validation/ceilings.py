"""Ceilings: the best mean that a ranking can have on a dataset, whatever the method.

Three things keep a perfect method below 1:

- `gold`: a query has more gold tools than the cut-off;
- `tools`: tools have the same text in the template, so a method that reads nothing else cannot tell them apart, and any
  order of them is as good;
- `queries`: queries have the same text and other gold, so a method gives them one ranking.

Each ceiling takes the causes before it into account. Those of recall and ndcg are exact: both are sums over places of a
weight and the gain of the tool there, the expected gain of a tool is the mean gain over the tools with its text and
over the queries with the query's text, and the best ranking puts the largest expected gains first. That of pass is a
bound: no method is above it, and it may be out of reach where queries share a text.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.template import Template

R = TypeVar("R")

CUTOFFS = (5, 10)
#: Sets of gold among queries of one text whose combinations are tried.
_MOST_SETS = 12


@dataclass(frozen=True)
class Ceiling:
    """The best mean of a metric over the judged queries.

    Attributes:
        metric: canonical name.
        gold: of any ranking.
        tools: of a method that reads only the tools' texts.
        queries: of such a method, which gives queries of the same text the same ranking.
    """

    metric: str
    gold: float
    tools: float
    queries: float


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of a dataset, and how many judged queries have each cause.

    Attributes:
        template: the template of the tools' texts.
        judged: judged queries.
        more_gold: those with more gold tools than the first of `CUTOFFS`.
        same_tool_text: those with a gold tool whose text a tool has too that is neither gold nor an alternative.
        same_query_text: those whose text a query of other gold has too.
        metrics: recall, ndcg and pass at each of `CUTOFFS`.
    """

    template: Template
    judged: int
    more_gold: int
    same_tool_text: int
    same_query_text: int
    metrics: tuple[Ceiling, ...]


def ceilings(dataset: Dataset, template: Template | None = None, selected: NDArray[np.int64] | None = None) -> Ceilings:
    """The ceilings of a dataset.

    Args:
        dataset: the data.
        template: of the tools' texts; None for the dataset's default.
        selected: (queries,) codes of the queries; None for those of the default split. Those without gold are left out.

    Where gold has alternatives, texts do not lower the ceilings: a tool of another text may do as well.
    """
    chosen = template or dataset.card.template
    among = dataset.rows(dataset.card.split) if selected is None else selected
    rows = [row for row in among.tolist() if dataset.queries[row].gold]
    tools = _codes(tool.text(chosen) for tool in dataset.tools)
    queries = [dataset.queries[row] for row in rows]
    gold = [{dataset.tool_codes[tool]: grade for tool, grade in query.gold.items()} for query in queries]
    alone = list(range(len(rows)))
    texts = _codes(query.text for query in queries)
    separate = list(range(len(dataset.tools)))
    read = (separate, alone) if dataset.gold.groups is not None else (tools, texts)
    variants = ((separate, alone), (read[0], alone), read)
    metrics = [(name, k) for name in ("recall", "ndcg", "pass") for k in CUTOFFS]
    columns: list[list[float]] = []
    for place, codes in enumerate(variants):
        # Where all texts differ, they lower nothing.
        same = variants.index(codes)
        columns.append(columns[same] if same < place else _best(metrics, gold, *codes))
    metric_ceilings = [Ceiling(f"{name}@{k}", *bounds) for (name, k), *bounds in zip(metrics, *columns, strict=True)]
    same_gold = _groups(texts, [frozenset(row) for row in gold])
    meeting = [[dataset.tool_codes[tool] for tool in query.meeting] for query in queries]
    sizes = np.bincount(tools)
    return Ceilings(
        template=chosen,
        judged=len(rows),
        more_gold=sum(len(row) > CUTOFFS[0] for row in gold),
        same_tool_text=sum(_shares_text(*row, tools, sizes) for row in zip(gold, meeting, strict=True)),
        same_query_text=sum(len(sets) for sets in same_gold.values() if len(set(sets)) > 1),
        metrics=tuple(metric_ceilings),
    )


def _codes(texts: Iterable[str]) -> list[int]:
    """A number for each text; equal numbers, same text."""
    known: dict[str, int] = {}
    return [known.setdefault(text, len(known)) for text in texts]


def _groups(codes: Sequence[int], items: Sequence[R]) -> dict[int, list[R]]:
    groups: defaultdict[int, list[R]] = defaultdict(list)
    for code, item in zip(codes, items, strict=True):
        groups[code].append(item)
    return groups


def _shares_text(gold: Iterable[int], meeting: Iterable[int], tools: Sequence[int], sizes: NDArray[np.int64]) -> bool:
    """Whether a gold tool has the text of a tool that is neither gold nor an alternative."""
    right = _per_text(meeting, tools)
    return any(right[tools[tool]] < sizes[tools[tool]] for tool in gold)


def _per_text(gold: Iterable[int], tools: Sequence[int]) -> Counter[int]:
    """How many gold tools have each text."""
    return Counter(tools[tool] for tool in gold)


def _best(
    metrics: Sequence[tuple[str, int]],
    gold: Sequence[Mapping[int, int]],
    tools: Sequence[int],
    queries: Sequence[int],
) -> list[float]:
    """The best mean of each metric (name, cut-off) if tools and queries with equal codes cannot be told apart."""
    if not gold:
        return [math.nan] * len(metrics)
    sizes: list[int] = np.bincount(tools).tolist()
    # Most queries share their text with none, and their gold's texts with no tool: those of equal grades are alike.
    alike: defaultdict[Hashable, list[list[Mapping[int, int]]]] = defaultdict(list)
    for code, rows in _groups(queries, gold).items():
        is_plain = len(rows) == 1 and all(sizes[tools[tool]] == 1 for tool in rows[0])
        alike[tuple(sorted(rows[0].values())) if is_plain else code].append(rows)
    means = []
    for name, k in metrics:
        best = _best_pass if name == "pass" else _best_sum
        sums: list[float] = []
        for same in alike.values():
            sums += [best(name, k, same[0], tools, sizes)] * len(same)
        # Exact before it is rounded, so that the order of the queries is nothing to it.
        means.append(math.fsum(sums) / len(gold))
    return means


def _best_sum(
    name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int], sizes: Sequence[int]
) -> float:
    """The largest sum of recall or ndcg over queries that get one ranking."""
    discounts = [1 / math.log2(place + 1) for place in range(1, k + 1)] if name == "ndcg" else [1.0] * k
    gains: defaultdict[int, float] = defaultdict(float)
    for row in rows:
        if name == "ndcg":
            ideal = math.fsum(map(mul, sorted(row.values(), reverse=True), discounts))
            worth = {tool: grade / ideal for tool, grade in row.items()}
        else:
            worth = dict.fromkeys(row, 1 / len(row))
        for tool, gain in worth.items():
            gains[tools[tool]] += gain
    expected = sorted(((gain / sizes[code], sizes[code]) for code, gain in gains.items()), reverse=True)
    places = [gain for gain, size in expected for _ in range(min(size, k))][:k]
    return math.fsum(map(mul, places, discounts))


def _best_pass(
    name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int], sizes: Sequence[int]
) -> float:
    """A bound of the sum of pass over queries that get one ranking: sets that do not fit into k do not pass together.

    A set of gold counts with the chance that it passes if the ranking is made for it alone.
    """
    sets: defaultdict[frozenset[int], float] = defaultdict(float)
    for row in rows:
        sets[frozenset(row)] += _chance(k, row, tools, sizes)
    if len(sets) > _MOST_SETS:
        return math.fsum(sets.values())
    return _most([(_per_text(one, tools), chance) for one, chance in sets.items() if chance], k)


def _most(sets: Sequence[tuple[Counter[int], float]], k: int) -> float:
    """The largest sum of the chances of sets that fit into k together, each with how many of it have each text."""
    best = 0.0
    # What is taken, and the fewest tools without which one of it has no chance: of each text as many as the set with
    # most of it.
    waiting: list[tuple[int, list[float], Counter[int]]] = [(0, [], Counter())]
    while waiting:
        after, taken, needed = waiting.pop()
        best = max(best, math.fsum(taken))
        for place in range(after, len(sets)):
            texts, chance = sets[place]
            joined = needed | texts
            # More sets need no fewer tools.
            if joined.total() <= k:
                waiting.append((place + 1, [*taken, chance], joined))
    return best


def _chance(k: int, gold: Mapping[int, int], tools: Sequence[int], sizes: Sequence[int]) -> float:
    """The chance that all gold tools are among k, if of each text as many tools are drawn as is best.

    Of `size` tools with one text, m are gold; n of them drawn at random hold all m with the chance
    C(size - m, n - m) / C(size, n).
    """
    best = [1.0] + [0.0] * k
    for code, m in _per_text(gold, tools).items():
        size = sizes[code]
        # Fewer than m do not hold all of them.
        drawn = [(n, math.comb(size - m, n - m) / math.comb(size, n)) for n in range(m, min(size, k) + 1)]
        best = [
            max((best[total - n] * chance for n, chance in drawn if n <= total), default=0.0) for total in range(k + 1)
        ]
    return max(best)

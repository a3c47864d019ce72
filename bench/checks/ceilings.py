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
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.tables import Template

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


def ceilings(dataset: Dataset, template: Template | None = None, asked: NDArray[np.int64] | None = None) -> Ceilings:
    """The ceilings of a dataset.

    Args:
        dataset: the data.
        template: of the tools' texts; None for the dataset's default.
        asked: (queries,) codes of the queries; None for those of the default split. Those without gold are left out.

    Where gold has alternatives, texts do not lower the ceilings: a tool of another text may do as well.
    """
    chosen = template or dataset.card.template
    among = dataset.rows(dataset.card.split) if asked is None else asked
    rows = [row for row in among.tolist() if dataset.queries[row].gold]
    tools = _codes(tool.text(chosen) for tool in dataset.tools)
    queries = [dataset.queries[row] for row in rows]
    gold = [{dataset.tool_codes[tool]: grade for tool, grade in query.gold.items()} for query in queries]
    alone = list(range(len(rows)))
    texts = _codes(query.text for query in queries)
    own = list(range(len(dataset.tools)))
    read = (own, alone) if dataset.gold.groups is not None else (tools, texts)
    found = []
    for name in ("recall", "ndcg", "pass"):
        for k in CUTOFFS:
            bounds = [_best(name, k, gold, *codes) for codes in ((own, alone), (read[0], alone), read)]
            found.append(Ceiling(f"{name}@{k}", *bounds))
    same_gold = _groups(texts, [frozenset(row) for row in gold])
    meeting = [[dataset.tool_codes[tool] for tool in query.meeting] for query in queries]
    sizes = np.bincount(tools)
    return Ceilings(
        template=chosen,
        judged=len(rows),
        more_gold=sum(len(row) > CUTOFFS[0] for row in gold),
        same_tool_text=sum(_blurred(*row, tools, sizes) for row in zip(gold, meeting, strict=True)),
        same_query_text=sum(len(sets) for sets in same_gold.values() if len(set(sets)) > 1),
        metrics=tuple(found),
    )


def _codes(texts: Iterable[str]) -> list[int]:
    """A number for each text; equal numbers, same text."""
    known: dict[str, int] = {}
    return [known.setdefault(text, len(known)) for text in texts]


def _groups(codes: Sequence[int], items: Sequence[Hashable]) -> dict[int, list[Hashable]]:
    found: defaultdict[int, list[Hashable]] = defaultdict(list)
    for code, item in zip(codes, items, strict=True):
        found[code].append(item)
    return found


def _blurred(gold: Iterable[int], meeting: Iterable[int], tools: Sequence[int], sizes: NDArray[np.int64]) -> bool:
    """Whether a gold tool has the text of a tool that is neither gold nor an alternative."""
    right = Counter(tools[tool] for tool in meeting)
    return any(right[tools[tool]] < sizes[tools[tool]] for tool in gold)


def _per_text(gold: Iterable[int], tools: Sequence[int]) -> Counter[int]:
    """How many gold tools have each text."""
    return Counter(tools[tool] for tool in gold)


def _best(name: str, k: int, gold: Sequence[Mapping[int, int]], tools: Sequence[int], queries: Sequence[int]) -> float:
    """The best mean of a metric if tools and queries with equal codes cannot be told apart."""
    if not gold:
        return math.nan
    sizes = np.bincount(tools)
    groups: defaultdict[int, list[Mapping[int, int]]] = defaultdict(list)
    for code, row in zip(queries, gold, strict=True):
        groups[code].append(row)
    best = _best_pass if name == "pass" else _best_sum
    return math.fsum(best(name, k, rows, tools, sizes) for rows in groups.values()) / len(gold)


def _best_sum(
    name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int], sizes: NDArray[np.int64]
) -> float:
    """The largest sum of recall or ndcg over queries that get one ranking."""
    discounts = [1 / math.log2(place + 1) for place in range(1, k + 1)] if name == "ndcg" else [1.0] * k
    gains: defaultdict[int, float] = defaultdict(float)
    for row in rows:
        if name == "ndcg":
            ideal = math.fsum(map(math.prod, zip(sorted(row.values(), reverse=True), discounts, strict=False)))
            worth = {tool: grade / ideal for tool, grade in row.items()}
        else:
            worth = dict.fromkeys(row, 1 / len(row))
        for tool, gain in worth.items():
            gains[tools[tool]] += gain
    expected = sorted(((gain / sizes[code], int(sizes[code])) for code, gain in gains.items()), reverse=True)
    places = [gain for gain, size in expected for _ in range(min(size, k))][:k]
    return math.fsum(gain * weight for gain, weight in zip(places, discounts, strict=False))


def _best_pass(
    name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int], sizes: NDArray[np.int64]
) -> float:
    """A bound of the sum of pass over queries that get one ranking: sets that do not fit into k do not pass together.

    A set of gold counts with the chance that it passes if the ranking is made for it alone.
    """
    sets: defaultdict[frozenset[int], float] = defaultdict(float)
    for row in rows:
        sets[frozenset(row)] += _chance(k, row, tools, sizes)
    if len(sets) > _MOST_SETS:
        return math.fsum(sets.values())
    return max(
        math.fsum(sets[one] for one in chosen)
        for count in range(len(sets) + 1)
        for chosen in combinations(sets, count)
        if _needed(chosen, tools) <= k
    )


def _needed(sets: Sequence[frozenset[int]], tools: Sequence[int]) -> int:
    """The fewest tools without which one of the sets has no chance: of each text as many as the set with most of it."""
    most: Counter[int] = Counter()
    for one in sets:
        most |= _per_text(one, tools)
    return most.total()


def _chance(k: int, gold: Mapping[int, int], tools: Sequence[int], sizes: NDArray[np.int64]) -> float:
    """The chance that all gold tools are among k, if of each text as many tools are drawn as is best.

    Of `size` tools with one text, m are gold; n of them drawn at random hold all m with the chance
    C(size - m, n - m) / C(size, n).
    """
    best = [1.0] + [0.0] * k
    for code, m in _per_text(gold, tools).items():
        size = int(sizes[code])
        # Fewer than m do not hold all of them.
        drawn = [(n, math.comb(size - m, n - m) / math.comb(size, n)) for n in range(m, min(size, k) + 1)]
        best = [
            max((best[total - n] * chance for n, chance in drawn if n <= total), default=0.0) for total in range(k + 1)
        ]
    return max(best)

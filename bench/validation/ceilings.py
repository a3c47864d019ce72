"""Ceilings: the best mean that any method's ranking can have on a dataset. The audit and the site show them.

Three things keep a perfect method below 1:

- `gold`: a query has more gold tools than the cut-off;
- `tools`: tools have the same text in the template, so a method that reads only texts cannot distinguish them, and
  every order of them is equally good;
- `queries`: queries have the same text but different gold, so a method gives them one ranking.

Each ceiling includes the causes before it. The ceilings of recall and ndcg are exact: both are sums over ranks of a
weight times the gain of the tool there, the expected gain of a tool is the mean gain over the tools with its text and
over the queries with the query's text, and the best ranking puts the largest expected gains first. The ceiling of pass
is a bound: no method exceeds it, but if queries share a text, it may be unreachable.
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
#: Maximum number of gold sets, among queries of one text, whose combinations are tried.
_MOST_SETS = 12


@dataclass(frozen=True)
class Ceiling:
    """The best mean of a metric over the judged queries.

    Attributes:
        metric: canonical name.
        gold: the best mean of any ranking.
        tools: the best of a method that reads only the tools' texts.
        queries: the best of such a method that also gives queries of the same text the same ranking.
    """

    metric: str
    gold: float
    tools: float
    queries: float


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of a dataset, and the number of judged queries with each cause.

    Attributes:
        template: the template of the tools' texts.
        judged: number of judged queries.
        more_gold: number with more gold tools than the first of `CUTOFFS`.
        same_tool_text: number with a gold tool that shares its text with a tool that is neither gold nor an
            alternative.
        same_query_text: number that share their text with a query of different gold.
        metrics: recall, ndcg and pass at each of `CUTOFFS`.
    """

    template: Template
    judged: int
    more_gold: int
    same_tool_text: int
    same_query_text: int
    metrics: tuple[Ceiling, ...]


def ceilings(dataset: Dataset, template: Template | None = None, selected: NDArray[np.int64] | None = None) -> Ceilings:
    """The ceilings of a dataset, for a template of the tools' texts and the codes of some queries.

    Without these, they are the dataset's default and the queries of its default split. Queries without gold are left
    out. If gold has alternatives, texts do not lower the ceilings: a tool with another text may do as well.
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
        # If all texts differ, they do not lower the ceilings.
        same = variants.index(codes)
        columns.append(columns[same] if same < place else _best(metrics, gold, *codes))
    metric_ceilings = [Ceiling(f"{name}@{k}", *bounds) for (name, k), *bounds in zip(metrics, *columns, strict=True)]
    same_gold = _groups(texts, [frozenset(row) for row in gold])
    right = [_per_text([dataset.tool_codes[tool] for tool in query.meeting], tools) for query in queries]
    sizes = np.bincount(tools)
    return Ceilings(
        template=chosen,
        judged=len(rows),
        more_gold=sum(len(row) > CUTOFFS[0] for row in gold),
        same_tool_text=sum(
            any(known[tools[tool]] < sizes[tools[tool]] for tool in row) for row, known in zip(gold, right, strict=True)
        ),
        same_query_text=sum(len(sets) for sets in same_gold.values() if len(set(sets)) > 1),
        metrics=tuple(metric_ceilings),
    )


def _codes(texts: Iterable[str]) -> list[int]:
    """A number for each text; equal numbers mean the same text."""
    known: dict[str, int] = {}
    return [known.setdefault(text, len(known)) for text in texts]


def _groups(codes: Sequence[int], items: Sequence[R]) -> dict[int, list[R]]:
    groups: defaultdict[int, list[R]] = defaultdict(list)
    for code, item in zip(codes, items, strict=True):
        groups[code].append(item)
    return groups


def _per_text(gold: Iterable[int], tools: Sequence[int]) -> Counter[int]:
    """The number of gold tools with each text."""
    return Counter(tools[tool] for tool in gold)


def _best(
    metrics: Sequence[tuple[str, int]],
    gold: Sequence[Mapping[int, int]],
    tools: Sequence[int],
    queries: Sequence[int],
) -> list[float]:
    """The best mean of each metric (name, cut-off) if tools and queries with equal codes are indistinguishable."""
    if not gold:
        return [math.nan] * len(metrics)
    sizes: list[int] = np.bincount(tools).tolist()
    # Most queries share neither their text nor their gold's texts with others: those with equal grades are computed
    # once.
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
        # Exact before rounding, so that the order of the queries does not matter.
        means.append(math.fsum(sums) / len(gold))
    return means


def _best_sum(
    name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int], sizes: Sequence[int]
) -> float:
    """The largest sum of recall or ndcg over queries that get the same ranking."""
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
    """A bound of the sum of pass over queries with the same ranking: sets that do not fit into k cannot all pass.

    A gold set counts with the probability that it passes if the ranking is optimal for it alone.
    """
    sets: defaultdict[frozenset[int], float] = defaultdict(float)
    for row in rows:
        sets[frozenset(row)] += _chance(k, row, tools, sizes)
    if len(sets) > _MOST_SETS:
        return math.fsum(sets.values())
    return _most([(_per_text(one, tools), chance) for one, chance in sets.items() if chance], k)


def _most(sets: Sequence[tuple[Counter[int], float]], k: int) -> float:
    """The largest sum of probabilities of sets that fit into k together; each set comes with its tools per text."""
    best = 0.0
    # A selection of sets, and the tools that it needs at least: for each text, the maximum over its sets.
    waiting: list[tuple[int, list[float], Counter[int]]] = [(0, [], Counter())]
    while waiting:
        after, taken, needed = waiting.pop()
        best = max(best, math.fsum(taken))
        for place in range(after, len(sets)):
            texts, chance = sets[place]
            joined = needed | texts
            # More sets never need fewer tools.
            if joined.total() <= k:
                waiting.append((place + 1, [*taken, chance], joined))
    return best


def _chance(k: int, gold: Mapping[int, int], tools: Sequence[int], sizes: Sequence[int]) -> float:
    """The probability that all gold tools are among k, with the best number of tools for each text.

    Of `size` tools with one text, m are gold; n of them drawn at random contain all m with probability C(size - m, n -
    m) / C(size, n).
    """
    best = [1.0] + [0.0] * k
    for code, m in _per_text(gold, tools).items():
        size = sizes[code]
        # Fewer than m cannot contain all of them.
        drawn = [(n, math.comb(size - m, n - m) / math.comb(size, n)) for n in range(m, min(size, k) + 1)]
        best = [
            max((best[total - n] * chance for n, chance in drawn if n <= total), default=0.0) for total in range(k + 1)
        ]
    return max(best)

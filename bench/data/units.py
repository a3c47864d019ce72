"""Units of independence: which queries of a dataset are dependent.

Tests and intervals that treat queries as independent are too narrow if queries share what decides whether a method
finds their gold (Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", section II). A card
names the relations that link queries of its dataset; queries that are linked, directly or through others, form one
unit.

The relations:

- `gold`: the same set of gold tools. Queries without gold are not linked.
- `group`: the same `Query.group`, given by the loader. Queries without a group are not linked.
- `text`: near-duplicate wording. The words of a text are those of `bench.base.words` after case folding, without
  digits; two texts are near-duplicates if the Jaccard index of their sets of words is at least 0.8. Two texts without a
  word are near-duplicates.
- `parent`: all gold of both queries has the same parent. A query with gold of several parents, or without gold, is not
  linked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.words import words
from bench.data.card import RELATIONS, Card, Relation, UnitSizes
from bench.data.gold import Gold
from bench.data.parents import parent_codes
from bench.data.tables import Query, Tool
from bench.stats.units import effective_units

#: The name of the rule that links no queries.
NONE = "none"

_DIGIT = re.compile(r"\d")
#: Rows whose candidates are compared at once; bounds the memory of the relation `text`.
_BLOCK = 256


class JudgedQueries(Protocol):
    """The input of units: the needed part of a `bench.data.dataset.Dataset`."""

    @property
    def card(self) -> Card:
        """The card, with the rule and the default split."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All queries, by code."""
        ...

    @property
    def queries(self) -> Sequence[Query]:
        """The gold of all splits."""
        ...

    @property
    def gold(self) -> Gold:
        """The split of each query."""
        ...

    @property
    def units(self) -> NDArray[np.int64]:
        """(queries,) codes by the card's rule."""
        ...

    def rows(self, split: str) -> NDArray[np.int64]:
        """Rows of the queries of a split."""
        ...


def unit_name(by: Iterable[Relation]) -> str:
    """The name of a rule: its relations in their fixed order, joined by `+`; `none` for an empty rule."""
    wanted = set(by)
    return "+".join(relation for relation in RELATIONS if relation in wanted) or NONE


def parse_unit(text: str) -> tuple[Relation, ...]:
    """The relations of a rule by its name, in their fixed order; inverse of `unit_name`.

    Raises:
        UsageError: a relation is unknown or repeated.
    """
    if text == NONE:
        return ()
    named = text.split("+")
    if len(set(named)) < len(named) or not set(named) <= set(RELATIONS):
        raise UsageError(
            f"{text!r} is not a unit of independence: join some of {', '.join(RELATIONS)} by `+`, each once, or use "
            f"{NONE} if all queries are independent."
        )
    return tuple(relation for relation in RELATIONS if relation in named)


def unit_codes(dataset: JudgedQueries, by: Iterable[Relation] | None = None) -> NDArray[np.int64]:
    """The unit of independence of every query, by the relations `by` (None: the card's rule).

    Units are the connected components of the union of the relations over all queries, of every split.

    Returns:
        (queries,) codes from 0, in order of first appearance.
    """
    wanted = set(dataset.card.unit.by if by is None else by)
    count = len(dataset.queries)
    nodes = count
    starts: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    for relation in RELATIONS:
        if relation not in wanted:
            continue
        # One node per key, joined to all queries that have it.
        keys: dict[Hashable, int] = {}
        codes = [-1 if key is None else keys.setdefault(key, len(keys)) for key in _KEYS[relation](dataset)]
        linked = np.flatnonzero(np.array(codes) >= 0)
        starts.append(linked)
        ends.append(nodes + np.array(codes, dtype=np.int64)[linked])
        if relation == "text":
            for left, right in _near([key for key in keys if isinstance(key, frozenset)]):
                starts.append(nodes + left)
                ends.append(nodes + right)
        nodes += len(keys)
    if not starts:
        return np.arange(count)
    return _renumber(components(nodes, np.concatenate(starts), np.concatenate(ends))[:count])


def components(nodes: int, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The connected component of every node of an undirected graph, named by its smallest node.

    Not by scipy, whose import takes half a second in every process that needs units.

    Args:
        nodes: number of nodes.
        starts: (links,) one end of each link.
        ends: (links,) the other end.
    """
    labels = np.arange(nodes)
    while True:
        left, right = labels[starts], labels[ends]
        apart = left != right
        if not apart.any():
            return labels
        # A node that labels itself is a root; the larger of two roots goes under the smaller.
        starts, ends, left, right = starts[apart], ends[apart], left[apart], right[apart]
        np.minimum.at(labels, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(further := labels[labels], labels):
            labels = further


def judged_units(dataset: JudgedQueries, by: Iterable[Relation] | None = None) -> NDArray[np.int64]:
    """The units of the queries that results are about: the judged queries of the dataset's default split.

    Returns:
        (judged queries,) codes from 0 without a gap, in order of first appearance. Units are those of `unit_codes`, so
        links through queries of other splits count.
    """
    rows = dataset.rows(dataset.card.split)
    rows = rows[dataset.gold.counts[rows] > 0]
    return _renumber((dataset.units if by is None else unit_codes(dataset, by))[rows])


def _renumber(labels: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The labels as codes from 0, in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[inverse]


def unit_sizes(units: NDArray[np.int64]) -> UnitSizes:
    """The number of units and their sizes; all 0 without queries.

    Args:
        units: (judged queries,) codes from 0 without gaps, as from `judged_units`.
    """
    if not len(units):
        return UnitSizes(queries=0, units=0, largest=0, effective=0.0)
    sizes = np.bincount(units)
    effective = round(effective_units(units), 1)
    return UnitSizes(queries=len(units), units=len(sizes), largest=int(sizes.max()), effective=effective)


def _gold_keys(dataset: JudgedQueries) -> list[Hashable]:
    rows: list[list[tuple[int, ...]]] = [[] for _ in dataset.queries]
    for query, tools, _ in dataset.gold.judgements():
        rows[query].append(tuple(sorted(tools)))
    return [tuple(sorted(requirements)) or None for requirements in rows]


def _group_keys(dataset: JudgedQueries) -> list[Hashable]:
    return [query.group or None for query in dataset.queries]


def _text_keys(dataset: JudgedQueries) -> list[Hashable]:
    return [frozenset(words(_DIGIT.sub(" ", query.text.casefold()))) for query in dataset.queries]


def _parent_keys(dataset: JudgedQueries) -> list[Hashable]:
    parents = parent_codes(dataset.tools)
    parents_of_gold = (np.unique(parents[dataset.gold.row(row)]) for row in range(len(dataset.queries)))
    return [int(gold_parents[0]) if len(gold_parents) == 1 else None for gold_parents in parents_of_gold]


#: What queries must share to be linked; None links to nothing.
_KEYS: dict[Relation, Callable[[JudgedQueries], list[Hashable]]] = {
    "gold": _gold_keys,
    "group": _group_keys,
    "text": _text_keys,
    "parent": _parent_keys,
}


def _near(sets: Sequence[frozenset[str]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Positions of all pairs of distinct sets with a Jaccard index of at least 4/5, in blocks.

    Prefix filtering (Chaudhuri et al. 2006; Bayardo et al. 2007) is exact: with words sorted from rare to common, such
    a pair of sets shares one of the first n - ceil(4n/5) + 1 words of each, n being its size.
    """
    from scipy.sparse import csr_array  # takes half a second to import, and only the relation `text` needs it

    counts = Counter(word for words in sets for word in words)
    order = {word: i for i, word in enumerate(sorted(counts, key=lambda word: (counts[word], word)))}
    rows = [sorted(order[word] for word in words) for words in sets]
    prefixes = [row[: len(row) + 1 - -(-4 * len(row) // 5)] if row else [] for row in rows]

    def matrix(lists: Sequence[Sequence[int]]) -> csr_array:
        pointers = np.cumsum([0, *map(len, lists)])
        columns = np.array([column for row in lists for column in row], dtype=np.int64)
        return csr_array((np.ones(len(columns), dtype=np.int32), columns, pointers), shape=(len(lists), len(order)))

    whole, prefix = matrix(rows), matrix(prefixes)
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    for start in range(0, len(sets), _BLOCK):
        shared = (prefix[start : start + _BLOCK] @ prefix.T).tocoo()
        left, right = shared.coords[0] + start, shared.coords[1].astype(np.int64)
        # A pair of sets of very different sizes cannot be near.
        kept = (left < right) & (5 * np.minimum(sizes[left], sizes[right]) >= 4 * np.maximum(sizes[left], sizes[right]))
        left, right = left[kept].astype(np.int64), right[kept]
        common = whole[left].multiply(whole[right]).sum(axis=1)
        # |A & B| / |A | B| >= 4/5 in integers, so that rounding decides nothing.
        near = 9 * common >= 4 * (sizes[left] + sizes[right])
        yield left[near], right[near]

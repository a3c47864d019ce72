"""Candidate pruning: tool pairs worth classifying, so that N tools do not need N² calls.

A pair is a candidate if any of three criteria suggests that its tools are related:

schema  one requires an input named like an output of the other: the same words, or the same last word. Names that
        more than a few tools return carry no information.
parent  both belong to the same parent, if it does not have too many tools.
text    one is among the nearest of the other in its category, by the vectors of a sentence encoder.

Each criterion gives at most a constant number of pairs per tool, so their number grows with N and not with N².
`benchmarks/candidates.py` measures how many true edges are among them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.data.parents import families
from bench.data.tables import Tool
from bench.methods.tgr.rules import name_words
from bench.search.dense import similarities
from bench.search.topk import blocks, top_k

#: (pairs, 2) int32 codes, the lower one first.
Pairs = NDArray[np.int32]
Within = Literal["library", "category"]

#: Number of nearest tools to propose per tool by text: on `starter`, twice as many find no further edge.
NEAREST = 5
#: A name that more tools return than this proposes no pair.
_MOST_PRODUCERS = 10
#: Parents with more tools than this propose no pairs.
_LARGEST_PARENT = 30


def candidate_pairs(
    tools: Sequence[Tool],
    vectors: NDArray[np.float32],
    nearest: int = NEAREST,
    within: Within = "library",
) -> Pairs:
    """Sorted, distinct candidates by all three criteria.

    Args:
        tools: the library, in code order.
        vectors: (tools, dimensions) of the tools' documents.
        nearest: number of nearest tools in its category that the text proposes for each tool.
        within: `category` keeps only pairs inside a category, as TGR builds the graph of ToolBench.
    """
    parts = [schema_pairs(tools, within), parent_pairs(tools), text_pairs(tools, vectors, nearest)]
    return np.unique(np.concatenate(parts), axis=0)


def schema_pairs(tools: Sequence[Tool], within: Within = "library") -> Pairs:
    """One tool requires what the other may return, by names."""
    producers: defaultdict[tuple[str, tuple[str, ...]], set[int]] = defaultdict(set)
    places = [tool.category if within == "category" else "" for tool in tools]
    for code, tool in enumerate(tools):
        for name in tool.return_names():
            for key in _keys(name):
                producers[places[code], key].add(code)
    pairs: set[tuple[int, int]] = set()
    for code, tool in enumerate(tools):
        for parameter in tool.parameters:
            for key in _keys(parameter.name) if parameter.required else ():
                makers = producers.get((places[code], key), set())
                if len(makers) <= _MOST_PRODUCERS:
                    pairs.update((min(code, maker), max(code, maker)) for maker in makers if maker != code)
    return _as_pairs(pairs)


def _keys(name: str) -> set[tuple[str, ...]]:
    """What two names must share to match: all of their words, or the last one, singular or plural."""
    words = name_words(name)
    return {words, ("last", _singular(words[-1]))} if words else set()


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def parent_pairs(tools: Sequence[Tool]) -> Pairs:
    """Tools of one parent, each with each."""
    small = [codes for codes in families(tools) if len(codes) <= _LARGEST_PARENT]
    return _as_pairs({pair for codes in small for pair in itertools.combinations(codes, 2)})


def text_pairs(tools: Sequence[Tool], vectors: NDArray[np.float32], nearest: int) -> Pairs:
    """Each tool with the `nearest` of its category by cosine."""
    categories = _numbered(tool.category for tool in tools)
    pairs = [_as_pairs(set())]
    for category in range(int(categories.max(initial=-1)) + 1):
        members = np.flatnonzero(categories == category)
        near = min(nearest, len(members) - 1)
        for block in blocks(len(members), len(members)) if near > 0 else ():
            block_members = members[block]
            scores = similarities(vectors[block_members], vectors[members], "cosine")
            scores[np.arange(len(block_members)), np.arange(block.start, block.stop)] = -np.inf
            left, right = np.repeat(block_members, near), members[top_k(scores, near).tools.ravel()]
            pairs.append(np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1).astype(np.int32))
    return np.unique(np.concatenate(pairs), axis=0)


def _numbered(names: Iterable[str]) -> NDArray[np.int64]:
    """The number of each name: equal names, equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _as_pairs(pairs: set[tuple[int, int]]) -> Pairs:
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)

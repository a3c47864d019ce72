"""Round-robin interleaving of several rankings.

Kachuee et al. 2024, section 4.2, "iterate over the lists and take one item from each while skipping duplicates", has
two readings, which differ in the turn of a list whose next tool was already taken:

- `by-rank`: the turn is lost. Round r uses rank r of each list, so a list that repeats others adds fewer tools.
- `next-new`: the list continues to its next new tool. Each list adds one tool per round while it has any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from bench.interface.method import Method
from bench.interface.ranking import PAD, Ranking, validate
from bench.interface.views import Queries

Interleaving = Literal["by-rank", "next-new"]


def interleaved(lists: Sequence[Sequence[int]], depth: int, interleaving: Interleaving = "by-rank") -> list[int]:
    """The first `depth` tools of a round robin over the lists, each tool once.

    The first k tools need no more than the first k of each list, so a deeper ranking begins with a shallower one.

    Args:
        lists: tool codes, best first, without padding or repetitions.
        depth: maximum tools.
        interleaving: the turn of a list whose next tool was already taken.
    """
    taken: dict[int, None] = {}
    left = [iter(tools) for tools in lists]
    while left:
        for tools in list(left):
            if len(taken) >= depth:
                return list(taken)
            tool = next((tool for tool in tools if interleaving == "by-rank" or tool not in taken), None)
            if tool is None:
                left.remove(tools)
            else:
                taken.setdefault(tool)
    return list(taken)


def round_robin(
    base: Method,
    row_queries: Sequence[Sequence[str]],
    utterances: Queries,
    library: int,
    depth: int,
    interleaving: Interleaving = "by-rank",
) -> tuple[list[list[int]], list[bool]]:
    """Rank the library for each row by all of its queries, interleaved; arguments and errors are those of `search`.

    Returns:
        Tool codes of each row, and whether the base failed on all of its queries.
    """
    lists, failed = search(base, row_queries, utterances, library, depth)
    return [interleaved(part, depth, interleaving) for part in lists], failed


def search(
    base: Method, row_queries: Sequence[Sequence[str]], utterances: Queries, library: int, depth: int
) -> tuple[list[list[list[int]]], list[bool]]:
    """Rank the library for each row by each of its queries.

    Args:
        base: an indexed method, called for each query separately.
        row_queries: the queries of each row; a row without queries gets no tools.
        utterances: the utterances that the queries of each row were written for.
        library: number of tools.
        depth: maximum tools per row.

    Returns:
        Tool codes of each row by each of its queries, and whether the base failed on all of a row's queries.

    Raises:
        Violation: the base breaks the protocol.
    """
    texts = [text for queries in row_queries for text in queries]
    owners = np.repeat(np.arange(len(utterances)), [len(queries) for queries in row_queries])
    parts = []
    for start in range(0, len(texts), base.batch_size):
        end = min(len(texts), start + base.batch_size)
        part = utterances.reworded(tuple(texts[start:end]), owners[start:end])
        parts.append(validate(base.rank(part, depth), len(part), library, depth))
    joined = Ranking.join(parts)
    failed = np.zeros(len(texts), dtype=np.bool_) if joined.failed is None else joined.failed
    lists = [row[row != PAD].tolist() for row in joined.tools]
    row_lists, unanswered, start = [], [], 0
    for queries in row_queries:
        end = start + len(queries)
        row_lists.append(lists[start:end])
        unanswered.append(bool(queries) and bool(failed[start:end].all()))
        start = end
    return row_lists, unanswered

"""Round-robin interleaving of several rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.interface.method import Method
from bench.interface.ranking import PAD, Ranking, validate
from bench.interface.views import Queries


def interleaved(lists: Sequence[Sequence[int]], depth: int) -> list[int]:
    """The first `depth` tools of a round robin: every list in turn gives its next tool; one already taken is skipped.

    A list whose turn falls on a tool that was taken before gives nothing in that round (Kachuee et al. 2024, section
    4.2). The first k tools need no more than the first k of each list, so a deeper ranking begins with a shallower one.

    Args:
        lists: tool codes, best first, without padding.
        depth: the most tools to give.
    """
    taken: dict[int, None] = {}
    for place in range(max(map(len, lists), default=0)):
        for tools in lists:
            if len(taken) >= depth:
                return list(taken)
            if place < len(tools):
                taken.setdefault(tools[place])
    return list(taken)


def round_robin(
    base: Method, row_queries: Sequence[Sequence[str]], utterances: Queries, library: int, depth: int
) -> tuple[list[list[int]], list[bool]]:
    """Rank the library for each row by all of its queries, interleaved; arguments and errors are those of `search`.

    Returns:
        Tool codes of each row, and whether the base failed on all of its queries.
    """
    lists, failed = search(base, row_queries, utterances, library, depth)
    return [interleaved(part, depth) for part in lists], failed


def search(
    base: Method, row_queries: Sequence[Sequence[str]], utterances: Queries, library: int, depth: int
) -> tuple[list[list[list[int]]], list[bool]]:
    """Rank the library for each row by each of its queries.

    Args:
        base: an indexed method, asked for each query by itself.
        row_queries: the queries of each row; a row without any gets no tools.
        utterances: what the queries of each row were written for.
        library: number of tools.
        depth: the most tools of a row.

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

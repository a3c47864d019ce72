"""Hard-negative mining: high-ranked tools that are not gold. The trainers of retrievers and rerankers call it.

`mine_hard_negatives` of sentence-transformers encodes texts by itself and returns texts. Here the vectors are known:
those of the cache, which a cluster may have computed, or those of the model that is being trained.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.paths import replacing
from bench.data.gold import Gold
from bench.search.dense import VectorIndex
from bench.search.topk import blocks, top_k

Vectors = NDArray[np.float32]


def used_tools(gold: Gold, tools: int) -> NDArray[np.bool_]:
    """(tools,) which tools are gold for at least one query, and so may serve as negatives.

    A tool that is never right in training but often wrong would be learnt as wrong: tools held out for the test would
    be penalised for being new, and their texts would not be held out.
    """
    used = np.zeros(tools, dtype=np.bool_)
    used[gold.tools] = True
    return used


def hard_negatives(
    queries: Vectors, tools: Vectors, gold: Gold, depth: int, among: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """The `depth` nearest tools of each query that are not its gold, by cosine.

    Args:
        queries: (queries, dimensions).
        tools: (tools, dimensions), in code order.
        gold: row i is that of query i.
        depth: at least 1.
        among: (tools,) which may be negatives (see `used_tools`).

    Returns:
        (queries, min(depth, tools)) tool codes, nearest first, padded with -1 if there are too few.
    """
    negatives = np.full((len(queries), min(depth, len(tools))), -1, dtype=np.int32)
    index = VectorIndex(tools, "cosine")
    for block in blocks(len(queries), len(tools)):
        scores = index.score(queries[block])
        scores[:, ~among] = -np.inf
        for row in range(len(scores)):
            scores[row, gold.row(block.start + row)] = -np.inf
        negatives[block] = top_k(scores, depth).tools
    return negatives


def draw(mined: NDArray[np.int32], count: int, random: np.random.Generator) -> NDArray[np.int32]:
    """`count` tools of each row of mined ones, drawn without replacement; -1 if a row has fewer.

    Args:
        mined: (rows, depth) tool codes, -1 padded.
        random: draws one number per cell.
    """
    keys = np.where(mined >= 0, random.random(mined.shape), np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(mined, order, axis=1)
    missing = count - chosen.shape[1]
    return np.pad(chosen, ((0, 0), (0, max(0, missing))), constant_values=-1)


def keep_in(path: Path, make: Callable[[], NDArray[np.int32]]) -> NDArray[np.int32]:
    """The content of the file; without one, the value of `make`, which is stored there.

    A resumed training finds in it what an earlier state of the model mined.
    """
    if path.is_file():
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.int32)
        except (OSError, ValueError, EOFError):
            pass
    made = make()
    buffer = io.BytesIO()
    np.save(buffer, made, allow_pickle=False)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())
    return made

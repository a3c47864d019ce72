"""Progressive search: each tool that is found is subtracted from the query before the next is searched for.

Anantha et al. 2023, "ProTIP: Progressive Tool Retrieval Improves Planning".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Bounds the memory of a step: one similarity for each of these queries and each tool.
_QUERIES_AT_ONCE = 256


def progressive_search(
    queries: NDArray[np.float64], tools: NDArray[np.float64], steps: int, weight: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Step i takes the tool with the greatest dot product with q - weight · (t₁ + … + tᵢ₋₁), of those not yet taken.

    Of equals, the tool that is first in the library. Vectors have length 1, so that the nearest by distance has the
    greatest dot product.

    Args:
        queries: (queries, dimensions).
        tools: (tools, dimensions).
        steps: how many tools are taken; at most all there are.
        weight: how much of each tool's vector is subtracted.

    Returns:
        (queries, steps) the tool of each step, and its dot product with what was left of the query.
    """
    steps = min(steps, len(tools))
    taken = np.zeros((len(queries), steps), dtype=np.int64)
    products = np.zeros((len(queries), steps))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        left = queries[start : start + _QUERIES_AT_ONCE].copy()
        rows = np.arange(len(left))
        free = np.ones((len(left), len(tools)), dtype=np.bool_)
        for step in range(steps):
            # In single precision, equal vectors tie; argmax then has the first in the library.
            near = np.where(free, (left @ tools.T).astype(np.float32), -np.inf)
            best = near.argmax(axis=1)
            taken[start + rows, step] = best
            products[start + rows, step] = near[rows, best]
            free[rows, best] = False
            left -= weight * tools[best]
    return taken, products

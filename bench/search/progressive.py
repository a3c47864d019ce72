"""Progressive search: each found tool is subtracted from the query before the next search. Methods call it.

Anantha et al. 2023, "ProTIP: Progressive Tool Retrieval Improves Planning".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Maximum similarities of queries and tools in memory per step.
_QUERIES_AT_ONCE = 256


def progressive_search(
    queries: NDArray[np.float64], tools: NDArray[np.float64], steps: int, weight: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Step i takes the tool with the greatest dot product with q - weight · (t₁ + … + tᵢ₋₁), of those not yet taken.

    Of equals, the tool that is first in the library is taken. Vectors have length 1, so the nearest by distance has the
    greatest dot product.

    Args:
        queries: (queries, dimensions).
        tools: (tools, dimensions).
        steps: number of tools to take; at most all of them.
        weight: factor of each tool's vector in the subtraction.

    Returns:
        (queries, steps) the tool of each step, and its dot product with the remaining query.
    """
    steps = min(steps, len(tools))
    taken = np.zeros((len(queries), steps), dtype=np.int64)
    products = np.zeros((len(queries), steps))
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        left = queries[start : start + _QUERIES_AT_ONCE].copy()
        rows = np.arange(len(left))
        free = np.ones((len(left), len(tools)), dtype=np.bool_)
        for step in range(steps):
            # In single precision, equal vectors tie; argmax then takes the first in the library.
            near = np.where(free, (left @ tools.T).astype(np.float32), -np.inf)
            best = near.argmax(axis=1)
            taken[start + rows, step] = best
            products[start + rows, step] = near[rows, best]
            free[rows, best] = False
            left -= weight * tools[best]
    return taken, products

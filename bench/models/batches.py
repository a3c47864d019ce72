"""Batching texts by a token budget, padding included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def token_batches(lengths: Sequence[int] | NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Positions of texts, longest first, in batches of at most `budget` tokens once padded to their longest.

    Texts of about the same length are together, so that hardly any padding is computed. A text longer than the
    budget is a batch of its own. Texts of equal length keep their order.

    Args:
        lengths: tokens of each text.
        budget: at least 1.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        end = start + max(1, budget // longest)
        batches.append(order[start:end])
        start = end
    return batches

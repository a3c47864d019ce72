"""Learn from some past queries and choose a setting on others. Methods that tune themselves call it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import SPLITS
from bench.interface.views import History, Queries
from bench.search.dense import normalize
from bench.search.scoring import EmbeddingMethod

_SHARE = 0.2


def hold_out(history: History, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the history to fit methods on, and at most `most` rows to choose a setting on, each ascending.

    The dev split is held out or, without one, a fifth of the train split, chosen by the hash of the text, so that the
    same queries are held out whatever their order; equal texts stay on one side. Either part may be empty.
    """
    rows = np.flatnonzero(history.gold.counts)
    keys = np.array([text_key(history.texts[row]) for row in rows], dtype=np.float64)
    held = history.split[rows] == SPLITS.index("dev")
    if not held.any():
        held = keys < _SHARE
    chosen = np.flatnonzero(held)
    few = chosen[np.argsort(keys[chosen], kind="stable")[:most]]
    return rows[~held], rows[np.sort(few)]


def sample(history: History, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most `most` of these rows, ascending, the same ones whatever their order."""
    keys = np.array([text_key(history.texts[row]) for row in rows], dtype=np.float64)
    return np.sort(rows[np.argsort(-keys, kind="stable")[:most]])


def past_vectors(method: EmbeddingMethod, history: History, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(rows, dimensions) vectors of past queries, of length 1 or 0."""
    texts = tuple(history.texts[row] for row in rows)
    return normalize(method.query_vectors(Queries(texts, np.arange(len(texts)))))


def text_key(text: str) -> float:
    """A number in [0, 1) that depends only on the text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48

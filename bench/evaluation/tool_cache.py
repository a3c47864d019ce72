"""A cache of numbers per tool of a library: token counts, and which tools read the same. Scoring uses it.

The numbers depend only on the library, and take longer than scoring a run. They stay in memory with the dataset, and on
disk: keyed by the content of the dataset and the code that makes them, with a checksum, so that a damaged cache only
costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bench.base.config import current_session
from bench.data.dataset import Dataset
from bench.models.vectorcache import VectorCache, text_key

#: The cache stores float32, which represents smaller integers exactly.
_EXACT = 1 << 24
#: For each dataset in memory: kind, code, and whether the disk cache is used -> the numbers.
_IN_MEMORY: WeakKeyDictionary[Dataset, dict[tuple[str, str, bool], NDArray[np.int64]]] = WeakKeyDictionary()


def per_tool(dataset: Dataset, what: str, code: str, work_out: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
    """(tools,) integers, cached or computed; do not write to the array.

    Args:
        dataset: the dataset of the library.
        what: the kind of numbers.
        code: a hash of the code that makes them, and of everything else they depend on.
        work_out: computes the (tools,) numbers.

    Raises:
        StorageError: the cache cannot be used.
    """
    kept = _IN_MEMORY.setdefault(dataset, {})
    key = (what, code, current_session().cache)
    if key not in kept:
        kept[key] = _from_cache(dataset, what, code, work_out)
        kept[key].flags.writeable = False
    return kept[key]


def _from_cache(dataset: Dataset, what: str, code: str, work_out: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
    if not current_session().cache:
        return work_out()
    cache, key = VectorCache(f"per tool: {what}\n{code}"), text_key(dataset.content_hash)
    kept = cache.get([key]).get(key)
    if kept is not None and len(kept) == len(dataset.tools):
        return kept.astype(np.int64)
    values = work_out()
    if len(values) and np.abs(values).max() < _EXACT:
        cache.put({key: values.astype(np.float32)})
    return values

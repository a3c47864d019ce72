"""Numbers of each tool of a large library, which are worked out once and kept: tokens, and which tools read the same.

They depend on the library alone, and a million tools take minutes: more than to score a run. They are kept as long as
the dataset is in memory, and those of a large library in the cache: by the dataset's content and by the code that makes
them, with a checksum, so that a damaged cache costs time alone.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bench.base.config import current_session
from bench.data.dataset import Dataset
from bench.models.vectorcache import VectorCache, text_key

#: Smaller libraries are quicker to work out than to look up.
_LARGE = 10_000
#: The cache holds float32, in which smaller whole numbers are exact.
_EXACT = 1 << 24
#: For each dataset in memory: what, by which code, and whether with the cache -> the numbers.
_IN_MEMORY: WeakKeyDictionary[Dataset, dict[tuple[str, str, bool], NDArray[np.int64]]] = WeakKeyDictionary()


def per_tool(dataset: Dataset, what: str, code: str, work_out: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
    """(tools,) whole numbers, kept or worked out; not to be written to.

    Args:
        dataset: whose library it is.
        what: the kind of numbers.
        code: a hash of the code that makes them, and of all else that they depend on.
        work_out: gives (tools,) numbers.

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
    if len(dataset.tools) < _LARGE or not current_session().cache:
        return work_out()
    cache, key = VectorCache(f"per tool: {what}\n{code}"), text_key(dataset.content_hash)
    kept = cache.get([key]).get(key)
    if kept is not None and len(kept) == len(dataset.tools):
        return kept.astype(np.int64)
    values = work_out()
    if len(values) and np.abs(values).max() < _EXACT:
        cache.put({key: values.astype(np.float32)})
    return values

"""Convert NumPy arrays and lists of strings to Arrow arrays without pandas, for tables of datasets and results.

`pyarrow.array` imports pandas if it is installed, which takes longer than a cached run. Building arrays from buffers
imports neither pandas nor `pyarrow.compute`, which takes 0.1 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {"int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64()}

#: Above this number of strings, Arrow's `take` is faster, including its import.
_MANY = 50_000
#: Offsets have 32 bits.
_MOST_BYTES = (1 << 31) - 1


def numbers(values: NDArray[Any]) -> pa.Array:
    """int32, int64, float32 or float64 values; NaN becomes null."""
    valid = None
    if values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        valid = _bits(~missing)
    return pa.Array.from_buffers(_TYPES[values.dtype.name], len(values), [valid, pa.py_buffer(values.tobytes())])


def booleans(values: NDArray[np.bool_]) -> pa.Array:
    """Booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def strings(values: Sequence[str]) -> pa.Array:
    """Strings, none of them null."""
    return _of_bytes([value.encode() for value in values])


def texts(values: Sequence[str | None]) -> pa.Array | pa.ChunkedArray:
    """Strings; None becomes null. More than two gigabytes become several chunks."""
    encoded = [value.encode() if value else b"" for value in values]
    if sum(map(len, encoded)) > _MOST_BYTES:
        return pa.array(values, pa.string())
    known = np.array([value is not None for value in values], dtype=np.bool_)
    return _of_bytes(encoded, None if known.all() else _bits(known))


def text_lists(values: Sequence[Sequence[str]]) -> pa.Array | pa.ChunkedArray:
    """Lists of strings, none of them null."""
    flat = [text for row in values for text in row]
    if sum(map(len, flat)) > _MOST_BYTES // 4:
        return pa.array(values, pa.list_(pa.string()))
    return lists(np.cumsum([0, *map(len, values)]), strings(flat))


def _of_bytes(encoded: Sequence[bytes], valid: pa.Buffer | None = None) -> pa.Array:
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    buffers = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def chosen(values: Sequence[str], places: NDArray[np.integer[Any]]) -> pa.Array:
    """The strings at the given positions, none of them null."""
    if len(places) > _MANY:
        return strings(values).take(numbers(places))
    encoded = [value.encode() for value in values]
    return _of_bytes([encoded[place] for place in places.tolist()])


def lists(starts: NDArray[Any], values: pa.Array) -> pa.Array:
    """Lists: row i is `values[starts[i]:starts[i+1]]`."""
    return pa.ListArray.from_arrays(numbers(starts.astype(np.int32)), values)


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little").tobytes())

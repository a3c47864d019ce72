"""Built-in datasets, loaded once."""

from __future__ import annotations

from functools import cache

from bench.data.dataset import Dataset
from bench.registry import load_dataset


@cache
def loaded(spec: str) -> Dataset:
    """A built-in dataset that no test changes: loaded, and its rows made, once in a process."""
    return load_dataset(spec)

"""Built-in datasets, loaded once, or built and not stored."""

from __future__ import annotations

from functools import cache

from bench.data.dataset import Dataset
from bench.registry import load_dataset
from bench.registry.datasets import build_dataset, resolve


@cache
def loaded(spec: str) -> Dataset:
    """A built-in dataset that no test changes: loaded, and its rows made, once in a process."""
    return load_dataset(spec)


def built(spec: str) -> Dataset:
    """A built-in dataset made of upstream's files: storing one that a single test looks at takes as long again."""
    return build_dataset(*resolve(spec))

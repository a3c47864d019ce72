"""Datasets for tests: bench's own, loaded once or built and not stored; and small ones of a test's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Query, Tables, Tool
from bench.registry import load_dataset
from bench.registry.datasets import build_dataset, resolve

_CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")


@cache
def loaded(spec: str) -> Dataset:
    """A built-in dataset that no test changes: loaded, and its rows made, once in a process."""
    return load_dataset(spec)


def built(spec: str) -> Dataset:
    """A built-in dataset made of upstream's files: storing one that a single test looks at takes as long again."""
    return build_dataset(*resolve(spec))


def make_dataset(
    tools: Iterable[Tool], queries: Iterable[Query] = (), edges: Iterable[Edge] = (), **card: Any
) -> Dataset:
    """A dataset of a test's own. Its card says the least that a card can, but for the fields that `card` names."""
    chosen = _CARD.model_copy(update=card)
    return Dataset.build(chosen.id, chosen, Tables(list(tools), list(queries), list(edges)))

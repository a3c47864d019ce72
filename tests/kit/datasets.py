"""Datasets for tests: bench's own, loaded once or built and not stored; and small ones of a test's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.files import Files
from bench.data.tables import Edge, Query, Tables, Tool
from bench.registry import load_dataset
from bench.registry.datasets import build_dataset, resolve

_CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")


@cache
def loaded(spec: str) -> Dataset:
    """A built-in dataset that no test changes: loaded, and its rows made, once in a process."""
    return load_dataset(spec)


def of_upstream(spec: str) -> Any:
    """A fixture: a built-in dataset made of upstream's files, loaded once in a process."""

    @pytest.fixture
    def dataset(mirror: Path) -> Dataset:
        """The dataset, loaded once in a process."""
        return loaded(spec)

    return dataset


def built(spec: str) -> Dataset:
    """A built-in dataset made of upstream's files: storing one that a single test looks at takes as long again."""
    return build_dataset(*resolve(spec))


def make_dataset(
    tools: Iterable[Tool], queries: Iterable[Query] = (), edges: Iterable[Edge] = (), **card: Any
) -> Dataset:
    """A dataset of a test's own. Its card says the least that a card can, but for the fields that `card` names."""
    chosen = _CARD.model_copy(update=card)
    return Dataset.build(chosen.id, chosen, Tables(list(tools), list(queries), list(edges)))


def load_small(
    loader: ModuleType, folder: Path, card_id: str, contents: Mapping[str, object], options: object = None
) -> Tables:
    """What a loader makes of files of a test's own.

    Args:
        loader: the module of a built-in dataset.
        folder: where the files are written.
        card_id: the id of the dataset.
        contents: the content of each file by the name that the loader has for it: text, or what becomes JSON.
        options: the defaults if None.
    """
    paths = {}
    for number, (name, content) in enumerate(contents.items()):
        paths[name] = folder / str(number)
        paths[name].write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    entry = dataset_entry(card_id)
    chosen = entry.own_options()() if options is None else options
    tables: Tables = loader.load(Files(paths, folder), chosen, entry.card)
    assert isinstance(tables, Tables)
    return tables


def digest(text: str) -> str:
    """The start of a text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]

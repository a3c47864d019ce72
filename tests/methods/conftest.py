"""A small dataset made of texts, and methods prepared on it as the runner does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from kit.once import Once
from kit.results import of_this_run
from kit.runs import ran

from bench.base.spec import Spec
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Query, Split, Tables, Tool
from bench.interface import History, Library, Method
from bench.interface.parts import preflight
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method
from bench.results.store import StoredResult

CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")
Past = tuple[str, Sequence[str], Split]
Make = Callable[..., Dataset]


@pytest.fixture
def make() -> Make:
    """A dataset of tools (id -> description), past queries (text, gold, split), edges, and one test query."""

    def make(
        tools: Mapping[str, str], past: Sequence[Past] = (), edges: Sequence[tuple[str, str]] = (), test: str = "asked"
    ) -> Dataset:
        rows = [Tool(name, f"name of {name}", text) for name, text in tools.items()]
        queries = [
            Query(f"p{number:04}", text, dict.fromkeys(gold, 1), split)
            for number, (text, gold, split) in enumerate(past)
        ]
        queries.append(Query("test", test, {min(tools): 1}, "test"))
        return Dataset.build("made", CARD, Tables(rows, queries, [Edge(a, b, "result") for a, b in edges]))

    return make


@pytest.fixture
def prepared() -> Callable[..., Method]:
    """A method (or its spec) fitted and indexed on a dataset, the test split being evaluated."""

    def prepared(method: Method | str, dataset: Dataset) -> Method:
        built = build_method(method) if isinstance(method, str) else method
        library = Library.of(dataset, dataset.card.template)
        history = History.of(dataset, library, dataset.rows("test"))
        preflight(built, library, history)
        built.fit(history)
        built.index(library)
        return built

    return prepared


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Mapping[str, Sequence[float]]], None]:
    """Give texts vectors of our own in the embedding cache: the encoder then answers with these, without a model."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))

    def plant(vectors: Mapping[str, Sequence[float]]) -> None:
        cache = VectorCache(Encoder(EMBEDDED).identity)
        cache.put({text_key(text): np.array(vector, dtype=np.float32) for text, vector in vectors.items()})
        cache.close()

    return plant


@pytest.fixture(scope="session")
def example() -> str:
    """The command line of the example of a program that searches."""
    return f"{sys.executable} {Path(__file__).resolve().parents[2] / 'docs' / 'examples' / 'search.py'}"


@pytest.fixture(scope="session")
def expected(example: str, once: Once, shared_cache: Path) -> StoredResult:
    """What it answers, as other programs and services must."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache):
            ran(folder, Spec.of("command", {"run": example}))

    (path,) = once("search-py", make).glob("*/*/manifest.json")
    return StoredResult.read(path.parent)

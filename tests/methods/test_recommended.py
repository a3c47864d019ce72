"""`recommended` is its recipe and learns nothing; what it was chosen on, and how that is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from kit.datasets import loaded
from kit.programs import program

from bench.data.dataset import Dataset
from bench.interface import History, Library, Method, Queries
from bench.interface.parts import has_chance, learns, methods_of, needs_history, needs_llm
from bench.methods.recommended import RECIPE
from bench.registry import build_method

ROOT = Path(__file__).resolve().parent.parent.parent
Make = Callable[..., Dataset]
Prepared = Callable[..., Method]


@pytest.fixture(scope="module")
def choice() -> ModuleType:
    """The benchmark as a module."""
    return program("benchmarks/recommended.py")


def test_it_ranks_as_its_recipe(prepared: Prepared) -> None:
    data = loaded("starter")
    queries = Queries.of(data, data.rows("test")[:20])
    result, recipe = (prepared(spec, data).rank(queries, 10) for spec in ("recommended", RECIPE))
    assert result.tools.tobytes() == recipe.tools.tobytes()
    assert result.scores is not None
    assert recipe.scores is not None
    assert result.scores.tobytes() == recipe.scores.tobytes()
    assert result.tools.shape == (20, 10)


def test_it_learns_and_draws_and_asks_nothing() -> None:
    method = build_method("recommended")
    assert [part.name for part in methods_of(method)] == [
        *("recommended", "hybrid", "names", "hybrid", "bm25-fields", "dense")
    ]
    assert not any(learns(part) for part in methods_of(method))
    assert not needs_history(method)
    assert not needs_llm(method)
    assert not has_chance(method)
    # A hybrid that may learn its weight still says so.
    assert learns(build_method("hybrid"))
    assert not learns(build_method("hybrid(learn=false)"))


def test_past_queries_change_nothing(make: Make, prepared: Prepared) -> None:
    tools = {"a": "sends a letter", "b": "reads a letter", "c": "draws a map"}
    without = make(tools, test="letter")
    with_past = make(tools, [("letter", ["c"], "train"), ("a letter", ["c"], "dev")], test="letter")
    rankings = [
        prepared("recommended", data).rank(Queries(("letter",), np.arange(1)), 3) for data in (without, with_past)
    ]
    assert rankings[0].tools.tolist() == rankings[1].tools.tolist()


def test_it_was_chosen_on_past_queries_alone(choice: ModuleType) -> None:
    data = loaded("starter")
    rows = choice.past_rows(data, 300)
    test = set(data.rows("test").tolist())
    assert len(rows) > 100
    assert not test & set(rows.tolist())
    assert choice.past_rows(data, 7).tolist() == sorted(choice.past_rows(data, 7).tolist())
    assert set(choice.past_rows(data, 7).tolist()) <= set(rows.tolist())
    assert RECIPE.replace("methods=[bm25-fields, dense], ", "") in choice.CANDIDATES


def test_the_values_are_those_of_a_method_without_history(choice: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    data = loaded("starter")
    rows = choice.past_rows(data, 30)
    library = Library.of(data, data.card.template)
    seen: list[int] = []

    class Watched:
        def __init__(self, method: Method) -> None:
            self.method = method
            self.batch_size = 16

        def fit(self, history: History) -> None:
            seen.append(len(history))

        def __getattr__(self, name: str) -> object:
            return getattr(self.method, name)

    monkeypatch.setattr(choice, "build_method", lambda spec: Watched(build_method(spec)))
    values = choice.values_of("bm25", data, rows, "recall@5")
    assert seen == [0]
    method = build_method("bm25")
    method.index(library)
    ranked = method.rank(Queries.of(data, rows), 5).tools
    expected = [
        len(set(ranked[place].tolist()) & set(gold := data.gold.row(int(row)).tolist())) / len(gold)
        for place, row in enumerate(rows)
    ]
    assert values.tolist() == pytest.approx(expected)

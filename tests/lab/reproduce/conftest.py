"""A small world to reproduce in: a tiny dataset, methods whose answers are known, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.base.errors import UnavailableError
from bench.base.spec import Spec
from bench.data.card import Card, Unit
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.interface import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.lab.reproduce.cells import PrintedCell
from bench.lab.reproduce.recipes import Recipe
from bench.lab.reproduce.runs import MethodRuns
from bench.registry import build_method

CARD = Card(
    id="tiny",
    title="Tiny",
    summary="Made here.",
    licence="CC0-1.0",
    redistribution=True,
    template="description",
    # So that sign vectors can be counted by hand.
    unit=Unit(by=[], reason="the answers are drawn query by query"),
)


@pytest.fixture(scope="session")
def tiny() -> Dataset:
    """Ten tools and 40 test queries of one gold tool each: every fourth of the slice kind=odd, half of part=early."""
    tools = [Tool(f"t{i}", f"tool {i}", f"Does thing {i}.") for i in range(10)]
    queries = [
        Query(
            f"q{i:02}",
            f"request {i}",
            {f"t{i % 10}": 1},
            "test",
            {"kind": "odd" if i % 4 == 0 else "even", "part": "early" if i < 20 else "late"},
        )
        for i in range(40)
    ]
    return Dataset.build("tiny", CARD, Tables(tools, queries))


class Fixed(Method):
    """Puts the gold tool first for the share of queries that its name says, and last for the others."""

    share = 0.0

    def index(self, library: Library) -> None:
        self._tools = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        rows = []
        for text in queries.texts:
            number = int(text.split()[1])
            gold = number % 10
            others = [tool for tool in range(self._tools) if tool != gold]
            rows.append(([gold, *others] if self.right(number) else [*others, gold])[:depth])
        return Ranking.of_lists(rows)

    def right(self, number: int) -> bool:
        return number < 40 * self.share

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"connected_share": 0.5}


class Half(Fixed):
    """Right on the first half of the queries."""

    share = 0.5


class Most(Fixed):
    """Right on nine of ten."""

    share = 0.9


class Same(Fixed):
    """As Half, under another name."""

    share = 0.5


class Turned(Half):
    """The tools that are not gold the other way round."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        rows = []
        for text, row in zip(queries.texts, super().rank(queries, depth).tools.tolist(), strict=True):
            gold = int(text.split()[1]) % 10
            others = [tool for tool in reversed(row) if tool != gold]
            rows.append([gold, *others] if row[0] == gold else [*others, gold])
        return Ranking.of_lists(rows)


class Level(Fixed):
    """Scores fall from tool to tool, but for the last two, which differ by rounding alone."""

    order = (8, 9)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        tools = np.tile(np.array([*range(8), *self.order], dtype=np.int32), (len(queries.texts), 1))
        scores = np.tile(np.array([*np.linspace(1.0, 0.5, 9), 0.5 - 1e-9]), (len(queries.texts), 1))
        return Ranking(tools[:, :depth], scores[:, :depth])


class Rounded(Level):
    """As Level, by another formula."""

    order = (9, 8)


class Narrow(Half):
    """Recommends one tool."""

    size = 1

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([np.arange(self.size, dtype=np.int32) for _ in queries.texts])


class Wide(Narrow):
    """Recommends three."""

    size = 3


class Silent(Half):
    """Answers nothing to every eighth query."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = super().rank(queries, depth)
        silent = [int(text.split()[1]) % 8 == 0 for text in queries.texts]
        rows = [[] if none else row.tolist() for row, none in zip(ranking.tools, silent, strict=True)]
        return Ranking.of_lists(rows, silent)


class Missing(Fixed):
    """Needs a model that is not here."""

    def preflight(self, library: Library, history: History) -> None:
        raise UnavailableError("there is no encoder here.")


class Broken(Fixed):
    """Has a fault."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        raise ZeroDivisionError("division by zero")


METHODS: dict[str, type[Method]] = {
    "half": Half,
    "most": Most,
    "same": Same,
    "turned": Turned,
    "level": Level,
    "rounded": Rounded,
    "narrow": Narrow,
    "wide": Wide,
    "silent": Silent,
    "missing": Missing,
    "broken": Broken,
}


@pytest.fixture
def runs(tmp_path: Path, tiny: Dataset) -> Callable[..., MethodRuns]:
    """Runs over the tiny dataset (as `tiny` or `tiny-2`) and the methods of this module."""

    def runs(*metrics: str) -> MethodRuns:
        def load(spec: Spec) -> Dataset:
            if spec.name in {"tiny", "tiny-2"}:
                return tiny
            raise UnavailableError(f"there is no dataset {spec} here.")

        def build(spec: Spec) -> Method:
            if spec.name not in METHODS:
                return build_method(spec)
            method = METHODS[spec.name](METHODS[spec.name].Parameters(), Context(build_method))
            method.name = spec.name
            return method

        return MethodRuns(tmp_path / "results", load=load, build=build, metrics=metrics)

    return runs


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[PrintedCell], Sequence[dict[str, Any]]], None]:
    """Put cells and recipes of the test's own in the place of the papers'; the table is called tgr-2."""

    def written(cells: Sequence[PrintedCell], recipes: Sequence[dict[str, Any]]) -> None:
        monkeypatch.setattr("bench.lab.reproduce.cells.cells", lambda: tuple(cells))
        made = tuple(Recipe.model_validate({"table": "tgr-2", **recipe}) for recipe in recipes)
        monkeypatch.setattr("bench.lab.reproduce.recipes.recipes", lambda: made)

    return written

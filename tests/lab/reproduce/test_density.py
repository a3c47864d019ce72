"""What `benchmarks/density.py` refuses: libraries that differ, and too few categories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from kit.programs import program

from bench.base.errors import UsageError
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool

ROOT = Path(__file__).parents[3]
CARD = Card(id="two", title="Two", summary="Made here.", licence="CC0-1.0", redistribution=True, template="description")


@pytest.fixture(scope="module")
def density() -> ModuleType:
    """The benchmark as a module."""
    return program("benchmarks/density.py")


def made(name: str, tools: list[Tool], request_text: str) -> Dataset:
    return Dataset.build(name, CARD, Tables(tools, [Query("q", request_text, {"a": 1}, "test")]))


TOOLS = [Tool("a", "one", "Does one thing.", category="X"), Tool("b", "two", "Does another.", category="Y")]


def test_datasets_of_one_library_are_taken_together(density: ModuleType) -> None:
    datasets = {"first": made("first", TOOLS, "one please"), "second": made("second", TOOLS, "another, please")}
    assert density.same_library(["first", "second"], datasets.__getitem__) == list(datasets.values())


@pytest.mark.parametrize(
    "tools",
    [
        TOOLS[:1],
        [TOOLS[0], replace(TOOLS[1], description="Does a third.")],
        # The category is no part of the text, but it is what the densities are taken by.
        [TOOLS[0], replace(TOOLS[1], category="Z")],
    ],
)
def test_a_dataset_of_another_library_is_refused(density: ModuleType, tools: list[Tool]) -> None:
    datasets = {"first": made("first", TOOLS, "one please"), "second": made("second", tools, "one please")}
    with pytest.raises(UsageError, match="second has another library than first"):
        density.same_library(["first", "second"], datasets.__getitem__)


def test_fewer_than_three_categories_are_not_correlated(density: ModuleType) -> None:
    density.enough(3, 5)
    with pytest.raises(UsageError, match="only 2 categories have 5 queries or more"):
        density.enough(2, 5)

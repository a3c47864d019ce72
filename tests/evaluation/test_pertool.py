"""Numbers of each tool of a library are worked out once, and never taken from a damaged or another cache."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.data.dataset import Dataset
from bench.evaluation.lenient import lenient_gold
from bench.evaluation.scoring import _ToolTokens
from bench.evaluation.tool_cache import per_tool
from bench.models.vectorcache import VectorCache
from bench.registry import load_dataset


@pytest.fixture
def starter() -> Dataset:
    """The embedded dataset."""
    return load_dataset("starter")


class Counter:
    """Says how often the numbers were worked out."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.numbers, self.asked = numbers, 0

    def __call__(self) -> NDArray[np.int64]:
        self.asked += 1
        return self.numbers


def test_numbers_are_worked_out_once_for_a_kind_and_its_code(starter: Dataset) -> None:
    work = Counter(np.arange(len(starter.tools)) - 1)
    for _ in range(3):
        np.testing.assert_array_equal(per_tool(replace(starter), "kind", "code", work), work.numbers)
    assert work.asked == 1
    per_tool(starter, "kind", "other code", work)
    per_tool(starter, "other kind", "code", work)
    assert work.asked == 3
    with config_context(cache=False):
        per_tool(starter, "kind", "code", work)
    assert work.asked == 4


def test_numbers_that_the_cache_cannot_hold_are_not_kept(starter: Dataset) -> None:
    work = Counter(np.full(len(starter.tools), 2**24 + 1))
    assert all((per_tool(replace(starter), "large", "", work) == 2**24 + 1).all() for _ in range(2))
    assert work.asked == 2


def test_numbers_are_kept_as_long_as_the_dataset_and_cannot_be_written_to() -> None:
    small = load_dataset("starter")
    work = Counter(np.arange(len(small.tools)))
    with config_context(cache=False):
        per_tools = [per_tool(small, "small", "code", work) for _ in range(2)]
        assert work.asked == 1
        assert not per_tools[1].flags.writeable
        per_tool(replace(small), "small", "code", work)
    assert work.asked == 2
    alive = weakref.ref(small)
    del small
    gc.collect()
    assert alive() is None


def test_a_damaged_entry_is_worked_out_again(starter: Dataset) -> None:
    work = Counter(np.arange(len(starter.tools)))
    per_tool(starter, "damaged", "", work)
    path = VectorCache("per tool: damaged\n").path
    data = bytearray(path.read_bytes())
    place = data.rindex(np.arange(len(starter.tools), dtype="<f4").tobytes()[:64])
    data[place + 3] ^= 0xFF
    path.write_bytes(bytes(data))
    np.testing.assert_array_equal(per_tool(replace(starter), "damaged", "", work), work.numbers)
    assert work.asked == 2


def test_scoring_has_the_same_numbers_with_and_without(starter: Dataset) -> None:
    rows = starter.rows("test")
    with config_context(cache=False):
        tokens, gold = _ToolTokens.of(starter, "description"), lenient_gold(starter, rows)
    for again in (replace(starter), replace(starter)):
        result = _ToolTokens.of(again, "description")
        np.testing.assert_array_equal(result.texts, tokens.texts)
        np.testing.assert_array_equal(result.definitions, tokens.definitions)
        np.testing.assert_array_equal(lenient_gold(again, rows).members, gold.members)

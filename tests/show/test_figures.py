"""The parts of charts: scales meet their ends, ticks and names stay where they belong, and names stay text."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.show.figures import (
    DASHES,
    apart,
    columns,
    dash_attribute,
    document,
    linear,
    logarithmic,
    pad_range,
    path,
    rows,
    text,
    ticks,
    tip,
    within_page,
)

VALUES = st.floats(-5, 5)
SVG = "{http://www.w3.org/2000/svg}"


@given(VALUES, VALUES)
def test_scales_meet_their_ends(low: float, high: float) -> None:
    assume(high - low > 1e-6)
    scale = linear(low, high, 40, 500)
    assert (scale(low), scale(high)) == pytest.approx((40, 500))
    ratio = logarithmic(10, 1000, 0, 100)
    assert (ratio(10), ratio(100), ratio(1000)) == pytest.approx((0, 50, 100))


@given(VALUES, VALUES)
def test_ticks_are_round_few_and_within_the_range(first: float, second: float) -> None:
    low, high = pad_range(min(first, second), max(first, second))
    assert low < high
    found = ticks(low, high)
    assert len(found) < 9
    assert found == sorted(found)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert all(len(f"{abs(tick):g}") <= 5 and f"{tick:g}" != "-0" for tick in found)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12).map(sorted))
def test_places_are_a_gap_apart_and_within_the_borders(places: list[float]) -> None:
    found = apart(places, 18, 0, 300)
    assert all(second - first >= 18 - 1e-9 for first, second in pairwise(found))
    assert min(found) >= 0 - 1e-9
    assert max(found) <= 300


@given(st.text(max_size=200))
def test_names_are_text_in_both_kinds_of_charts(name: str) -> None:
    parts = [text(1, 2, name, "note"), f"<g>{tip(name)}</g>", *columns([0.5], linear(0, 1, 0, 9), 0, 9)]
    parts += rows([0.5], linear(0, 1, 0, 9), 0, 9)
    for chart in (document(name, parts, 100, 50), within_page(name, parts, 100, 50)):
        root = ElementTree.fromstring(chart)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "style", "rect", "text", "g", "title", "path"}
        assert root.get("role") == "img"


def test_small_parts() -> None:
    assert path([(0, 1), (2.25, 3)]) == "M0.0,1.0L2.2,3.0"
    assert dash_attribute(0) == ""
    assert dash_attribute(1) == f' stroke-dasharray="{DASHES[1]}"'
    assert re.search(r"<style>.*\.mine", document("t", [], 10, 10, "\n.mine {}"), re.DOTALL)

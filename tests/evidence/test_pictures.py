"""Pictures of comparisons: well-formed, to scale, and with every name as text."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from bench.evidence.pictures import draw
from bench.evidence.report import Comparison

Make = Callable[..., Comparison]
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_means_stand_at_their_places_best_first(make: Make) -> None:
    root = ElementTree.fromstring(draw(make()))
    dots = [float(dot.attrib["cx"]) for dot in root.iter(f"{SVG}circle")]
    # 0.7, 0.5 and 0.4: twice as far from the first to the second as from the second to the third.
    assert dots[0] > dots[1] > dots[2]
    assert (dots[0] - dots[1]) / (dots[1] - dots[2]) == pytest.approx(2, abs=0.01)
    found = texts(draw(make()))
    assert found.index("other") < found.index("base") < found.index("third")
    assert found.count("tier 1") == found.count("tier 2") == 1


def test_a_single_constant_system_can_be_drawn(make: Make) -> None:
    report = make(names=("a", "b"), means=(0.5, 0.5), corrected=(1.0,), tiers=(1, 1))
    assert {"a", "b", "tier 1"} <= set(texts(draw(report)))


def test_critical_differences_join_what_cannot_be_told_apart(make: Make) -> None:
    report = make(macro=True)
    root = ElementTree.fromstring(draw(report))
    bars = [item for item in root.iter(f"{SVG}line") if item.get("class") == "group"]
    # The scale of the critical difference, and bars for ranks 1.25-2.25 and 2.25-3.25.
    assert len(bars) == 3
    scale, first, second = ((float(bar.attrib["x1"]), float(bar.attrib["x2"])) for bar in bars)
    unit = (scale[1] - scale[0]) / 1.5
    assert first[1] - first[0] - 8 == pytest.approx(unit, abs=0.3)
    assert second[0] - first[0] == pytest.approx(unit, abs=0.3)
    assert "critical difference 1.50" in texts(draw(report))


def test_hostile_names_are_text(make: Make) -> None:
    name = '<script>"&\x00\x1b' + "x" * 100
    for macro in (False, True):
        svg = draw(make(names=("base", name, "third"), macro=macro))
        assert "<script>" not in svg
        assert any(text.endswith("…") and '<script>"&' in text for text in texts(svg))

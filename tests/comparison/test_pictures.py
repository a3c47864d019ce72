"""Pictures of comparisons: well-formed, to scale, and with every name as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import pytest

from bench.comparison.figures import draw
from bench.comparison.report import Comparison, MacroStanding

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
    result = texts(draw(make()))
    assert result.index("other") < result.index("base") < result.index("third")
    assert [item for item in result if "–" in item or item == "3"] == ["1–2", "2–3", "3"]


def test_every_row_has_its_dot_and_whisker_between_the_ends_of_the_axis(make: Make) -> None:
    root = ElementTree.fromstring(draw(make()))
    (axis,) = (line for line in root.iter(f"{SVG}line") if line.get("class") == "axis")
    left, right, bottom = (float(axis.attrib[name]) for name in ("x1", "x2", "y1"))
    (grid, *_) = (line for line in root.iter(f"{SVG}path") if line.get("class") == "grid")
    top = float(grid.attrib["d"].partition(",")[2].partition("V")[0])
    dots = list(root.iter(f"{SVG}circle"))
    whiskers = [line for line in root.iter(f"{SVG}line") if line.get("class") == "whisker"]
    row = (bottom - top) / len(dots)
    for i, (dot, whisker) in enumerate(zip(dots, whiskers, strict=True)):
        assert left <= float(whisker.attrib["x1"]) < float(dot.attrib["cx"]) < float(whisker.attrib["x2"]) <= right
        assert float(whisker.attrib["y1"]) == float(dot.attrib["cy"]) == top + (i + 0.5) * row


def test_a_single_constant_system_can_be_drawn(make: Make) -> None:
    report = make(names=("a", "b"), means=(0.5, 0.5), corrected=(1.0,))
    assert {"a", "b", "1–2"} <= set(texts(draw(report)))


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


def ranked(make: Make, ranks: Sequence[float], critical: float) -> ElementTree.Element:
    """A picture of critical differences of systems with these mean ranks."""
    report = make(macro=True)
    standings = [MacroStanding(system=f"s{i}", mean=0.5, low=0.1, high=0.9, rank=rank) for i, rank in enumerate(ranks)]
    over = report.macro[0].model_copy(update={"standings": standings, "critical": critical})
    return ElementTree.fromstring(draw(report.model_copy(update={"macro": [over]})))


@pytest.mark.parametrize(
    ("ranks", "critical", "joined"),
    [
        ((1, 2, 3, 4), 0.9, []),
        ((1, 2, 3, 4), 1.1, [(1, 2), (2, 3), (3, 4)]),
        ((1, 2, 3, 4), 5, [(1, 4)]),
        # Ranks 2 and 3 are within the bar from 1, and have none of their own.
        ((1, 2, 3, 5), 2.1, [(1, 3), (3, 5)]),
        ((1, 1.5, 3.75, 3.75), 1, [(1, 1.5), (3.75, 3.75)]),
    ],
)
def test_only_the_largest_sets_of_systems_have_a_bar(
    make: Make, ranks: Sequence[float], critical: float, joined: list[tuple[float, float]]
) -> None:
    root = ranked(make, ranks, critical)
    axis = next(line for line in root.iter(f"{SVG}line") if line.get("class") == "axis")
    left, right = float(axis.attrib["x1"]), float(axis.attrib["x2"])
    _, *bars = (line for line in root.iter(f"{SVG}line") if line.get("class") == "group")
    unit = (right - left) / (len(ranks) - 1)
    # A bar reaches 4 pixels past the ranks at its ends.
    collected = [((float(bar.attrib["x1"]) + 4, float(bar.attrib["x2"]) - 4)) for bar in bars]
    expected = [(left + (first - 1) * unit, left + (last - 1) * unit) for first, last in joined]
    assert collected == [pytest.approx(ends, abs=0.1) for ends in expected]


@pytest.mark.parametrize(("critical", "share"), [(1.5, 0.75), (2, 1), (7, 1)])
def test_the_scale_of_the_critical_difference_is_no_longer_than_the_axis(
    make: Make, critical: float, share: float
) -> None:
    root = ranked(make, (1, 2, 3), critical)
    axis = next(line for line in root.iter(f"{SVG}line") if line.get("class") == "axis")
    scale = next(line for line in root.iter(f"{SVG}line") if line.get("class") == "group")
    length, whole = (float(line.attrib["x2"]) - float(line.attrib["x1"]) for line in (scale, axis))
    assert length == pytest.approx(share * whole, abs=0.1)


def test_names_of_ranked_systems_start_at_the_left_edge_or_end_at_the_right(make: Make) -> None:
    root = ranked(make, (1, 2, 3, 4), 0.5)
    axis = next(line for line in root.iter(f"{SVG}line") if line.get("class") == "axis")
    names = [text for text in root.iter(f"{SVG}text") if (text.text or "").endswith(("s0", "s1", "s2", "s3"))]
    assert [(float(text.attrib["x"]), text.get("class")) for text in names] == [
        *[(float(axis.attrib["x1"]), None)] * 2,
        *[(float(axis.attrib["x2"]), "end")] * 2,
    ]


def test_texts_are_cut_at_120_signs(make: Make) -> None:
    report = make(macro=True)
    over = report.macro[0].model_copy(update={"datasets": [f"dataset-{i}" for i in range(40)]})
    result = texts(draw(report.model_copy(update={"macro": [over]})))
    assert max(map(len, result)) == 120


def test_hostile_names_are_text(make: Make) -> None:
    name = '<script>"&\x00\x1b' + "x" * 100
    for macro in (False, True):
        svg = draw(make(names=("base", name, "third"), macro=macro))
        assert "<script>" not in svg
        assert any(text.endswith("…") and '<script>"&' in text for text in texts(svg))

"""Pictures: well-formed, escaped, within their frame; the front is what nothing beats."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.leaderboard.pages import charts
from bench.results.manifest import MetricValue
from bench.show.figures import fit_names

HOSTILE = '</text><script>alert("x")</script>&\x00\u202e'
_UNIT = st.floats(0, 1)
_COST = st.floats(1e-6, 1e6)
_POINTS = st.lists(st.tuples(_COST, _UNIT), min_size=1, max_size=30).map(
    lambda pairs: [charts.ChartPoint(f"m{i}", cost, quality) for i, (cost, quality) in enumerate(pairs)]
)


def _numbers(svg: str) -> list[float]:
    return [float(value) for value in re.findall(r'(?:cx|cy|x|y)="(-?[\d.]+)"', svg)]


@given(_POINTS)
def test_the_front_is_all_that_nothing_beats(points: list[charts.ChartPoint]) -> None:
    front = charts.front(points)
    for point in points:
        beaten = any(
            other.cost <= point.cost
            and other.quality >= point.quality
            and (other.cost, other.quality) != (point.cost, point.quality)
            for other in points
        )
        same = any((other.cost, other.quality) == (point.cost, point.quality) for other in front)
        assert same != beaten


@given(_POINTS)
def test_a_cost_picture_stays_in_its_frame(points: list[charts.ChartPoint]) -> None:
    svg = charts.cost_picture("t", points, "cost", "quality", str)
    root = ElementTree.fromstring(svg)
    height = float(root.attrib["height"])
    assert all(-1 <= value <= max(charts.WIDTH, height) + 1 for value in _numbers(svg))


@given(_POINTS)
def test_every_line_of_a_grid_is_between_the_axes(points: list[charts.ChartPoint]) -> None:
    lines = charts.Series("a", tuple((k, point.quality) for k, point in enumerate(points, 1)))
    bars = [charts.Bar(point.name, point.quality, None, None, None) for point in points]
    drawn = [
        (charts.cost_picture("t", points, "cost", "quality", str), 52, charts.WIDTH - 16, 330 + 9 * 16),
        (charts.curves("t", [lines], "recall@k"), 52, charts.WIDTH - 200, 330),
        (charts.rank_picture("t", bars), 267, charts.WIDTH - 16, 14 + 24 * len(bars)),
    ]
    for svg, left, right, bottom in drawn:
        for x, y in re.findall(r'class="grid" d="M(-?[\d.]+),(-?[\d.]+)[HV]', svg):
            assert left <= float(x) <= right
            assert 14 <= float(y) <= bottom


def test_a_name_is_led_to_from_the_end_of_its_curve() -> None:
    lines = [charts.Series("a", ((1, 0.2), (5, 0.4), (10, 0.9))), charts.Series("b", ((1, 0.1), (10, 0.3)))]
    svg = charts.curves("t", lines, "recall@k")
    matches = re.findall(r'class="line" d="\S*,([\d.]+)"[^>]*/>\s*<path class="leader" d="M[\d.]+,([\d.]+)L', svg)
    assert len(matches) == 2
    assert all(end == start for end, start in matches)


@given(st.lists(st.tuples(_UNIT, _UNIT, _UNIT, st.integers(1, 5)), min_size=1, max_size=40))
def test_a_rank_picture_has_a_dot_for_each_method(rows: list[tuple[float, float, float, int]]) -> None:
    bars = [
        charts.Bar(f"m{i}", mean, min(mean, a), max(mean, b), (rank, 9)) for i, (mean, a, b, rank) in enumerate(rows)
    ]
    root = ElementTree.fromstring(charts.rank_picture("t", bars))
    dots = root.findall("circle")
    assert len(dots) == len(bars)
    # Between the names and the border.
    assert all(267 <= float(dot.attrib["cx"]) <= charts.WIDTH - 16 for dot in dots)


def test_whichever_place_a_label_finds_it_is_as_far_from_its_point() -> None:
    taken: list[tuple[float, float, float]] = []
    collected = []
    while "lead" not in (label := charts._place_label("name", 300, 100, 600, 330, taken, [])):
        (text,) = ElementTree.fromstring(f"<g>{label}</g>")
        collected.append((float(text.attrib["x"]) - 300, text.get("class")))
    assert collected == [(9, None), (-9, "end"), (9, None)]
    # Farther off, a line leads from the point to where its name begins.
    line, text = ElementTree.fromstring(f"<g>{label}</g>")
    end = re.fullmatch(r"M300.0,100.0L([\d.]+),([\d.]+)", line.attrib["d"])
    assert end is not None
    assert (float(end[1]), float(end[2]) + 4) == (float(text.attrib["x"]), float(text.attrib["y"]))


def test_a_label_covers_no_line_and_none_leads_across_it_where_there_is_room() -> None:
    # A line passes next to the point on its right, so that the label is on its left.
    lines = [(300.0 + step, 100.0) for step in range(0, 200, 3)]
    (text,) = ElementTree.fromstring(f"<g>{charts._place_label('name', 300, 100, 600, 330, [], lines)}</g>")
    assert text.get("class") == "end"
    # Everywhere a line, and still a name.
    everywhere = [(float(x), float(y)) for x in range(0, 600, 5) for y in range(0, 330, 5)]
    assert "name" in charts._place_label("name", 300, 100, 600, 330, [], everywhere)
    # With labels all around the point, the line to a label that is farther off crosses none of them.
    taken = [
        (200.0, 290.0, 100.0),
        (200.0, 290.0, 120.0),
        (310.0, 420.0, 88.0),
        (310.0, 420.0, 104.0),
        (310.0, 420.0, 122.0),
    ]
    taken += [(200.0, 290.0, 84.0), (250.0, 350.0, 140.0)]
    around, led = list(taken), list[tuple[float, float]]()
    assert 'class="lead"' in charts._place_label("name", 300, 100, 600, 330, taken, led)
    assert led
    assert not [spot for spot in led[1:-1] for a, b, y in around if a < spot[0] < b and y - 11 < spot[1] < y + 4]


def test_numbers_below_an_axis_do_not_overlap() -> None:
    points = [charts.ChartPoint("a", 0.001, 0.2), charts.ChartPoint("b", 0.09, 0.5), charts.ChartPoint("c", 0.1, 0.6)]
    svg = charts.cost_picture("t", points, "cost", "quality", lambda value: f"{value:.5f} seconds")
    ends = [0.0]
    for x, name in re.findall(r'<text x="([\d.]+)"[^>]*>([\d.]+ seconds)<', svg):
        assert float(x) - 3.5 * len(name) >= ends[-1] - 0.2
        ends.append(float(x) + 3.5 * len(name))
    assert len(ends) > 2


@example(
    # Many of few costs: the places next to them are not enough.
    points=[
        charts.ChartPoint(f"m{i}", cost, quality)
        for i, (cost, quality) in enumerate(
            zip(
                (731, 2, 2, 557, 1, 557, 557, 2, 245086, 1616, 605, 2, 60, 1, 922, 1, 1e-06),
                (0.0625, 0.75, 1, 0, 0, 0, 0, 0.25, 0, 0.9375, 1, 1, 0, 0, 0.5, 0.0625, 0),
                strict=True,
            )
        )
    ]
)
@given(_POINTS)
def test_every_point_has_a_name_and_no_name_covers_another(points: list[charts.ChartPoint]) -> None:
    points = [charts.ChartPoint(f"method {point.name} of many", point.cost, point.quality) for point in points]
    root = ElementTree.fromstring(charts.cost_picture("t", points, "cost", "quality", str))
    names = [text for text in root.iter("text") if (text.text or "").startswith("method ")]
    assert sorted(text.text or "" for text in names) == sorted(point.name for point in points)
    boxes = []
    for text in names:
        width, x = 7.0 * len(text.text or ""), float(text.attrib["x"])
        start = x - width if text.get("class") == "end" else x
        boxes.append((start, start + width, float(text.attrib["y"])))
    for i, (start, end, y) in enumerate(boxes):
        assert 50 <= start < end <= charts.WIDTH
        assert all(abs(y - row) > 13.8 or start > b - 0.2 or end < a + 0.2 for a, b, row in boxes[:i])


def test_long_names_that_begin_alike_can_be_told_apart() -> None:
    names = ["Reranking, the model of somebody (depth=10)", "Reranking, the model of somebody (depth=50)", "Dense"]
    assert fit_names(names, 20) == ["Reranking…(depth=10)", "Reranking…(depth=50)", "Dense"]
    assert fit_names(names[:1], 20) == ["Reranking, the mode…"]


def test_curves_end_where_they_still_differ() -> None:
    lines = [
        charts.Series("a", ((1, 0.3), (5, 0.8), (10, 0.9), (100, 1.0))),
        charts.Series("b", ((1, 0.2), (5, 0.5), (10, 0.7), (100, 1.0))),
    ]
    root = ElementTree.fromstring(charts.curves("t", lines, "recall@k"))
    numbers = [text.text for text in root.iter("text") if "middle" in (text.get("class") or "")]
    assert "10" in numbers
    assert "100" not in numbers


def test_names_are_text_and_nothing_else() -> None:
    bar = charts.Bar(HOSTILE, 0.5, 0.4, 0.6, (1, 2))
    point = charts.ChartPoint(HOSTILE, 1.0, 0.5)
    line = charts.Series(HOSTILE, ((1, 0.2), (5, 0.4)))
    for svg in (
        charts.rank_picture(HOSTILE, [bar]),
        charts.cost_picture(HOSTILE, [point], HOSTILE, HOSTILE, lambda value: HOSTILE),
        charts.curves(HOSTILE, [line], HOSTILE),
        charts.steps(HOSTILE, [(1.0, 0.5)], HOSTILE, HOSTILE),
    ):
        root = ElementTree.fromstring(svg)
        assert not [item for item in root.iter() if item.tag == "script"]
        assert "\u202e" not in svg


@given(st.lists(st.tuples(st.integers(1, 50), _UNIT), min_size=1, max_size=60))
def test_the_area_under_drawn_steps_is_that_of_the_function(pairs: list[tuple[int, float]]) -> None:
    ends = [sum(size for size, _ in pairs[: i + 1]) / sum(size for size, _ in pairs) for i in range(len(pairs))]
    points = [(end, height) for end, (_, height) in zip(ends, pairs, strict=True)]
    root = ElementTree.fromstring(charts.steps("t", points, "across", "up"))
    (path,) = [item.attrib["d"] for item in root.iter() if item.get("class") == "line"]
    first, *numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
    assert all(first - 0.1 <= x <= charts.WIDTH - 23.9 for x in numbers[2::2])
    assert all(13.9 <= y <= 290.1 for y in numbers[1::2])
    highest = max(0.1, *(height for _, height in points))
    top = min(1.0, -(-highest * 10 // 1) / 10)
    drawn, x = 0.0, first
    for y, end in zip(numbers[1::2], numbers[2::2], strict=True):
        drawn += (end - x) / (charts.WIDTH - 24 - first) * (290 - y) / (290 - 14) * top
        x = end
    area = sum(size * height for size, height in pairs) / sum(size for size, _ in pairs)
    # Coordinates have one digit.
    assert drawn == pytest.approx(area, abs=0.002)


def test_bars_are_cut_by_the_shares_of_their_parts_and_the_key_names_those_that_a_row_has() -> None:
    bars = [("a", (1, 0, 3)), ("empty", (0, 0, 0)), ("b", (4, 0, 0))]
    svg = charts.shares("t", bars, ("right", "never", "wrong"), "key")
    root = ElementTree.fromstring(svg)
    boxes = [item for item in root.iter() if item.get("class") == "part"]
    key, drawn = [[item for item in boxes if (len(item) > 0) == hint] for hint in (False, True)]
    assert [item.get("fill") for item in key] == ["url(#key-0)", "url(#key-2)"]
    words = [item.text for item in root.iter() if item.tag.endswith("text")]
    assert words == ["right", "wrong", "a", "25", "75", "b", "100"]
    widths = [float(item.attrib["width"]) for item in drawn]
    assert widths == pytest.approx([widths[2] / 4, widths[2] * 3 / 4, widths[2]], abs=0.1)
    assert float(drawn[1].attrib["x"]) == pytest.approx(float(drawn[0].attrib["x"]) + widths[0], abs=0.1)
    rows = [float(item.attrib["y"]) for item in drawn]
    assert rows[0] == rows[1] < rows[2] == rows[0] + charts._ROW


def test_steps_have_a_line_at_every_fifth() -> None:
    root = ElementTree.fromstring(charts.steps("t", [(1.0, 0.5)], "across", "up"))
    upright = [item.attrib["d"] for item in root.iter() if item.get("class") == "grid" and "V" in item.attrib["d"]]
    places = [float(path[1:].partition(",")[0]) for path in upright]
    assert places == pytest.approx([52 + (charts.WIDTH - 76) * fifth / 5 for fifth in range(6)], abs=0.06)


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (40, 5)])
def test_the_first_stage_is_named_and_each_other_whose_name_covers_none(count: int, shown: int) -> None:
    value = MetricValue(mean=0.5, low=0.4, high=0.6, n=9)
    root = ElementTree.fromstring(charts.trend("t", [charts.DatedMean(f"d{i}", value, "") for i in range(count)], "m"))
    texts = {item.text: float(item.attrib["x"]) for item in root.iter() if re.fullmatch(r"d\d+", item.text or "")}
    assert "d0" in texts
    assert len(texts) == shown
    assert all(after - before >= 80 for before, after in pairwise(texts.values()))


def test_a_label_that_is_led_to_may_stand_above_its_point_as_well_as_below() -> None:
    led = {place for places in charts._LED for place in places}
    assert {(x, 8 - y, ends) for x, y, ends in led} == led


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert charts.steps("t", [], "across", "up") == ""
    assert charts.rank_picture("t", []) == ""
    assert charts.curves("t", [charts.Series("a", ((5, 0.1),))], "recall@k") == ""
    assert charts.cost_picture("t", [charts.ChartPoint("free", 0.0, 0.5)], "c", "q", str) == ""


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_methods_that_are_all_the_same_can_be_drawn(value: float) -> None:
    bars = [charts.Bar(f"m{i}", value, value, value, (1, 3)) for i in range(3)]
    assert charts.rank_picture("t", bars).count("<circle") == 3


@given(st.floats(-6, 6), st.floats(0.04, 8))
def test_a_scale_of_costs_has_a_few_round_numbers_however_narrow_it_is(first: float, width: float) -> None:
    result = charts._round(first, first + width)
    assert 3 <= len(result) <= 12
    assert all(10**first * (1 - 1e-9) <= value <= 10 ** (first + width) * (1 + 1e-9) for value in result)
    assert result == sorted(set(result))
    assert all(float(f"{value:.3g}") == pytest.approx(value, rel=1e-6) for value in result)


def test_three_decades_have_room_for_twos_and_fives_and_four_have_not() -> None:
    assert charts._round(0, 3) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert charts._round(0, 4) == [1, 10, 100, 1000, 10_000]

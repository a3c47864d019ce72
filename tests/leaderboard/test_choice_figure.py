"""The picture of what predicts a choice: every point in every panel, in its frame, names as text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from bench.comparison.prediction import ChoicePoint, Estimate, Prediction, Predictor
from bench.leaderboard.pages.choicefigure import PANELS, choice_figure

NOTHING = Estimate(None)
SHARES = st.floats(0, 1, allow_nan=False)


def point(base: str, shown: int, accuracy: float, value: float | None, wide: float | None = 0.05) -> ChoicePoint:
    ends = (None, None) if wide is None else (max(accuracy - wide, 0), min(accuracy + wide, 1))
    metrics = dict.fromkeys(PANELS, value)
    return ChoicePoint(base, shown, Estimate(accuracy, *ends), 0.5, NOTHING, 100, 0, 5, 1.0, metrics)


def prediction(points: list[ChoicePoint], metrics: tuple[str, ...] = PANELS) -> Prediction:
    predictors = tuple(Predictor(name, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, None) for name in metrics)
    return Prediction("starter", "m, calls, shuffled", 90, 45, True, tuple(points), predictors, (), NOTHING, ())


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghij"), st.integers(1, 100), SHARES, SHARES, st.none() | SHARES),
        min_size=1,
        max_size=30,
    )
)
def test_every_point_is_in_its_frame(rows: list[tuple[str, int, float, float, float | None]]) -> None:
    drawn = choice_figure(prediction([point(*row) for row in rows]))
    tree = ElementTree.fromstring(drawn)
    width, height = (float(size) for size in tree.attrib["viewBox"].split()[2:])
    dots = [part for part in tree.iter("circle") if part.attrib["class"] == "knot"]
    bases = {row[0] for row in rows}
    if len(bases) <= 8:
        # A mark of each method in the legend, and one of each point in each panel.
        assert len(dots) == len(bases) + len(PANELS) * len(rows)
    for part in tree.iter():
        for name in ("cx", "x"):
            assert 0 <= float(part.attrib.get(name, 0)) <= width
        for name in ("cy", "y"):
            assert 0 <= float(part.attrib.get(name, 0)) <= height
    assert not re.search(r"nan|inf", drawn)


def test_no_number_covers_another() -> None:
    points = [point("one", k, 0.5, 0.5 + k / 5000) for k in range(1, 40)]
    tree = ElementTree.fromstring(choice_figure(prediction(points, PANELS[:1])))
    group = [part for part in tree.iter("g") if part.attrib.get("class") == "s0"][-1]
    places = [(float(part.attrib["x"]), float(part.attrib["y"]), part.text or "") for part in group.iter("text")]
    assert 1 <= len(places) < len(points)
    for i, (x, y, _) in enumerate(places):
        for left, height, words in places[:i]:
            assert abs(y - height) > 10 or x > left + 7 * len(words) or x < left


def test_names_are_text_and_nothing_else() -> None:
    name = "</text><script>alert(1)</script>\x00"
    drawn = choice_figure(prediction([point(name, k, 0.1 * k, 0.1 * k) for k in (1, 3, 5)]))
    assert "<script" not in drawn
    ElementTree.fromstring(drawn)


def test_what_is_not_known_is_left_out() -> None:
    assert choice_figure(prediction([point("one", 1, 0.5, 0.5)], ())) == ""
    # The bits of a method without a hit.
    drawn = choice_figure(prediction([point("one", 1, 0.0, None), point("two", 1, 0.5, 0.5, None)], PANELS[:1]))
    assert drawn.count("<circle") == 2 + 1

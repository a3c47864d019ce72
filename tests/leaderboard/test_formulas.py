"""Formulas on the page of metrics are those of the measures, the right way up."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.leaderboard.pages.metrics import mathml
from bench.metrics import measures

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def fractions(name: str) -> list[tuple[str, str]]:
    """Numerator and denominator of each fraction of a measure's formula, outermost first, as plain text."""
    root = ElementTree.fromstring(mathml(measures()[name].formula))
    assert root.tag == f"{NAMESPACE}math"
    return [("".join(part[0].itertext()), "".join(part[1].itertext())) for part in root.iter(f"{NAMESPACE}mfrac")]


@pytest.mark.parametrize("name", measures())
def test_every_measure_has_a_formula_that_can_be_shown(name: str) -> None:
    root = ElementTree.fromstring(mathml(measures()[name].formula))
    text = "".join(root.itertext())
    assert text.strip()
    # A command that the converter does not know is left as it is.
    assert "\\" not in text


@pytest.mark.parametrize(
    ("name", "top", "bottom"),
    [
        ("recall", "|G∩{h1,…,hk}|", "n"),
        ("precision", "|G∩{h1,…,hk}|", "k"),
        ("set_precision", "|R∩G|", "|R|"),
        ("set_recall", "|R∩G|", "n"),
        ("set_f1", "2|R∩G|", "|R|+n"),
    ],
)
def test_numerator_and_denominator_are_the_right_way_up(name: str, top: str, bottom: str) -> None:
    assert fractions(name)[0] == (top, bottom)


def test_the_best_possible_ranking_is_the_denominator_of_ndcg() -> None:
    (top, bottom), *_ = fractions("ndcg")
    assert "min" in bottom
    assert "min" not in top
    (top, bottom), *_ = fractions("mmrr")
    assert top == "(n+1)/2"
    assert "∑" in bottom


@pytest.mark.parametrize("formula", ["{", "^", "\\left(<b>"])
def test_a_formula_of_a_plug_in_that_is_no_latex_is_shown_as_it_is(formula: str) -> None:
    shown = ElementTree.fromstring(mathml(formula))
    assert (shown.tag, shown.text) == ("code", formula)

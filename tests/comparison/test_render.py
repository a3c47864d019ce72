"""Comparisons as Markdown, CSV and LaTeX: the right signs, and names that stay names."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.comparison.render import csv_text, latex, markdown, p_text, ranks
from bench.comparison.report import Comparison

Make = Callable[..., Comparison]
HOSTILE = "a|b*c`d<script>\\_[x](y)&%$#{}~^\nnext"


def test_markdown_has_a_table_for_each_metric_best_first_with_daggers(make: Make) -> None:
    text = markdown(make())
    rows = [line for line in text.splitlines() if line.startswith(("| other", "| base"))]
    assert rows[0].startswith("| other | 0.700 [0.670, 0.730]‡ | 1 | 1-2 | -0.100 [-0.150, -0.050] | 0.002 | 0.004 |")
    assert rows[1].startswith("| base | 0.500 [0.470, 0.530] | 2 | 2-3 |  |")
    assert "| third | 0.400 [0.370, 0.430]† |" in text
    assert "corrected by Holm over a family of 2 comparisons with base" in text
    assert "| 0.00 → 1.00 | q1 | find a train |" in text


def test_markdown_over_datasets_names_friedman_and_the_critical_difference(make: Make) -> None:
    text = markdown(make(macro=True))
    assert "Friedman p = 0.04; mean ranks that differ by 1.50 or more differ (Nemenyi, 5%)." in text
    assert "| other | 1.25 | 0.700 [0.100, 0.900] |" in text


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip() != ""))
def test_whatever_a_system_is_called_the_markdown_table_keeps_its_columns(name: str) -> None:
    from bench.comparison.render import _grid

    for line in _grid(["head", name], [[name, "value"]]).split("\n"):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
        assert "<" not in line.replace("&lt;", "")


def test_hostile_names_are_text_in_every_form(make: Make) -> None:
    report = make(names=("base", HOSTILE, "third"), text=HOSTILE)
    assert "<script>" not in markdown(report)
    assert "](" not in markdown(report)
    table = latex(report)
    assert r"a|b*c`d$<$script$>$\textbackslash{}\_[x](y)\&\%\$\#\{\}\textasciitilde{}\textasciicircum{} next" in table
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    assert rows[0]["system"] == HOSTILE


def test_csv_has_one_line_for_each_system_and_blanks_for_the_baseline(make: Make) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(make()))))
    assert [row["system"] for row in rows] == ["other", "base", "third"]
    assert (rows[0]["difference"], rows[0]["corrected"], rows[0]["needed"]) == ("-0.1", "0.004", "90")
    assert rows[1]["difference"] == rows[1]["p"] == ""
    assert {row["baseline"] for row in rows} == {"base"}


def test_a_spreadsheet_takes_no_name_for_a_formula(make: Make) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(make(names=("base", "=1+1", "@x"))))))
    assert {row["system"] for row in rows} == {"base", "'=1+1", "'@x"}


def test_latex_prints_the_best_bold_and_daggers_by_test(make: Make) -> None:
    table = latex(make())
    assert r"other & \textbf{0.700}$^{\ddagger}$ \\" in table
    assert r"third & 0.400$^{\dagger}$ \\" in table
    assert r"base & 0.500 \\" in table
    assert r"$\dagger$ and $\ddagger$: differs from base" in table


def test_systems_that_print_the_same_are_both_best(make: Make) -> None:
    assert latex(make(means=(0.7001, 0.7, 0.4))).count(r"\textbf{0.700}") == 2


@pytest.mark.parametrize(("p", "text"), [(0.00001, "<1e-4"), (0.0234, "0.023"), (0.2, "0.2"), (0.996, "1"), (1.0, "1")])
def test_p_values_have_two_digits(p: float, text: str) -> None:
    assert p_text(p) == text


def test_rank_intervals_are_short() -> None:
    assert (ranks(2, 2), ranks(1, 3)) == ("2", "1-3")


def test_where_queries_come_from_is_said_in_markdown_and_in_the_caption(make: Make) -> None:
    report = make()
    said = "synthetic queries: 12 of 100 queries are written by some_model"
    (dataset,) = report.datasets
    report = report.model_copy(update={"datasets": [dataset.model_copy(update={"origin": [said]})]})
    assert f"- {said.replace('_', chr(92) + '_')}\n" in markdown(report) or f"- {said}\n" in markdown(report)
    assert r"Synthetic queries: 12 of 100 queries are written by some\_model. " in latex(report)

"""Comparisons as Markdown, CSV and LaTeX: the right signs, and names that stay names."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from bench.comparison.render import csv_text, latex, markdown
from bench.comparison.report import Comparison

Make = Callable[..., Comparison]
HOSTILE = "a|b*c`d<script>\\_[x](y)&%$#{}~^\nnext"


def test_markdown_has_a_table_for_each_metric_best_first_with_daggers(make: Make) -> None:
    text = markdown(make())
    rows = [line for line in text.splitlines() if line.startswith(("| other", "| base"))]
    assert rows[0].startswith("| other | 0.700 [0.670, 0.730]‡ | 1 | 1–2 | -0.100 [-0.150, -0.050] | .002 | .004 |")
    assert rows[1].startswith("| base | 0.500 [0.470, 0.530] | 2 | 2–3 |  |")
    assert "| third | 0.400 [0.370, 0.430]† |" in text
    assert "corrected by Holm over a family of 2 comparisons with base" in text
    assert "| 0.00 → 1.00 | q1 | find a train |" in text


def test_markdown_over_datasets_names_friedman_and_the_critical_difference(make: Make) -> None:
    text = markdown(make(macro=True))
    assert "Friedman p = .040; mean ranks that differ by 1.50 or more differ (Nemenyi, 5%)." in text
    assert "| other | 1.25 | 0.700 [0.100, 0.900] |" in text


def test_hostile_names_are_text_in_every_form(make: Make) -> None:
    report = make(names=("base", HOSTILE, "third"), text=HOSTILE)
    assert "<script>" not in markdown(report)
    assert "](" not in markdown(report)
    table = latex(report)
    assert (
        r"a\textbar{}b*c\textasciigrave{}d\textless{}script\textgreater{}\textbackslash{}\_[x](y)"
        r"\&\%\$\#\{\}\textasciitilde{}\textasciicircum{} next"
    ) in table
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
    assert r"base & \underline{0.500} \\" in table
    assert r"$\dagger$ and $\ddagger$: differs from base" in table


def test_systems_that_print_the_same_are_both_best(make: Make) -> None:
    assert latex(make(means=(0.7001, 0.7, 0.4))).count(r"\textbf{0.700}") == 2


def test_where_queries_come_from_is_said_in_markdown_and_in_the_caption(make: Make) -> None:
    report = make()
    said = "synthetic queries: 12 of 100 queries are written by some_model"
    (dataset,) = report.datasets
    report = report.model_copy(update={"datasets": [dataset.model_copy(update={"origin": [said]})]})
    assert f"- {said.replace('_', chr(92) + '_')}\n" in markdown(report) or f"- {said}\n" in markdown(report)
    assert r"Synthetic queries: 12 of 100 queries are written by some\_model. " in latex(report)

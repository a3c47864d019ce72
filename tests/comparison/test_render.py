"""Comparisons as Markdown, CSV and LaTeX: the right signs, and names that stay names."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import output
from bench.cli.compare import _print_short
from bench.comparison.comparison import Comparison
from bench.comparison.render import csv_text, latex, markdown
from bench.comparison.report import MacroStanding
from bench.comparison.tables import grid
from bench.show.numbers import DAGGERS
from bench.stats.noninferiority import LEVEL

Make = Callable[..., Comparison]
HOSTILE = "a|b*c`d<script>\\_[x](y)&%$#{}~^\nnext"


def test_markdown_has_a_table_for_each_metric_best_first_with_daggers(make: Make) -> None:
    text = markdown(make())
    rows = [line for line in text.splitlines() if line.startswith(("| other", "| base"))]
    assert rows[0].startswith("| other | 0.700 [0.670, 0.730]‡ | 1–2 | -0.100 [-0.150, -0.050] | .004 |")
    assert rows[1].startswith("| base | 0.500 [0.470, 0.530] | 2–3 |  |")
    assert "| third | 0.400 [0.370, 0.430]† |" in text
    assert "all 3 pairs for each metric, corrected by Holm" in text
    assert "| 0.00 → 1.00 | q1 | find a train |" in text


def test_markdown_over_datasets_has_ranks_and_means(make: Make) -> None:
    assert "| other | 1–2 | 0.700 [0.100, 0.900] |" in markdown(make(macro=True))


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
    assert r"$\dagger$, $\ddagger$: differs from base with corrected p \textless{} 0.05, 0.01" in table
    assert "\\scriptsize" not in table
    assert r"other & \textbf{0.700}$^{\ddagger}$ {\scriptsize .67–.73} \\" in latex(make(), details=True)


def test_systems_that_print_the_same_are_both_best(make: Make) -> None:
    assert latex(make(means=(0.7001, 0.7, 0.4))).count(r"\textbf{0.700}") == 2


def test_where_queries_come_from_is_said_in_markdown_and_beside_the_table(make: Make) -> None:
    report = make()
    said = "synthetic queries: 12 of 100 queries are written by some_model"
    (dataset,) = report.datasets
    report = report.model_copy(update={"datasets": [dataset.model_copy(update={"origin": [said]})]})
    assert f"- {said.replace('_', chr(92) + '_')}\n" in markdown(report) or f"- {said}\n" in markdown(report)
    assert f": {said}\n" in latex(report)


# Several datasets ---------------------------------------------------------------------------------------------------


def over(make: Make, count: int, systems: int = 6) -> Comparison:
    """Systems on datasets with long names, on six metrics."""
    names = [f"system-{i}" for i in range(systems)]
    report = make(
        names=names,
        means=[0.5 + 0.05 * i for i in range(systems)],
        corrected=[0.004] * (systems - 1),
        macro=True,
    )
    (dataset,) = report.datasets
    metrics = [dataset.metrics[0].model_copy(update={"metric": f"metric@{i}"}) for i in range(6)]
    datasets = [
        dataset.model_copy(update={"dataset": f"github-mcp-distractors-{i}", "metrics": metrics, "slices": []})
        for i in range(count)
    ]
    standings = [
        MacroStanding(system=name, mean=0.5, low=0.4, high=0.6, mean_rank=i + 1) for i, name in enumerate(names)
    ]
    macro = [report.macro[0].model_copy(update={"metric": metric.metric, "standings": standings}) for metric in metrics]
    return report.model_copy(update={"datasets": datasets, "macro": macro})


@pytest.mark.parametrize("width", [80, 100])
def test_six_systems_on_six_datasets_take_two_screens(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(output, "_NO_TERMINAL_WIDTH", width)
    _print_short(over(make, 6), [], False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= width
    assert any("metric@3, metric@4, metric@5" in line for line in lines)


def test_metrics_that_are_named_are_shown_however_many_they_are(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    report = over(make, 2)
    names = [metric.metric for metric in report.datasets[0].metrics]
    _print_short(report, names, False)
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in names)


def test_more_datasets_than_fit_make_several_tables_and_one_in_latex(make: Make) -> None:
    report = over(make, 15)
    parts = grid(report, ["metric@0"], 100)
    assert len(parts) > 1
    assert [head for part in parts for head in part.heads if head.startswith("github")] == [
        dataset.dataset for dataset in report.datasets
    ]
    assert [part.heads[-1] == "rank" for part in parts] == [False] * (len(parts) - 1) + [True]
    table = latex(report)
    assert table.count("\\begin{table}") == 1
    assert table.count("{") - table.count("\\{") == table.count("}") - table.count("\\}")
    rows = [line for line in table.splitlines() if line.startswith("system-")]
    assert len(rows) == 6 * 6
    assert {line.count("&") for line in rows} == {17}


@pytest.mark.parametrize("layout", ["", "twocolumn"])
@pytest.mark.parametrize("details", [False, True])
def test_a_paper_with_the_table_compiles_within_its_margins(
    make: Make, tmp_path: Path, layout: str, details: bool
) -> None:
    engine = next(filter(None, map(shutil.which, ("pdflatex", "lualatex", "tectonic"))), None)
    if engine is None:
        pytest.skip("no TeX engine is installed")
    report = over(make, 5)
    (first, *others) = report.datasets
    hostile = first.model_copy(update={"dataset": HOSTILE, "origin": [f"written by {HOSTILE} " * 9]})
    long = report.model_copy(update={"datasets": [hostile, *others], "baseline": "a system of a long name " * 9})
    for i, part in enumerate([long.model_copy(update={"margin": 0.01}), make()]):
        table = latex(part, details)
        caption = table.partition("\\caption{")[2].partition("}\n\\end{table}")[0]
        (tmp_path / f"{i}.tex").write_text(
            rf"\documentclass[{layout}]{{article}}\usepackage[T1]{{fontenc}}\usepackage{{booktabs}}\usepackage{{graphicx}}"
            rf"\begin{{document}}\newcount\n{table}\setbox0=\vbox{{Table 1: {caption}\par\global\n=\prevgraf}}"
            rf"\typeout{{The caption has \the\n\space lines}}\end{{document}}",
            "utf-8",
        )
        made = subprocess.run(
            [engine, "-interaction=nonstopmode", f"{i}.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stdout
        assert "Overfull" not in made.stdout
        if not layout:
            assert int(made.stdout.partition("The caption has ")[2].split()[0]) <= 3


def test_the_weakest_dagger_is_the_level_of_the_tests() -> None:
    assert DAGGERS[-1][0] == LEVEL


def test_an_oracle_is_neither_best_nor_second(make: Make) -> None:
    report = make()
    (dataset,) = report.datasets
    systems = [
        item.model_copy(update={"marks": ["oracle"]} if item.name == "other" else {}) for item in dataset.systems
    ]
    report = report.model_copy(update={"datasets": [dataset.model_copy(update={"systems": systems})]})
    table = latex(report)
    assert r"other & 0.700$^{\ddagger}$ \\" in table
    assert r"base & \textbf{0.500} \\" in table
    assert r"third & \underline{0.400}$^{\dagger}$ \\" in table

"""A number is the same text wherever a reader meets it: commands, Markdown, LaTeX, CSV, the gate, and the site."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import folder_of
from kit.sites import Built

from bench.base.text import one_line
from bench.leaderboard.boards.pairs import METRIC
from bench.leaderboard.exports.write import table_path
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.rendering import environment
from bench.results.store import StoredResult
from bench.show.numbers import format_fixed, format_signed, interval, p_value

Bench = Callable[..., Any]


@pytest.fixture
def pair(starter_results: Path) -> tuple[Path, Path]:
    """A baseline and another result."""
    first, second = (folder_of(starter_results, spec) for spec in ("bm25", "random"))
    return first, second


@pytest.fixture
def difference(bench: Bench, pair: tuple[Path, Path]) -> dict[str, Any]:
    """The second less the first, in numbers."""
    told = bench("compare", *pair, "-m", METRIC, "--moved", 0, "--json").json
    (found,) = told["datasets"][0]["metrics"][0]["differences"]
    return dict(found)


def words(text: str) -> str:
    """A text on one line: a terminal and a template break it where they must."""
    return one_line(re.sub(r"<[^>]+>", " ", text).replace("&lt;", "<"))


def test_a_mean_and_its_interval(bench: Bench, ready_site: Built, pair: tuple[Path, Path]) -> None:
    result = StoredResult.read(pair[0])
    value = result.metrics.metrics[METRIC]
    mean, ends = format_fixed(value.mean), interval(value.low, value.high)
    low, high = format_fixed(value.low), format_fixed(value.high)
    for command in (("show", pair[0]), ("show", pair[0], "--all"), ("compare", *pair, "-m", METRIC)):
        assert f"{mean} {ends}" in words(bench(*command).out), command
    assert f"{mean} [{low}, {high}]" in bench("compare", *pair, "-m", METRIC, "--format", "markdown").out
    assert mean in bench("compare", *pair, "-m", METRIC, "--format", "latex").out
    pages = [ready_site.page(f"{kind}/{name}.html") for kind, name in (("r", result.manifest.result_id),)]
    pages.append(ready_site.page(f"d/{ready_site.board.slug}.html"))
    for page in pages:
        assert mean in page.texts
        assert f"{low}–{high}" in page.texts
    assert mean in (ready_site.folder / table_path(result)).read_text("utf-8")


def test_a_difference_with_its_interval_and_p_value(
    bench: Bench, ready_site: Built, pair: tuple[Path, Path], difference: dict[str, Any]
) -> None:
    d, ends = format_signed(difference["difference"]), interval(difference["low"], difference["high"], sign=True)
    p = p_value(difference["p"])
    low, high = format_signed(difference["low"]), format_signed(difference["high"])
    asked = ("compare", *pair, "-m", METRIC, "--moved", 0)
    # A family of one has nothing to correct.
    assert p_value(difference["corrected"]) == p
    assert f"{d} {ends} {p}" in words(bench(*asked).out)
    details = words(bench(*asked, "--details").out)
    assert f"{d} {p}" in details
    assert f"[{low}, {high}] {p}" in details
    said = bench(*asked, "--format", "markdown").out.replace("&lt;", "<")
    assert f"| {d} [{low}, {high}] | {p} |" in said
    rows = list(csv.DictReader(io.StringIO(bench(*asked, "--format", "csv").out)))
    (row,) = (row for row in rows if row["difference"])
    assert format_signed(float(row["difference"])) == d
    assert p_value(float(row["p"])) == p


def test_the_page_that_compares_has_the_differences_of_the_command(bench: Bench, ready_site: Built) -> None:
    page = ready_site.page("compare.html")
    commands = re.findall(r"bench compare (\w+) (\w+) -m (\S+) --moved 0", words(page.text))
    assert commands
    results = ready_site.folder.with_name("results")
    for first, second, metric in commands:
        told = bench("compare", first, second, "-m", metric, "--moved", 0, "--results", results).out
        (line,) = re.findall(r" \(?\d+(?:–\d+)?\)? +(\S+) +(\S+ to \S+) +(\S+) *$", told, re.MULTILINE)
        # Interval and p are corrected for the pairs of the board there, and for one pair here.
        assert line[0] in [words(item) for item in page.texts], (line, told)


def test_the_gate_has_the_texts_of_the_comparison(
    bench: Bench, pair: tuple[Path, Path], starter_baseline: Path, difference: dict[str, Any]
) -> None:
    shutil.copy(starter_baseline, "b.json")
    Path("gate.toml").write_text(f'margin = 0.02\n[[rule]]\nmetric = "{METRIC}"\n')
    gate = ("gate", pair[1], "--baseline", "b.json", "--policy", "gate.toml", "--out", "gate.md")
    told = words(bench(*gate, code=1).out)
    first, second = (format_fixed(StoredResult.read(folder).metrics.metrics[METRIC].mean) for folder in pair)
    d = format_signed(difference["difference"])
    assert f"{first} {second} {d}" in told
    assert f"| {first} | {second} | {d} |" in Path("gate.md").read_text("utf-8")


def test_pages_and_pictures_write_numbers_as_the_commands_do() -> None:
    filters = environment().filters
    for value in (0.0, -0.0004, 0.12345, 0.9996, 1.0):
        assert (filters["num"](value), filters["signed"](value)) == (format_fixed(value), format_signed(value))
    for p in (0.0, 0.0009, 0.04, 0.9999):
        assert filters["p"](p) == p_value(p)
    svg = charts.rank_picture("t", [charts.Bar("a", 0.12345, 0.1, 0.2, (1, 1))])
    assert f"a: {format_fixed(0.12345)} ({interval(0.1, 0.2, 'dash')})" in svg


def test_the_script_of_the_site_has_the_same_rules() -> None:
    script = (Path(charts.__file__).parent / "static" / "compare.js").read_text("utf-8")
    assert 'p < 0.001 ? "<.001" : p >= 0.9995 ? "1" : p.toFixed(3).replace(/^0/, "")' in script
    assert "Number(text) === 0 ? text" in script

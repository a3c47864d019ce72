"""The history of a board: results of one question over time, each held against the one before it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import run as command
from bench.results.store import Result

trend = importlib.import_module("bench.leaderboard.pages.trend")


def _folder(results: Path, spec: str) -> Path:
    (found,) = (path for path in results.glob("*/*") if Result.read(path).manifest.method.spec == spec)
    return found


@pytest.fixture
def past(ready: Path, older: Callable[..., Path]) -> Path:
    """bm25 as it is, as random in 2020, as another setting in 2021, and unchanged in 2022."""
    new = _folder(ready, "bm25")
    for numbers, name, year in (("random", "a", 2020), ("bm25(k1=0.5)", "b", 2021), ("bm25", "c", 2022)):
        older(_folder(ready, numbers) if numbers != "bm25" else new, new, name * 12, f"{year}-01-01T00:00:00+00:00")
    return new


def _steps(site: Any) -> list[Any]:
    (board,) = site.made.boards
    (row,) = (row for row in board.rows if row.result.manifest.method.spec == "bm25")
    own = [item.result for item in board.superseded if item.newer == row.id]
    return list(trend._steps(board, [row.result, *own]))


def test_each_result_is_held_against_the_one_before_it(
    past: Path, build: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    site = build()
    assert not site.made.rejected
    steps = _steps(site)
    assert [step.result.manifest.environment.created[:4] for step in steps[:3]] == ["2020", "2021", "2022"]
    assert [step.verdict for step in steps] == ["", "better", "tied", "tied"]
    # The same numbers as the command prints for the two.
    one, other = (step.result.manifest.result_id for step in steps[1::-1])
    capsys.readouterr()
    assert command(["compare", one, other, "-m", "recall@5", "--json"]) == 0
    said = json.dumps(json.loads(capsys.readouterr().out))
    assert repr(steps[1].change.p) in said
    page = site.only("h/*.html")
    assert page.texts.count("better") == 1
    assert page.tags.count("svg") == 1
    assert all(f"../r/{step.result.manifest.result_id}.html" in page.links for step in steps)
    assert "a" * 12 in page.texts


@pytest.mark.usefixtures("past")
def test_the_page_is_found_from_the_board_and_from_each_of_its_results(build: Callable[..., Any]) -> None:
    site = build()
    (board,) = site.made.boards
    assert f"../h/{board.slug}.html" in site.only("d/*.html").links
    for step in _steps(site):
        links = site.page(f"r/{step.result.manifest.result_id}.html").links
        (found,) = (link for link in links if link.startswith("../h/"))
        assert found.partition("#")[2] in site.only("h/*.html").ids


@pytest.mark.usefixtures("ready")
def test_a_board_without_older_results_has_no_history(build: Callable[..., Any]) -> None:
    site = build()
    assert not (site.folder / "h").exists()
    assert not [link for page in site.pages() for link in page.links if "/h/" in link]


def test_other_scoring_code_is_not_compared(past: Path, build: Callable[..., Any], edit: Callable[..., None]) -> None:
    (first,) = past.parent.glob("*-aaaaaaaaaaaa")
    scoring = json.loads((first / "manifest.json").read_text())["scoring"]
    edit(first, scoring=scoring | {"measures": dict.fromkeys(scoring["measures"], "0" * 64)})
    assert [step.verdict for step in _steps(build())] == ["", "other scoring code", "tied", "tied"]


def test_a_page_of_the_past_is_removed_with_its_results(past: Path, build: Callable[..., Any]) -> None:
    build()
    for folder in past.parent.iterdir():
        if folder.name[-12:] in {"a" * 12, "b" * 12, "c" * 12}:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    site = build()
    assert [path for path in site.made.files.removed if path.startswith("h/")]
    assert site.bytes() == build("fresh").bytes()

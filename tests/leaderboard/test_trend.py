"""The history of a board: results of one question over time, each held against the one before it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import edit, folder_of, older
from kit.sites import board_of

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.leaderboard.boards.board import Board
from bench.leaderboard.pages.trend import Step, _steps


def steps_of(board: Board) -> list[Step]:
    """The steps of bm25 (`conftest.py`): as random in 2020, as another setting in 2021, and unchanged since 2022."""
    (row,) = (row for row in board.rows if row.key == "bm25")
    return _steps(board, [row.result, *(item.result for item in board.superseded if item.newer == row.id)])


def test_each_result_is_held_against_the_one_before_it(
    marked_site: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = steps_of(marked_site.board)
    assert [step.result.manifest.environment.created[:4] for step in steps[:3]] == ["2020", "2021", "2022"]
    assert [step.verdict for step in steps] == ["", "better", "not decided", "not decided"]
    # The same numbers as the command prints for the two.
    monkeypatch.setenv("BENCH_RESULTS", str(marked_site.folder.with_name("results")))
    one, other = (step.result.manifest.result_id for step in steps[1::-1])
    assert command(["compare", one, other, "-m", "recall@5", "--json"]) == 0
    said = json.dumps(json.loads(capsys.readouterr().out))
    assert steps[1].change is not None
    assert repr(steps[1].change.p) in said
    page = marked_site.only("h/*.html")
    assert page.texts.count("better") == 1
    assert page.tags.count("svg") == 1
    assert all(f"../r/{step.result.manifest.result_id}.html" in page.links for step in steps)
    assert "a" * 12 in page.texts


def test_the_page_is_found_from_the_board_and_from_each_of_its_results(marked_site: Any) -> None:
    board = marked_site.board
    assert f"../h/{board.slug}.html" in marked_site.page(f"d/{board.slug}.html").links
    for step in steps_of(board):
        links = marked_site.page(f"r/{step.result.manifest.result_id}.html").links
        (result,) = (link for link in links if link.startswith("../h/"))
        assert result.partition("#")[2] in marked_site.only("h/*.html").ids


def test_a_board_without_older_results_has_no_history(ready_site: Any) -> None:
    assert not (ready_site.folder / "h").exists()
    assert not [link for page in ready_site.pages() for link in page.links if "/h/" in link]


def test_other_scoring_code_is_not_compared(few: Path) -> None:
    new = folder_of(few, "bm25")
    older(folder_of(few, "random"), new, "a" * 12, "2020-01-01T00:00:00+00:00")
    older(new, new, "b" * 12, "2021-01-01T00:00:00+00:00")
    first = new.with_name(f"bm25-{'a' * 12}")
    scoring = json.loads((first / "manifest.json").read_text())["scoring"]
    edit(first, scoring=scoring | {"measures": dict.fromkeys(scoring["measures"], "0" * 64)})
    assert [step.verdict for step in steps_of(board_of(few))] == ["", "other scoring code", "not decided"]


@pytest.mark.usefixtures("begun")
def test_a_page_of_the_past_is_removed_with_its_results(begun_site: Any, build: Callable[..., Any]) -> None:
    new = folder_of(results_folder(), "bm25")
    past = older(new, new, "a" * 12, "2020-01-01T00:00:00+00:00")
    assert list(build().folder.glob("h/*.html"))
    shutil.rmtree(past)
    site = build()
    assert [path for path in site.made.files.removed if path.startswith("h/")]
    assert site.bytes() == begun_site.bytes()

"""The results that the repository keeps: all that runs here, sound, and with rankings where they are small."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from kit.datasets import loaded

from bench.evaluation.experiment import read_experiment
from bench.leaderboard.boards.answers import cases
from bench.leaderboard.boards.board import RANKED, make_board, read_results, sample_rows
from bench.leaderboard.boards.overall import overall_by_metrics
from bench.leaderboard.boards.rankingset import read_ranking_set, views_of
from bench.leaderboard.site import build_site
from bench.leaderboard.submit.check_path import check_folder
from bench.results.choices import is_choice
from bench.results.store import NOTES, RUN, StoredResult, find_results

FOLDER = Path(__file__).resolve().parents[2] / "board"
RESULTS = FOLDER / "results"
EXPERIMENTS = sorted((FOLDER / "experiments").glob("*.toml"))
#: Rankings above are not committed (`make board`).
LARGEST = 128 * 1024
KEPT = pytest.mark.slow("the kept results")


@pytest.fixture(scope="module")
def kept() -> list[StoredResult]:
    """The stored results of this repository."""
    results = list(find_results(RESULTS))
    assert all(isinstance(item, StoredResult) for item in results)
    return [item for item in results if isinstance(item, StoredResult)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_of_the_board_has_its_results(experiment: Path, kept: list[StoredResult]) -> None:
    there = {
        (item.manifest.dataset.spec, item.manifest.method.spec, item.manifest.dataset.limit): item for item in kept
    }
    missing = [
        f"{plan.method} on {plan.dataset}"
        for plan in read_experiment(experiment).plans()
        if (str(plan.dataset), str(plan.method), plan.limit) not in there
    ]
    assert not missing


def some_of(folder: Path) -> list[Path]:
    """The first and the last result of a dataset with a ranking, and the first without (`make board` checks all).

    None of them a choice of a language model, which `bench submit` refuses to pack.
    """
    folders = sorted(each for each in folder.glob("[!.]*") if not (each / NOTES).exists())
    with_run = [each for each in folders if (each / RUN).exists()]
    return sorted({*with_run[:1], *with_run[-1:], *[each for each in folders if each not in with_run][:1]})


@pytest.mark.parametrize(
    "folder",
    [
        folder if folder.name in {"starter", "restbench-spotify"} else pytest.param(folder, marks=KEPT)
        for folder in sorted(RESULTS.glob("[!.]*"))
    ],
    ids=lambda path: path.name,
)
def test_kept_results_are_accepted_as_submissions(mirror: Path, folder: Path) -> None:
    verdicts = [check_folder(each, loaded, RESULTS, without_run=True) for each in some_of(folder)]
    assert verdicts
    assert [verdict for verdict in verdicts if verdict.outcome != "accepted"] == []


def test_kept_rankings_are_small_and_small_ones_are_kept(kept: list[StoredResult]) -> None:
    sizes = {item.label: (item.folder / RUN).stat().st_size for item in kept if item.has_run}
    assert max(sizes.values()) <= LARGEST
    # Where nearly every query has other tools at the top, a ranking takes more room.
    data = [(item.has_run, item.manifest.dataset) for item in kept]
    assert all(has_run for has_run, row in data if row.queries <= 150 and row.tools <= 5000)


def test_what_is_kept_names_no_place_on_the_machine_that_made_it() -> None:
    for path in [*RESULTS.glob("*/*/*.json"), FOLDER / "reproduction.json"]:
        text = path.read_text("utf-8")
        for place in ("/root", "/home/", "/Users/", "/tmp/", "\\\\Users"):
            assert place not in text, f"{path} has {place}"


def test_the_kept_reproduction_has_all_cells() -> None:
    assert len(json.loads((FOLDER / "reproduction.json").read_text("utf-8"))["cells"]) == 651


@KEPT
def test_every_kept_result_is_on_a_board_and_the_home_page_answers_from_all(
    kept: list[StoredResult], quick: None
) -> None:
    found, rejected = read_results(RESULTS)
    boards, shown = [], 0
    for members in found:
        # Choices have boards without tests.
        choices = is_choice(members[0])
        board, refused = make_board(members, RESULTS, True, standings={} if choices else None)
        rejected += refused
        assert board is not None
        shown += len(board.rows)
        boards += [] if choices else [sample_rows(board, {}, True)]
    assert not rejected
    assert shown == len({(i.manifest.dataset.spec, i.manifest.method.spec, i.manifest.dataset.limit) for i in kept})
    views, missing = views_of(read_ranking_set(), boards, {})
    assert not missing
    # What learns is judged where most of what learns has results, and sources with a view are no kind of tools.
    asked = cases([board for view in views for board in overall_by_metrics(view, RANKED[:1], "all", {})])
    assert asked is not None
    assert asked.kinds == ("All sources", "Real MCP servers", "Held-out tools and tool sets")
    trained, untrained = asked.answer("All sources", training=1), asked.answer("All sources")
    assert trained is not None
    assert untrained is not None
    assert (trained.board.view.name, untrained.board.view.name) == ("past-queries", "all")


@KEPT
def test_a_site_has_pages_of_results_on_every_dataset(mirror: Path, tmp_path: Path, quick: None) -> None:
    chosen = [result for folder in sorted(RESULTS.glob("[!.]*")) for result in some_of(folder)]
    for each in chosen:
        shutil.copytree(each, tmp_path / "results" / each.relative_to(RESULTS))
    files = {"reproduction": FOLDER / "reproduction.json"}
    built = build_site(tmp_path / "results", tmp_path / "site", files, jobs=1)
    assert not built.rejected
    assert built.results == len(chosen)
    assert {board.spec for board in built.boards} == {StoredResult.read(each).manifest.dataset.spec for each in chosen}

"""The life of a submission: accepted, run again, retracted, superseded; two maintainers, one git repository."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.leaderboard.boards.decisions import FOLDER, read_decisions
from bench.lookup.finding import find_result
from bench.results.store import MANIFEST, find_results, folders_of

Bench = Callable[..., Any]
BY = ("--by", "a maintainer")


@pytest.fixture
def archive(bench: Bench, ready: Path) -> Path:
    """bm25(k1=0.5) on starter, handed in."""
    bench("submit", "pack", "bm25(k1=0.5)@starter", "--out", "handed-in.zip")
    return Path("handed-in.zip")


@pytest.fixture
def board(archive: Path, ready: Path, tmp_path: Path) -> Path:
    """A board that has every result but the one handed in."""
    place = tmp_path / "board" / "results"
    shutil.copytree(ready, place, ignore=shutil.ignore_patterns(".locks"))
    shutil.rmtree(find_result(place, "bm25(k1=0.5)@starter").folder)
    return place


def id_of(archive: Path, board: Path) -> str:
    """The id of the accepted submission."""
    (decision,) = (item for item in read_decisions(board).every if item.what == "accepted")
    return decision.result_id


def kept(board: Path) -> dict[str, bytes]:
    """Every file of a board but locks."""
    files = (path for path in sorted(board.rglob("*")) if path.is_file() and ".locks" not in path.parts)
    return {path.relative_to(board).as_posix(): path.read_bytes() for path in files}


def site_of(bench: Bench, board: Path) -> Path:
    bench("leaderboard", "build", "--results", board, "--out", "site")
    return Path("site")


def test_an_accepted_submission_is_on_the_board_with_the_report_of_its_check(
    bench: Bench, archive: Path, board: Path
) -> None:
    said = bench("submit", "accept", archive, "--board", board, *BY).out
    assert said.startswith("accepted  handed-in.zip")
    added = find_result(board, "bm25(k1=0.5)@starter")
    (decision,) = read_decisions(board).every
    assert decision.result_id == added.manifest.result_id
    assert decision.manifest == added.manifest.digest
    assert decision.by == "a maintainer"
    assert decision.report is not None
    assert decision.report.rerun is None
    assert bench("submit", "check", board, "--board", board).out.count("accepted  ") == len(folders_of(board))


def test_a_row_says_whether_its_method_was_run_here_and_only_such_a_row_is_recommended(
    bench: Bench, archive: Path, board: Path
) -> None:
    for name in ("bm25@starter", "nearest-bundle(base=bm25)@starter"):
        shutil.rmtree(find_result(board, name).folder)
    bench("submit", "accept", archive, "--board", board, *BY)
    home = (site_of(bench, board) / "index.html").read_text("utf-8")
    assert "not run here" in home
    assert 'name="origin"' in home
    assert "Which method for my case?" not in home
    # The same row, run here, is the best.
    shutil.rmtree(board / FOLDER)
    home = (site_of(bench, board) / "index.html").read_text("utf-8")
    assert "Which method for my case?" in home
    assert "not run here" not in home


def test_a_run_in_the_sandbox_is_evidence_that_a_later_acceptance_adds(
    bench: Bench, archive: Path, board: Path, sandbox: None
) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    before = kept(board)
    assert "nothing changed" in bench("submit", "accept", archive, "--board", board, *BY).out
    assert kept(board) == before
    assert "made again" in bench("submit", "accept", archive, "--board", board, "--rerun", *BY).out
    manifest = find_result(board, id_of_last(board)).manifest
    assert read_decisions(board).evidence(manifest) == "run again"
    assert len(read_decisions(board).every) == 2
    page = (site_of(bench, board) / "changes.html").read_text("utf-8")
    assert "run again: identical rankings for 134 queries" in page


def id_of_last(board: Path) -> str:
    return read_decisions(board).every[-1].result_id


def test_what_is_retracted_leaves_every_rank_and_its_page_says_why(bench: Bench, archive: Path, board: Path) -> None:
    alone = (site_of(bench, board) / "results.json").read_bytes()
    bench("submit", "accept", archive, "--board", board, *BY)
    name = id_of(archive, board)
    assert (site_of(bench, board) / "results.json").read_bytes() != alone
    said = bench("submit", "retract", name, "--board", board, "--why", "It read the gold.", *BY).out
    assert f"{name} bm25(k1=0.5) @ starter: retracted on " in said
    assert "(a maintainer): It read the gold." in said
    site = site_of(bench, board)
    # Numbers and ranks are those of a board that never had it.
    assert (site / "results.json").read_bytes() == alone
    page = (site / "r" / f"{name}.html").read_text("utf-8")
    assert "It read the gold." in page
    assert "never used again" in page
    assert f"r/{name}.html" in (site / "changes.html").read_text("utf-8")


@pytest.mark.parametrize("rerun", [[], ["--rerun"]])
def test_a_withdrawn_id_is_never_used_again(
    bench: Bench, archive: Path, board: Path, rerun: list[str], sandbox: None
) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    name = id_of(archive, board)
    bench("submit", "retract", name, "--board", board, "--why", "It read the gold.", *BY)
    before = kept(board)
    for verb in ("accept", "check"):
        said = bench("submit", verb, archive, "--board", board, *rerun, code=1).out
        assert "it was retracted on" in said
        assert "Its id is never used again." in said
    assert "this was decided before" in bench("submit", "retract", name, "--board", board, "--why", "again", *BY).out
    assert kept(board) == before


def test_a_superseded_result_leads_to_the_newer_one(bench: Bench, archive: Path, board: Path) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    old, new = find_result(board, "bm25@starter").manifest.result_id, id_of(archive, board)
    bench("submit", "supersede", old, new, "--board", board, "--why", "A better k1.", *BY)
    page = (site_of(bench, board) / "r" / f"{old}.html").read_text("utf-8")
    assert f'href="{new}.html"' in page
    assert "A better k1." in page
    assert (
        "cannot supersede itself"
        in bench("submit", "supersede", new, new, "--board", board, "--why", "x", *BY, code=2).err
    )


def test_a_result_that_was_put_back_by_hand_is_not_shown(bench: Bench, archive: Path, board: Path) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    name = id_of(archive, board)
    copy = find_result(board, name).folder
    shutil.copytree(copy, "kept-aside")
    bench("submit", "retract", name, "--board", board, "--why", "It read the gold.", *BY)
    shutil.copytree("kept-aside", copy)
    said = bench("leaderboard", "build", "--results", board, "--out", "site").err
    assert "it was retracted on" in said
    assert "on no board" in Path("site", "r", f"{name}.html").read_text("utf-8")
    # The second try removes it.
    bench("submit", "retract", name, "--board", board, "--why", "It read the gold.", *BY)
    assert not copy.exists()


def test_another_result_under_an_accepted_id_is_not_shown(bench: Bench, archive: Path, board: Path) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    name = id_of(archive, board)
    path = find_result(board, name).folder / MANIFEST
    raw = json.loads(path.read_text("utf-8"))
    raw["environment"]["created"] = "2020-01-01T00:00:00+00:00"
    from kit.results import seal

    seal(raw)
    path.write_text(json.dumps(raw), "utf-8")
    said = bench("leaderboard", "build", "--results", board, "--out", "site").err
    assert "its manifest has another digest" in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw.update(why="It\nread"), "one line"),
        (lambda raw: raw.update(what="approved"), "what"),
        (lambda raw: raw.update(made="2026-01-01T00:00:00"), "made"),
        (lambda raw: raw.update(by="‮nobody"), "one line"),
        (lambda raw: raw.update(why=""), "a reason"),
        (lambda raw: raw.update(by="somebody else"), "was changed or renamed"),
    ],
)
def test_an_edited_decision_is_named_and_stops_who_would_add_to_the_board(
    bench: Bench, archive: Path, board: Path, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    old = find_result(board, "bm25@starter").manifest.result_id
    bench("submit", "retract", old, "--board", board, "--why", "A mistake.", *BY)
    (path,) = (board / FOLDER).iterdir()
    raw = json.loads(path.read_text("utf-8"))
    change(raw)
    path.write_text(json.dumps(raw), "utf-8")
    for words in (["submit", "accept", archive, "--board", board], ["submit", "check", archive, "--board", board]):
        said = bench(*words, code=6).err
        assert path.name in said
        assert told in said
    assert path.name in bench("leaderboard", "build", "--results", board, "--out", "site").err


def git(repository: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", "-C", str(repository), *words], env=os.environ | who, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def repository(board: Path) -> Path:
    """The board under git, with one commit."""
    git(board.parent, "init", "-q", "-b", "main")
    (board.parent / ".gitignore").write_text(".locks/\n", "utf-8")
    git(board.parent, "add", "-A")
    git(board.parent, "commit", "-qm", "board")
    return board.parent


def test_two_maintainers_decisions_merge(bench: Bench, archive: Path, board: Path, repository: Path) -> None:
    bench("submit", "pack", "random@starter", "--out", "second.zip")
    shutil.rmtree(find_result(board, "random@starter").folder)
    git(repository, "commit", "-qam", "without random")
    git(repository, "branch", "other")

    def decide(branch: str, *words: object) -> None:
        git(repository, "switch", "-q", branch)
        bench("submit", *words, "--board", board, "--by", branch)
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", f"{words[0]} by {branch}")

    # The same archive twice, another archive, and a withdrawal of what the other side has.
    decide("main", "accept", archive)
    name = id_of(archive, board)
    old = find_result(board, "bm25@starter").manifest.result_id
    decide("other", "accept", archive)
    decide("other", "accept", "second.zip")
    decide("main", "retract", old, "--why", "A mistake.")
    git(repository, "merge", "-q", "--no-edit", "other")
    decisions = read_decisions(board)
    assert not decisions.unreadable
    assert decisions.withdrawn.keys() == {old}
    assert decisions.accepted.keys() == {name, find_result(board, "random@starter").manifest.result_id}
    assert sum(item.result_id == name for item in decisions.every) == 2
    assert old not in {item.manifest.result_id for item in find_results(board)}  # type: ignore[union-attr]
    # A retraction on one side outweighs an acceptance on the other, which has the files.
    decide("main", "retract", name, "--why", "It read the gold.")
    git(repository, "merge", "-q", "--no-edit", "other")
    assert "it was retracted" in read_decisions(board).withdrawal(name)
    assert name not in {item.manifest.result_id for item in find_results(board)}  # type: ignore[union-attr]


def test_changes_since_a_commit_are_rows_in_and_out_and_ranks_that_moved(
    bench: Bench, archive: Path, board: Path, repository: Path
) -> None:
    first = git(repository, "rev-parse", "HEAD")
    bench("submit", "accept", archive, "--board", board, *BY)
    old = find_result(board, "random@starter").manifest.result_id
    bench("submit", "retract", old, "--board", board, "--why", "A mistake.", *BY)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "decisions")
    said = bench("submit", "changes", "--since", first[:10], "--board", board, "--json").json
    assert said["commit"] == first
    assert not said["unread"]
    by_kind = {kind: [item for item in said["changes"] if item["what"] == kind] for kind in ("in", "out", "moved")}
    assert [item["result_id"] for item in by_kind["in"]] == [id_of(archive, board)]
    assert [item["result_id"] for item in by_kind["out"]] == [old]
    # Ranks follow from the results of each time: as of two sites.
    assert all(item["before"] != item["after"] for item in by_kind["moved"])
    assert "1 in, 1 out" in bench("submit", "changes", "--since", first, "--board", board).out
    since = bench("submit", "changes", "--since", "HEAD", "--board", board)
    assert since.out.startswith("since ")
    assert "0 in, 0 out, 0 moved" in since.out


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("no-such-commit", "has no commit"),
        ("1999-01-01", "has no commit before 1999-01-01"),
        ("--all", "has no commit"),
    ],
)
def test_changes_need_a_commit(bench: Bench, board: Path, repository: Path, since: str, told: str) -> None:
    assert told in bench("submit", "changes", f"--since={since}", "--board", board, code=2).err


def test_changes_need_a_repository(bench: Bench, board: Path) -> None:
    assert "is in no git repository" in bench("submit", "changes", "--since", "HEAD", "--board", board, code=2).err


def test_a_killed_acceptance_leaves_a_decision_that_the_next_try_completes(
    bench: Bench, archive: Path, board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.leaderboard.submit import decide

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decide, "replace_folder", killed)
        bench("submit", "accept", archive, "--board", board, *BY, code=130)
    (decision,) = read_decisions(board).every
    assert decision.what == "accepted"
    assert len(folders_of(board)) == 4
    bench("submit", "accept", archive, "--board", board, *BY)
    assert read_decisions(board).every == (decision,)
    assert len(folders_of(board)) == 5


def test_a_killed_process_leaves_no_result_without_its_decision(archive: Path, board: Path) -> None:
    command = [sys.executable, "-m", "bench", "submit", "accept", str(archive), "--board", str(board)]
    for wait in (0.5, 1.0, 1.5, 2.0):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if len(folders_of(board)) == 5:
            assert len(read_decisions(board).every) == 1
    subprocess.run(command, check=True, capture_output=True)
    assert len(folders_of(board)) == 5
    assert len(read_decisions(board).every) == 1


def test_a_damaged_result_can_be_retracted(bench: Bench, board: Path) -> None:
    stored = find_result(board, "bm25@starter")
    (stored.folder / MANIFEST).write_text("{", "utf-8")
    words = ("--board", board, "--why", "It is\x1b[31m damaged.", "--by", "a\nmaintainer")
    bench("submit", "retract", stored.manifest.result_id, *words)
    (decision,) = read_decisions(board).every
    assert (decision.result_id, decision.manifest) == (stored.manifest.result_id, None)
    assert (decision.by, decision.why) == ("a maintainer", "It is\ufffd[31m damaged.")
    assert not stored.folder.exists()


def test_a_board_must_be_there(bench: Bench, archive: Path) -> None:
    assert "does not exist" in bench("submit", "accept", archive, "--board", "bord/results", code=2).err


def test_decisions_have_a_schema(bench: Bench) -> None:
    assert bench("list", "schemas", "decision").json["title"] == "decision"


def pull_request(repository: Path, change: Callable[[Path], None]) -> list[int]:
    """Exit codes of the steps of the recipe in docs/submit.md, but those that install, on a board with a change."""
    guide = (Path(__file__).parents[3] / "docs" / "submit.md").read_text("utf-8")
    recipe = guide.partition("## A board of submissions")[2].partition("```yaml\n")[2].partition("```")[0]
    steps = [line.partition("- run: ")[2] for line in recipe.splitlines() if "- run: " in line]
    wanted = [step for step in steps if not step.startswith(("pip", "sudo"))]
    assert len(steps) == 4
    assert len(wanted) == 2
    shutil.copytree(repository, "board", ignore=shutil.ignore_patterns(".locks"))
    shutil.copytree("board", "new")
    change(Path("new"))
    bench = f"{sys.executable} -m bench"
    return [subprocess.run(["bash", "-c", step.replace("bench", bench, 1)], check=False).returncode for step in wanted]


def hand_in(archive: Path) -> Callable[[Path], None]:
    """A request that adds an archive."""

    def change(new: Path) -> None:
        (new / "submissions").mkdir(exist_ok=True)
        shutil.copy(archive, new / "submissions")

    return change


def test_the_recipe_of_a_board_takes_an_archive(archive: Path, repository: Path, sandbox: None) -> None:
    assert pull_request(repository, hand_in(archive)) == [0, 0]


@pytest.mark.parametrize("dataset", ["starter", "submissions", ".git"])
def test_the_recipe_refuses_a_request_that_changes_the_board(
    archive: Path, repository: Path, sandbox: None, dataset: str
) -> None:
    def change(new: Path) -> None:
        hand_in(archive)(new)
        shutil.copytree(folders_of(new / "results")[0], new / "results" / dataset / "mine-0123456789ab")

    assert pull_request(repository, change) == [1, 0]


def test_the_recipe_refuses_a_withdrawn_result(
    bench: Bench, archive: Path, board: Path, repository: Path, sandbox: None
) -> None:
    bench("submit", "accept", archive, "--board", board, *BY)
    bench("submit", "retract", id_of(archive, board), "--board", board, "--why", "It read the gold.", *BY)
    assert pull_request(repository, hand_in(archive)) == [0, 1]

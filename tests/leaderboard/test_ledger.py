"""Versions of a baseline out of version control: their order, what is left out, and that nothing is run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.baselines import make_baseline
from kit.programs import git

from bench.base.errors import ResultError
from bench.gating.baseline import Baseline, Blessing, write_baseline
from bench.gating.judge import judge
from bench.gating.policy import Policy
from bench.leaderboard.boards.gates import candidate_of
from bench.leaderboard.boards.ledger import MOST_VERSIONS, read_ledgers

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def commit(folder: Path, words: str = "change") -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", words)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty repository with a folder for baselines; gives that folder."""
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "--quiet")
    (place / "baselines").mkdir()
    return place / "baselines"


@pytest.fixture
def version() -> Callable[..., Baseline]:
    """A baseline of 40 queries with this share found, blessed in this year."""

    def version(found: float, year: int = 2026, **more: Any) -> Baseline:
        values = (np.arange(40) < 40 * found).astype(float)
        blessing = Blessing(by="someone", at=f"{year}-01-01T00:00:00+00:00", reason=f"{found}", bench="0.1.0")
        return make_baseline({"recall@5": values}, blessed=blessing, rankings=str(found), **more)

    return version


def test_versions_are_those_of_the_file_in_the_order_of_its_commits(
    repository: Path, version: Callable[..., Baseline]
) -> None:
    path = repository / "search.json"
    # Clocks may be wrong: the second version says that it is older than the first.
    made = [version(0.5, 2026), version(0.6, 2020), version(0.7, 2027)]
    commits = []
    for item in made:
        write_baseline(path, item)
        commits.append(commit(repository))
        # Other commits, and those that only bring other bytes of the same baseline, are no versions.
        (repository / "notes.json").write_text(json.dumps({"commits": len(commits)}))
        path.write_text(json.dumps(json.loads(path.read_text()), indent=len(commits)))
        commit(repository)
    (ledger,) = read_ledgers(repository)
    assert ledger.name == "search.json"
    assert [item.baseline for item in ledger.versions] == made
    assert [item.commit for item in ledger.versions] == commits
    assert (ledger.unreadable, ledger.cut) == (0, False)
    # What is in the folder and not committed is the last version.
    write_baseline(path, version(0.8))
    (ledger,) = read_ledgers(path)
    assert [(item.baseline.mean("recall@5"), bool(item.commit)) for item in ledger.versions][2:] == [
        (0.7, True),
        (0.8, False),
    ]


def test_versions_that_cannot_be_read_are_counted_and_left_out(
    repository: Path, version: Callable[..., Baseline]
) -> None:
    path = repository / "search.json"
    older = json.loads(version(0.5).model_dump_json()) | {"schema_version": 1}
    for text in (json.dumps(older), '{"schema_name": "baseline", <<<<<<<', "\udcff\udcfe"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        commit(repository)
    path.unlink()
    commit(repository)
    write_baseline(path, version(0.6))
    commit(repository)
    (ledger,) = read_ledgers(repository)
    assert [item.baseline.mean("recall@5") for item in ledger.versions] == [0.6]
    assert ledger.unreadable == 3


def test_a_shallow_checkout_says_so(repository: Path, version: Callable[..., Baseline], tmp_path: Path) -> None:
    path = repository / "search.json"
    for result in (0.5, 0.6):
        write_baseline(path, version(result))
        commit(repository)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository.parent}", "shallow")
    (ledger,) = read_ledgers(tmp_path / "shallow" / "baselines")
    assert (len(ledger.versions), ledger.cut) == (1, True)


def test_without_git_a_baseline_has_one_version(
    tmp_path: Path, version: Callable[..., Baseline], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "search.json"
    write_baseline(path, version(0.5))
    (ledger,) = read_ledgers(path)
    assert [item.commit for item in ledger.versions] == [""]
    monkeypatch.setenv("PATH", "")
    assert read_ledgers(tmp_path) == [ledger]


def test_nothing_of_a_repository_runs_and_its_names_are_no_patterns(
    repository: Path, version: Callable[..., Baseline], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Programs that a repository's own configuration names, and names of files that git could read as options."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for name in ("search.json", "*.json", ":(top)x.json", "-n1.json"):
        write_baseline(repository / name, version(0.5 if name == "search.json" else 0.6))
    commit(repository)
    write_baseline(repository / "search.json", version(0.7))
    commit(repository)
    config = repository.parent / ".git" / "config"
    config.write_text(
        f'{config.read_text()}\n[core]\nfsmonitor = "{program}"\npager = "{program}"\nsshCommand = "{program}"\n'
        f'[log]\nshowSignature = true\n[gpg]\nprogram = "{program}"\n[pager]\nlog = "{program}"\n'
        f'[diff "x"]\ntextconv = "{program}"\ncommand = "{program}"\n[diff]\nexternal = "{program}"\n'
    )
    (repository.parent / ".gitattributes").write_text("*.json diff=x\n")
    # As in a hook of another repository.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    by_name = {ledger.name: len(ledger.versions) for ledger in read_ledgers(repository)}
    assert by_name == {"search.json": 2, "*.json": 1, ":(top)x.json": 1, "-n1.json": 1}
    assert not ran.exists()


def test_what_is_no_baseline_is_left_out_and_a_damaged_one_is_told(
    tmp_path: Path, version: Callable[..., Baseline]
) -> None:
    with pytest.raises(ResultError, match=r"there is no baseline in .*; `bench bless RESULT --out"):
        read_ledgers(tmp_path)
    with pytest.raises(ResultError, match=r"there is no baseline .*gone\.json"):
        read_ledgers(tmp_path / "gone.json")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "folder.json").mkdir()
    write_baseline(tmp_path / "search.json", version(0.5))
    assert [ledger.name for ledger in read_ledgers(tmp_path)] == ["search.json"]
    (tmp_path / "other.json").write_text((tmp_path / "search.json").read_text()[:-20])
    with pytest.raises(ResultError, match=r"other\.json is not JSON: .*; restore it from version control\.$"):
        read_ledgers(tmp_path)


def test_the_newest_versions_are_read(
    repository: Path, version: Callable[..., Baseline], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_VERSIONS > 3
    monkeypatch.setattr("bench.leaderboard.boards.ledger.MOST_VERSIONS", 3)
    for i in range(5):
        write_baseline(repository / "search.json", version(i / 10))
        commit(repository)
    (ledger,) = read_ledgers(repository)
    assert [item.baseline.blessed.reason for item in ledger.versions] == ["0.2", "0.3", "0.4"]


@pytest.mark.parametrize("now", [0.5, 0.55, 0.9, 0.1])
def test_a_baseline_is_judged_like_the_result_that_it_holds(now: float, version: Callable[..., Baseline]) -> None:
    policy = Policy.model_validate({"rule": [{"metric": "recall@5", "margin": 0.02, "floor": 0.3, "max_broken": 2}]})
    before, after = version(0.5), version(now)
    candidate = candidate_of(after)
    assert candidate.units == after.units

    def none(at_hand: bool) -> Any:
        raise ResultError("no dataset is needed.")

    report = judge(candidate, before, policy, none)
    outcomes = {0.5: "pass", 0.55: "inconclusive", 0.9: "pass", 0.1: "regression"}
    assert (report.outcome, report.reasons) == (outcomes[now], [])
    (broken,) = (rule for rule in report.rules if rule.kind == "broken")
    assert broken.broken == max(0, round(40 * (0.5 - now)))

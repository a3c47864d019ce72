"""Where CI installs bench from."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.gating.source import find_source, source_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOWHERE = Path("/nowhere")


def cloned(url: str, commit: str = COMMIT) -> dict[str, Any]:
    """What pip records of `pip install git+URL`."""
    return {"url": url, "vcs_info": {"vcs": "git", "requested_revision": "v9", "commit_id": commit}}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com/me/bench.git", "https://github.com/me/bench.git"),
        ("https://me:secret@git.example.org:8443/a/b", "https://git.example.org:8443/a/b"),
        ("ssh://git@github.com/me/bench.git", "https://github.com/me/bench.git"),
        ("ssh://git@git.example.org:2222/me/bench", "https://git.example.org/me/bench"),
    ],
)
def test_what_was_cloned_is_cloned_again_at_its_commit_and_without_a_password(url: str, address: str) -> None:
    assert source_of(cloned(url), NOWHERE).requirement == f"git+{address}@{COMMIT}"


def test_what_came_from_an_index_comes_from_there_again() -> None:
    assert source_of(None, NOWHERE).requirement == f"tool-retrieval-bench=={bench.__version__}"


@pytest.mark.parametrize(
    "recorded",
    [
        {},
        {"url": "file:///home/me/bench", "dir_info": {"editable": True}},
        {"url": "file:///tmp/x.whl", "archive_info": {}},
        cloned("file:///home/me/bench"),
        cloned("https://[half/x"),
        cloned("https://host:port/x"),
        cloned("https://host/a b"),
        cloned('https://host/"\n  - run: rm -rf ~'),
        cloned("https://host/x", "main"),
        {"url": 3, "vcs_info": {}},
    ],
)
def test_what_others_cannot_get_is_left_to_its_reader(recorded: dict[str, Any]) -> None:
    source = source_of(recorded, NOWHERE)
    assert source.requirement == f"git+https://github.com/OWNER/tool-retrieval-bench@v{bench.__version__}"
    assert "OWNER stands in BENCH" in source.note


def test_a_checkout_is_named_by_where_it_is_pushed_to(tmp_path: Path) -> None:
    def git(words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *shlex.split(words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init --quiet")
    (tmp_path / "file").write_text("one")
    git("add file")
    git("commit --quiet -m one")
    commit = git("rev-parse HEAD")
    editable = {"url": f"file://{tmp_path}", "dir_info": {"editable": True}}
    assert "OWNER" in source_of(editable, tmp_path).requirement
    git("remote add origin git@github.com:me/bench.git")
    source = source_of(editable, tmp_path)
    assert source.requirement == f"git+https://github.com/me/bench.git@{commit}"
    assert "is on no remote branch" in source.note
    git("update-ref refs/remotes/origin/main HEAD")
    assert source_of(editable, tmp_path).note == ""
    (tmp_path / "file").write_text("two")
    assert "has changes that the commit" in source_of(editable, tmp_path).note
    git("remote set-url origin /home/me/other")
    assert "OWNER" in source_of(editable, tmp_path).requirement


def test_this_bench_came_from_somewhere() -> None:
    assert find_source().requirement

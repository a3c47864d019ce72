"""Where CI installs bench from."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.example.source import Source, find_source, source_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NOWHERE = Path("/nowhere/bench")
RELEASED = f"tool-retrieval-bench=={bench.__version__}"


def cloned(url: str, commit: str = COMMIT, **more: str) -> dict[str, Any]:
    """What pip records of `pip install git+URL`."""
    return {"url": url, "vcs_info": {"vcs": "git", "requested_revision": "v9", "commit_id": commit}, **more}


@pytest.mark.parametrize(
    ("recorded", "requirement", "note"),
    [
        (cloned("https://github.com/me/bench.git"), f"git+https://github.com/me/bench.git@{COMMIT}", ""),
        (cloned("https://me:secret@git.example.org:8443/a/b"), f"git+https://git.example.org:8443/a/b@{COMMIT}", ""),
        (cloned("ssh://git@github.com/me/b.git"), f"git+https://github.com/me/b.git@{COMMIT}", "address for ssh"),
        (cloned("ssh://git@example.org:2222/me/b"), f"git+https://example.org/me/b@{COMMIT}", "address for ssh"),
        (cloned("https://host/a", subdirectory="b/c"), f"git+https://host/a@{COMMIT}#subdirectory=b/c", ""),
        (cloned("file:///home/me/b.git"), f"git+file:///home/me/b.git@{COMMIT}", "no other machine"),
        ({"url": "https://host/x.whl", "archive_info": {}}, "https://host/x.whl", ""),
        ({"url": "file:///a/x.whl", "archive_info": {"hash": "sha256=0"}}, "file:///a/x.whl", "no other machine"),
        ({"url": "file:///a%20b", "dir_info": {}}, "file:///a%20b", "no other machine"),
        (None, RELEASED, "not from PyPI"),
    ],
)
def test_pip_is_told_what_it_was_told_here(recorded: dict[str, Any] | None, requirement: str, note: str) -> None:
    source = source_of(recorded, NOWHERE)
    assert source.requirement == requirement
    assert note in source.note
    assert bool(note) == bool(source.note)


@pytest.mark.parametrize(
    "recorded",
    [
        {},
        [],
        {"url": 3, "vcs_info": {}},
        {"url": "https://host/x.whl?key=secret", "archive_info": {}},
        {"url": "https://me:secret@host/x.whl", "archive_info": {}},
        cloned("http://me:secret@host/x"),
        cloned("https://[half/x"),
        cloned("https://host:port/x"),
        cloned("https://host/a b"),
        cloned('https://host/"\n  - run: rm -rf ~'),
        cloned("https://host/x", subdirectory="$(rm -rf ~)"),
        cloned("https://host/x", "main"),
        {"url": "https://host/x", "vcs_info": {"vcs": "hg", "commit_id": COMMIT}},
    ],
)
def test_what_cannot_be_written_into_a_job_is_left_to_its_reader(recorded: Any) -> None:
    source = source_of(recorded, NOWHERE)
    assert source == Source(RELEASED, source.note)
    assert "write one in BENCH" in source.note


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in a repository, of which no remote is known."""
    folder = tmp_path / "repository" / "part"
    (folder / "bench").mkdir(parents=True)
    (folder / "methods").mkdir()
    for name in ("pyproject.toml", "bench/base.py", "methods/one.py", "notes.txt"):
        (folder / name).write_text("one")
    return folder


@pytest.fixture
def git(checkout: Path) -> Callable[[str], str]:
    """Run git in a checkout of the test's own."""

    def git(words: str) -> str:
        command = ["git", "-C", str(checkout.parent), "-c", "user.name=a", "-c", "user.email=a@b", *shlex.split(words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init --quiet")
    git("add .")
    git("commit --quiet -m one")
    return git


def of_folder(folder: Path, code: Path | None = None) -> Source:
    return source_of({"url": folder.as_uri(), "dir_info": {}}, code or folder / "bench")


def test_a_checkout_is_named_by_where_it_is_pushed_to_or_else_by_its_folder(
    checkout: Path, git: Callable[[str], str]
) -> None:
    revision = f"{git('rev-parse HEAD')}#subdirectory=part"
    here = Source(f"git+{checkout.parent.as_uri()}@{revision}", of_folder(checkout).note)
    assert of_folder(checkout) == here
    assert here.note.startswith(f"push {checkout} where CI can read it")
    git("remote add origin /home/me/other")
    assert of_folder(checkout) == here
    git("remote add fork https://me:secret@git.example.org/me/bench.git")
    unpushed = of_folder(checkout)
    assert unpushed.requirement == f"git+https://git.example.org/me/bench.git@{revision}"
    assert "is on no remote branch" in unpushed.note
    git("remote set-url origin git@github.com:me/bench.git")
    assert of_folder(checkout).requirement == f"git+https://github.com/me/bench.git@{revision}"
    # Where the commit is counts more than what git calls origin.
    git("update-ref refs/remotes/fork/main HEAD")
    assert of_folder(checkout) == Source(unpushed.requirement)


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ("bench/base.py", "commit and push what has changed"),
        ("methods/new.py", "commit and push what has changed"),
        ("notes.txt", ""),
    ],
)
def test_changes_of_the_code_that_no_commit_has_are_told(
    checkout: Path, git: Callable[[str], str], edited: str, said: str
) -> None:
    git("remote add origin https://host/me/bench")
    git("update-ref refs/remotes/origin/main HEAD")
    (checkout / edited).write_text("two")
    source = of_folder(checkout)
    assert source.requirement.startswith("git+https://host/me/bench@")
    assert source.note.startswith(said)
    assert bool(said) == bool(source.note)


def test_a_bench_that_was_built_from_an_earlier_commit_is_told(
    checkout: Path, git: Callable[[str], str], tmp_path: Path
) -> None:
    # As a wheel has it: the other folders are inside.
    installed = tmp_path / "site-packages" / "bench"
    shutil.copytree(checkout / "bench", installed)
    shutil.copytree(checkout / "methods", installed / "methods")
    git("remote add origin https://host/me/bench")
    git("update-ref refs/remotes/origin/main HEAD")
    assert of_folder(checkout, installed).note == ""
    for path in ("base.py", "methods/one.py"):
        kept = (installed / path).read_text()
        (installed / path).write_text("older")
        assert of_folder(checkout, installed).note.startswith("install bench again")
        (installed / path).write_text(kept)


@pytest.mark.slow("a package built")
def test_pip_can_install_what_is_found_of_this_bench(tmp_path: Path) -> None:
    requirement = find_source().requirement
    if "file:///" not in requirement:
        pytest.skip("this checkout has a remote, and tests use no network")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "-w", str(tmp_path), requirement], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1

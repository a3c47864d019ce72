"""What a manifest says of the machine: commit and changes of the checkout, versions, memory."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

import bench
from bench.evaluation.machine import git_state, hardware, package_versions, peak_memory_mib
from bench.registry import build_method
from bench.results.code_versions import method_packages


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one commit, from which bench seems to run."""
    root = tmp_path / "checkout"
    for name in ("bench/__init__.py", "methods/bm25.py", "datasets/starter/loader.py", "tests/test_it.py", "README.md"):
        write(root / name)
    write(root / ".gitignore", "*.pyc\nresults/\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "-m", "Begin")
    monkeypatch.setattr(bench, "__file__", str(root / "bench" / "__init__.py"))
    return root


def write(path: Path, text: str = "pass\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


def state() -> tuple[str, bool] | None:
    """The state as it is now; it is asked for once in a process."""
    return git_state.__wrapped__()


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    assert state() == (git(checkout, "rev-parse", "HEAD").strip(), False)


@pytest.mark.parametrize("name", ["bench/__init__.py", "methods/bm25.py", "README.md", "tests/test_it.py"])
def test_a_changed_file_makes_it_dirty(checkout: Path, name: str) -> None:
    write(checkout / name, "changed\n")
    assert state() == (git(checkout, "rev-parse", "HEAD").strip(), True)


@pytest.mark.parametrize(
    "name", ["bench/new.py", "methods/mine.py", "datasets/mine/loader.py", "datasets/mine/card.toml"]
)
def test_a_new_file_that_can_run_makes_it_dirty_before_git_knows_it(checkout: Path, name: str) -> None:
    write(checkout / name)
    result = state()
    assert result is not None
    assert result[1]
    git(checkout, "add", ".")
    assert state() == result


@pytest.mark.parametrize("name", ["notes.txt", "results/x/manifest.json", "bench/__pycache__/x.pyc", "shared/data"])
def test_a_new_file_that_takes_no_part_does_not(checkout: Path, name: str) -> None:
    write(checkout / name)
    result = state()
    assert result is not None
    assert not result[1]


def test_an_installed_bench_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "site-packages" / "bench" / "__init__.py")
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "site-packages" / "bench" / "__init__.py"))
    assert state() is None


def test_a_checkout_that_git_cannot_read_has_none_either(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").write_text("nothing")
    assert state() is None


def test_hardware_and_memory_are_told() -> None:
    assert int(hardware()["cores"]) >= 1
    peak = peak_memory_mib()
    assert peak is not None
    assert peak > 1


#: What scores and counts tokens; numba, where it is installed, is used by methods that count words.
ALWAYS = {"bench", "python", "numpy", "pyarrow", "scipy", "tokenizers"}


def test_versions_are_of_what_computes_in_the_code_and_below_it() -> None:
    result = package_versions(method_packages(build_method("dense")))
    assert result["torch"] == version("torch")
    assert {"sentence-transformers", "transformers", "tokenizers"} <= result.keys()
    # What carries files and messages computes nothing.
    assert not result.keys() & {"requests", "tqdm", "huggingface-hub", "certifi", "packaging"}
    assert package_versions(method_packages(build_method("bm25"))).keys() - {"numba"} == ALWAYS


def test_a_package_is_found_by_the_name_under_which_it_is_imported() -> None:
    # Installed as PyYAML and sentence-transformers.
    result = package_versions(["yaml", "jinja2", "sentence_transformers", "nowhere"])
    assert result.keys() - ALWAYS >= {"pyyaml", "sentence-transformers", "torch"}
    assert "jinja2" not in result
    assert result["pyyaml"] == version("pyyaml")

"""Verifying a dataset: everything that is wrong is told, and nothing is mended behind one's back."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.base.paths import data_folder
from bench.data.card import MANIFEST
from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.data.tables import Tables
from bench.registry import dataset_entry, load_dataset
from bench.registry.verify import verify_dataset


@pytest.fixture
def files(mirror: Path, tmp_path: Path) -> Path:
    """The files of metatool in a folder of this test."""
    for name in dataset_entry("metatool").card.files():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(mirror / name, tmp_path / "files" / name)
    return tmp_path / "files"


@pytest.fixture
def cache(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that knows nothing of metatool, beside a mirror that has it."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_MIRROR", str(files))
    return tmp_path / "cache"


def stored(cache: Path) -> Path:
    """The folder of the normalised tables."""
    (folder,) = (cache / "datasets").iterdir()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Whole datasets -----------------------------------------------------------------------------------------------------


def test_a_whole_dataset_has_no_problems(cache: Path) -> None:
    loaded = load_dataset("metatool")
    report = verify_dataset("MetaTool")
    assert (report.spec, report.content_hash, report.problems) == ("metatool", loaded.content_hash, [])
    assert report.files == len(dataset_entry("metatool").card.files())


def test_options_are_verified_too(cache: Path) -> None:
    report = verify_dataset("metatool(seed=3)")
    assert (report.spec, report.problems) == ("metatool(seed=3)", [])
    assert report.content_hash == load_dataset("metatool(seed=3)").content_hash
    assert report.content_hash != verify_dataset("metatool").content_hash


def test_verifying_stores_nothing(cache: Path) -> None:
    assert verify_dataset("metatool").problems == []
    assert not (cache / "datasets").exists()


# Files --------------------------------------------------------------------------------------------------------------


def test_every_wrong_file_is_told_and_stays(cache: Path, files: Path) -> None:
    names = sorted(dataset_entry("metatool").card.files())
    for name in names:
        (files / name).write_bytes(b"{}")
    report = verify_dataset("metatool")
    assert report.files == 0
    assert len(report.problems) == len(names) >= 2
    for name, problem in zip(names, sorted(report.problems), strict=True):
        assert name in problem
        assert "has sha256" in problem
        assert (files / name).read_bytes() == b"{}"


def test_a_damaged_file_in_the_cache_is_told_and_stays(
    cache: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(files, cache / "upstream")
    monkeypatch.delenv("BENCH_MIRROR")
    names = sorted(dataset_entry("metatool").card.files())
    assert verify_dataset("metatool").files == len(names)
    damaged = cache / "upstream" / names[0]
    damaged.write_bytes(b"{}")
    report = verify_dataset("metatool")
    assert report.files == len(names) - 1
    assert len(report.problems) == 1
    assert names[0] in report.problems[0]
    assert damaged.read_bytes() == b"{}"


def test_a_missing_file_is_told_as_unavailable(cache: Path, files: Path) -> None:
    name = min(dataset_entry("metatool").card.files())
    (files / name).unlink()
    with pytest.raises(UnavailableError, match=f"has no file {name}"):
        verify_dataset("metatool")


@pytest.mark.parametrize("name", ["apibank-full", "toolbench-g2"])
def test_a_dataset_that_the_user_must_bring_says_what_and_how(name: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        verify_dataset(name)
    assert dataset_entry(name).card.obtain in str(caught.value)


def test_an_unknown_dataset_is_told() -> None:
    with pytest.raises(UsageError, match="there is no dataset 'metatol'"):
        verify_dataset("metatol")


# Stored tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tools.parquet", "gold.parquet", MANIFEST])
def test_a_truncated_file_of_the_stored_tables_is_told_and_stays(cache: Path, name: str) -> None:
    load_dataset("metatool")
    folder = stored(cache)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-40])
    before = contents(folder)
    report = verify_dataset("metatool")
    assert len(report.problems) == 1
    assert name in report.problems[0]
    assert not report.problems[0].endswith(".")
    assert contents(folder) == before


def test_stored_tables_that_are_not_what_their_manifest_says_are_told_and_stay(cache: Path) -> None:
    loaded = load_dataset("metatool")
    path = stored(cache) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "content_hash": "0" * 64}))
    before = path.read_bytes()
    report = verify_dataset("metatool")
    (problem,) = report.problems
    assert problem.startswith(f"the stored tables hash to {loaded.content_hash[:16]}")
    assert "0" * 16 in problem
    assert path.read_bytes() == before


def test_stored_tables_of_other_rows_are_told_and_stay(cache: Path) -> None:
    loaded = load_dataset("metatool")
    folder = stored(cache)
    rows = replace(loaded.rows_again(), queries=loaded.queries[1:])
    other = Dataset.build("metatool", loaded.card, rows)
    # Complete, and signed: only rebuilding them shows it.
    write_dataset(other, folder)
    before = contents(folder)
    report = verify_dataset("metatool")
    (problem,) = report.problems
    assert problem.startswith(f"the tables rebuilt from its files hash to {loaded.content_hash[:16]}")
    assert other.content_hash[:16] in problem
    assert contents(folder) == before


def test_problems_of_files_and_of_tables_are_told_together(cache: Path, files: Path) -> None:
    load_dataset("metatool")
    name = min(dataset_entry("metatool").card.files())
    (files / name).write_bytes(b"{}")
    (stored(cache) / "gold.parquet").unlink()
    report = verify_dataset("metatool")
    assert [name in report.problems[0], "gold.parquet" in report.problems[1]] == [True, True]
    assert len(report.problems) == 2


# Added datasets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def added() -> Path:
    """The embedded dataset, added under another name."""
    whole = load_dataset("starter")
    card = whole.card.model_copy(update={"id": "made", "aliases": [], "counts": None})
    folder = data_folder() / "datasets" / "made"
    write_dataset(Dataset.build("made", card, Tables(whole.tools, whole.queries, whole.edges)), folder)
    return folder


def test_an_added_dataset_is_verified_from_its_tables(added: Path) -> None:
    report = verify_dataset("made")
    assert (report.files, report.content_hash, report.problems) == (0, load_dataset("made").content_hash, [])


@pytest.mark.parametrize("name", ["tools.parquet", "queries.parquet", "edges.parquet"])
def test_a_truncated_file_of_an_added_dataset_is_told_and_stays(added: Path, name: str) -> None:
    path = added / name
    path.write_bytes(path.read_bytes()[:-1])
    before = contents(added)
    report = verify_dataset("made")
    assert len(report.problems) == 1
    assert name in report.problems[0]
    assert contents(added) == before
    with pytest.raises(DataError, match=name):
        load_dataset("made")

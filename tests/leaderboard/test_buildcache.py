"""What a build remembers of the last one: it saves time, and never shows on a page."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.storage.paths import cache_folder, results_folder

jobs = importlib.import_module("bench.leaderboard.boardjobs")
cache = importlib.import_module("bench.leaderboard.buildcache")


@pytest.fixture(autouse=True)
def own_cache(isolated: None, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The datasets of the shared cache, and no entries of other tests' sites."""
    (tmp_path / "cache").mkdir()
    if (shared_cache / "datasets").is_dir():
        (tmp_path / "cache" / "datasets").symlink_to(shared_cache / "datasets")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


def entries() -> list[Path]:
    """What is remembered of single boards."""
    return [path for path in everything() if not path.name.startswith("overall")]


def everything() -> list[Path]:
    return sorted((cache_folder() / "leaderboard").glob("*/*.npz"))


@pytest.mark.usefixtures("ready")
def test_boards_of_which_nothing_has_changed_are_not_computed_again(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build()
    content = first.bytes()
    assert len(entries()) == 1
    monkeypatch.setattr(jobs, "make_board", lambda *_: pytest.fail("computed again"))
    again = build()
    assert again.bytes() == content
    assert not again.made.files.written
    assert again.made.boards[0].standings.keys() == first.made.boards[0].standings.keys()


@pytest.mark.parametrize("keep", [True, False])
def test_a_site_is_the_same_bytes_with_and_without_the_cache(
    keep: bool, ready: Path, build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keep:
        monkeypatch.setattr(importlib.import_module("bench.leaderboard.site"), "MOST_VALUES", 0)
    late = next(ready.glob("*/random-*"))
    shutil.move(late, tmp_path / "late")
    build()
    shutil.move(tmp_path / "late", late)
    build()
    # The pages over datasets are made of what is remembered, and not only left alone.
    for page in tmp_path.glob("site/*.html"):
        page.unlink()
    remembered = build().bytes()
    shutil.rmtree(cache_folder() / "leaderboard")
    assert build("fresh").bytes() == remembered


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "of another form"])
def test_a_damaged_entry_is_computed_again(damage: str, build: Callable[..., Any]) -> None:
    content = build().bytes()
    (entry,) = entries()
    whole = entry.read_bytes()
    other = bytes([whole[100] ^ 1])
    if damage == "of another form":
        name, own = entry.stem, cache.BuildCache(entry.parent)
        own._folder = entry.parent
        key = jobs.Job.key
        found: list[str] = []
        jobs.Job.key = lambda job: found.append(key(job)) or found[-1]
        try:
            build()
        finally:
            jobs.Job.key = key
        own.put(name, found[0], cache.Kept({"files": {}, "sound": ["zz"]}, {"mask/seen": np.zeros(3)}))
    else:
        kinds = {"cut": whole[:-9], "flipped": whole[:100] + other + whole[101:], "empty": b"", "text": b"x" * 500}
        entry.write_bytes(kinds[damage])
    again = build()
    assert again.bytes() == content
    assert again.made.results == 5
    assert entry.read_bytes() == whole


def test_a_table_that_changes_after_a_build_is_noticed(ready: Path, build: Callable[..., Any]) -> None:
    build()
    table = next(ready.glob("*/random-*/per_query.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    again = build()
    assert again.made.results == 4
    assert "sha256" in again.made.rejected[0].reason


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_rankings_are_read_again_only_where_they_are_verified(
    most: int, ready: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("bench.leaderboard.site"), "_MOST_VERIFIED", most)
    build(downloads=False)
    for table in ready.glob("*/*/run.parquet"):
        table.write_bytes(table.read_bytes()[:-1] + b"x")
    computed: list[Any] = []
    make = jobs.make_board

    def counted(*given: Any) -> Any:
        computed.append(given)
        return make(*given)

    monkeypatch.setattr(jobs, "make_board", counted)
    build(downloads=False)
    assert len(computed) == (1 if most else 0)


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("pattern", ["r/*.html", "d/*.html", "e/*/q0.js", "r/*.csv.gz"])
def test_a_page_that_was_damaged_since_is_mended(pattern: str, build: Callable[..., Any]) -> None:
    site = build()
    page = next(site.folder.glob(pattern))
    whole = page.read_bytes()
    page.write_bytes(whole[:50])
    build()
    assert page.read_bytes() == whole


@pytest.mark.usefixtures("ready")
def test_a_cache_that_cannot_be_written_fails_no_build(build: Callable[..., Any]) -> None:
    (cache_folder() / "leaderboard").write_text("a file, where a folder should be")
    assert build().made.results == 5
    assert build().made.results == 5


@pytest.mark.usefixtures("ready")
def test_entries_of_sites_and_boards_that_are_gone_are_removed(build: Callable[..., Any]) -> None:
    one = build("one")
    build("two")
    assert len(entries()) == 2
    shutil.rmtree(one.folder)
    build("two")
    assert len(entries()) == 1
    shutil.rmtree(results_folder())
    build("two")
    assert not everything()

"""What a build remembers of the last one: it saves time, and never shows on a page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.results import folder_of

from bench.base.paths import cache_folder, results_folder
from bench.leaderboard import boardjobs as jobs
from bench.leaderboard import site as site_module
from bench.leaderboard.boards import board as board_module
from bench.leaderboard.boards.board import RowSample, slug_of
from bench.leaderboard.buildcache import BuildCache
from bench.lookup.current import is_of_today
from bench.results.store import StoredResult


@pytest.fixture
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
    return sorted((cache_folder() / "leaderboard").glob("*/*.entry"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The boards that are computed, and not remembered."""
    made: list[Any] = []
    make = board_module.make_board

    def counted(*given: Any) -> Any:
        made.append(given)
        return make(*given)

    monkeypatch.setattr(jobs, "make_board", counted)
    return made


def test_boards_of_which_nothing_has_changed_are_not_computed_again(
    begun: Any, build: Callable[..., Any], computed: list[Any]
) -> None:
    content = begun.bytes()
    again = build()
    assert not computed
    assert again.bytes() == content
    assert not again.made.files.written
    assert again.made.boards[0].standings.keys() == begun.made.boards[0].standings.keys()
    # The pages over datasets are made of what is remembered, and not only left alone.
    for page in begun.folder.glob("*.html"):
        page.unlink()
    assert build().bytes() == content
    assert not computed


@pytest.mark.usefixtures("few", "own_cache")
def test_nor_are_those_whose_dataset_the_first_build_had_to_make(
    build: Callable[..., Any], computed: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    build()
    computed.clear()
    assert not build().made.files.written
    assert not computed


def test_a_site_is_the_same_bytes_with_and_without_the_cache_where_no_values_are_kept(
    few: Path, build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_module, "MOST_VALUES", 0)
    late = folder_of(few, "random")
    shutil.move(late, tmp_path / "late")
    build()
    shutil.move(tmp_path / "late", late)
    build()
    for page in tmp_path.glob("site/*.html"):
        page.unlink()
    assert build().bytes() == build("fresh").bytes()


def test_a_row_is_marked_when_the_code_of_its_method_has_changed(
    few: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    result_id = StoredResult.read(folder_of(few, "random")).manifest.result_id
    assert ">older code</span>" not in build().page(f"r/{result_id}.html").text
    usual = is_of_today
    monkeypatch.setattr(
        site_module,
        "is_of_today",
        lambda manifest, **given: manifest.result_id != result_id and usual(manifest, **given),
    )
    page = build().page(f"r/{result_id}.html").text
    assert ">older code</span>" in page
    assert "bench run --method random --dataset starter" in page


def test_a_damaged_entry_is_no_entry(tmp_path: Path, isolated: None) -> None:
    cache = BuildCache(tmp_path / "site")
    empty = np.empty((0, 3))
    kept: dict[str, Any] = {
        "sample": RowSample(1, np.array([np.nan, 0.1]), empty),
        "masks": {"seen": np.arange(9) > 4},
        "ids": ["a"],
    }
    cache.put("board", "key", kept)
    entry = cache._folder / "board.entry"
    whole = entry.read_bytes()
    result = cache.get("board", "key")
    sample = RowSample(**result["sample"])
    assert sample.means.tobytes() == kept["sample"].means.tobytes()
    assert sample.errors.shape == empty.shape
    assert result["masks"]["seen"].tolist() == [False] * 5 + [True] * 4
    assert result["ids"] == ("a",)
    assert cache.get("board", "another key") is None
    flipped = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    for damaged in (whole[:-9], flipped, b"", b"x" * 500):
        entry.write_bytes(damaged)
        assert cache.get("board", "key") is None
    entry.write_bytes(whole)
    assert cache.get("board", "key") is not None


@pytest.mark.parametrize("damage", ["flipped", "of another form"])
def test_what_cannot_be_used_is_computed_again(
    damage: str, few: Path, build: Callable[..., Any], computed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    key = jobs.Job.key
    monkeypatch.setattr(jobs.Job, "key", lambda job: keys.append(key(job)) or keys[-1])
    site = build()
    content, values = site.bytes(), BuildCache(site.folder)
    name = slug_of(StoredResult.read(folder_of(few, "bm25")))
    entry = values._folder / f"{name}.entry"
    whole = entry.read_bytes()
    if damage == "flipped":
        entry.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    else:
        values.put(name, keys[0], {"files": {}, "sound": ["zz"]})
    again = build()
    assert len(computed) == 2
    assert again.bytes() == content
    assert again.made.results == 2
    assert entry.read_bytes() == whole


@pytest.mark.usefixtures("begun")
def test_a_table_that_changes_after_a_build_is_noticed(build: Callable[..., Any]) -> None:
    table = folder_of(results_folder(), "random") / "per_query.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    again = build()
    assert again.made.results == 1
    assert "sha256" in again.made.rejected[0].reason


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_rankings_are_read_again_only_where_they_are_verified(
    most: int, few: Path, build: Callable[..., Any], computed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_module, "_MOST_VERIFIED", most)
    assert not list(build(downloads=False).folder.rglob("*.zip"))
    for table in few.glob("*/*/run.parquet"):
        table.write_bytes(table.read_bytes()[:-1] + b"x")
    computed.clear()
    build(downloads=False)
    assert len(computed) == (1 if most else 0)


def test_a_page_that_was_damaged_since_is_mended(begun: Any, build: Callable[..., Any]) -> None:
    board = f"d/{begun.board.slug}.html"
    pages = [next(begun.folder.glob(pattern)) for pattern in ("r/*.html", board, "e/*/q0.js", "downloads/*.zip")]
    content = begun.bytes()
    for page in pages:
        page.write_bytes(page.read_bytes()[:50])
    again = build()
    assert again.bytes() == content
    assert {str(page.relative_to(begun.folder)) for page in pages} <= set(again.made.files.written)


@pytest.mark.usefixtures("few", "own_cache")
def test_a_cache_that_cannot_be_written_fails_no_build(build: Callable[..., Any]) -> None:
    (cache_folder() / "leaderboard").write_text("a file, where a folder should be")
    assert build().made.results == 2
    assert build().made.results == 2


@pytest.mark.usefixtures("own_cache")
def test_entries_of_sites_and_boards_that_are_gone_are_removed(few: Path, build: Callable[..., Any]) -> None:
    one = build("one")
    build("two")
    assert len(entries()) == 2
    shutil.rmtree(one.folder)
    build("two")
    assert len(entries()) == 1
    shutil.rmtree(few)
    build("two")
    assert not everything()

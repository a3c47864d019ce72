"""Builds upon builds: the same bytes, only what changed is written, only what the site wrote is removed."""

from __future__ import annotations

import errno
import importlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StorageError, UsageError
from bench.storage.paths import results_folder
from bench.text import unique_slug

writer_module = importlib.import_module("bench.leaderboard.writer")


@pytest.mark.usefixtures("ready")
def test_two_builds_are_the_same_bytes(build: Callable[..., Any]) -> None:
    assert build("one").bytes() == build("two").bytes()


@pytest.mark.usefixtures("ready")
def test_a_build_of_the_same_results_writes_nothing(build: Callable[..., Any]) -> None:
    first = build()
    times = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*.*")}
    again = build()
    assert not again.made.files.written
    assert sorted(again.made.files.unchanged) == sorted(first.made.files.written)
    assert {path: path.stat().st_mtime_ns for path in again.folder.rglob("*.*")} == times


def test_a_new_result_rewrites_the_pages_that_show_it_and_no_other(
    ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    late = next(ready.glob("*/random-*"))
    shutil.move(late, tmp_path / "late")
    build()
    shutil.move(tmp_path / "late", late)
    site = build()
    exports = ("results.", "tables/", "model-index/", "feed.xml", "methods.bib")
    written = {path for path in site.made.files.written if not path.startswith(exports)}
    own = {path for path in written if "random" in path or any(r in path for r in [late.name.rpartition("-")[2]])}
    assert own
    board = site.made.boards[0].slug
    overall = {path for path in written if path.startswith(("index", "overall"))}
    assert written - own - overall == {
        "compare.html",
        "datasets.html",
        "methods.html",
        f"c/{board}.js",
        f"d/{board}.html",
        f"e/{board}.html",
        f"n/{board}.html",
        f"s/{board}.html",
        *(path for path in written if path.startswith(f"e/{board}/")),
        *(path for path in written if path.startswith("m/") and path != "m/random.html"),
    }
    assert not [path for path in written - own if path.startswith("r/")], "other results' pages do not show it"
    # What was built step by step is what is built at once.
    assert build("fresh").bytes() == site.bytes()


def test_pages_of_results_that_are_gone_are_removed_and_nothing_else(
    ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    site = build()
    (site.folder / "notes.html").write_text("mine")
    (site.folder / "r" / "mine.html").write_text("mine")
    gone = next(ready.glob("*/random-*"))
    own = gone.name.rpartition("-")[2]
    assert (site.folder / f"r/{own}.html").is_file()
    shutil.rmtree(gone)
    again = build()
    assert f"r/{own}.html" in again.made.files.removed
    assert not list(site.folder.glob(f"r/{own}*"))
    assert (site.folder / "notes.html").read_text() == "mine"
    assert (site.folder / "r" / "mine.html").read_text() == "mine"


def test_a_listing_from_outside_removes_nothing_of_others(
    ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    site = build()
    victim = tmp_path / "victim.html"
    victim.write_text("mine")
    (site.folder / "link").symlink_to(tmp_path)
    listing = site.folder / "files.json"
    told = json.loads(listing.read_text())
    told["files"] |= {"../victim.html": "x", str(victim): "x", "link/victim.html": "x", "..": "x"}
    listing.write_text(json.dumps(told))
    build()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": {"a": {}}}', "[" * 5000])
def test_a_damaged_listing_is_no_obstacle(text: str, tmp_path: Path) -> None:
    (tmp_path / "files.json").write_text(text)
    own = writer_module.Writer(tmp_path)
    own.put("a.html", "a")
    own.finish()
    assert (tmp_path / "a.html").read_text() == "a"


def test_a_damaged_page_is_mended(ready: Path, build: Callable[..., Any]) -> None:
    site = build()
    whole = (site.folder / "index.html").read_bytes()
    (site.folder / "index.html").write_bytes(whole[:100])
    assert build().made.files.written == ["index.html"]
    assert (site.folder / "index.html").read_bytes() == whole


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "", ".a", "a//b", "a/", "a\\b", "a b", "é", "files.json"])
def test_no_file_is_written_but_under_plain_names(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file of a site"):
        writer_module.Writer(tmp_path).put(path, "x")


def test_two_pages_never_share_a_name(tmp_path: Path) -> None:
    own = writer_module.Writer(tmp_path)
    own.put("a.html", "a")
    with pytest.raises(ValueError, match="two pages"):
        own.put("a.html", "b")


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_slug_is_a_plain_name_and_two_texts_never_share_one(one: str, other: str) -> None:
    for text in (one, other):
        assert writer_module._PATH.fullmatch(f"{unique_slug(text)}.html")
        assert len(unique_slug(text)) <= 60
    assert (unique_slug(one) == unique_slug(other)) == (one == other)


@given(st.text(max_size=80))
def test_nobody_can_name_a_thing_by_the_file_of_another(text: str) -> None:
    taken = unique_slug(text)
    assert taken == text or unique_slug(taken) != taken


def test_results_folders_that_are_not_there_make_an_empty_site(build: Callable[..., Any]) -> None:
    assert not results_folder().exists()
    site = build()
    assert site.made.results == 0
    assert site.page("rejected.html").texts


@pytest.mark.parametrize("last", ["make_board", "pages", "finish"])
def test_what_a_killed_build_left_is_mended_and_cleared_by_the_next(
    last: str, ready: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    modules = {"make_board": "boardjobs", "pages": "site"}
    place: Any = importlib.import_module(f"bench.leaderboard.{modules[last]}") if last in modules else None
    with monkeypatch.context() as patch:
        patch.setattr(place if place else writer_module.Writer, last, kill)
        with pytest.raises(Killed):
            build()
    gone = next(ready.glob("*/random-*"))
    shutil.rmtree(gone)
    site = build()
    (site.folder / "r" / ".half.html.4711.tmp").write_text("half")
    site = build()
    assert site.bytes() == build("fresh").bytes()


def test_an_unfinished_file_of_somebody_else_stays(ready: Path, build: Callable[..., Any]) -> None:
    site = build()
    (site.folder / "r" / ".mine.tmp").write_text("mine")
    (site.folder / "mine").mkdir()
    (site.folder / "mine" / ".a.12.tmp").write_text("mine")
    build()
    assert (site.folder / "r" / ".mine.tmp").is_file()
    assert (site.folder / "mine" / ".a.12.tmp").is_file()


@pytest.mark.usefixtures("ready")
def test_builds_into_one_folder_wait_for_each_other(build: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "site")
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(build, name) for name in ("site", "alias", "site")]:
            done.result()
    assert build("fresh").bytes() == build("site").bytes()


@pytest.mark.parametrize("where", ["results", "results/site", "."])
def test_a_site_among_the_results_is_refused(
    where: str, ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    before = sorted(ready.rglob("*"))
    site = importlib.import_module("bench.leaderboard.site")
    if where == ".":
        ready = ready.rename(ready.with_name("r"))
        with pytest.raises(UsageError, match="is inside the page folders"):
            site.build_site(ready, ready.parent)
        return
    with pytest.raises(UsageError, match="is inside the results folder"):
        site.build_site(ready, ready.parent / where.replace("results", ready.name))
    assert sorted(ready.rglob("*")) == before


@pytest.mark.usefixtures("ready")
def test_a_full_disk_is_told_and_leaves_whole_pages(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name.startswith(".index.html"):
            real(path, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match="the disk is full"):
            build()
    assert build().bytes() == build("fresh").bytes()

"""Builds upon builds: the same bytes, only what changed is written, only what the site wrote is removed."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.results import folder_of

from bench.base.errors import StorageError, UsageError
from bench.base.paths import results_folder
from bench.base.text import unique_slug
from bench.leaderboard import boardjobs
from bench.leaderboard import site as site_module
from bench.leaderboard import writer as writer_module


@pytest.mark.usefixtures("ready")
def test_two_builds_are_the_same_bytes_and_the_second_of_a_folder_writes_nothing(
    build: Callable[..., Any], ready_site: Any
) -> None:
    first = build()
    assert first.bytes() == ready_site.bytes()
    times = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*.*")}
    again = build()
    assert not again.made.files.written
    assert sorted(again.made.files.unchanged) == sorted(first.made.files.written)
    assert {path: path.stat().st_mtime_ns for path in again.folder.rglob("*.*")} == times


@pytest.mark.usefixtures("begun")
def test_a_result_that_goes_and_comes_rewrites_the_pages_that_show_it_and_no_other(
    begun_site: Any, build: Callable[..., Any], tmp_path: Path
) -> None:
    place = tmp_path / "site"
    (place / "notes.html").write_text("mine")
    (place / "r" / "mine.html").write_text("mine")
    late = folder_of(results_folder(), "random")
    own_id = late.name.rpartition("-")[2]
    assert (place / f"r/{own_id}.html").is_file()
    shutil.move(late, tmp_path / "late")
    gone = build()
    assert f"r/{own_id}.html" in gone.made.files.removed
    assert not list(place.glob(f"r/{own_id}*"))
    shutil.move(tmp_path / "late", late)
    site = build()
    exports = ("results.", "tables/", "methods.bib")
    written = {path for path in site.made.files.written if not path.startswith(exports)}
    parts = {path for path in written if "random" in path or own_id in path}
    assert parts
    board = site.made.boards[0].slug
    overall = {path for path in written if path.startswith(("index", "overall"))}
    assert not written & {"metrics.html", "rejected.html", "submit.html"}, "what shows no result"
    assert written - parts - overall >= {
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
    assert not [path for path in written - parts if path.startswith("r/")], "other results' pages do not show it"
    for path in ("notes.html", "r/mine.html"):
        assert (place / path).read_text() == "mine"
        (place / path).unlink()
    # What was built step by step is what is built at once.
    assert site.bytes() == begun_site.bytes()


def test_what_others_have_put_into_a_site_stays(begun: Any, build: Callable[..., Any], tmp_path: Path) -> None:
    # A listing from outside removes nothing; nor is an unfinished file of somebody else cleared away.
    victim = tmp_path / "victim.html"
    victim.write_text("mine")
    (begun.folder / "link").symlink_to(tmp_path)
    listing = begun.folder / "files.json"
    told = json.loads(listing.read_text())
    told["files"] |= {"../victim.html": "x", str(victim): "x", "link/victim.html": "x", "..": "x"}
    listing.write_text(json.dumps(told))
    (begun.folder / "r" / ".mine.tmp").write_text("mine")
    (begun.folder / "mine").mkdir()
    (begun.folder / "mine" / ".a.12.tmp").write_text("mine")
    build()
    assert victim.read_text() == "mine"
    assert (begun.folder / "r" / ".mine.tmp").is_file()
    assert (begun.folder / "mine" / ".a.12.tmp").is_file()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": {"a": {}}}', "[" * 5000])
def test_a_damaged_listing_is_no_obstacle(text: str, tmp_path: Path) -> None:
    (tmp_path / "files.json").write_text(text)
    writer = writer_module.Writer(tmp_path)
    writer.put("a.html", "a")
    writer.finish()
    assert (tmp_path / "a.html").read_text() == "a"


def test_a_damaged_page_is_mended(begun: Any, build: Callable[..., Any]) -> None:
    home = begun.folder / "index.html"
    whole = home.read_bytes()
    home.write_bytes(whole[:100])
    assert build().made.files.written == ["index.html"]
    assert home.read_bytes() == whole


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "", ".a", "a//b", "a/", "a\\b", "a b", "é", "files.json"])
def test_no_file_is_written_but_under_plain_names(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        writer_module.Writer(tmp_path).put(path, "x")


def test_two_pages_never_share_a_name(tmp_path: Path) -> None:
    writer = writer_module.Writer(tmp_path)
    writer.put("a.html", "a")
    with pytest.raises(ValueError, match="two pages of the site"):
        writer.put("a.html", "b")


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


@pytest.fixture(params=["make_board", "pages", "finish"])
def killed(request: pytest.FixtureRequest, build: Callable[..., Any]) -> Callable[[], None]:
    """Begins a build that ends as if it were killed, early or late."""

    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    def begin() -> None:
        place = {"make_board": boardjobs, "pages": site_module, "finish": writer_module.Writer}[request.param]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(place, request.param, kill)
            with pytest.raises(Killed):
                build()

    return begin


def test_what_a_killed_build_left_is_mended_and_cleared_by_the_next(
    killed: Callable[[], None], few: Path, build: Callable[..., Any]
) -> None:
    killed()
    shutil.rmtree(folder_of(few, "random"))
    site = build()
    (site.folder / "r" / ".half.html.4711.tmp").write_text("half")
    site = build()
    assert site.bytes() == build("fresh").bytes()


def test_a_build_after_a_killed_one_has_the_bytes_of_one_alone(
    killed: Callable[[], None], few: Path, build: Callable[..., Any]
) -> None:
    """Also where the results are again what they were before: then the list of files is of the build before."""
    build()
    late = folder_of(few, "random")
    shutil.move(late, few / "away")
    killed()
    shutil.move(few / "away", late)
    site = build()
    for name in ("d", "s", "e"):
        (site.folder / name / ".half.html.4711.tmp").write_text("half")
    assert build().bytes() == build("fresh").bytes()


def test_results_are_kept_out_of_every_folder_of_a_site(ready_site: Any, full_site: Any) -> None:
    paths = [*ready_site.bytes(), *full_site.bytes()]
    assert {path.parts[0] for path in map(Path, paths) if len(path.parts) > 1} == site_module.site_folders()


@pytest.mark.parametrize("listing", ["files.json", ".files.json"])
def test_files_of_an_older_version_go_with_the_next_build(
    listing: str, begun: Any, begun_site: Any, build: Callable[..., Any]
) -> None:
    """Also where that version was killed, and left a list of what it was about to write, and a half-written file."""
    gone = ("feed.xml", "model-index/bm25.yml")
    (begun.folder / "model-index").mkdir()
    for path in (*gone, "model-index/.bm25.yml.4711.tmp"):
        (begun.folder / path).write_text("before")
    told = json.loads((begun.folder / "files.json").read_text())
    told["files"] |= dict.fromkeys(gone, "")
    (begun.folder / listing).write_text(json.dumps(told))
    assert build().made.files.removed == list(gone)
    assert not (begun.folder / "model-index").exists()
    assert begun.bytes() == begun_site.bytes()


@pytest.mark.usefixtures("few")
def test_builds_into_one_folder_wait_for_each_other(build: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "site")
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(build, name) for name in ("site", "alias", "site")]:
            done.result()
    assert build("fresh").bytes() == build("site").bytes()


@pytest.mark.parametrize("where", ["results", "results/site", "."])
def test_a_site_among_the_results_is_refused(where: str, few: Path) -> None:
    before = sorted(few.rglob("*"))
    if where == ".":
        results = few.rename(few.with_name("r"))
        with pytest.raises(UsageError, match="is inside the page folders"):
            site_module.build_site(results, results.parent)
        return
    with pytest.raises(UsageError, match="is inside the results folder"):
        site_module.build_site(few, few.parent / where.replace("results", few.name))
    assert sorted(few.rglob("*")) == before


def test_a_full_disk_is_told_and_leaves_whole_pages(
    begun: Any, begun_site: Any, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name.startswith(".index.html"):
            real(path, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    (begun.folder / "index.html").write_bytes(b"damaged")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match="the disk is full"):
            build()
    assert (begun.folder / "index.html").read_bytes() == b"damaged"
    assert build().bytes() == begun_site.bytes()

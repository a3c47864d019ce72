"""Sites that tests build: a reader of their pages, what a build said of them, and boards without a site."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.leaderboard import site as site_module
from bench.leaderboard.boards import standings
from bench.leaderboard.boards.board import Board, Row, make_board, read_results, sample_rows
from bench.leaderboard.boards.rankingset import read_ranking_set
from bench.leaderboard.boards.traits import with_repeated_gold
from bench.leaderboard.site import Site, build_site
from bench.leaderboard.writer import Writer
from bench.results.store import StoredResult
from kit.once import Once
from kit.results import of_this_run

#: The results that the repository keeps.
KEPT = Path(__file__).resolve().parents[2] / "board" / "results"
#: Which of them are the reference systems.
LISTED = read_ranking_set(KEPT.with_name("ranking_set.toml")).references


class Page(HTMLParser):
    """A page's tags, attributes, links and texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        data = path.read_bytes()
        self.text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name in {"src", "href"}:
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))


class Built:
    """A site that was built, and what `build_site` said of it."""

    def __init__(self, folder: Path, made: Site) -> None:
        self.folder = folder
        self.made = made

    @property
    def board(self) -> Board:
        """Its board of all queries by today's rules that has most results."""
        usual = [board for board in self.made.boards if board.current and board.limit is None]
        return max(usual, key=lambda board: len(board.rows))

    def row(self, spec: str) -> Row:
        """The row of a method on that board, by its spec; it is run as usual."""
        (result,) = (row for row in self.board.rows if row.key == spec)
        return result

    def page(self, path: str) -> Page:
        return Page(self.folder / path)

    def only(self, pattern: str) -> Page:
        """The one page whose path fits, but for those that only lead to another."""
        (result,) = (
            path for path in self.folder.glob(pattern) if 'http-equiv="refresh"' not in path.read_text("utf-8")
        )
        return Page(result)

    def pages(self) -> list[Page]:
        return [Page(path) for path in sorted(self.folder.rglob("*.html"))]

    def bytes(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*.*")}


def board_of(results: Path) -> Board:
    """The only board of results, as a build makes it, without a page."""
    (members,), _ = read_results(results)
    board, _ = make_board(members, results, False)
    assert board is not None
    return sample_rows(with_repeated_gold(board), {}, True)


def kept(dataset: str, *methods: str) -> list[StoredResult]:
    """The results that the repository keeps on all queries of a dataset; those of some methods where they are named."""
    results = [
        StoredResult.read(folder) for folder in sorted((KEPT / dataset).iterdir()) if not folder.name.startswith(".")
    ]
    return [
        item
        for item in results
        if item.manifest.dataset.limit is None and (not methods or item.manifest.method.spec in methods)
    ]


def board_of_kept(dataset: str, *methods: str) -> Board:
    """The board of these."""
    board, rejected = make_board(kept(dataset, *methods), KEPT, False, references=LISTED)
    assert board is not None
    assert not rejected
    return board


def written(folder: Path, write: Callable[[Writer], object]) -> Callable[[str], Page]:
    """The pages that a function writes, each by its path or the beginning of it."""
    write(Writer(folder))
    return lambda path: Page(next(folder.glob(path)))


def build_once(
    once: Once, cache: Path, name: str, prepare: Callable[[Path], dict[str, Any]], quick: bool = False
) -> Built:
    """Build a site once in a run, to be read; its folder has the `results`, the `site` and, if any is added, `data`.

    Args:
        once: makes a folder once in a run.
        cache: of the run.
        name: of the site.
        prepare: makes its results in a folder, and gives options of `build_site`.
        quick: whether it is built in a third of the time (`hurry`).
    """

    def make(folder: Path) -> None:
        with of_this_run(cache), pytest.MonkeyPatch.context() as patch:
            patch.setenv("BENCH_RESULTS", str(folder / "results"))
            patch.setenv("BENCH_DATA", str(folder / "data"))
            if quick:
                hurry(patch)
            made = build_site(folder / "results", folder / "site", **prepare(folder / "results"))
        (folder / "made.pickle").write_bytes(pickle.dumps(made))

    folder = once(name, make)
    return Built(folder / "site", pickle.loads((folder / "made.pickle").read_bytes()))


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Sites are built in a third of the time, as of large boards: tests in the limit of many groups, no downloads.

    In this process: a build of many results needs `jobs=1` for it.
    """
    patch.setattr(standings, "_FLIPPED", 0)
    patch.setattr(site_module, "MOST_DOWNLOADED", 0)

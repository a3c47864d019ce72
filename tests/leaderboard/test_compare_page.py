"""The compare page: its numbers are those of `bench compare`, and its address says what is compared."""

from __future__ import annotations

import itertools
import json
from urllib.parse import quote

import numpy as np
import pytest
from kit.browser import Browser
from kit.sites import Built, board_of_kept
from numpy.typing import NDArray

from bench import compare
from bench.leaderboard.boards import pairs as pairs_module
from bench.leaderboard.boards import standings
from bench.leaderboard.pages.compare import _line, write_pairs

METRIC = pairs_module.METRIC
METHODS = ("bm25", "bm25-fields", "names", "random", "rrf", "tfidf", "oracle")


class Written:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def put(self, path: str, text: str) -> None:
        self.found[path] = text


def between(pairs: pairs_module.Pairs, first: str, second: str) -> NDArray[np.float64]:
    """The numbers of two results."""
    result = pairs.between(first, second)
    assert result is not None
    return result


@pytest.mark.parametrize(
    "spec", ["apibank", "toolbench-i3-inst", pytest.param("sealtools", marks=pytest.mark.slow("the kept results"))]
)
def test_pairs_are_what_bench_compare_prints(spec: str) -> None:
    board = board_of_kept(spec, *METHODS)
    pairs = pairs_module.pairs_of(board)
    assert pairs is not None
    rows = {row.id: row for row in board.rows}
    # The two best in both directions, and the best and a floor: among the same systems.
    ids = pairs.ids
    for base, other in [(ids[0], ids[1]), (ids[1], ids[0]), (ids[-1], ids[0])]:
        others = [rows[name].result.folder for name in ids if name != base]
        told = compare(rows[base].result.folder, *others, metrics=[METRIC], moved=0)
        names = {system.result_id: system.name for system in told.datasets[0].systems}
        (item,) = (item for item in told.datasets[0].metrics[0].differences if item.system == names[other])
        result = between(pairs, other, base)
        assert result[pairs_module.DIFFERENCE] == pytest.approx(item.difference, abs=1e-12)
        assert result[[pairs_module.LOW, pairs_module.HIGH]].tolist() == pytest.approx([item.low, item.high], abs=1e-9)
        assert (result[pairs_module.WINS], result[pairs_module.LOSSES]) == (item.wins, item.losses)
        standing = board.standings[METRIC]
        on_board = standing.pairs[standing.position(other), standing.position(base)]
        assert result[pairs_module.P] == item.corrected == on_board
    assert pairs.between(ids[0], ids[0]) is None
    assert pairs.between(ids[0], "elsewhere") is None


def test_the_best_variant_of_a_reference_is_not_marked_as_chosen() -> None:
    learnt = "tgr(discriminator=models/dependency-discriminator, graph=discriminator)"
    board = board_of_kept("apibank", "tgr", "tgr(graph=manual)", learnt, "dense", "bm25")
    variants = [row for row in board.rows if row.family == "tgr"]
    assert len(variants) == 3
    # The best of them is a reference system, which was not chosen among them.
    assert max(variants, key=lambda row: row.result.metrics.metrics[METRIC].mean).reference
    assert not any("best of" in mark.text for row in variants for mark in row.marks)


def test_boards_too_large_for_single_tests_have_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "_FLIPPED", 1)
    assert pairs_module.pairs_of(board_of_kept("restbench-spotify")) is None


def test_the_page_has_the_best_pairs_and_a_script_for_each_board(ready_site: Built) -> None:
    site, board = ready_site, ready_site.board
    page = site.page("compare.html")
    ranked = [row for row in board.rows if not row.oracle]
    text = (site.folder / "c" / f"{board.slug}.js").read_text("utf-8")
    slug, data = json.loads(f"[{text.strip().removeprefix('benchPairs(').removesuffix(');')}]")
    assert slug == board.slug
    assert sorted(name for _, name, _ in data["rows"]) == sorted(row.id for row in ranked)
    assert len(data["pairs"]) == len(ranked) * (len(ranked) - 1) // 2
    # Readers without scripts have the best contenders, with the command behind each number.
    best, second = data["rows"][:2]
    assert f"bench compare {best[1]} {second[1]} -m {METRIC} --moved 0" in page.text
    assert f"d/{board.slug}.html" in page.links
    assert f"c/{board.slug}.js" in json.loads((site.folder / "files.json").read_text("utf-8"))["files"]


def test_the_script_says_what_the_page_says_of_a_pair_at_the_level() -> None:
    board = board_of_kept("apibank", "bm25", "tfidf")
    pairs = pairs_module.pairs_of(board)
    assert pairs is not None
    for (one, other), difference in (((0, 1), 0.1), ((1, 0), -0.1)):
        pairs.numbers[one, other, [pairs_module.DIFFERENCE, pairs_module.P]] = difference, 0.05 - 1e-10
    first, second = (next(row for row in board.rows if row.id == name) for name in pairs.ids)
    writer = Written()
    write_pairs(board, pairs, None, writer)  # type: ignore[arg-type]
    (text,) = writer.found.values()
    _, data = json.loads(f"[{text.strip().removeprefix('benchPairs(').removesuffix(');')}]")
    line = _line(board, pairs, second.key, first.key)
    assert line is not None
    # Rounded for a browser, the p-value is 0.05.
    assert data["pairs"][0][pairs_module.P] == 0.05
    assert data["pairs"][0][-1] == line.verdict == "better"


@pytest.mark.slow("a browser")
def test_names_in_the_address_choose_methods_and_lead_to_their_queries(ready_site: Built, browser: Browser) -> None:
    site, board = ready_site, ready_site.board
    rows = {row.full_name: row for row in board.rows}
    names = ["bm25", "nearest-bundle(base=bm25())", "bm25(k1=0.5)", "no-such-method"]
    browser.open((site.folder / "compare.html").as_uri() + "#" + ",".join(quote(name, safe="") for name in names))
    browser.until(lambda: len(browser.all("#compared section")) == 2)
    every = "[...document.querySelectorAll('#compared tbody tr')].map(row => [...row.cells].map(c => c.textContent))"
    cells = browser.run(f"return {every}")
    pairs = pairs_module.pairs_of(board)
    assert pairs is not None
    for name, values in zip(names[1:3], cells, strict=True):
        result = between(pairs, rows[name].id, rows["bm25"].id)
        assert values[0].startswith(board.name)
        assert float(values[2]) == pytest.approx(result[pairs_module.DIFFERENCE], abs=5e-4)
        assert [int(values[5]), int(values[6])] == result[[pairs_module.WINS, pairs_module.LOSSES]].tolist()
    assert not browser.run("return document.getElementById('presets').checkVisibility()")
    # The address holds names of methods, the page what readers call them.
    heads = browser.run("return [...document.querySelectorAll('#compared h2')].map(head => head.textContent)")
    assert heads == [f"{rows[name].title} less {rows['bm25'].title}" for name in names[1:3]]
    # A name that is gone is dropped, and no other method put in its place.
    assert "no-such-method" not in browser.run("return location.hash")
    browser.find("#compared td a").click()
    browser.until(lambda: browser.all(".queries > li"))
    chosen = browser.run("return ['a', 'b'].map(name => document.querySelector(`[name=${name}]`).value)")
    assert chosen == names[:2]


def test_differences_turn_with_the_pair() -> None:
    pairs = pairs_module.pairs_of(board_of_kept("apibank", "bm25", "tfidf", "dense"))
    assert pairs is not None
    for first, second in itertools.combinations(pairs.ids, 2):
        difference, low, high, p, wins, losses = between(pairs, first, second).tolist()
        assert low < difference < high
        assert between(pairs, second, first).tolist() == [-difference, -high, -low, p, losses, wins]
    assert pairs.between(pairs.ids[0], pairs.ids[0]) is None

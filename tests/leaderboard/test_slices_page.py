"""The page of a board's slices."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import run as command
from bench.registry import load_dataset
from bench.results.slices import values_of
from bench.storage.paths import results_folder

slices = importlib.import_module("bench.leaderboard.boards.slices")
numbers = importlib.import_module("bench.leaderboard.numbers")
KEPT = Path(__file__).parents[2] / "board" / "results" / "starter"


def kept(*methods: str) -> None:
    """Some of the results that the repository keeps, as this test's own."""
    for name in methods:
        (folder,) = KEPT.glob(f"{name}-????????????")
        shutil.copytree(folder, results_folder() / "starter" / folder.name)


def board_of(site: Any) -> Any:
    """The only board, with the values of its rows."""
    (board,) = site.made.boards
    return board


def masks(board: Any, name: str) -> dict[str, Any]:
    table = board.first.per_query
    judged = [query for query, n in zip(table["query_id"].to_pylist(), table["n_gold"].to_pylist(), strict=True) if n]
    return values_of(load_dataset("starter"), name, judged)


def test_means_and_intervals_are_those_of_show(
    ready: Path, build: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    site = build()
    page = site.only("s/*.html")
    board = board_of(site)
    capsys.readouterr()
    for row in board.rows:
        if row.oracle:
            assert f"../r/{row.id}.html" not in page.links
            continue
        assert f"../r/{row.id}.html" in page.links
        assert command(["show", row.id, "--by", "tool", "--json"]) == 0
        for told in json.loads(capsys.readouterr().out)["slices"]:
            if not told["n"]:
                continue
            value = told["metrics"]["recall@5"]
            (table,) = re.findall(
                rf"<caption>recall@5 where tool is {told['value']}</caption>(.*?)</table>", page.text, flags=re.DOTALL
            )
            (line,) = [part for part in table.split("<tr>") if f"../r/{row.id}.html" in part]
            assert f">{numbers.fixed(value['mean'])}<" in line
            assert numbers.interval(value["low"], value["high"]) in line


def test_a_slice_of_all_queries_has_the_numbers_of_the_board(isolated: None, build: Callable[..., Any]) -> None:
    kept("bm25", "bm25-fields", "dense", "hybrid", "random", "rrf", "oracle")
    board = board_of(build())
    own = board.standings["recall@5"]
    (all_of_them,) = slices.inside_slices(board, {"all": np.ones(own.n, dtype=np.bool_)})
    assert (all_of_them.n, all_of_them.groups) == (own.n, own.units)
    order = [own.ids.index(row.id) for row in all_of_them.rows]
    assert all_of_them.means == pytest.approx(own.means[order], abs=1e-15)
    for part in ("tier", "ranks"):
        assert getattr(all_of_them.standing, part).tolist() == getattr(own, part)[order].tolist()
    assert np.array_equal(all_of_them.standing.pairs, own.pairs[np.ix_(order, order)])


def test_each_value_has_an_order_of_its_own_and_no_two_of_a_tier_differ(
    isolated: None, build: Callable[..., Any]
) -> None:
    kept("bm25", "bm25-fields", "dense", "hybrid", "random", "names", "recommended", "rrf", "server-first", "tfidf")
    site = build()
    board = board_of(site)
    orders = set()
    for name in ("gold", "tool", "length"):
        for item in slices.inside_slices(board, masks(board, name)):
            assert item.means.tolist() == sorted(item.means.tolist(), reverse=True)
            orders.add(tuple(row.id for row in item.rows))
            if item.standing is None:
                assert item.groups < 20
                continue
            same = item.standing.tier[:, None] == item.standing.tier
            assert (item.standing.pairs[same] >= 0.05).all()
    assert len(orders) > 3
    page = site.only("s/*.html")
    words = " ".join(page.texts)
    assert "too few groups for conclusions" in words
    assert "tied with" in words
    assert f"../{page.path.relative_to(site.folder)}" in site.only("d/*.html").links


def test_without_the_dataset_there_is_none(
    ready: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = importlib.import_module("bench.leaderboard.boardjobs")
    data = importlib.import_module("bench.leaderboard.boards.facts").Data
    monkeypatch.setattr(jobs, "data_of", lambda spec, digest: data(None, None, "It is not there."))
    site = build()
    assert not list(site.folder.glob("s/*.html"))
    assert not any("/s/" in link for page in site.pages() for link in page.links)

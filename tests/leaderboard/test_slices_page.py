"""The page of a board's slices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.sites import Built, board_of_kept, written

from bench.__main__ import run as command
from bench.leaderboard.boards import slices
from bench.leaderboard.boards.board import Board
from bench.leaderboard.boards.registered import BoardData
from bench.leaderboard.pages import slices as slices_page
from bench.leaderboard.pages.slices import write_slices
from bench.registry import load_dataset
from bench.results.slices import values_of
from bench.results.units import number_units
from bench.show import numbers
from bench.stats.noninferiority import enough_units


def masks(board: Board, name: str) -> dict[str, Any]:
    table = board.first.per_query
    judged = [query for query, n in zip(table["query_id"].to_pylist(), table["n_gold"].to_pylist(), strict=True) if n]
    return values_of(load_dataset("starter"), name, judged)


def test_means_and_intervals_are_those_of_show(
    ready_site: Built, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_RESULTS", str(ready_site.folder.with_name("results")))
    page = ready_site.only("s/*.html")
    for row in ready_site.board.rows:
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
            assert f">{numbers.format_fixed(value['mean'])}<" in line
            assert numbers.interval(value["low"], value["high"], "dash") in line


def test_a_slice_of_all_queries_has_the_numbers_of_the_board() -> None:
    board = board_of_kept("starter", "bm25", "bm25-fields", "dense", "hybrid", "random", "rrf", "oracle")
    recall_5 = board.standings["recall@5"]
    (all_of_them,) = slices.inside_slices(board, {"all": np.ones(recall_5.n, dtype=np.bool_)})
    assert (all_of_them.n, all_of_them.groups) == (recall_5.n, recall_5.units)
    order = [recall_5.ids.index(row.id) for row in all_of_them.rows]
    assert all_of_them.means == pytest.approx(recall_5.means[order], abs=1e-15)
    assert all_of_them.standing is not None
    mine = [all_of_them.standing.ids.index(row.id) for row in all_of_them.rows]
    assert all_of_them.standing.ranks[mine].tolist() == recall_5.ranks[order].tolist()
    assert np.array_equal(all_of_them.standing.pairs[np.ix_(mine, mine)], recall_5.pairs[np.ix_(order, order)])


def test_each_value_has_an_order_of_its_own(tmp_path: Path) -> None:
    names = ("bm25", "bm25-fields", "dense", "hybrid", "random", "names", "recommended", "rrf", "server-first", "tfidf")
    board = board_of_kept("starter", *names)
    chosen = {name: masks(board, name) for name in ("gold", "tool", "length")}
    orders = set()
    for values in chosen.values():
        for item, mask in zip(slices.inside_slices(board, values), values.values(), strict=True):
            orders.add(tuple(row.id for row in item.rows))
            if item.standing is None:
                assert board.units is not None
                assert not enough_units(number_units(board.units[mask]))
                assert item.means.tolist() == sorted(item.means.tolist(), reverse=True)
                continue
            best = [item.standing.ranks[item.standing.ids.index(row.id), 0] for row in item.rows]
            order = [*zip(best, -item.means, strict=True)]
            assert order == sorted(order)
    assert len(orders) > 3
    words = " ".join(written(tmp_path, lambda writer: write_slices(board, chosen, writer))("s/*.html").texts)
    assert "too few groups for conclusions" in words
    assert "not significantly better than" in words


def test_the_page_is_found_from_the_board_and_is_not_there_without_the_dataset(
    ready_site: Built, marked_site: Built
) -> None:
    page = ready_site.only("s/*.html")
    assert f"../{page.path.relative_to(ready_site.folder)}" in ready_site.only("d/*.html").links
    (gone,) = (board for board in marked_site.made.boards if board.content_hash == "0" * 64)
    pages = marked_site.pages()
    assert [item for item in pages if item.path.parent.name == "s"]
    for item in pages:
        assert not any(f"s/{gone.slug}.html" in link for link in item.links)
        assert item.path.relative_to(marked_site.folder) != Path(f"s/{gone.slug}.html")


def test_the_page_shows_the_values_with_most_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = board_of_kept("starter", "bm25", "random")
    table = board.first.per_query.select(["query_id", "n_gold"])
    judged = [row["query_id"] for row in table.to_pylist() if row["n_gold"]]
    chosen = slices.slice_masks(BoardData(None, load_dataset("starter"), ""), judged)
    monkeypatch.setattr(slices_page, "_MOST_VALUES", 2)
    text = written(tmp_path, lambda writer: write_slices(board, chosen, writer))("s/*.html").text
    cut = {name: values for name, values in chosen.items() if len(values) > 2}
    assert cut
    for name, values in cut.items():
        sizes = {value: int(mask.sum()) for value, mask in values.items()}
        shown = re.findall(rf"<caption>recall@5 where {name} is (.*?)</caption>", text)
        assert sorted(sizes[value] for value in shown) == sorted(sizes.values())[-2:]
        (section,) = [part for part in text.split("<section ") if f">By {name}</h2>" in part]
        assert f"{len(values) - 2} values with fewer queries are omitted." in section

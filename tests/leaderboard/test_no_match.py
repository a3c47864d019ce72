"""The page of the queries that no tool answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.results import folder_of, rehash
from kit.sites import Built, board_of_kept, kept, written

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.leaderboard.boards.nomatch import no_match
from bench.leaderboard.pages.nomatch import write_no_match
from bench.results.store import PER_QUERY
from bench.stats import noninferiority


def test_few_queries_without_gold_are_shown_and_decide_nothing(ready_site: Built) -> None:
    board = ready_site.board
    result = no_match(board)
    assert result is not None
    assert (result.standing, result.groups) == (None, 8)
    means = [row.result.metrics.metrics["auroc"].mean for row in result.rows]
    assert len(means) == 3
    assert means == sorted(means, reverse=True)
    assert {(row.family, reason) for row, reason in result.left} == {("random", "no scores"), ("oracle", "no scores")}
    page = ready_site.only("n/*.html")
    assert "There are no ranks" in " ".join(page.texts)
    assert {f"../r/{row.id}.html" for row in board.rows} <= set(page.links)
    assert f"../n/{board.slug}.html" in ready_site.only("d/*.html").links
    assert f"n/{board.slug}.html" in ready_site.page("index.html").links


@pytest.fixture
def few_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty units decide: no kept result has thirty groups of queries without gold."""
    monkeypatch.setattr(noninferiority, "FEWEST_UNITS", 20)


def test_p_values_are_those_of_the_command(
    isolated: None, build: Callable[..., Built], capsys: pytest.CaptureFixture[str], few_decide: None
) -> None:
    for item in kept("github-mcp", "bm25", "hybrid"):
        shutil.copytree(item.folder, results_folder() / "github-mcp" / item.folder.name)
    site = build()
    (board,) = site.made.boards
    result = no_match(board)
    assert result is not None
    assert result.standing is not None
    assert result.groups == 23
    assert [row.family for row in result.rows] == ["bm25", "hybrid"]
    first, second = (row.id for row in result.rows)
    capsys.readouterr()
    assert command(["compare", second, first, "-m", "auroc", "--json"]) == 0
    assert repr(float(result.standing.pairs[0, 1])) in json.dumps(json.loads(capsys.readouterr().out))
    apart = result.standing.pairs[0, 1] < 0.05
    assert result.standing.ranks.tolist() == ([[1, 1], [2, 2]] if apart else [[1, 2], [1, 2]])
    # Others can check them, also after a build that had nothing to do.
    for folder in (site, build()):
        (exported,) = json.loads((folder.folder / "results.json").read_text("utf-8"))["boards"]
        (told,) = [item for item in exported["standings"] if item["metric"] == "auroc"]
        assert told["p"][0] == [result.standing.pairs[0, 1]]
        assert (told["systems"], told["ranks"]) == ([first, second], result.standing.ranks.tolist())


def test_rows_are_in_the_order_of_their_ranks(tmp_path: Path, few_decide: None) -> None:
    names = ("bm25", "bm25-fields", "dense", "hybrid", "names", "oracle", "random", "rrf", "tfidf", "coverage")
    board = board_of_kept("github-mcp", *names)
    result = no_match(board)
    assert result is not None
    standing = result.standing
    assert standing is not None
    best = [standing.ranks[standing.position(row.id), 0] for row in result.rows]
    assert best == sorted(best)
    assert len(set(best)) > 1
    assert {row.family for row, _ in result.left} == {"oracle", "random", "coverage"}
    page = written(tmp_path, lambda writer: write_no_match(board, [], writer))("n/*.html")
    assert "rank" in page.texts
    assert "There are no ranks" not in " ".join(page.texts)


def test_an_edited_column_takes_the_page_away_and_is_told(few: Path, build: Callable[..., Built]) -> None:
    folder = folder_of(few, "bm25")
    table = pq.read_table(folder / PER_QUERY)
    place = table.column_names.index("auroc")
    raised = pa.array(np.array(table["auroc"].to_pylist()) + 0.25)
    pq.write_table(table.set_column(place, "auroc", raised), folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    site = build()
    (told,) = site.made.rejected
    assert "give different means of auroc" in told.reason
    assert not list(site.folder.glob("n/*.html"))
    assert not any(link.startswith("n/") for link in site.page("index.html").links)


def test_without_any_of_the_metrics_there_is_no_page(few: Path, build: Callable[..., Built]) -> None:
    shutil.rmtree(folder_of(few, "bm25"))
    site = build()
    assert not site.made.rejected
    assert no_match(site.made.boards[0]) is None
    assert not list(site.folder.glob("n/*.html"))

"""The explorer's data: the right tools and gold, in blocks; texts only where they may be given away."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.results import folder_of
from kit.sites import Built

from bench.base.paths import results_folder
from bench.leaderboard import boardjobs
from bench.leaderboard.boards import registered
from bench.leaderboard.pages import explorer
from bench.leaderboard.writer import Writer
from bench.registry import load_dataset
from bench.results.store import StoredResult, omit_ranking


def _data(text: str) -> Any:
    """The object that a script hands over."""
    return json.loads(text[text.index("{") : text.rindex(")")])


def _blocks(folder: Path, board: str = "*") -> list[Any]:
    files = sorted(folder.glob(f"e/{board}/q*.js"), key=lambda path: int(path.stem[1:]))
    return [_data(path.read_text()) for path in files]


def test_queries_gold_and_first_tools_are_those_of_the_data_and_the_rankings(
    ready_site: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "BLOCK", 7)
    dataset = load_dataset("starter")
    board = ready_site.board
    explorer.write_explorer(board, registered.data_of(board.spec, board.content_hash), Writer(tmp_path))
    shown = explorer.chosen(board)
    heads = []
    for row in shown:
        by_key: dict[str, list[str]] = {}
        for item in row.result.run.to_pylist():
            if item["rank"] <= 10:
                by_key.setdefault(item["query_id"], []).append(item["tool_id"])
        heads.append(by_key)
    blocks = _blocks(tmp_path)
    assert all(len(block["queries"]) <= 7 for block in blocks)
    queries = [(block, query) for block in blocks for query in block["queries"]]
    assert len(queries) == board.first.per_query.num_rows
    for block, (name, text, gold, answers) in queries:
        query = dataset.queries[dataset.query_codes[name]]
        assert text == query.text
        assert [tool for tool, _ in gold] == sorted(query.gold)
        for by_key, (codes, _) in zip(heads, answers, strict=True):
            assert [block["tools"][code] for code in codes] == by_key.get(name, [])


def _metric_data(folder: Path, metric: str) -> Any:
    (path,) = folder.glob("e/*/values.js")
    (line,) = [text for text in path.read_text().splitlines() if text.startswith(f'benchValues("{metric}",')]
    return _data(line)


def _decoded(stated: Any) -> list[list[float | None]]:
    """The values that a file of a metric stands for, decoded as the page does."""
    signs = {sign: i for i, sign in enumerate(explorer._SIGNS.tolist())}
    width = stated["width"]
    collected = []
    for values in stated["codes"]:
        parts = [values[i : i + width][::-1] for i in range(0, len(values), width)]
        collected.append([stated["levels"][sum(signs[sign] * 64**i for i, sign in enumerate(part))] for part in parts])
    return collected


def test_values_of_each_metric_are_those_of_the_results(ready_site: Built) -> None:
    site = ready_site
    shown = explorer.chosen(site.board)
    for metric in ("recall@5", "ndcg@5", "recall@10", "ndcg@10", "pass@10"):
        result = _decoded(_metric_data(site.folder, metric))
        assert len(result) == len(shown)
        for row, values in zip(shown, result, strict=True):
            for value, stated in zip(row.result.values(metric), values, strict=True):
                assert stated is None if value != value else abs(stated - value) < 1e-4


@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=200), min_size=1, max_size=3), st.booleans())
def test_any_values_are_read_back_to_the_third_digit(table: list[list[float]], wide: bool) -> None:
    length = max(map(len, table))
    values = [[*row, *[0.0] * (length - len(row)), *(np.linspace(0, 1, 5000) if wide else [])] for row in table]
    judged = np.arange(2 * len(values[0])) % 2 == 0
    rows: Any = [SimpleNamespace(values=np.array(row)[:, None]) for row in values]
    text = explorer._values("ndcg@5", rows, 0, judged)
    for part, stated in zip(values, _decoded(_data(text)), strict=True):
        assert stated[1::2] == [None] * len(part)
        assert stated[::2] == pytest.approx(part, abs=1e-3)


def test_gold_tools_have_their_ranks_also_below_the_first_ten(ready_site: Built) -> None:
    shown = explorer.chosen(ready_site.board)
    places = [
        {(item["query_id"], item["tool_id"]): item["rank"] for item in row.result.run.to_pylist()} for row in shown
    ]
    below = 0
    for query, _, gold, answers in itertools.chain.from_iterable(
        block["queries"] for block in _blocks(ready_site.folder)
    ):
        for (_, values), known in zip(answers, places, strict=True):
            assert values == [known.get((query, tool), 0) for tool, _ in gold]
            below += sum(rank > 10 for rank in values)
    assert below


def test_a_search_looks_in_what_is_shown(ready_site: Built) -> None:
    (path,) = ready_site.folder.glob("e/*/search.js")
    texts = _data(path.read_text())["texts"]
    queries = [query for block in _blocks(ready_site.folder) for query in block["queries"]]
    assert texts == ["\n".join([name, text, *(tool for tool, _ in gold)]) for name, text, gold, _ in queries]


def test_a_dataset_that_may_not_be_given_away_shows_ids_alone(
    few: Path, build: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = load_dataset("starter")
    card = dataset.card.model_copy(update={"redistribution": False, "known_issues": []})
    monkeypatch.setattr(boardjobs, "data_of", lambda *_: registered.BoardData(card, dataset, ""))
    site = build()
    whole = b"".join(site.bytes().values()).decode("utf-8", "replace")
    texts = [query.text for query in dataset.queries] + [tool.description for tool in dataset.tools]
    assert not [text for text in texts if len(text) > 25 and text in whole]
    assert dataset.queries[0].query_id in whole
    assert "licence does not allow redistribution" in " ".join(site.only("e/*.html").texts)
    # The page of a result's tools, which explains its losses by words of queries elsewhere.
    tools = site.page(f"t/{site.row('bm25').id}.html").text
    body = tools[tools.index('<table id="rows"') :]
    assert body[: body.index("</table>")].count('<tr><th scope="row">') == 40
    assert "What decides" not in tools
    assert not any(query.text in tools for query in dataset.queries)


def test_without_the_dataset_there_is_neither_text_nor_gold_and_the_page_says_why(marked_site: Built) -> None:
    (gone,) = (board for board in marked_site.made.boards if board.content_hash == "0" * 64)
    blocks = _blocks(marked_site.folder, gone.slug)
    assert blocks
    for block in blocks:
        assert all(text is None and gold is None for _, text, gold, _ in block["queries"])
    assert "has changed since" in " ".join(marked_site.page(f"e/{gone.slug}.html").texts)


def test_the_best_of_each_family_comes_before_a_second_setting(
    ready_site: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = ready_site.board
    assert len({row.family for row in board.rows}) == 4
    kept = explorer.chosen(board)
    assert {row.family for row in kept} == {row.family for row in board.rows}
    few = explorer.chosen(replace(board, rows=board.rows))
    assert [row.id for row in few] == [row.id for row in kept]
    # No more methods than a page can hold.
    monkeypatch.setattr(explorer, "MOST_METHODS", 3)
    kept = explorer.chosen(board)
    assert len(kept) == 3
    assert len({row.family for row in kept}) == 3


def test_a_long_text_is_cut() -> None:
    assert len(explorer._shorten("x" * 10_000_000, 1200)) == 1200


def test_an_id_that_a_dictionary_has_twice_is_one_id() -> None:
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b", "a"]))
    result = explorer._encode_ids(pa.chunked_array([twice]))
    assert result.indices.to_pylist() == [0, 1, 0]
    assert result.to_pylist() == ["a", "b", "a"]
    parts = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "c"]).dictionary_encode()]
    assert explorer._encode_ids(pa.chunked_array(parts)).to_pylist() == ["a", "b", "b", "c"]
    assert explorer._encode_ids(pa.chunked_array([], parts[0].type)).to_pylist() == []


@pytest.mark.usefixtures("begun")
def test_a_result_whose_ranking_is_kept_elsewhere_is_ranked_and_not_looked_at(
    begun_site: Built, build: Callable[..., Built]
) -> None:
    folder = folder_of(results_folder(), "bm25")
    kept = {name: (folder / name).read_bytes() for name in ("run.parquet", "manifest.json")}
    omit_ranking(StoredResult.read(folder))
    site = build()
    board = site.board
    assert not site.made.rejected
    assert board.standings["recall@5"].ids == begun_site.board.standings["recall@5"].ids
    (row,) = (row for row in board.rows if not row.result.has_run)
    assert row in board.rows
    assert row not in explorer.chosen(board)
    # Its values are compared all the same.
    place = explorer.compared_rows(board).index(row)
    stated = _decoded(_metric_data(site.folder, "recall@5"))[place]
    assert row.values is not None
    assert [value for value in stated if value is not None] == [round(value, 4) for value in row.values[:, 0].tolist()]
    for block in _blocks(site.folder):
        for *_, answers in block["queries"]:
            assert [i for i, answer in enumerate(answers) if answer is None] == [place]
    page = (site.folder / f"r/{row.id}.html").read_text()
    assert "The ranking is too large to be stored with these results" in page
    (archive,) = site.folder.glob("downloads/*.zip")
    own = [name.rpartition("/")[2] for name in zipfile.ZipFile(archive).namelist() if row.id in name]
    assert own == ["manifest.json", "metrics.json", "per_query.parquet"]
    assert not build().made.files.written
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    again = build()
    assert any(row.id in name and name.endswith("run.parquet") for name in zipfile.ZipFile(archive).namelist())
    assert again.bytes() == begun_site.bytes()


def test_a_board_without_rankings_has_no_explorer_and_says_why(few: Path, build: Callable[..., Built]) -> None:
    for run in few.glob("*/*/run.parquet"):
        omit_ranking(StoredResult.read(run.parent))
    site = build()
    (board,) = site.made.boards
    assert not site.made.rejected
    assert not (site.folder / "e").exists()
    page = (site.folder / f"d/{board.slug}.html").read_text()
    assert "the rankings of this board are not stored here" in page
    assert f"e/{board.slug}.html" not in page

"""What a reader must know about a row is shown on it: on its pages, and in every export."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from bench.__main__ import run as command
from bench.leaderboard.exports.latex import escaped
from bench.results.store import PER_QUERY


def _folder(results: Path, method: str) -> Path:
    return next(results.glob(f"*/{method}-*"))


def _id(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def _oracle(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
    return _folder(results, "oracle")


def _stated(mark: str) -> Callable[..., Path]:
    def made(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
        edit(_folder(results, "random"), method__marks=[mark], warnings=[f"{mark}: the reason"])
        return _folder(results, "random")

    return made


def _tied(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
    folder = _folder(results, "bm25")
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))["metrics"]
    for value in metrics.values():
        value["tie_low"] = 0.0
    edit(folder, metrics={"metrics": metrics})
    return folder


def _failed(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
    folder = _folder(results, "random")
    table = pq.read_table(folder / PER_QUERY)
    judged = table["n_gold"].to_numpy() > 0
    place = int(judged.argmax())
    failed = table["failed"].to_numpy(zero_copy_only=False).copy()
    failed[place] = True
    pq.write_table(table.set_column(table.column_names.index("failed"), "failed", pa.array(failed)), folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    edit(folder, metrics={"n_failed": 1})
    return folder


def _older_scoring(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
    for folder in results.glob("[!.]*/*"):
        edit(folder, environment__created="2026-01-02T00:00:00+00:00")
    edit(_folder(results, "random"), scoring="1" * 64, environment__created="2026-01-01T00:00:00+00:00")
    return _folder(results, "random")


def _turned(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
    folder = _folder(results, "random")
    lenient = json.loads((folder / "metrics.json").read_text("utf-8"))["lenient"]
    edit(folder, metrics={"lenient": lenient | {"means": lenient["means"] | {"recall@5": 0.99}}})
    return folder


def _from_elsewhere(origin: str) -> Callable[..., Path]:
    def made(results: Path, edit: Callable[..., None], rehash: Callable[[Path, str], None]) -> Path:
        for folder in results.glob("[!.]*/*"):
            edit(folder, dataset__origins={origin: 120})
        return _folder(results, "random")

    return made


CASES = [
    ("oracle", _oracle),
    ("rules", _stated("rules")),
    ("trained on test", _stated("trained on test")),
    ("tools seen", _stated("tools seen")),
    ("1 failed", _failed),
    ("older scoring", _older_scoring),
    ("lead within ties", _tied),
    ("order depends on gold", _turned),
    ("from traces", _from_elsewhere("traces")),
    ("synthetic queries", _from_elsewhere("model some-model")),
]


#: What a page says in place of the short words of results and exports.
SHOWN = {
    "rules": "no LLM (hand-written rules)",
    "tools seen": "trained on these tools",
    "bundles seen": "tool sets seen in training",
}


@pytest.mark.parametrize(("mark", "make"), CASES, ids=[name for name, _ in CASES])
def test_a_mark_stands_on_the_row_and_in_every_export(
    mark: str,
    make: Callable[..., Path],
    ready: Path,
    build: Callable[..., Any],
    edit: Callable[..., None],
    rehash: Callable[[Path, str], None],
) -> None:
    own = _id(make(ready, edit, rehash))
    site = build()
    assert not site.made.rejected
    row = next(row for row in site.made.boards[0].rows if row.id == own)
    board = site.only("d/*.html")
    if mark == "lead within ties":
        assert row.doubtful
        assert 'class="tie"' in board.text
    else:
        shown = f">{SHOWN.get(mark, mark)}</span>"
        assert mark in [item.text for item in row.marks]
        assert shown in board.text
        # Numbers of other code are not in a mean over datasets, and an order is one board's.
        of_one_board = {"older scoring", "order depends on gold"}
        assert (shown in site.page("index.html").text) == (mark not in of_one_board)
        assert shown in site.page(f"r/{own}.html").text
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    (text,) = [item for item in stated[own] if item.startswith(mark)]
    lines = list(csv.DictReader((site.folder / "results.csv").read_text("utf-8").splitlines()))
    assert all(text in line["marks"].split("; ") for line in lines if line["result_id"] == own)
    (table,) = (site.folder / "tables").glob("*.tex")
    assert f"$ {escaped(text)}." in table.read_text("utf-8")
    titles = [
        result["dataset"]["name"]
        for path in (site.folder / "model-index").glob("*.yml")
        for result in yaml.safe_load(path.read_text("utf-8"))["model-index"][0]["results"]
    ]
    assert any(text[:40] in title for title in titles)
    assert text in (site.folder / "feed.xml").read_text("utf-8")


def test_where_queries_come_from_is_said_of_the_dataset(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    for folder in ready.glob("[!.]*/*"):
        edit(folder, dataset__origins={"model <b>some-model</b>": 120, "traces": 3})
    site = build()
    total = site.made.boards[0].first.manifest.dataset.queries
    said = f"120 of {total} queries are written by &lt;b&gt;some-model&lt;/b&gt;"
    logged = f"3 of {total} queries are taken from logs: called is not the same as right"
    pages = [
        site.only("d/*.html"),
        *(site.page(f"{path.parent.name}/{path.name}") for path in site.folder.glob("[er]/*.html")),
    ]
    assert len(pages) > 3
    for page in pages:
        assert said in page.text
        assert logged in page.text
    assert ">synthetic queries</span>" in site.page("datasets.html").text
    # On the overall board it is said of the column, not of the methods, which have other datasets, too.
    head, _, body = site.page("index.html").text.partition("</thead>")
    assert ">synthetic queries</span>" in head
    assert ">synthetic queries</span>" not in body
    assert "<dt>synthetic queries</dt>" in body


def test_results_of_an_older_protocol_are_kept_marked_and_not_ranked(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    folder = _folder(ready, "random")
    edit(folder, protocol="0.1")
    site = build()
    old = next(board for board in site.made.boards if not board.current)
    assert not old.standings
    assert ">protocol 0.1</span>" in site.page(f"d/{old.slug}.html").text
    assert ">protocol 0.1</span>" in site.page(f"r/{_id(folder)}.html").text
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    assert stated[_id(folder)] == ["synthetic queries", "protocol 0.1"]
    assert "protocol 0.1" in (site.folder / "results.csv").read_text("utf-8")
    assert len(list((site.folder / "tables").glob("*.tex"))) == 1


def test_an_older_version_is_marked_on_its_page_and_in_the_exports(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None], tmp_path: Path
) -> None:
    folder = _folder(ready, "random")
    older = folder.with_name("random-00000000000a")
    shutil.copytree(folder, older)
    edit(
        older,
        result_id="00000000000a",
        environment__created="2020-01-01T00:00:00+00:00",
        method__marks=["rules"],
        metrics={"result_id": "00000000000a"},
    )
    site = build()
    page = site.page("r/00000000000a.html").text
    assert ">older version</span>" in page
    assert ">no LLM (hand-written rules)</span>" in page
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    assert stated["00000000000a"] == ["rules", "synthetic queries", "older version"]


def test_gold_sets_of_past_queries_are_what_the_result_says_and_not_what_the_cache_holds(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = _folder(ready, "nearest-bundle")
    said = json.loads((folder / "manifest.json").read_text("utf-8"))["dataset"]
    assert 0 < said["repeated_gold"] <= said["judged"]
    why = f"{said['repeated_gold']} of the {said['judged']} judged queries have a gold set that also occurs"

    def shown(out: str) -> dict[str, list[tuple[str, str]]]:
        (board,) = build(out).made.boards
        return {
            row.family: [(mark.text, mark.why) for mark in row.marks if mark.kind.startswith("bundles")]
            for row in board.rows
        }

    first = shown("here")
    ((text, sentence),) = first.pop("nearest-bundle")
    assert text == "bundles seen"
    assert sentence.startswith(why)
    assert not any(first.values())
    # A machine without the dataset shows the same.
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    assert shown("elsewhere") == first | {"nearest-bundle": [(text, sentence)]}
    # The result's own word counts, and not the data; one that says nothing is not taken for clean.
    edit(folder, dataset__repeated_gold=0)
    assert not any(shown("clean").values())
    edit(folder, dataset__repeated_gold=None)
    ((unknown, reason),) = shown("silent")["nearest-bundle"]
    assert unknown == "bundles unknown"
    assert "bench rescore" in reason


def test_rescoring_adds_what_an_older_result_does_not_say(
    ready: Path, edit: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(ready, "nearest-bundle")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    edit(folder, dataset__repeated_gold=None)
    assert command(["rescore", str(folder), "-q"]) == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert json.loads(after.pop("manifest.json")) == json.loads(before.pop("manifest.json"))
    assert after == before
    assert command(["rescore", str(folder), "-q", "--json"]) == 0
    assert "up to date" in capsys.readouterr().out

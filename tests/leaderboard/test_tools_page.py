"""Pages of a result's tools: which results have one, what is on it, what is left out."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.browser import Browser

from bench.__main__ import run as command
from bench.evidence.tools import counted, tools_report
from bench.registry import load_dataset
from bench.results.store import Result, find_results

page = importlib.import_module("bench.leaderboard.pages.tools")


def rows(text: str, table: str = "rows") -> list[str]:
    """The names of a table's rows."""
    body = text[text.index(f'<table id="{table}"') :]
    return re.findall(r'<tr><th scope="row">([^<]*)<', body[: body.index("</table>")])


def one(results: Path, method: str) -> Result:
    return next(
        item for item in find_results(results) if isinstance(item, Result) and item.manifest.method.spec == method
    )


@pytest.fixture
def few(ready: Path) -> Path:
    """Results of bm25 and random alone, which make a site in less time."""
    for folder in (ready / "starter").iterdir():
        if not folder.name.startswith(("bm25-", "random-")):
            shutil.rmtree(folder)
    return ready


def test_a_page_has_the_worst_tools_and_says_what_is_left_out(ready_results: Path, full_site: Any) -> None:
    site = full_site
    result = one(ready_results, "bm25")
    name = result.manifest.result_id
    text = site.page(f"t/{name}.html").text
    report = tools_report(counted(result, load_dataset("starter")), explained=0)
    assert rows(text) == [row.tool_id for row in report.tools[:40]]
    assert "the other 139 tools are left out" in text
    assert f"<dd>{report.found} of {report.requirements}</dd>" in text
    for row in report.tools[:5]:
        assert f"{row.loses_to[0].tool_id} ({row.loses_to[0].queries})" in text
    # The words that decide, and the query that they are of: starter may be given away.
    assert "of the query&#39;s words, " in text
    assert 'href="../r/' + name in text
    assert f'href="../t/{name}.html"' in site.page(f"r/{name}.html").text
    # On the board of the dataset, and on none of the boards of its larger libraries, whose results are others.
    linked = [page for page in site.pages() if f'href="../t/{name}.html"' in page.text and page.path.parent.name == "d"]
    assert len(linked) == 1


def test_only_results_of_the_explorer_have_one_and_a_gone_result_has_none(few: Path, build: Callable[..., Any]) -> None:
    site = build()
    explored = set(json.loads((site.folder / "results.json").read_text("utf-8"))["boards"][0]["results"])
    assert {path.stem for path in (site.folder / "t").iterdir()} == explored
    gone = one(few, "random")
    shutil.rmtree(gone.folder)
    again = build()
    assert not (again.folder / "t" / f"{gone.manifest.result_id}.html").exists()
    assert len(list((again.folder / "t").iterdir())) == len(explored) - 1
    before = again.bytes()
    unchanged = build()
    assert unchanged.bytes() == before
    assert not unchanged.made.files.written


def test_texts_that_may_not_be_given_away_are_not(
    few: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = importlib.import_module("bench.leaderboard.boards.facts")
    monkeypatch.setattr(facts.Data, "may_show", property(lambda self: False))
    text = build().page(f"t/{one(few, 'bm25').manifest.result_id}.html").text
    assert len(rows(text)) == 40
    assert "What decides" not in text
    assert not any(query.text in text for query in load_dataset("starter").queries)


@pytest.mark.usefixtures("few")
def test_without_the_dataset_there_is_none(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = importlib.import_module("bench.leaderboard.boardjobs")
    data = importlib.import_module("bench.leaderboard.boards.facts").Data
    monkeypatch.setattr(jobs, "data_of", lambda spec, digest: data(None, None, "It is not there."))
    site = build()
    assert not (site.folder / "t").exists()
    assert "/t/" not in "".join(item.text for item in site.pages())


def test_a_ranking_with_unknown_tools_has_no_page_and_is_named(
    few: Path, build: Callable[..., Any], rehash: Callable[[Path, str], None]
) -> None:
    result = one(few, "random")
    table = result.run
    names = ["<b>nowhere</b>", *table["tool_id"].to_pylist()[1:]]
    column = table.column_names.index("tool_id")
    pq.write_table(table.set_column(column, "tool_id", pa.array(names)), result.folder / "run.parquet")
    rehash(result.folder, "run.parquet")
    site = build()
    assert not (site.folder / "t" / f"{result.manifest.result_id}.html").exists()
    (reason,) = [item.reason for item in site.made.rejected]
    assert reason.startswith("its page of tools is omitted: random @ starter names the unknown tool '<b>nowhere")
    assert "<b>nowhere" not in "".join(item.text for item in site.pages())


def test_hostile_names_are_texts(isolated: None, tmp_path: Path, build: Callable[..., Any]) -> None:
    evil = '</script><script>alert("x")</script>'
    folder = tmp_path / "evil"
    (folder / "qrels").mkdir(parents=True)
    names = [f"{evil} {i}" for i in range(9)]
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "title": name, "text": f"does {name} \u202e"}) + "\n" for name in names)
    )
    (folder / "queries.jsonl").write_text(json.dumps({"_id": evil, "text": f"does {evil}"}) + "\n")
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{evil}\t{names[8]}\t1\n")
    assert command(["data", "add", "evil", "--from", str(folder)]) == 0
    assert command(["run", "-m", "random", "-m", "bm25", "-d", "evil", "-q"]) == 0
    site = build()
    pages = list((site.folder / "t").glob("*.html"))
    assert pages
    for path in pages:
        text = path.read_text("utf-8")
        assert "&lt;script&gt;" in text
        assert evil not in text
        assert "\u202e" not in text


def test_the_page_of_its_own_is_as_accessible_as_those_of_the_site(
    isolated: None, ready_results: Path, tmp_path: Path, axe: Browser
) -> None:
    found = counted(one(ready_results, "bm25"), load_dataset("starter"))
    place = tmp_path / "page.html"
    place.write_text(page.page_alone(found), "utf-8")
    for colours, width in (("light", 1280), ("dark", 390)):
        axe.colours(colours)
        axe.window(width)
        axe.open(place.as_uri())
        assert axe.overflow() <= 0
        assert axe.find("#rows tbody tr th").text == "rolobox.find_contact"
        assert axe.violations() == []
    axe.find("[name=q]").send_keys("rolobox")
    assert axe.find("output").text == "3 of 179 rows"

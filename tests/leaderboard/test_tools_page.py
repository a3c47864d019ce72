"""Pages of a result's tools: which results have one, what is on it, what is left out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.browser import Browser
from kit.results import folder_of, rehash
from kit.sites import Built

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.diagnosis import page
from bench.diagnosis.tool_report import count_ranking, tools_report
from bench.registry import load_dataset
from bench.results.store import StoredResult


def rows(text: str, table: str = "rows") -> list[str]:
    """The names of a table's rows."""
    body = text[text.index(f'<table id="{table}"') :]
    return re.findall(r'<tr><th scope="row">([^<]*)<', body[: body.index("</table>")])


def test_a_page_has_the_worst_tools_and_says_what_is_left_out(full_site: Built) -> None:
    site = full_site
    (board,) = (board for board in site.made.boards if board.spec == "starter")
    (row,) = (row for row in board.rows if row.key == "bm25")
    text = site.page(f"t/{row.id}.html").text
    report = tools_report(count_ranking(row.result, load_dataset("starter")), explained=0)
    assert rows(text) == [item.tool_id for item in report.tools[:40]]
    assert "the other 139 tools are left out" in text
    assert f"<dd>{report.found} of {report.requirements}</dd>" in text
    for item in report.tools[:5]:
        assert f"{item.loses_to[0].tool_id} ({item.loses_to[0].queries})" in text
    # The words that decide, and the query that they are of: starter may be given away.
    assert "it alone has &#39;" in text
    assert "stand in no description: &#39;" in text
    assert not re.search("&#39;(the|a|is|and|of)&#39;", text)
    assert f'href="../r/{row.id}' in text
    assert f'href="../t/{row.id}.html"' in site.page(f"r/{row.id}.html").text
    # On the board of the dataset, and on none of the boards of its larger libraries, whose results are others.
    linked = [item for item in site.pages() if f'href="../t/{row.id}.html"' in item.text]
    assert len([item for item in linked if item.path.parent.name == "d"]) == 1


def test_only_results_of_the_explorer_have_one_and_a_gone_result_has_none(
    begun: Built, build: Callable[..., Built]
) -> None:
    explored = set(json.loads((begun.folder / "results.json").read_text("utf-8"))["boards"][0]["results"])
    assert {path.stem for path in (begun.folder / "t").iterdir()} == explored
    gone = folder_of(results_folder(), "random")
    shutil.rmtree(gone)
    again = build()
    assert {path.stem for path in (again.folder / "t").iterdir()} == explored - {gone.name.rpartition("-")[2]}


def test_without_the_dataset_there_is_none(marked_site: Built) -> None:
    (gone,) = (board for board in marked_site.made.boards if board.content_hash == "0" * 64)
    there = {path.stem for path in (marked_site.folder / "t").iterdir()}
    assert there
    assert not there & {row.id for row in gone.rows}
    assert "/t/" not in marked_site.page(f"d/{gone.slug}.html").text


def test_a_ranking_with_unknown_tools_has_no_page_and_is_named(few: Path, build: Callable[..., Built]) -> None:
    result = StoredResult.read(folder_of(few, "random"))
    table = result.run
    names = ["<b>nowhere</b>", *table["tool_id"].to_pylist()[1:]]
    column = table.column_names.index("tool_id")
    pq.write_table(table.set_column(column, "tool_id", pa.array(names)), result.folder / "run.parquet")
    rehash(result.folder, "run.parquet")
    site = build()
    assert not (site.folder / "t" / f"{result.manifest.result_id}.html").exists()
    (reason,) = [item.reason for item in site.made.rejected]
    assert reason.startswith("its page of tools is omitted: random @ starter has the tool '<b>nowhere")
    assert "<b>nowhere" not in "".join(item.text for item in site.pages())


def test_hostile_names_are_texts(isolated: None, tmp_path: Path, build: Callable[..., Built]) -> None:
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


@pytest.mark.slow("a browser")
def test_the_page_of_its_own_is_as_accessible_as_those_of_the_site(
    isolated: None, starter_results: Path, tmp_path: Path, axe: Browser
) -> None:
    counts = count_ranking(StoredResult.read(folder_of(starter_results, "bm25")), load_dataset("starter"))
    place = tmp_path / "page.html"
    place.write_text(page.page_alone(counts), "utf-8")
    for colours, width in (("light", 1280), ("dark", 390)):
        axe.colours(colours)
        axe.window(width)
        axe.open(place.as_uri())
        assert axe.overflow() <= 0
        assert axe.find("#rows tbody tr th").text == "rolobox.find_contact"
        assert axe.violations() == []
    axe.find("[name=q]").send_keys("rolobox")
    assert axe.find("output").text == "3 of 179 rows"

"""What a reader must know about a row is shown on it: on its pages, and in every export."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from kit.results import edit, folder_of, id_of

from bench.__main__ import run as command
from bench.leaderboard.exports.write import table_path
from bench.show.tables import latex_text

#: A mark, the key of a row that has it, and whether the board over datasets shows it: numbers of other code are not in
#: a mean over datasets, an order is one board's, and where queries come from is said of the column. `conftest.py` makes
#: the rows.
CASES = [
    ("oracle", "oracle", True),
    ("rules", "stated", True),
    ("trained on test", "stated", True),
    ("tools seen", "stated", True),
    ("1 failed", "failed", True),
    ("125 failed", "one-answer\nrun file", True),
    ("run file", "one-answer\nrun file", True),
    ("older scoring", "scored before", False),
    ("other packages", "packages", True),
    ("lead within ties", "bm25(k1=0.5)", False),
    ("order depends on gold", "turned", False),
    ("bundles seen", "nearest-bundle(base=bm25())", True),
    ("from traces", "random", False),
    ("synthetic queries", "random", False),
]
#: What a page says in place of the short words of results and exports.
SHOWN = {
    "rules": "no LLM (hand-written rules)",
    "tools seen": "trained on these tools",
    "bundles seen": "tool sets seen in training",
}


def line(page: Any, result_id: str) -> str:
    """The HTML of a result's row in the table of a board; empty where it has none."""
    rows = re.split(r"<tr |</tbody>", page.text)
    return "".join(row for row in rows if row.startswith("data-f") and f"r/{result_id}.html" in row)


def test_the_page_of_a_result_says_why_queries_failed(marked_site: Any) -> None:
    failed, run_file, stated = (
        marked_site.page(f"r/{marked_site.row(key).id}.html").text
        for key in ("failed", "one-answer\nrun file", "stated")
    )
    assert "1 × an empty answer, or no reason was recorded<" in failed
    assert "125 × it is not in the run file, such as <" in run_file
    assert "Failed queries" not in stated


@pytest.mark.parametrize(("mark", "key", "overall"), CASES, ids=[name for name, *_ in CASES])
def test_a_mark_stands_on_the_row_and_in_every_export(mark: str, key: str, overall: bool, marked_site: Any) -> None:
    site = marked_site
    # Its page of tools: with one tool there are no first five.
    assert {item.where for item in site.made.rejected} == {"one-answer"}
    row = site.row(key)
    board = line(site.page(f"d/{site.board.slug}.html"), row.id)
    if mark == "lead within ties":
        assert row.doubtful
        assert 'class="tie"' in board
        assert 'class="tie"' not in line(site.page(f"d/{site.board.slug}.html"), site.row("random").id)
    else:
        shown = f">{SHOWN.get(mark, mark)}</span>"
        assert mark in [item.text for item in row.marks]
        assert shown in board
        assert (shown in line(site.page("index.html"), row.id)) == overall
        assert shown in site.page(f"r/{row.id}.html").text
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    (text,) = [item for item in stated[row.id] if item.startswith(mark)]
    lines = list(csv.DictReader(site.page("results.csv.gz").text.splitlines()))
    splits = [item["marks"].split("; ") for item in lines if item["result_id"] == row.id]
    assert splits
    assert all(text in marks for marks in splits)
    table = site.page(table_path(row.result)).text
    (number,) = re.findall(rf"\$\^{{(\d+)}}\$ {re.escape(latex_text(text))}\.", table)
    rows = [item for item in table.splitlines() if " & " in item and re.search(rf"\^{{(\d+,)*{number}(,\d+)*}}", item)]
    assert any(item.startswith(latex_text(row.name).partition("$")[0]) for item in rows)


def test_a_mark_has_its_reason(marked_site: Any) -> None:
    assert ("title", "it learnt from 7 of these") in marked_site.page("index.html").attributes


def test_the_best_of_several_variants_is_marked(marked_site: Any) -> None:
    site, row = marked_site, marked_site.row("bm25")
    assert "best of 3 on test" in [mark.text for mark in row.marks]
    for page in (f"d/{site.board.slug}.html", f"r/{row.id}.html"):
        assert ">best of 3 on test</span>" in site.page(page).text
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    assert "best of 3 on test" in stated[row.id]
    # Over datasets, one row of each method that has several ranked ones.
    rows = re.split(r"<tr |</tbody>", site.page("index.html").text)
    for family, several in (("bm25", True), ("nearest-bundle", True), ("stated", False)):
        ranked = [item for item in rows if f'data-f="{family}"' in item and "<td class=t><a" in item]
        assert len(ranked) > 1 or not several
        marked = [i for i, item in enumerate(ranked) if f">best of {len(ranked)} on test</span>" in item]
        assert marked == ([0] if several else [])


def test_exports_count_the_variants_of_a_method(marked_site: Any) -> None:
    results = json.loads(marked_site.page("results.json").text)["results"]
    counts = {item["result_id"]: item["variants"] for item in results}
    # bm25 at three settings, of which two answer alike, and at what it was in 2020, when it answered as random does.
    assert counts[marked_site.row("bm25").id] == counts[marked_site.row("bm25(k1=0.5)").id] == counts["a" * 12] == 3
    assert counts[marked_site.row("packages").id] == 1
    # An oracle is no competitor.
    assert counts[marked_site.row("oracle").id] == 1


def test_where_queries_come_from_is_said_of_the_dataset(marked_site: Any) -> None:
    site, board = marked_site, marked_site.board
    total = board.first.manifest.dataset.queries
    said = f"120 of {total} queries are written by &lt;b&gt;some-model&lt;/b&gt;"
    logged = f"3 of {total} queries are taken from logs: called is not the same as right"
    pages = [f"d/{board.slug}.html", f"e/{board.slug}.html", *(f"r/{row.id}.html" for row in board.rows)]
    assert len(pages) > 3
    for page in map(site.page, pages):
        assert said in page.text
        assert logged in page.text
    assert ">synthetic queries</span>" in site.page("datasets.html").text
    # On the overall board it is said of the column, not of the methods, which have other datasets, too.
    head, _, body = site.page("index.html").text.partition("</thead>")
    table, _, rest = body.partition("</tbody>")
    assert ">synthetic queries</span>" in head
    assert ">synthetic queries</span>" not in table
    assert "<dt>synthetic queries</dt>" in rest


def test_results_of_an_older_protocol_are_kept_marked_and_not_ranked(marked_site: Any) -> None:
    site, values = marked_site, id_of("protocol")
    (old,) = (board for board in site.made.boards if not board.current)
    assert [row.id for row in old.rows] == [values]
    assert not old.standings
    assert "protocol 0.9" in site.page(f"d/{old.slug}.html").texts
    assert ">protocol 0.9</span>" in site.page(f"d/{old.slug}.html").text
    assert ">protocol 0.9</span>" in site.page(f"r/{values}.html").text
    stated = {item["result_id"]: item["marks"] for item in json.loads(site.page("results.json").text)["results"]}
    assert stated[values] == ["from traces", "synthetic queries", "protocol 0.9", "older code"]
    assert "protocol 0.9" in site.page("results.csv.gz").text
    current = {board.slug for board in site.made.boards if board.current}
    assert {path.stem for path in (site.folder / "tables").glob("*.tex")} == current


def test_an_older_version_is_marked_on_its_page_and_in_the_exports(marked_site: Any) -> None:
    page = marked_site.page(f"r/{'a' * 12}.html").text
    assert ">older version</span>" in page
    assert ">no LLM (hand-written rules)</span>" in page
    stated = {item["result_id"]: item["marks"] for item in json.loads(marked_site.page("results.json").text)["results"]}
    assert stated["a" * 12] == ["rules", "from traces", "synthetic queries", "older version"]


def test_gold_sets_of_past_queries_are_what_the_result_says_and_not_what_the_cache_holds(marked_site: Any) -> None:
    said = marked_site.row("nearest-bundle(base=bm25())").result.manifest.dataset
    assert 0 < said.repeated_gold <= said.judged
    why = f"{said.repeated_gold} of the {said.judged} judged queries have a gold set that also occurs"
    # A board whose dataset is not on this machine shows the same.
    (elsewhere,) = (board for board in marked_site.made.boards if board.content_hash == "0" * 64)
    for board in (marked_site.board, elsewhere):
        shown = {
            row.key: [(mark.text, mark.why) for mark in row.marks if mark.kind.startswith("bundles")]
            for row in board.rows
        }
        ((text, sentence),) = shown.pop("nearest-bundle(base=bm25())")
        assert text == "bundles seen"
        assert sentence.startswith(why)
        # What was trained on the test learnt, too.
        assert {key for key, item in shown.items() if item and "nearest-bundle" not in key} <= {"stated"}
    # The result's own word counts, and not the data; one that says nothing is not taken for clean.
    marks = marked_site.row("nearest-bundle(base=tfidf)").marks
    assert not [mark for mark in marks if mark.kind.startswith("bundles")]
    marks = marked_site.row("nearest-bundle(base=names)").marks
    ((unknown, reason),) = ((mark.text, mark.why) for mark in marks if mark.kind.startswith("bundles"))
    assert unknown == "bundles unknown"
    assert "bench rescore" in reason


def test_rescoring_adds_what_an_older_result_does_not_say(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(ready, "nearest-bundle(base=bm25())")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    edit(folder, dataset__repeated_gold=None)
    assert command(["rescore", str(folder), "-q"]) == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert json.loads(after.pop("manifest.json")) == json.loads(before.pop("manifest.json"))
    assert after == before
    assert command(["rescore", str(folder), "-q", "--json"]) == 0
    assert "up to date" in capsys.readouterr().out

"""`bench tools`: what a person sees, what a machine reads, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bench.cli.schemas import shipped_schema

Bench = Callable[..., Any]
SCRIPT = '</script><script>alert("x")</script>'
EVIL = f"\x1b]0;owned\x07\x1b[2J [bold red]red[/] \u202eright-to-left \x9b31m {SCRIPT}"


def valid(report: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(shipped_schema("tools-report")).validate(report)
    return report


def test_the_worst_tools_come_first_with_what_decides(bench: Bench, lexical: Path) -> None:
    said = bench("tools", "bm25@starter").out
    lines = said.splitlines()
    assert lines[0] == "bm25 @ starter (test)"
    assert lines[1].startswith("179 tools, 131 of them wanted by 126 of 134 queries; found in the first 5: 57 of 344")
    assert re.search(r"^ tool +found +groups +rank +unwanted +tokens +loses to", said, re.M)
    assert re.search(r"^ rolobox.find_contact +0/14 +14 +96 +2 +\d+ +larderly.find_recipes 5", said, re.M)
    pair = r"^rolobox.find_contact behind larderly.find_recipes \(5 queries; best in \d+, rank \d+\)"
    assert re.search(pair, said, re.M)
    assert re.search(r"^  it loses by '\w+' \d", said, re.M)
    assert "never found, though wanted (not among the first 100): 19: " in said
    assert "wanted by no query: 48" in said
    assert max(map(len, lines)) <= 100


def test_json_has_every_tool_and_follows_its_schema(bench: Bench, lexical: Path) -> None:
    report = valid(bench("tools", "bm25@starter", "--k", "10", "--json").json)
    recall = bench("show", "bm25@starter", "--json").json["metrics"]["metrics"]["recall@10"]
    assert (report["k"], len(report["tools"]), recall["n"]) == (10, 179, report["judged"])
    assert report["found"] == sum(row["found"] for row in report["tools"])
    assert sum(row["shown"] for row in report["tools"]) == 1340
    missed = [row["wanted"] - row["found"] for row in report["tools"]]
    assert missed == sorted(missed, reverse=True)
    assert report["detail"] is None
    one = valid(bench("tools", "bm25@starter", "--tool", "rolobox.find", "--json").json)
    (row,) = one["tools"]
    assert len(one["detail"]["missed"]) == row["wanted"] - row["found"] == 14
    assert [pair["why_by"] for pair in row["loses_to"]] == ["method"] * 5


def test_what_must_be_known_of_a_result_is_said(bench: Bench, tmp_path: Path) -> None:
    bench("run", "-m", "bm25", "-d", "starter", "--limit", "30")
    note = "only 30 queries were evaluated (--limit): not comparable with full results"
    assert f"note: {note}" in bench("tools", "bm25@starter").out
    told = bench("tools", "bm25@starter", "--json", "--html", tmp_path / "page.html").json["warnings"]
    assert told == [note, "synthetic queries: 30 of 30 queries are written by Claude"]
    assert note in (tmp_path / "page.html").read_text("utf-8")


def test_one_tool_is_shown_with_its_queries(bench: Bench, lexical: Path) -> None:
    said = bench("tools", "bm25@starter", "--tool", "rolobox.find_contact").out
    assert "Wanted by 14 queries, found in the first 5 of 0. Median rank 96, not ranked at all in 6." in said
    assert "Missed: queries that want it, and what they show (14)" in said
    assert re.search(r"^  first: \S+, \S+", said, re.M)
    assert "Not wanted: queries that show it and want something else (2)" in said
    assert max(map(len, said.splitlines())) <= 100
    never = bench("tools", "bm25@starter", "--tool", "almanac9.get_entries").out
    assert "of which do not want it" in never


def test_forbidden_tools_alternatives_and_no_tool(bench: Bench, tmp_path: Path) -> None:
    tools = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}}
        for name, text in (("send", "sends a letter"), ("post", "posts a letter"), ("drop", "drops every letter"))
    ]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    rows = [
        {"query": "sends a letter", "tools": ["post | send"], "forbidden": ["drop"]},
        {"query": "every letter", "tools": ["send"], "forbidden": ["drop"]},
        {"query": "drops", "tools": []},
    ]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench("data", "import", "mine", tmp_path / "tools.json", "--queries", tmp_path / "queries.jsonl")
    bench("run", "-m", "bm25", "-d", "mine", "--template", "description")
    report = valid(bench("tools", "bm25@mine", "--k", "1", "--json").json)
    by_key = {row["tool_id"]: row for row in report["tools"]}
    assert {name: (row["wanted"], row["found"], row["by_other"]) for name, row in by_key.items()} == {
        "send": (1, 0, 0),
        "post": (1, 1, 1),
        "drop": (0, 0, 0),
    }
    assert (by_key["drop"]["forbidden"], by_key["drop"]["forbidden_shown"], by_key["drop"]["unwanted"]) == (2, 1, 2)
    said = bench("tools", "bm25@mine", "--k", "1").out
    assert "shown to queries that forbid them: 1" in said
    assert re.search(r"^ tool .* forbidden ", said, re.M)
    said = bench("tools", "bm25@mine", "--k", "1", "--tool", "drop").out
    assert "Forbidden by 2, 1 of which show it." in " ".join(said.split())
    assert re.search(r"\(rank 1, forbidden\): every letter", said)
    assert "wanted: no tool" in said


MUTE = '''
from pathlib import Path

from bench import Method, top_k
import numpy as np


class Mute(Method):
    """Ranks by code, says nothing of it, and keeps a note of each time that it is asked."""

    def index(self, library):
        self.tools = len(library)

    def rank(self, queries, depth):
        with (Path(__file__).parent / "asked.txt").open("a") as file:
            file.write("asked\\n")
        return top_k(np.tile(-np.arange(self.tools, dtype=float), (len(queries), 1)), depth)
'''


def test_a_method_that_says_nothing_is_not_asked_again(
    bench: Bench, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "plugins"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(str(home))
    (home / "mute_plugin.py").write_text(MUTE)
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "mute_plugin:Mute", "-d", "mine")
    before = (home / "asked.txt").read_text()
    said = bench("tools", "mute_plugin:Mute@mine", "--k", "1").out
    assert (home / "asked.txt").read_text() == before
    assert "Counted are words of the queries that one of the two texts has and the other has not." in said
    assert "The method does not say how it ranks." in " ".join(said.split())
    assert "it alone has" not in said, "they share function words alone"
    assert "stand in no description: 'get', 'mill'" in said
    assert "loses by" not in said


def test_a_run_file_needs_no_method(bench: Bench, folder: Path, tmp_path: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    file = tmp_path / "theirs.jsonl"
    file.write_text(json.dumps({"query_id": "q1", "tools": ["post.send", "crm.find"]}) + "\n")
    said = bench("tools", f"{file}@mine", "--k", "1").out
    assert "crm.find behind post.send (1 query; best in q1, rank 2)" in said
    assert "A run file has only ranks and scores" in " ".join(said.split())


class Alone(HTMLParser):
    """What a page asks for, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.asked += [value or "" for name, value in attrs if name in {"src", "href"}]


def test_a_page_needs_no_other_file(bench: Bench, lexical: Path, tmp_path: Path) -> None:
    page = tmp_path / "tools.html"
    said = bench("tools", "bm25@starter", "--html", page)
    assert said.out.strip() == f"written to {page}"
    text = page.read_text("utf-8")
    alone = Alone(text)
    assert alone.asked == ["data:,", "#main"]
    assert alone.tags.count("tr") > 179
    assert "gains by" in text
    both = bench("tools", "bm25@starter", "--html", page, "--json")
    assert valid(both.json)["k"] == 5
    assert page.read_text("utf-8") == text


def test_texts_from_outside_are_neither_obeyed_nor_run(bench: Bench, folder: Path, tmp_path: Path) -> None:
    for name in ("corpus", "queries"):
        path = folder / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["text"] += f" bakery {EVIL}"
            row["title"] = EVIL
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # An id may be anything but control characters.
    corpus, qrels = (folder / "corpus.jsonl"), (folder / "qrels" / "test.tsv")
    hostile = "[red]\u202e" + SCRIPT
    corpus.write_text(corpus.read_text().replace('"crm.find"', json.dumps(hostile)))
    qrels.write_text(qrels.read_text().replace("crm.find", hostile))
    train = folder / "qrels" / "train.tsv"
    train.write_text(train.read_text().replace("crm.find", hostile))
    bench("data", "add", "evil", "--from", folder)
    bench("run", "-m", "bm25(tokens=whitespace)", "-d", "evil")
    for more in ((), ("--tool", "[red]"), ("--tool", "post.send")):
        said = bench("tools", "bm25(tokens=whitespace)@evil", "--k", "1", *more).out
        assert not {sign for sign in said if not sign.isprintable() and sign != "\n"}
        assert "[red]" in said or "post.send" in more
    page = tmp_path / "page.html"
    bench("tools", "bm25(tokens=whitespace)@evil", "--k", "1", "--html", page)
    text = page.read_text("utf-8")
    assert "&lt;script&gt;" in text
    assert SCRIPT not in text
    assert "\u202e" not in text
    assert text.count("<script>") == text.count("</script>") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--tool", "nowhere"), "starter has no tool 'nowhere'"),
        (("--tool", "rolobox"), "tools of starter begin with 'rolobox'"),
        (("--k", "101"), "k is 101, but the rankings of bm25 @ starter have at most 100 tools"),
        (("--repeat", "2"), "has no repeats; there is no repeat 2"),
        (("--html", "x.html", "--tool", "rolobox.find_contact"), "leave out --tool"),
        (("--k", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_reported_is_refused(bench: Bench, lexical: Path, more: tuple[str, ...], message: str) -> None:
    assert message in " ".join(bench("tools", "bm25@starter", *more, code=2).err.split())


def test_a_page_that_cannot_be_written_is_a_sentence(bench: Bench, lexical: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = bench("tools", "bm25@starter", "--html", tmp_path / "file" / "page.html", code=7)
    assert "page.html" in said.err

"""Scripts of tools and queries, and what cannot be read in them, counted on small datasets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import make_dataset

from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.validation.audit import Audit
from bench.validation.scripts import audit_scripts, lexical_methods, script_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Sends a letter", "Latin"),
        ("Ｓｅｎｄｓ", "Latin"),
        ("查询天气 (weather)", "Han"),
        ("レストランを予約する", "kana"),
        ("환율을 조회합니다", "Hangul"),
        ("ค้นหาโรงแรม", "Thai"),
        ("नमस्ते", "Devanagari"),
        ("погода", "Cyrillic"),
        ("12 34", "Latin"),
        ("2 車", "Han"),
        ("😀 …", "no words"),
        ("", "no words"),
        # As many words of each: the first by name.
        ("weather погода", "Cyrillic"),
    ],
)
def test_a_text_is_in_the_script_of_most_of_its_words(text: str, name: str) -> None:
    assert script_of(text) == name


def made() -> Dataset:
    tools = [
        Tool("a", "weather", "查询城市的天气预报"),
        Tool("b", "查询天气", ""),
        Tool("c", "mail", "Sends a letter."),
        Tool("d", "hotel", "ค้นหาโรงแรม"),
    ]
    queries = [
        Query("q1", "明天的天气", {"a": 1}),
        Query("q2", "查询天气", {"b": 1}),
        # Nothing lexical leads from one language to another.
        Query("q3", "写一封信", {"c": 1}),
        Query("q4", "send a letter", {"c": 1}),
        Query("q5", "โรงแรม", {"d": 1}),
        Query("q6", "谁", {}),
        Query("q7", "明天", {"a": 1}, split="train"),
    ]
    return make_dataset(tools, queries, template="name_description")


def test_queries_that_share_nothing_with_gold_are_counted_by_method_and_script() -> None:
    scripts = audit_scripts(made(), lexical_methods())
    assert not scripts.plain
    rows = {row.name: row for row in scripts.rows}
    assert list(rows) == ["Han", "Latin", "Thai"]
    assert [(row.tools, row.queries, row.judged) for row in rows.values()] == [(2, 5, 3), (1, 1, 1), (1, 1, 1)]
    assert rows["Han"].unread == {"bm25": 1, "bm25-fields": 1, "bm25-okapi": 3, "names": 2, "tfidf": 1}
    assert rows["Latin"].unread == {"bm25": 0, "bm25-fields": 0, "bm25-okapi": 0, "names": 1, "tfidf": 0}
    assert rows["Thai"].unread == {"bm25": 0, "bm25-fields": 0, "bm25-okapi": 1, "names": 1, "tfidf": 0}
    assert rows["Latin"].unknown_tokens == 0.0
    assert (rows["Han"].unknown_tokens or 0) > 0.2
    assert scripts.languages == ("en",)


def test_a_library_without_queries_has_scripts_too() -> None:
    audited = Audit.of(make_dataset([Tool("a", "天气", ""), Tool("b", "…", "…")], template="name_description"))
    assert [(row.name, row.tools, dict(row.unread)) for row in audited.scripts.rows] == [
        ("Han", 1, {}),
        ("no words", 1, {}),
    ]
    assert audited.scripts.rows[1].unknown_tokens is not None
    assert "Han" in str(audited._tables()[1].rows)


def test_a_dataset_in_latin_letters_takes_one_line(bench: Callable[..., Any]) -> None:
    out = bench("data", "audit", "starter").out
    assert "scripts: all texts are in Latin letters" in out


def test_the_audit_prints_scripts(bench: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(
        json.dumps([{"name": "mail", "description": "发送邮件"}, {"name": "find", "description": "Finds a street."}])
    )
    (tmp_path / "queries.csv").write_text("query,tools\n给老板发送邮件,mail\n")
    bench("data", "import", "own", str(tmp_path / "tools.json"), "--queries", str(tmp_path / "queries.csv"))
    out = bench("data", "audit", "own").out
    assert "Han " in out
    assert "declares the language en" in out
    rows = json.loads(bench("data", "audit", "own", "--json").out)["scripts"]["rows"]
    assert [(row["name"], row["tools"], row["queries"]) for row in rows] == [("Han", 1, 1), ("Latin", 1, 0)]
    assert rows[0]["unread"] == {"bm25": 0, "bm25-fields": 0, "bm25-okapi": 1, "names": 1, "tfidf": 0}

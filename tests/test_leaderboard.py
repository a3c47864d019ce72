"""The static page: everything from results is escaped, nothing unreadable breaks it."""

from __future__ import annotations

import importlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import run as command
from bench.paths import results_folder

HOSTILE = '<script>alert("x")</script>'


class _Page(HTMLParser):
    """Tags, and the text of each cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


@pytest.fixture
def page(tmp_path: Path) -> Any:
    """Build the page and read it."""

    def build() -> _Page:
        assert command(["leaderboard", "build", "--out", str(tmp_path / "site")]) == 0
        return _Page((tmp_path / "site" / "index.html").read_text("utf-8"))

    return build


def _scored(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run.jsonl"
    run.write_text(json.dumps({"query_id": "0001", "tools": ["crateful.get_catalogue"]}) + "\n")
    assert command(["score", "-d", "starter", str(run), "--name", name]) == 0


def test_without_results_the_page_says_how_to_make_one(page: Any) -> None:
    assert "No results yet:" in page().texts


def test_rows_are_ranked_and_an_oracle_stands_last(page: Any) -> None:
    assert command(["run", "-m", "oracle", "-m", "bm25", "-m", "random", "-d", "starter", "-q"]) == 0
    texts = page().texts
    order = [texts.index(name) for name in ("bm25", "random", "oracle")]
    assert order == sorted(order)
    assert "bench run --method bm25 --dataset starter" in texts


def test_numbers_are_those_of_the_result(page: Any) -> None:
    assert command(["run", "-m", "bm25", "-d", "starter", "-q"]) == 0
    stored = json.loads(next(results_folder().glob("*/*/metrics.json")).read_text())["metrics"]["recall@5"]
    texts = page().texts
    assert f"{stored['mean']:.3f}" in texts
    assert f"{stored['low']:.3f} to {stored['high']:.3f}" in texts


def test_a_hostile_name_is_text(tmp_path: Path, page: Any) -> None:
    _scored(tmp_path, HOSTILE)
    found = page()
    assert "script" not in found.tags
    assert HOSTILE in found.texts
    assert "run file" in found.texts


def test_the_page_asks_for_nothing_outside_itself(tmp_path: Path, page: Any) -> None:
    _scored(tmp_path, "mine")
    assert {link for link in page().links if not link.startswith("#")} == {"style.css"}
    assert (tmp_path / "site" / "style.css").is_file()


def test_a_broken_result_is_named_and_the_rest_is_shown(tmp_path: Path, page: Any) -> None:
    _scored(tmp_path, "whole")
    _scored(tmp_path, "broken")
    broken = next(results_folder().glob("*/broken-*/metrics.json"))
    broken.write_text("{")
    texts = page().texts
    assert "whole" in texts
    assert "broken" not in texts
    assert any(str(broken) in text for text in texts)


def test_other_templates_are_marked_and_other_limits_get_their_own_table(page: Any) -> None:
    assert command(["run", "-m", "bm25", "-m", "random", "-d", "starter", "-q"]) == 0
    assert command(["run", "-m", "bm25", "-d", "starter", "--template", "description", "-q"]) == 0
    assert command(["run", "-m", "bm25", "-d", "starter", "--limit", "9", "-q"]) == 0
    found = page()
    assert "text: description" in found.texts
    assert found.tags.count("table") == 2


def test_two_builds_are_the_same_bytes(tmp_path: Path, page: Any) -> None:
    _scored(tmp_path, "mine")
    page()
    first = (tmp_path / "site" / "index.html").read_bytes()
    page()
    assert (tmp_path / "site" / "index.html").read_bytes() == first


def test_the_module_is_found_by_its_installed_name() -> None:
    assert importlib.import_module("bench.leaderboard.site").COLUMNS[0] == "recall@5"

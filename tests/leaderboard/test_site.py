"""The whole site: what it has, that it holds together, and what the command says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.__main__ import run as command
from bench.storage.paths import results_folder


def test_without_results_the_home_page_says_how_to_make_one(build: Callable[..., Any]) -> None:
    assert any(text.startswith("No results yet.") for text in build().page("index.html").texts)


@pytest.mark.usefixtures("ready")
def test_every_link_leads_to_a_file_of_the_site_or_to_a_part_of_a_page(build: Callable[..., Any]) -> None:
    site = build()
    ids = {page.path.resolve(): set(page.ids) for page in site.pages()}
    seen = 0
    for page in site.pages():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "https":
                continue  # a paper's address, which nothing is loaded from
            assert not parts.scheme
            assert not link.startswith("/"), f"{link} on {page.path.name} would break under a sub-path"
            target = (page.path.parent / parts.path).resolve() if parts.path else page.path.resolve()
            assert target.is_file(), f"{page.path} leads to {link}"
            # `a=b` is what a page's script shows first.
            if parts.fragment and "=" not in parts.fragment:
                assert parts.fragment in ids[target], f"{page.path} leads to {link}"
            seen += 1
    assert seen > 200


@pytest.mark.usefixtures("ready")
def test_nothing_is_loaded_from_elsewhere(build: Callable[..., Any]) -> None:
    for page in build().pages():
        for name, value in page.attributes:
            if name == "src" or (name == "href" and value.endswith((".css", ".js", ".svg"))):
                assert not urlsplit(value).netloc
        assert "@import" not in page.text
        assert "style" not in {name for name, _ in page.attributes}


@pytest.mark.usefixtures("ready")
def test_no_id_stands_twice_on_a_page(build: Callable[..., Any]) -> None:
    for page in build().pages():
        assert len(set(page.ids)) == len(page.ids), page.path


@pytest.mark.usefixtures("ready")
def test_from_a_number_on_the_home_page_it_is_two_clicks_to_its_command(build: Callable[..., Any]) -> None:
    site = build()
    home = site.page("index.html")
    direct = [link for link in home.links if link.startswith("r/")]
    assert len(direct) == 5
    for link in direct:
        assert any(text.startswith("bench run --method") for text in site.page(link).texts)
    for link in {link.partition("#")[0] for link in home.links if link.startswith("m/")}:
        assert any(other.startswith("../r/") for other in site.page(link).links)


@pytest.mark.usefixtures("ready")
def test_tables_have_captions_and_scopes_and_every_page_a_way_past_its_head(build: Callable[..., Any]) -> None:
    for page in build().pages():
        assert page.tags.count("caption") == page.tags.count("table")
        assert page.text.count("<th ") == page.text.count("<th scope=")
        assert page.links.count("#main") == 1
        assert "main" in page.ids
        assert ("lang", "en") in page.attributes


def test_the_command_tells_what_it_made(ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (next(ready.glob("*/random-*")) / "metrics.json").write_text("{")
    assert command(["leaderboard", "build", "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["boards"], told["results"], len(told["rejected"])) == (1, 4, 1)
    assert told["page"] == str(tmp_path / "out" / "index.html")
    assert command(["leaderboard", "build", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "1 boards, 4 results, 1 rejected; 0 files written" in shown.out
    assert "rejected: starter/random-" in shown.err


def test_a_report_that_is_none_is_refused(ready: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("{}")
    asked = ["leaderboard", "build", "--out", str(tmp_path / "out"), "--reproduction", str(report)]
    assert command(asked) == 2
    assert command([*asked[:-1], str(tmp_path / "none.json")]) == 2
    assert not (tmp_path / "out" / "index.html").exists()


@pytest.mark.usefixtures("ready")
def test_several_processes_make_the_same_site_as_one(build: Callable[..., Any]) -> None:
    assert command(["run", "-m", "bm25", "-d", "starter", "--limit", "9", "-q"]) == 0
    assert build("alone", jobs=1).bytes() == build("together", jobs=2).bytes()


def test_the_site_does_not_say_where_on_the_machine_it_was_made(
    ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    (next(ready.glob("*/random-*")) / "metrics.json").write_text("{")
    broken = next(ready.glob("*/bm25-*")) / "run.parquet"
    broken.write_bytes(b"x")
    site = build()
    assert len(site.made.rejected) == 2
    for content in site.bytes().values():
        assert str(tmp_path).encode() not in content


def test_the_same_results_in_another_folder_give_the_same_site(
    ready: Path, build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (next(ready.glob("*/random-*")) / "metrics.json").write_text("{")
    first = build("one").bytes()
    shutil.move(ready, tmp_path / "elsewhere")
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "elsewhere"))
    assert results_folder() != ready
    assert build("two").bytes() == first

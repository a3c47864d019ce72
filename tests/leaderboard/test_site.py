"""The whole site: what it has, that it holds together, and what the command says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kit.results import another, folder_of

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.leaderboard.boards import standings

EXACT = standings._FLIPPED


def test_without_results_the_home_page_says_how_to_make_one(build: Callable[..., Any]) -> None:
    site = build()
    assert any(text.startswith("No results yet.") for text in site.page("index.html").texts)
    assert site.made.results == 0
    assert site.page("rejected.html").texts


@pytest.mark.usefixtures("quick", "isolated")
def test_a_board_may_have_no_results_but_those_with_a_template_of_the_user(
    bench: Callable[..., Any], build: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "text.j2").write_text("{{ name }}: {{ description }}, please")
    bench("run", "-q", "-m", "bm25", "-d", "starter", "--template", tmp_path / "text.j2")
    site = build()
    (board,) = site.made.boards
    assert board.template.startswith("jinja-")
    assert not site.made.rejected
    assert board.template in site.only("d/*.html").text


def test_every_link_leads_to_a_file_of_the_site_or_to_a_part_of_a_page(full_site: Any) -> None:
    site = full_site
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


def test_pages_load_nothing_from_elsewhere_and_can_be_read_by_all(full_site: Any) -> None:
    for page in full_site.pages():
        for name, value in page.attributes:
            if name == "src" or (name == "href" and value.endswith((".css", ".js", ".svg"))):
                assert not urlsplit(value).netloc
        assert "@import" not in page.text
        assert "style" not in {name for name, _ in page.attributes}
        # No id stands twice on a page; tables have captions and scopes, and every page a way past its head.
        assert len(set(page.ids)) == len(page.ids), page.path
        assert page.tags.count("caption") == page.tags.count("table")
        assert page.text.count("<th ") == page.text.count("<th scope=")
        assert page.links.count("#main") == 1
        assert "main" in page.ids
        assert ("lang", "en") in page.attributes


def test_from_a_number_on_the_home_page_it_is_two_clicks_to_its_command(ready_site: Any) -> None:
    home = ready_site.page("index.html")
    direct = [link for link in home.links if link.startswith("r/")]
    assert len(direct) == 5
    for link in direct:
        assert any(text.startswith("bench run --method") for text in ready_site.page(link).texts)
    for link in {link.partition("#")[0] for link in home.links if link.startswith("m/")}:
        assert any(other.startswith("../r/") for other in ready_site.page(link).links)


def test_the_command_tells_what_it_made(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder_of(few, "random") / "metrics.json").write_text("{")
    assert command(["leaderboard", "build", "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["boards"], told["results"], len(told["rejected"])) == (1, 1, 1)
    assert told["page"] == str(tmp_path / "out" / "index.html")
    assert command(["leaderboard", "build", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "1 board, 1 result, 1 rejected; 0 files written" in shown.out
    assert "rejected: starter/random-" in shown.err


def test_without_choices_there_is_no_page(begun_site: Any) -> None:
    assert not (begun_site.folder / "choices.html").exists()
    assert not any("choices.html" in link for page in begun_site.pages() for link in page.links)


def test_a_report_that_is_none_is_refused(few: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("{}")
    requests = ["leaderboard", "build", "--out", str(tmp_path / "out"), "--reproduction", str(report)]
    assert command(requests) == 2
    assert command([*requests[:-1], str(tmp_path / "none.json")]) == 2
    assert not (tmp_path / "out" / "index.html").exists()


def test_neither_processes_nor_places_show_on_a_site(
    few: Path, build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes know nothing of what a test has changed in this one.
    monkeypatch.setattr(standings, "_FLIPPED", EXACT)
    assert command(["run", "-m", "bm25", "-d", "starter", "--limit", "9", "-q"]) == 0
    random = folder_of(few, "random")
    (another(random, "0123456789ab") / "metrics.json").write_text("{")
    (random / "run.parquet").write_bytes(b"x")
    alone = build("alone", jobs=1)
    assert len(alone.made.boards) == 2
    assert len(alone.made.rejected) == 2
    for content in alone.bytes().values():
        assert str(tmp_path).encode() not in content
    # Several processes, with the same results in another folder.
    few.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "elsewhere"))
    assert results_folder() != few
    assert build("together", jobs=2).bytes() == alone.bytes()

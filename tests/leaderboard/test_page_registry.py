"""Pages are found by their modules: a module in the folder of pages is built, and has its entry in the navigation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from kit.sites import Built

from bench.leaderboard import pages as package
from bench.leaderboard.pages import registry, rendering

NEWS = """
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import render


def _write(content, writer):
    writer.put("news.html", render("rejected", "", "news.html", rejected=content.rejected))


PAGE = Page("news", "news.html", _write, entry="News", order=5)
"""


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more module among the pages."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "news.py").write_text(NEWS)

    def forget() -> None:
        registry.pages.cache_clear()
        rendering.environment.cache_clear()

    with monkeypatch.context() as patch:
        patch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "more")])
        forget()
        yield
    forget()


def _entries(text: str) -> list[str]:
    navigation = text[text.index("<nav ") : text.index("</nav>")]
    return re.findall(r'<a href="[./]*([a-z]+\.html)"', navigation)


def test_every_page_is_of_a_kind_and_every_entry_leads_to_a_page(ready_site: Built) -> None:
    site = ready_site
    kinds = [page.path for page in registry.pages()]
    entries = [path for _, path in registry.navigation(registry.Frame())]
    assert entries[0] == "index.html"
    for page in site.pages():
        path = str(page.path.relative_to(site.folder))
        assert any(fnmatch(path, kind) for kind in kinds) or path.startswith("overall-")
        assert _entries(page.text) == entries
    assert all((site.folder / path).is_file() for path in entries)


@pytest.mark.usefixtures("news")
def test_a_new_module_is_built_and_named_on_every_page(build: Callable[..., Built]) -> None:
    site = build()
    assert (site.folder / "news.html").is_file()
    for page in site.pages():
        assert "news.html" in _entries(page.text)
    assert 'href="news.html" aria-current="page"' in (site.folder / "news.html").read_text("utf-8")


def test_kinds_have_names_and_places_of_their_own() -> None:
    pages = registry.pages()
    assert len({page.name for page in pages}) == len(pages)
    places = [page.order for page in pages if page.entry]
    assert places == sorted(set(places))


def test_a_team_s_site_has_its_own_title_and_nothing_for_visitors(bench: Callable[..., Any], ready: Path) -> None:
    Path("set.toml").write_text('[site]\ntitle = "Search of the desk"\nlead = "What we ship."\n', "utf-8")
    bench("leaderboard", "build", "--results", ready, "--out", "site", "--ranking-set", "set.toml")
    home = Path("site", "index.html").read_text("utf-8")
    assert "<h1>Search of the desk</h1>" in home
    assert '<a class="brand" href="index.html">Search of the desk</a>' in home
    assert "What we ship." in home
    assert _entries(home) == ["index.html", "datasets.html", "methods.html", "compare.html", "metrics.html"]
    assert not Path("site", "submit.html").exists()
    assert not Path("site", "reproduction.html").exists()
    assert "@misc" not in home


def test_a_public_site_says_how_to_submit_and_to_cite(bench: Callable[..., Any], ready: Path) -> None:
    Path("set.toml").write_text("[site]\npublic = true\n", "utf-8")
    bench("leaderboard", "build", "--results", ready, "--out", "site", "--ranking-set", "set.toml")
    home = Path("site", "index.html").read_text("utf-8")
    assert "submit.html" in _entries(home)
    assert "Submit a result" in Path("site", "submit.html").read_text("utf-8")
    assert "@misc" in home
    # Pages of a site that is no longer public are removed.
    bench("leaderboard", "build", "--results", ready, "--out", "site")
    assert not Path("site", "submit.html").exists()
    assert "submit.html" not in Path("site", "metrics.html").read_text("utf-8")


def test_a_site_without_a_declared_set_does_not_list_what_it_lacks(bench: Callable[..., Any], ready: Path) -> None:
    said = bench("leaderboard", "build", "--results", ready, "--out", "site", "--strict")
    assert "incomplete" not in said.err
    assert "is not shown" not in Path("site", "index.html").read_text("utf-8")

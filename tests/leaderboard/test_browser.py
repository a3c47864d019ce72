"""The pages in a real Chromium, opened from a file and under a sub-path.

The `browser` fixture holds every test to this besides: no word on the console, no request off the site.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kit.browser import Browser, address, on_server
from kit.results import edit, folder_of
from kit.sites import Built

from bench.registry import load_dataset

pytestmark = pytest.mark.slow("a browser")

ENTER, SPACE, TAB, ESCAPE, SHIFT = "\ue007", " ", "\ue004", "\ue00c", "\ue008"


def shown(browser: Browser, table: str) -> list[str]:
    """Names of a table's rows that can be seen, in their order."""
    script = """return [...document.querySelectorAll(arguments[0] + " tbody tr")]
        .filter(row => row.checkVisibility()).map(row => row.querySelector("th a").textContent)"""
    return list(browser.run(script, table))


def column(browser: Browser, table: str, place: int) -> list[float]:
    """The numbers of a column, from the top."""
    cells = f"[...document.querySelectorAll('{table} tbody tr')].map(row => row.cells[{place}].firstChild.textContent)"
    return [float(text) for text in browser.run(f"return {cells}")]


def choose(browser: Browser, name: str, text: str) -> None:
    """Choose from a list by typing how the choice begins: a driver's click on an option is no input."""
    browser.find(f"[name={name}]").send_keys(text)


@pytest.mark.parametrize("kind", ["home", "board", "result", "explorer"])
def test_nothing_moves_while_a_page_comes_in(kind: str, full_site: Built, served: str, browser: Browser) -> None:
    for width in (390, 1280):
        browser.window(width)
        browser.slow()
        browser.open(on_server(full_site, served, kind))
        if kind == "explorer":
            browser.until(lambda: browser.all(".queries > li"))
        assert browser.shift() < 0.01, width


def test_a_heading_sorts_by_its_column_and_a_second_click_turns_it(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    head = browser.find("#overall thead th:nth-child(3)")
    assert head.text == "mean"
    head.find_element("css selector", "button").click()
    best_first = column(browser, "#overall", 2)
    assert best_first == sorted(best_first, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.find_element("css selector", "button").click()
    assert column(browser, "#overall", 2) == sorted(best_first)
    assert head.get_attribute("aria-sort") == "ascending"
    name = browser.find("#overall thead th:nth-child(2)")
    name.find_element("css selector", "button").click()
    assert shown(browser, "#overall") == sorted(shown(browser, "#overall"))
    assert len(browser.all("#overall [aria-sort]")) == 1


def test_the_view_stands_in_the_address_and_comes_back(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    browser.find("#overall thead th:nth-child(3) button").click()
    browser.find("#overall thead th:nth-child(3) button").click()
    browser.find("[name=q]").send_keys("bm25")
    assert browser.run("return location.hash") == "#sort=mean.a&q=bm25"
    view = shown(browser, "#overall")
    assert 0 < len(view) < 5
    browser.driver.refresh()
    assert shown(browser, "#overall") == view
    browser.find("#overall tbody tr:not([hidden]) td a").click()
    browser.until(lambda: not browser.all("#overall"))
    browser.driver.back()
    browser.until(lambda: browser.all("#overall"))
    assert shown(browser, "#overall") == view
    assert browser.find("[name=q]").get_attribute("value") == "bm25"
    # Boards of other metrics keep the view too.
    browser.find(".tabs a[href*=ndcg]").click()
    browser.until(lambda: "ndcg" in browser.driver.current_url)
    assert set(shown(browser, "#overall")) == set(view)
    means = column(browser, "#overall", 2)
    assert means == sorted(means)


def test_filters_leave_what_fits_say_how_many_and_are_reset(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    everything = shown(browser, "#overall")
    assert len(everything) == 4
    choose(browser, "family", "bm25")
    assert shown(browser, "#overall") == ["BM25"]
    browser.find("[name=q]").send_keys("no such method")
    assert shown(browser, "#overall") == []
    assert browser.find("output").text == "0 of 5 rows"
    browser.find(".filters [type=reset]").click()
    browser.until(lambda: shown(browser, "#overall") == everything)
    assert browser.find("output").text == "4 of 5 rows"
    assert not browser.run("return location.hash")


def test_variants_fold_under_their_method_and_a_search_finds_them(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    assert "BM25 (k1=0.5)" not in shown(browser, "#overall")
    button = browser.find("#overall button.variants")
    assert button.text == "variants: 1"
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert "BM25 (k1=0.5)" in shown(browser, "#overall")
    assert button.get_attribute("aria-expanded") == "true"
    assert browser.run("return location.hash") == "#variants=y"
    browser.driver.refresh()
    assert len(shown(browser, "#overall")) == 5
    browser.find("#overall button.variants").click()
    assert len(shown(browser, "#overall")) == 4
    # By the spec, which no cell shows.
    browser.find("[name=q]").send_keys("bm25(k1=0.5)")
    assert shown(browser, "#overall") == ["BM25 (k1=0.5)"]


def test_columns_are_chosen_in_a_menu_that_escape_closes(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    assert browser.find("#overall [data-c=latency]").is_displayed()
    assert not browser.all("#overall thead th.d:not([hidden])")
    browser.find(".pick summary").click()
    browser.find(".pick [value=failed]").click()
    browser.find(".pick [value=latency]").click()
    browser.find(".pick [data-all]").click()
    datasets = [item.get_attribute("value") or "" for item in browser.all(".pick [value^='d:']")]
    assert datasets
    assert len(browser.all("#overall thead th.d:not([hidden])")) == len(datasets)
    assert not browser.find("#overall [data-c=latency]").is_displayed()
    # The address has names, and what is as at first is not in it.
    view = browser.run("return Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    assert view["hide"] == "latency"
    assert view["show"] == ",".join(["failed", *(name.replace(":", "%3A") for name in datasets)])
    browser.driver.refresh()
    assert len(browser.all("#overall tbody tr:first-child > :not([hidden])")) == 7 + len(datasets)
    assert not browser.find("#overall [data-c=latency]").is_displayed()
    browser.find(".pick summary").click()
    browser.find(".pick [data-all]").click()
    assert not browser.all("#overall thead th.d:not([hidden])")
    browser.type(ESCAPE)
    assert browser.run("return document.querySelector('.pick').open") is False
    assert browser.run("return document.activeElement.textContent") == "Columns"


@pytest.mark.parametrize("kind", ["home", "board"])
def test_a_table_with_its_first_columns_does_not_scroll_sideways(kind: str, full_site: Built, browser: Browser) -> None:
    browser.window(1280)
    browser.open(address(full_site, kind))
    box = "document.querySelector('table.board').parentElement"
    assert browser.run(f"return {box}.scrollWidth - {box}.clientWidth") <= 0


def test_a_keyboard_is_enough(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "home"))
    browser.type(TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.find(".skip").rect["x"] >= 0, "it comes into sight"
    browser.type(ENTER)
    assert browser.run("return location.hash") == "#main"
    seen = []
    for _ in range(60):
        browser.type(TAB)
        seen.append(browser.run(_FOCUSED))
        if seen[-1]["sorts"]:
            break
    assert seen[-1]["sorts"], seen
    assert all(place["outline"] >= 2 or place["field"] for place in seen), "the focus is always seen"
    assert all(place["inside"] for place in seen), "and lies in the window"
    button = "return document.activeElement.closest('th').getAttribute('aria-sort')"
    browser.type(ENTER)
    first = browser.run(button)
    browser.type(SPACE)
    assert {first, browser.run(button)} == {"ascending", "descending"}


def test_the_focus_does_not_hide_under_the_heads_that_stay(full_site: Built, browser: Browser) -> None:
    browser.window(600, 420)
    browser.open(address(full_site, "home"))
    # Room for two rows: each step back has to scroll.
    browser.run("document.querySelector('.scroll').style.maxHeight = '13rem'")
    browser.run("document.querySelector('#overall tbody tr:last-child td:last-child a').focus()")
    for _ in range(12):
        browser.driver.switch_to.active_element.send_keys(SHIFT + TAB)
        assert browser.run(_UNCOVERED), browser.run("return document.activeElement.outerHTML")


def test_dark_colours_follow_the_system_and_a_choice_is_kept(full_site: Built, served: str, browser: Browser) -> None:
    browser.colours("dark")
    browser.open(on_server(full_site, served, "home"))
    dark = browser.style("body", "backgroundColor")
    button = browser.find(".theme")
    assert button.get_attribute("aria-label") == "Light colours"
    button.click()
    light = browser.style("body", "backgroundColor")
    assert _brightness(light) > 200 > 60 > _brightness(dark)
    assert _brightness(browser.style("body", "color")) < 60
    browser.open(on_server(full_site, served, "board"))
    assert browser.style("body", "backgroundColor") == light, "chosen for every page"
    assert browser.find(".theme").get_attribute("aria-label") == "Dark colours"
    browser.find(".theme").click()
    browser.driver.refresh()
    assert browser.style("body", "backgroundColor") == dark
    assert browser.style(".chart text", "fill") != light, "a picture is of the page's colours"


@pytest.mark.parametrize("opened", [True, False], ids=["from a file", "under a sub-path"])
def test_the_explorer_compares_two_methods_query_by_query(
    opened: bool, full_site: Built, served: str, browser: Browser
) -> None:
    browser.open(address(full_site, "explorer") if opened else on_server(full_site, served, "explorer"))
    browser.until(lambda: browser.all(".queries > li"))
    total = int(_said(browser).split()[-2])
    assert _said(browser) == f"1 to 10 of {total} queries"
    assert len(browser.all(".queries > li:first-child > .tops > div")) == 2, "the two that are compared"
    assert browser.all(".queries li.hit")
    browser.find("[name=next]").click()
    browser.until(lambda: _said(browser).startswith("11 to 20 of"))
    browser.driver.refresh()
    browser.until(lambda: _said(browser).startswith("11 to 20 of"))
    # The first has all of its gold and the other has not: each query that is left is of that kind.
    choose(browser, "as", "1")
    choose(browser, "bs", "below 1")
    browser.until(lambda: not _said(browser).startswith("11 to"))
    for heads in browser.run(_HEADS):
        assert heads[0] == "recall@5 1.000"
        assert float(heads[1].split()[1]) < 1
    # No method differs from itself.
    choose(browser, "b", browser.find("[name=b] option").text)
    browser.until(lambda: _said(browser) == "No matching queries.")
    browser.find(".filters [type=reset]").click()
    browser.until(lambda: _said(browser) == f"1 to 10 of {total} queries")


def test_the_explorer_sorts_by_the_difference_searches_and_keeps_both_in_its_address(
    ready_site: Built, browser: Browser
) -> None:
    site, board = ready_site, ready_site.board
    bm25, bundle = (next(row for row in board.rows if row.family == name) for name in ("bm25", "nearest-bundle"))
    ids = bm25.result.per_query["query_id"].to_pylist()
    leads = dict(zip(ids, bm25.result.values("recall@5") - bundle.result.values("recall@5"), strict=True))
    wins = sorted((name for name in ids if leads[name] > 0), key=lambda name: -leads[name])
    browser.open((site.folder / f"e/{board.slug}.html").as_uri())
    browser.until(lambda: browser.all(".queries > li"))
    for name, value in (("a", bm25.full_name), ("b", bundle.full_name), ("show", "better"), ("order", "better")):
        browser.run(_SET, name, value)
    browser.until(lambda: _said(browser) == f"1 to 10 of {len(wins)} queries")
    browser.until(lambda: browser.run(_NAMES) == [f"query {name}" for name in wins[:10]])
    address = browser.run("return location.hash")
    assert "a=bm25" in address
    assert "by=recall%405" in address
    # Words of the last of them, in capitals: a search reads all queries, and not those of the page.
    dataset = load_dataset("starter")
    text = dataset.queries[dataset.query_codes[wins[-1]]].text
    browser.find("[name=q]").send_keys(text.upper()[:100])
    browser.until(lambda: browser.run(_NAMES) == [f"query {wins[-1]}"])
    browser.driver.refresh()
    browser.until(lambda: browser.run(_NAMES) == [f"query {wins[-1]}"])
    assert browser.find("[name=q]").get_attribute("value") == text.upper()[:100]
    # Gold below the first ten is told with its rank.
    browser.find(".filters [type=reset]").click()
    choose(browser, "by", "recall@10")
    choose(browser, "as", "below 1")
    browser.until(lambda: browser.all(".below li"))
    first = browser.find(".below li").text
    assert int(first.partition(".")[0]) > 10 or first.startswith("not ranked: ")


def test_a_link_into_a_closed_part_opens_it(full_site: Built, browser: Browser) -> None:
    browser.open(address(full_site, "reproduction"))
    assert browser.run("return document.querySelector('section details').open") is False
    browser.find("tbody a[href^='#']").click()
    browser.until(lambda: browser.run("return document.querySelector('section details').open"))


def test_only_tables_that_scroll_are_stops_of_the_tab_key(full_site: Built, browser: Browser) -> None:
    stops = "return [...document.querySelectorAll('.scroll')].filter(box => box.tabIndex === 0).length"

    def scrolls(some: bool) -> bool:
        return bool(browser.run(stops) > 0) is some

    for width, some in ((1600, False), (390, True)):
        browser.window(width)
        browser.open(address(full_site, "method"))
        browser.until(partial(scrolls, some))


def test_hostile_text_in_a_page_runs_nothing(few: Path, build: Callable[..., Built], browser: Browser) -> None:
    name = '</script><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
    edit(folder_of(few, "random"), method__spec=name, method__full_spec=name, environment__command=name)
    site = build()
    row = site.row(name)
    for path in ("index.html", f"r/{row.id}.html", f"d/{site.board.slug}.html"):
        browser.open((site.folder / path).as_uri())
        assert browser.driver.title != "owned"
        assert "onerror" in browser.find("main").text
        assert not browser.all("main img, main script")
    browser.open((site.folder / f"e/{site.board.slug}.html").as_uri())
    browser.until(lambda: browser.all(".queries > li"))
    assert browser.driver.title.startswith("Queries of")


def _said(browser: Browser) -> str:
    return str(browser.find("#explorer output").text)


def _brightness(colour: str) -> float:
    """Of `rgb(…)`, from 0 to 255."""
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3


_HEADS = """return [...document.querySelectorAll(".queries > li")]
    .map(item => [...item.querySelectorAll(":scope > .tops small")].map(small => small.textContent.trim()))"""
#: Typing cannot tell a name from a longer one that begins with it.
_SET = """const list = document.querySelector(`[name=${arguments[0]}]`);
list.value = arguments[1];
list.dispatchEvent(new Event("input", { bubbles: true }));"""
_NAMES = """return [...document.querySelectorAll(".queries > li > h2")].map(head => head.firstChild.textContent)"""
_FOCUSED = """
const at = document.activeElement, box = at.getBoundingClientRect();
return {
  text: at.outerHTML.slice(0, 80),
  sorts: !!at.closest("thead button"),
  field: at.matches("input, select"),
  outline: parseFloat(getComputedStyle(at).outlineWidth),
  inside: box.bottom > 0 && box.top < innerHeight,
};"""
_UNCOVERED = """
const at = document.activeElement, box = at.getBoundingClientRect();
const top = document.elementFromPoint(box.left + 2, box.top + box.height / 2);
return top === at || at.contains(top) || top?.contains(at);"""

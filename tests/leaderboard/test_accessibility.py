"""Every kind of page in a real Chromium: from a file and a server, in several widths, printed, and without scripts.

axe-core finds nothing wrong: the rules of WCAG 2.2 A and AA, in light and dark, on a phone and a desk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kit.browser import KINDS, Browser, address, on_server
from kit.sites import Built

pytestmark = pytest.mark.slow("a browser")


@contextmanager
def checked(failed: list[str], what: str) -> Iterator[None]:
    """A part of a visit: what fails in it is told with its name, and the visit goes on."""
    try:
        yield
    except AssertionError as error:
        failed.append(f"{what}: {error}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_page_is_right_wherever_it_is_opened(kind: str, full_site: Built, served: str, axe: Browser) -> None:
    browser, failed = axe, list[str]()

    def opened(place: str, scripts: bool = True) -> None:
        browser.open(place)
        # The driver may come back early where scripts were switched off or on before: the footer is the last of a page.
        browser.until(lambda: bool(browser.all("footer")))
        if kind == "explorer" and scripts:
            browser.until(lambda: browser.all(".queries > li"))
        assert browser.find("h1").text

    # From the server: axe-core reads style sheets again, which a page that is a file may not.
    opened(on_server(full_site, served, kind))
    for colours, width in (("light", 1280), ("dark", 390)):
        with checked(failed, f"axe-core, {colours} colours, {width} pixels"):
            browser.colours(colours)
            browser.window(width)
            assert browser.find(".theme").is_displayed()
            assert browser.violations() == []
    # As a file, it is dark and narrow from the first.
    opened(address(full_site, kind))
    assert browser.find(".theme").is_displayed()
    with_scripts = len(browser.all("main tbody tr"))
    browser.run("document.querySelectorAll('details:not(.pick)').forEach(part => { part.open = true })")
    for width in (390, 1024, 1600):
        with checked(failed, f"{width} pixels wide"):
            browser.window(width)
            assert browser.overflow() <= 0
            assert browser.run("return window.innerWidth") == width
    with checked(failed, "printed: all of its tables and no controls"):
        browser.colours("dark", "print")
        # The inner width of a sheet of A4 on its side, in pixels of CSS.
        browser.window(1032)
        controls = browser.seen("nav, button:not(thead *), select, input, .skip")
        assert not [item.get_attribute("outerHTML") for item in controls]
        assert browser.style("body", "backgroundColor") == "rgb(255, 255, 255)"
        assert browser.style("body", "color") == "rgb(0, 0, 0)"
        assert browser.overflow() <= 0
        assert browser.run(_CUT) == []
    with checked(failed, "without scripts"):
        browser.colours("light")
        browser.window(1280)
        browser.command("Emulation.setScriptExecutionDisabled", value=True)
        opened(address(full_site, kind), scripts=False)
        assert len(browser.all("main tbody tr")) == with_scripts
        assert len(browser.find("main").text) > 60
        # What would do nothing is not there; the style sheet answers to radio buttons.
        assert not browser.seen("main input:not([type=radio]), main select, main button")
        if kind == "explorer":
            assert "needs JavaScript" in browser.find("noscript .warning").text
            assert browser.all("noscript a[href*='/r/'], noscript a[href^='../r/']")
    assert not failed, "\n".join(failed)


_CUT = """
return [...document.querySelectorAll(".scroll")]
  .filter(box => box.checkVisibility() && getComputedStyle(box).overflowX !== "visible")
  .map(box => box.getAttribute("aria-label"));"""

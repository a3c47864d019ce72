"""A real Chromium, driven: what a page asks for and says is kept, so that each test can be held to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.leaderboard.pages.registry import pages

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

    from kit.sites import Built

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
#: axe-core's script: `make axe` puts it there.
AXE = Path(
    os.environ.get("BENCH_AXE")
    or Path(__file__).resolve().parents[2] / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
)
#: Of kinds with many pages, those to open; the first that fits is opened.
_EXAMPLES = {"board": "d/starter-*.html", "method": "m/bm25.html", "explorer": "e/starter-*.html"}
#: Every kind of page, by what its path fits.
KINDS = {page.name: _EXAMPLES.get(page.name, page.path) for page in pages()}
#: The rules of WCAG 2.2 A and AA, and those that axe-core calls best practices.
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_FLAGS = (
    # In a container there is neither a sandbox nor much shared memory; the pages are our own.
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    # A fifth of the time: pages share a process, which has compiled axe-core once; none is begun before it is needed,
    # and no page of the browser's own for what is typed as an address.
    *("--process-per-site", "--disable-site-isolation-trials"),
    "--disable-features=SpareRendererForSitePerProcess,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)
#: Seconds to wait for what a page does at once on any machine.
PATIENCE = 20


class Browser:
    """One window; `open`, look, act. Every wait is for a condition."""

    def __init__(self, profile: Path) -> None:
        # Selenium takes a while to import, and most tests need none of it.
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        assert CHROMIUM is not None
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for word in (*_FLAGS, f"--user-data-dir={profile}", "about:blank"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # A driver that is named is used: Selenium would fetch one otherwise.
        self.driver: Chrome = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_page_load_timeout(60)
        self.driver.set_script_timeout(60)

    def reset(self) -> None:
        """A desktop window, light colours, scripts on, nothing stored, nothing said so far."""
        self.command("Emulation.setScriptExecutionDisabled", value=False)
        self.command("Network.emulateNetworkConditions", **_FREE)
        self.colours("light")
        self.window(1280)
        self.words()
        self.requests()

    def close(self) -> None:
        self.driver.quit()

    def command(self, name: str, **arguments: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def open(self, address: str) -> None:
        # An address that differs in its fragment alone would not load again.
        self.driver.get("about:blank")
        self.driver.get(address)

    def colours(self, scheme: str, medium: str = "") -> None:
        """The colours that the user's system asks for, and `print` or the screen."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.command("Emulation.setEmulatedMedia", media=medium, features=[feature])

    def window(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def slow(self) -> None:
        """A slow network: pages come, and are painted, in pieces."""
        self.command("Network.enable")
        # Bytes a second.
        self.command("Network.emulateNetworkConditions", **(_FREE | {"latency": 40, "downloadThroughput": 60_000}))

    def words(self) -> list[str]:
        """What the console got since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that pages asked for since the last call."""
        told = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [item["params"]["request"]["url"] for item in told if item["method"] == "Network.requestWillBeSent"]

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script's `return` gives."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def seen(self, selector: str) -> list[WebElement]:
        """Those that are displayed. The driver needs long to say so, and is asked of those alone that may be."""
        result = "return [...document.querySelectorAll(arguments[0])].filter(item => item.checkVisibility())"
        return [item for item in self.run(result, selector) if item.is_displayed()]

    def type(self, *keys: str) -> None:
        """Keys, pressed where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, true: Callable[[], Any]) -> Any:
        """Wait until it is true of the page; gives what it gives."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: true())

    def style(self, selector: str, name: str) -> str:
        result = self.run("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)
        return str(result)

    def overflow(self) -> float:
        """Pixels by which the page is wider than the window."""
        return float(self.run("return document.documentElement.scrollWidth - window.innerWidth"))

    def shift(self) -> float:
        """The page's cumulative layout shift, once it has settled."""
        return float(self.driver.execute_async_script(_SHIFT))

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the current page, with closed parts opened."""
        self.run("document.querySelectorAll('details').forEach(part => { part.open = true })")
        if not self.run("return 'axe' in window"):
            self.run(AXE.read_text("utf-8"))
        execute_async_script = self.driver.execute_async_script(_AUDIT, list(RULES))
        return [
            f"{item['impact']} {item['id']}: {node['target']} {node['html'][:200]}"
            for item in execute_async_script
            for node in item["nodes"]
        ]


def address(site: Built, kind: str) -> str:
    """A page's address as a file: of the first page of its kind."""
    return str(sorted(site.folder.glob(KINDS[kind]))[0].as_uri())


def on_server(site: Built, served: str, kind: str) -> str:
    """The same page's address on a server."""
    return f"{served}/{sorted(site.folder.glob(KINDS[kind]))[0].relative_to(site.folder)}"


def off_site(link: str) -> bool:
    """Whether an address is neither a file nor on this machine's own server."""
    parts = urlsplit(link)
    return parts.scheme not in {"file", "about", "data"} and parts.hostname != "127.0.0.1"


def lacking(axe: bool = False) -> str:
    """What to install before these tests can run, or nothing."""
    if CHROMIUM is None or DRIVER is None:
        return "no Chromium with its driver: on Debian, apt-get install chromium chromium-driver"
    if axe and not AXE.is_file():
        return "no axe-core: make axe (with npm), or name its axe.min.js in BENCH_AXE"
    return ""


_FREE = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}

# Two frames after the page has loaded and its scripts have ended, every shift has been seen.
_SHIFT = """
const done = arguments[0];
let sum = 0;
new PerformanceObserver(list => { for (const one of list.getEntries()) sum += one.value; })
  .observe({ type: "layout-shift", buffered: true });
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum))));
"""
_AUDIT = """
const done = arguments[1];
axe.run(document, { runOnly: arguments[0], resultTypes: ["violations"] })
  .then(
    found => done(found.violations),
    error => done([{ impact: "error", id: String(error), nodes: [{ target: "", html: "" }] }]),
  );
"""

"""Results to build sites from, a reader of pages, and helpers that edit results."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kit.results import LOCKS, edit, manifest, of_this_run, older, rehash

from bench.__main__ import run as command
from bench.storage.paths import results_folder

if TYPE_CHECKING:
    from kit.browser import Browser


class Page(HTMLParser):
    """A page's tags, attributes, links and texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.text = path.read_text("utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name in {"src", "href"}:
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))


class Built:
    """A site that was built."""

    def __init__(self, folder: Path, made: Any) -> None:
        self.folder = folder
        self.made = made

    def page(self, path: str) -> Page:
        return Page(self.folder / path)

    def only(self, pattern: str) -> Page:
        """The one page whose path fits, but for those that only lead to another."""
        (found,) = (path for path in self.folder.glob(pattern) if 'http-equiv="refresh"' not in path.read_text("utf-8"))
        return Page(found)

    def pages(self) -> list[Page]:
        return [Page(path) for path in sorted(self.folder.rglob("*.html"))]

    def bytes(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*.*")}


@pytest.fixture
def build(tmp_path: Path, isolated: None) -> Callable[..., Built]:
    """Build this test's results into a site; arguments as of `build_site`."""

    def made(out: str = "site", **options: Any) -> Built:
        site = importlib.import_module("bench.leaderboard.site")
        folder = tmp_path / out
        return Built(folder, site.build_site(results_folder(), folder, **options))

    return made


@pytest.fixture
def scored(tmp_path: Path) -> Callable[[str], Path]:
    """Score a run file of that name on the embedded dataset; gives the result's folder."""

    def score(name: str) -> Path:
        run = tmp_path / "run.jsonl"
        run.write_text(json.dumps({"query_id": "0001", "tools": ["crateful.get_catalogue"]}) + "\n")
        before = set(results_folder().glob("[!.]*/*"))
        assert command(["score", "-d", "starter", str(run), "--name", name]) == 0
        (found,) = set(results_folder().glob("[!.]*/*")) - before
        return found

    return score


def _spec(folder: Path) -> str:
    return str(manifest(folder)["method"]["spec"])


@pytest.fixture(name="edit")
def _edit() -> Callable[..., None]:
    """Changes a result and keeps its hashes right, as somebody does who means to."""
    return edit


@pytest.fixture(name="older")
def _older() -> Callable[[Path, Path, str, str], Path]:
    """Makes a result as of another version of a method's code."""
    return older


@pytest.fixture(name="rehash")
def _rehash() -> Callable[[Path, str], None]:
    """Updates a manifest to the current table."""
    return rehash


def _report(result: str) -> dict[str, Any]:
    """A report of a reproduction with a table, a cell of each kind and a claim."""
    manifest = {"command": "bench reproduce all", "created": "2026-01-01T00:00:00+00:00"}
    machine: dict[str, Any] = {"packages": {}, "commit": None, "dirty": None, "hardware": {}}
    data = {"dataset": "starter", "split": "test", "queries": 126, "tools": 101, "template": "source", "result": result}
    measured = {"method": "bm25", "data": [data], "pool": "datasets", "slices": {}, "queries": 126, "failed": 0}
    place = {"table": "paper-1", "row": "BM25", "dataset": "Starter", "split": "test"}
    cell = place | {"paper": "paper", "printed": "50.0", "unit": "percent", "published": 0.5, "block": 0}
    estimate = {"metric": "recall@5", "mean": 0.51, "low": 0.45, "high": 0.57}
    cells = [
        cell | {"metric": "recall@5", "verdict": "reproduced", "measured": estimate, "difference": 0.01},
        cell | {"metric": "ndcg@5", "verdict": "not run"},
    ]
    table = {"table": "paper-1", "paper": "paper", "title": "Retrieval", "data": {}, "cells": 2, "unreadable": []}
    claim = {"claim": "words-suffice", "paper": "paper", "text": "Words suffice.", "where": "table 1", "tests": []}
    return {
        "protocol": "1.0",
        "environment": manifest | machine,
        "seconds": 1.0,
        "tables": [table | {"verdicts": {"reproduced": 1, "not run": 1}, "notes": ["A note."]}],
        "cells": cells,
        "blocks": [place | {"measurement": measured | {"warnings": []}}],
        "claims": [claim | {"verdict": "not run", "printed": None, "needs": [], "note": ""}],
    }


@pytest.fixture(scope="session")
def full_site(starter_results: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Built:
    """A site with something on every kind of page, in a folder below the one that is served; do not touch."""
    base = tmp_path_factory.mktemp("full")
    results = base / "results"
    shutil.copytree(starter_results, results, ignore=LOCKS)
    # Boards of datasets that do not exist, so that the overall board has columns: narrow ones and a name of two lines.
    for sign, name in (("e", "twin"), ("f", "a-twin-of-two-lines")):
        for folder in sorted((results / "starter").iterdir()):
            twin = results / name / folder.name
            shutil.copytree(folder, twin)
            told = json.loads((twin / "manifest.json").read_text("utf-8"))["result_id"]
            changes = {"dataset__spec": name, "dataset__title": name, "dataset__content_hash": sign * 64}
            # An id of its own, whatever the id of the first, which changes with the code of its method.
            own = hashlib.sha256(f"{name} {told}".encode()).hexdigest()[:12]
            edit(twin, result_id=own, metrics={"result_id": own}, **changes)
    # Larger libraries of the embedded dataset, with the numbers of the dataset itself.
    for tools in ("1000", "17749"):
        for folder in sorted((results / "starter").iterdir()):
            drawn = results / f"starter-{tools}" / folder.name
            shutil.copytree(folder, drawn)
            told = json.loads((drawn / "manifest.json").read_text("utf-8"))["result_id"]
            own = hashlib.sha256(f"{tools} {told}".encode()).hexdigest()[:12]
            content = hashlib.sha256(tools.encode()).hexdigest()
            spec = f"starter(distractors=mcp-servers, tools={tools})"
            changes = {"dataset__spec": spec, "dataset__content_hash": content}
            edit(drawn, result_id=own, metrics={"result_id": own}, dataset__tools=int(tools), **changes)
    # An older version of bm25, with other numbers: those of its other setting.
    (new,) = (path for path in results.glob("starter/bm25-*") if _spec(path) == "bm25")
    (other,) = (path for path in results.glob("starter/bm25-*") if _spec(path) == "bm25(k1=0.5)")
    older(other, new, "0123456789ab", "2020-01-01T00:00:00+00:00")
    broken = results / "starter" / "random-000000000000"
    shutil.copytree(next(results.glob("*/random-*")), broken)
    (broken / "metrics.json").write_text("{")
    shown = json.loads(next(results.glob("*/bm25-*/manifest.json")).read_text("utf-8"))["result_id"]
    (base / "report.json").write_text(json.dumps(_report(shown)))
    baselines = base / "baselines"
    for name, blessed in (("search", other), ("older", new)):
        assert command(["bless", str(blessed), "--out", str(baselines / f"{name}.json"), "--by", "a person"]) == 0
    (baselines / "gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    site = importlib.import_module("bench.leaderboard.site")
    with of_this_run(shared_cache):
        made = site.build_site(results, base / "site", reproduction=base / "report.json", baselines=baselines)
    built = Built(base / "site", made)
    assert [item.where for item in built.made.rejected] == ["starter/random-000000000000"]
    return built


@pytest.fixture(scope="session")
def served(full_site: Built) -> Iterator[str]:
    """The same site under a sub-path of a server on loopback: its address."""
    serve = importlib.import_module("bench.leaderboard.serve")
    server = serve.open_server(full_site.folder.parent, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{full_site.folder.name}"
    server.shutdown()
    server.server_close()


def _need(missing: str) -> None:
    """Skip for want of a tool; where CI says that it must be there, fail."""
    if missing and os.environ.get("BENCH_REQUIRE_BROWSER"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a process: it takes longer to start than a test does."""
    from kit import browser

    _need(browser.lacking())
    window = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser as new; a word on the console or a request that leaves the site fails the test, whatever it is of."""
    from kit.browser import off_site

    chromium.reset()
    yield chromium
    spoken, left = chromium.words(), [address for address in chromium.requests() if off_site(address)]
    # A page's storage is cleared on that page; about:blank has no store.
    chromium.run("try { localStorage.clear() } catch { /* none here */ }")
    assert not spoken, spoken
    assert not left, left


@pytest.fixture
def axe(browser: Browser) -> Browser:
    """The browser, with axe-core loaded."""
    from kit.browser import lacking

    _need(lacking(axe=True))
    return browser

"""The pages in a real browser, opened from a file and under a sub-path; skipped where there is no Chromium."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
serve = importlib.import_module("bench.leaderboard.serve")


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., str]:
    """The text of a page after its scripts have run; a word on the console fails the test."""

    def read(address: str, *options: str) -> str:
        assert CHROMIUM is not None
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--enable-logging=stderr"]
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        done = subprocess.run(
            [CHROMIUM, *words, profile, *options, "--dump-dom", address],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        spoken = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        assert not spoken, spoken
        assert done.stdout.rstrip().endswith("</html>")
        return done.stdout

    return read


def _rows(dom: str) -> list[tuple[str, bool]]:
    """Names of a table's rows in their order, and whether each is shown."""
    body = dom[dom.index("<tbody>") : dom.index("</tbody>")]
    found = []
    for row in body.split("<tr")[1:]:
        head = row[: row.index(">")]
        name = re.search(r'<th scope="row"[^>]*><a [^>]*>([^<]*)</a>', row)
        assert name is not None
        found.append((name[1], "hidden" not in head))
    return found


@pytest.mark.usefixtures("ready")
def test_no_page_has_a_word_for_the_console(build: Callable[..., Any], browse: Callable[..., str]) -> None:
    site = build()
    row = site.made.boards[0].rows[0]
    slug = site.made.boards[0].slug
    for path in ("index.html", f"d/{slug}.html", f"r/{row.id}.html", f"m/{row.family}.html", "metrics.html"):
        assert "theme" in browse((site.folder / path).as_uri())


@pytest.mark.usefixtures("ready")
def test_sorting_and_filters_stand_in_the_address(build: Callable[..., Any], browse: Callable[..., str]) -> None:
    home = (build().folder / "index.html").as_uri()
    plain = _rows(browse(home))
    assert len(plain) == 5
    assert all(shown for _, shown in plain)
    sorted_up = _rows(browse(f"{home}#sort=3a"))
    assert sorted_up[0][0] == "random"
    found = browse(f"{home}#q=bm25&family=bm25")
    assert [name for name, shown in _rows(found) if shown] == [name for name, _ in plain if name.startswith("bm25")]
    assert "2 of 5 rows" in found
    assert re.search(r'href="[^"]*overall-ndcg-10.html#q=bm25&amp;family=bm25"', found), "other metrics keep the view"


@pytest.mark.usefixtures("ready")
def test_the_explorer_shows_queries_from_a_file_and_under_a_sub_path(
    build: Callable[..., Any], browse: Callable[..., str]
) -> None:
    site = build("deep/site")
    path = f"e/{site.made.boards[0].slug}.html"
    from_file = browse((site.folder / path).as_uri())
    assert from_file.count('<li class="hit">') > 5
    assert "1 to 10 of 126 queries" in from_file or "1 to 10 of 134 queries" in from_file
    server = serve.open_server(site.folder.parent, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/site/{path}"
        assert browse(address).count('<li class="hit">') == from_file.count('<li class="hit">')
        # The best method and the oracle: what one finds and the other does not.
        none = browse(f"{address}#a=0&as=2&b=0&bs=0")
        assert "No query is like that." in none
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.usefixtures("ready")
def test_hostile_text_in_a_page_runs_nothing(
    build: Callable[..., Any], browse: Callable[..., str], ready: Path, edit: Callable[..., None]
) -> None:
    name = '</script><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
    edit(next(ready.glob("*/random-*")), method__spec=name, method__full_spec=name, environment__command=name)
    site = build()
    row = next(row for row in site.made.boards[0].rows if "script" in row.result.manifest.method.spec)
    for path in ("index.html", f"r/{row.id}.html", f"e/{site.made.boards[0].slug}.html"):
        assert "<title>owned" not in browse((site.folder / path).as_uri())

"""From any number of the home page to the command that made it in two clicks."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from pathlib import Path

from kit.sites import Built

#: Pages that are about the site, not about a result.
_OTHER = ("index.html", "overall-", "datasets.html", "methods.html", "metrics.html", "reproduction.html")


class Cells(HTMLParser):
    """Of a page's table of that id: rows, each a list of cells with its text and its links."""

    def __init__(self, text: str, table: str) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, list[str]]]] = []
        self._table, self._inside, self._cell = table, False, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        by_key = dict(attrs)
        if tag == "table":
            self._inside = by_key.get("id") == self._table
        elif tag == "caption":
            self._cell = False
        elif self._inside and tag == "tr":
            self.rows.append([])
        elif self._inside and tag in {"td", "th"}:
            self._cell = True
            self.rows[-1].append(("", []))
        elif self._inside and self._cell and tag == "a":
            self.rows[-1][-1][1].append(by_key["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._inside = self._cell = False

    def handle_data(self, data: str) -> None:
        if self._inside and self._cell and self.rows and self.rows[-1]:
            text, links = self.rows[-1][-1]
            self.rows[-1][-1] = text + data.strip(), links


@functools.cache
def links_of(page: Path) -> list[Path]:
    return [(page.parent / link).resolve() for link in re.findall(r'href="([^"#:]+)', page.read_text("utf-8"))]


def command_is_told(page: Path, values: set[str]) -> bool:
    text = page.read_text("utf-8")
    return page.parent.name == "r" and page.stem in values and '<pre class="command">' in text


def test_every_number_of_a_row_is_two_clicks_from_the_command(full_site: Built) -> None:
    site = full_site
    # Libraries of other sizes stand under their dataset: they have no numbers here.
    boards = [board for board in site.made.boards if "distractors" not in board.spec]
    assert len(boards) == 3
    for path in sorted(site.folder.glob("*.html")):
        if not path.name.startswith(("index", "overall-")):
            continue
        rows = [row for row in Cells(path.read_text("utf-8"), "overall").rows if row and row[0][0] != "rank"]
        assert len(rows) == 5
        for row in rows:
            name = row[1][0]
            ids = {
                item.id
                for board in boards
                for item in board.rows
                if name.startswith(item.title) and not name.startswith(f"{item.title} (")
            }
            assert len(ids) == 3
            numbers = [(text, links) for text, links in row if re.search(r"\d", text)]
            assert len(numbers) >= 6
            for text, links in numbers:
                assert links, f"{path.name}: {name}: {text} leads nowhere"
                for link in links:
                    first = (path.parent / link.partition("#")[0]).resolve()
                    assert not first.name.startswith(_OTHER)
                    reached = [first, *links_of(first)]
                    assert any(command_is_told(page, ids) for page in reached), f"{name}: {text} -> {link}"

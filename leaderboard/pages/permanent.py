"""Permanent addresses: `d/NAME.html` leads to the current board of a dataset, whatever its content and protocol.

Board pages are named after content and protocol too, because results on other data form another board. A link in a
paper or a chat should survive the next correction of a dataset.
"""

from __future__ import annotations

from bench.base.text import unique_slug
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def permanent_path(spec: str) -> str:
    """The permanent path of a dataset's board; unique, and different from every board page."""
    return f"d/{unique_slug(spec)}.html"


def _write(content: SiteData, writer: Writer) -> None:
    for spec, board in sorted(content.main.items()):
        writer.put(permanent_path(spec), render("permanent", "../", board=board))


PAGE = Page("permanent", "d/*.html", _write)

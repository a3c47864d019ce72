"""Addresses that last: `d/NAME.html` leads to the board of a dataset, whatever its content and protocol are by then.

The pages of boards are named after content and protocol, too, since results on other data are another board. A link
from a paper or a chat should not end with the next correction of a dataset.
"""

from __future__ import annotations

from bench.base.text import unique_slug
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def permanent_path(spec: str) -> str:
    """Where the board of a dataset can always be found; no two datasets share it, and no board's own page has it."""
    return f"d/{unique_slug(spec)}.html"


def _write(content: Content, writer: Writer) -> None:
    for spec, board in sorted(content.main.items()):
        writer.put(permanent_path(spec), render("permanent", "../", board=board))


PAGE = Page("permanent", "d/*.html", _write)

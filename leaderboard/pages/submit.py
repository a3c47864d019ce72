"""The page that says how to submit a result."""

from __future__ import annotations

from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def _write(content: Content, writer: Writer) -> None:
    writer.put("submit.html", render("submit", "", "submit.html"))


PAGE = Page("submit", "submit.html", _write, entry="Submit", place=7)

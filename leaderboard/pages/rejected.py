"""The page of results that are not shown, with the reasons."""

from __future__ import annotations

from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer


def _write(content: Content, writer: Writer) -> None:
    writer.put("rejected.html", render("rejected", "", "rejected.html", rejected=content.rejected))


PAGE = Page("rejected", "rejected.html", _write, entry="Rejected", place=8)

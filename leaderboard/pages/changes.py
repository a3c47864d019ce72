"""The page of decisions: what a board's maintainers accepted and withdrew; and the page of each withdrawn result."""

from __future__ import annotations

from bench.leaderboard.boards.decisions import MEANINGS
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer

_PATH = "changes.html"


def has_changes(content: SiteData) -> bool:
    """Whether the site has the page."""
    return bool(content.decisions.every)


def _write(content: SiteData, writer: Writer) -> None:
    decisions = content.decisions
    if not decisions.every:
        return
    shown = content.shown | decisions.withdrawn.keys()
    writer.put(_PATH, render("changes", "", _PATH, decisions=decisions.every[::-1], shown=shown, meanings=MEANINGS))
    for result_id, decision in decisions.withdrawn.items():
        newer = decision.newer if decision.newer in content.shown else None
        accepted = decisions.accepted.get(result_id)
        writer.put(f"r/{result_id}.html", render("withdrawn", "../", item=decision, newer=newer, accepted=accepted))


PAGE = Page("changes", _PATH, _write)

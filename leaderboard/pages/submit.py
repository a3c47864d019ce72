"""The page that says how to submit a result. A site has it if others hand in results."""

from __future__ import annotations

from typing import Any

from bench.leaderboard.pages.changes import has_changes
from bench.leaderboard.pages.registry import Page, SiteData


def _values(content: SiteData) -> dict[str, Any]:
    return {"changes": has_changes(content)}


PAGE = Page("submit", "submit.html", values=_values, when=lambda frame: frame.words.public, entry="Submit", order=7)

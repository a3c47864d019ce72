"""The page of results that are not shown, with reasons."""

from __future__ import annotations

from typing import Any

from bench.leaderboard.pages.registry import Page, SiteData


def _values(content: SiteData) -> dict[str, Any]:
    return {"rejected": content.rejected}


PAGE = Page("rejected", "rejected.html", values=_values)

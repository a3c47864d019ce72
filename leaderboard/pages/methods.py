"""The list of methods."""

from __future__ import annotations

from typing import Any

from bench.base.text import label
from bench.leaderboard.boards.libraries import base_of
from bench.leaderboard.boards.names import name_of
from bench.leaderboard.boards.overall import families
from bench.leaderboard.boards.registered import describe_method
from bench.leaderboard.boards.traits import learns
from bench.leaderboard.pages.registry import Page, SiteData


def _values(content: SiteData) -> dict[str, Any]:
    entries = []
    for family in families(content.boards):
        rows = [(board, row) for board in content.boards for row in board.rows if row.family == family]
        entries.append(
            {
                "family": family,
                "title": next(
                    (name for _, row in rows if (name := name_of(row.result.manifest.method))), label(family)
                ),
                "description": describe_method(family),
                "llm": any(row.result.manifest.method.needs_llm for _, row in rows),
                "learns": any(learns(row) for _, row in rows),
                "settings": len({row.key for _, row in rows}),
                "datasets": len({base_of(board.spec) for board, _ in rows}),
                "results": len(rows),
            }
        )
    return {"methods": entries}


PAGE = Page("methods", "methods.html", values=_values, entry="Methods", order=3)

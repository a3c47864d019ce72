"""The page that says how to submit a result."""

from __future__ import annotations

from bench.leaderboard.pages.changes import has_changes
from bench.leaderboard.pages.registry import Page

PAGE = Page("submit", "submit.html", values=lambda content: {"changes": has_changes(content)}, entry="Submit", order=7)

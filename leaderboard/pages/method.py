"""The page of a method: description, parameters, results, and published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from bench.base.text import label, unique_slug
from bench.leaderboard.boards.board import RANKED, Board, Row, titles
from bench.leaderboard.boards.names import name_of
from bench.leaderboard.boards.registered import describe_method
from bench.leaderboard.boards.traits import learns
from bench.leaderboard.exports.bibtex import method_bib
from bench.leaderboard.pages.registry import Page, SiteData, pages
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer
from bench.registry.differences import HEADS


def _write(content: SiteData, writer: Writer) -> None:
    rows: dict[str, list[tuple[Board, Row]]] = {}
    for board in content.boards:
        for row in board.rows:
            rows.setdefault(row.family, []).append((board, row))
    parts = [page.on_method(content) for page in pages() if page.on_method is not None]
    for family, family_rows in sorted(rows.items()):
        plugged = [part(family) for part in parts]
        writer.put(f"m/{unique_slug(family)}.html", _page(family, family_rows, plugged))


def _page(family: str, rows: Sequence[tuple[Board, Row]], plugged: Sequence[Markup]) -> str:
    boards = list({board.slug: board for board, _ in rows}.values())
    settings: dict[str, list[tuple[Board, Row]]] = {}
    for board, row in rows:
        settings.setdefault(row.key, []).append((board, row))
    firsts = [members[0][1] for members in settings.values()]
    names = dict(zip(settings, titles(firsts), strict=True))
    sections = []
    # The setting at its defaults first: the others are compared with it.
    for key in sorted(settings, key=lambda key: (len(key), key)):
        setting_rows = settings[key]
        at = {board.slug: row for board, row in setting_rows}
        sections.append(
            {
                "key": key,
                "name": setting_rows[0][1].name,
                "title": names[key],
                "rows": setting_rows,
                "cells": [at.get(board.slug) for board in boards],
            }
        )
    return render(
        "method",
        "../",
        family=family,
        title=_title(family, firsts),
        description=describe_method(family),
        bib=method_bib(family),
        llm=any(row.result.manifest.method.needs_llm for _, row in rows),
        learns=any(learns(row) for _, row in rows),
        run_file=any(row.result.manifest.method.run_file for _, row in rows),
        settings=sections,
        boards=boards,
        ranked=RANKED,
        primary=RANKED[0],
        plugged=plugged,
        heads=HEADS,
    )


def _title(family: str, rows: Sequence[Row]) -> str:
    """The method's display name; a run file of the same name is left out."""
    names = [name_of(row.result.manifest.method) for row in rows]
    return next((name for name in names if name), str(rows[0].called) if len(rows) == 1 else label(family))


PAGE = Page("method", "m/*.html", _write)

"""The page of a result's tools: how often each is found, shown without being wanted, and behind which others.

The same page is written for a single result as one self-contained file (`bench tools --html`).
"""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from bench.base.errors import ResultError, UsageError
from bench.base.progress import QUIET, Progress
from bench.data.nearcopies import COSINE
from bench.diagnosis.tool_report import CountedRanking, count_ranking, tool_texts, tools_report
from bench.leaderboard.boards.board import Board, Rejected, Row
from bench.leaderboard.boards.registered import BoardData
from bench.leaderboard.pages.explorer import chosen
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import render, static_files
from bench.leaderboard.writer import Writer
from bench.search.similar import TextVectors

#: Maximum tools of a page of the site, and of a page of its own; maximum ids in a list.
_MOST_TOOLS, _MOST_ALONE, _MOST_IDS = 40, 1000, 60


def write_tools(board: Board, data: BoardData, rejected: list[Rejected], writer: Writer) -> tuple[Row, ...]:
    """Write the tool pages of a board's results, for the rows that the explorer also shows; returns these rows.

    Without the dataset there are no pages, because the gold is unknown. `rejected` receives what is left out, with
    reasons.
    """
    dataset = data.dataset
    if dataset is None or not board.current:
        return ()
    texts: dict[str, TextVectors] = {}

    def page(row: Row) -> str:
        template = row.result.manifest.dataset.template
        if template not in texts:
            texts[template] = tool_texts(dataset, template)
        # A copy, so that the ranking is freed before the board.
        counted = count_ranking(replace(row.result), dataset)
        return _page(counted, texts[template], _MOST_TOOLS, data.may_show, row=row, board=board)

    written = []
    for row in chosen(board):
        try:
            text = page(row)
        except (ResultError, UsageError) as error:
            # Without the results' path, which is private to a machine.
            reason = str(error).replace(f"{row.result.folder.parent.parent}/", "")
            rejected.append(Rejected(row.name, f"its page of tools is omitted: {reason}"))
            continue
        writer.put(f"t/{row.id}.html", text)
        written.append(row)
    return tuple(written)


def page_alone(counted: CountedRanking, progress: Progress = QUIET) -> str:
    """A self-contained page of one result; the method is asked why tools lose to others."""
    library = tool_texts(counted.dataset, counted.result.manifest.dataset.template)
    return _page(counted, library, _MOST_ALONE, True, progress=progress)


def _page(
    counted: CountedRanking,
    library: TextVectors,
    most: int,
    may_show: bool,
    *,
    row: Row | None = None,
    board: Board | None = None,
    progress: Progress = QUIET,
) -> str:
    alone = row is None
    report = tools_report(
        counted,
        most=most,
        explained=_MOST_TOOLS if may_show else 0,
        library=library,
        ask=alone,
        progress=progress,
    )
    rows, dataset = report.tools, counted.dataset
    examples = sorted({pair.example for item in rows for pair in item.loses_to[:1]})
    # Columns with content.
    shown = {
        "groups": any(item.groups != item.wanted for item in rows),
        "share": any(item.low is not None for item in rows),
        "other": any(item.by_other for item in rows),
        "forbidden": any(item.forbidden for item in rows),
        "alike": any(item.nearest is not None for item in rows),
        "tokens": any(item.tokens is not None for item in rows),
    }
    styles, script = "", ""
    if alone:
        files = static_files()
        styles, script = (
            Markup("\n".join(files[f"static/{name}"].decode() for name in names))
            for names in (("style.css", "tables.css"), ("site.js",))
        )
    return render(
        "tools",
        "../",
        layout="alone.html.j2" if alone else "base.html.j2",
        styles=styles,
        script=script,
        report=report,
        name=report.label if row is None else row.title,
        board=board,
        id=report.result_id,
        texts={name: dataset.queries[dataset.query_codes[name]].text for name in examples} if may_show else {},
        pairs=[(item, pair) for item in rows for pair in item.loses_to[:1] if pair.why],
        never=report.never_found[:_MOST_IDS],
        shown=shown,
        near=COSINE,
    )


PAGE = Page("tools", "t/*.html")

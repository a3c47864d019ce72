"""The leaderboard: a static page made from stored results alone.

A small start: one page with a table for each dataset. It opens from a file, needs no network and no script, and
shows every mean with its interval, failures and marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import ResultError
from bench.paths import write_text
from bench.run.board import comparable, doubtful_leads, marks, ordered, usual_template
from bench.run.result import Result, find_results, latest

#: Columns of every table.
COLUMNS = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mmrr@100", "map@100", "tracc")


@dataclass(frozen=True)
class Cell:
    """One mean, with its interval as text; empty where the method has no such metric.

    `doubtful`: its lead over the next row is within the tie bands.
    """

    mean: str = ""
    interval: str = ""
    doubtful: bool = False


@dataclass(frozen=True)
class Row:
    """One result."""

    method: str
    cells: tuple[Cell, ...]
    failed: int
    oracle: bool
    marks: tuple[str, ...]
    command: str
    result_id: str


@dataclass(frozen=True)
class Board:
    """One dataset and split."""

    anchor: str
    title: str
    spec: str
    split: str
    judged: int
    tools: int
    template: str
    rows: tuple[Row, ...]


def build_site(results: Path, out: Path) -> tuple[list[Board], list[str]]:
    """Write `index.html` and `style.css`.

    Args:
        results: folder of stored results.
        out: folder of the site; its other files are left alone.

    Returns:
        The boards, and why each result that could not be read was left out; the page says so too.
    """
    import jinja2

    found = list(find_results(results))
    boards = _boards(latest([item for item in found if isinstance(item, Result)]))
    rejected = [str(item) for item in found if isinstance(item, ResultError)]
    templates = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("index.html.j2").render(boards=boards, columns=COLUMNS, rejected=rejected)
    write_text(out / "index.html", page)
    write_text(out / "style.css", (templates / "style.css").read_text("utf-8"))
    return boards, rejected


def _boards(results: Sequence[Result]) -> list[Board]:
    boards = []
    # Results on other data, splits, numbers of queries or protocols do not compare: they get their own table.
    groups = sorted(comparable(results), key=lambda members: _place(members[0]))
    for number, members in enumerate(groups, start=1):
        data = members[0].manifest.dataset
        ranked = ordered(members, COLUMNS[0])
        leads = {name: doubtful_leads(ranked, name) for name in COLUMNS}
        template = usual_template(members)
        rows = (
            _row(result, template, [_cell(result, name, leads[name][i]) for name in COLUMNS])
            for i, result in enumerate(ranked)
        )
        boards.append(
            Board(
                anchor=f"board-{number}",
                title=data.title,
                spec=data.spec,
                split=data.split + (f", {data.limit} queries" if data.limit is not None else ""),
                judged=data.judged,
                tools=data.tools,
                template=template,
                rows=tuple(rows),
            )
        )
    return boards


def _place(result: Result) -> tuple[str, str, int, str, str]:
    data = result.manifest.dataset
    return data.spec, data.split, data.limit or 0, data.content_hash, result.manifest.protocol


def _row(result: Result, template: str, cells: Sequence[Cell]) -> Row:
    manifest = result.manifest
    return Row(
        method=result.label.rpartition(" @ ")[0],
        cells=tuple(cells),
        failed=result.metrics.n_failed,
        oracle=manifest.method.oracle,
        marks=tuple(marks(result, template)),
        command=manifest.environment.command,
        result_id=manifest.result_id,
    )


def _cell(result: Result, name: str, doubtful: bool) -> Cell:
    value = result.metrics.metrics.get(name)
    if value is None:
        return Cell()
    interval = "" if value.low is None or value.high is None else f"{value.low:.3f} to {value.high:.3f}"
    return Cell(f"{value.mean:.3f}", interval, doubtful)

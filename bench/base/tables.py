"""Small tables as plain text and as HTML, for what a notebook shows, and DataFrames where pandas is installed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from bench.base.errors import require
from bench.base.text import clean

if TYPE_CHECKING:
    import pandas

#: Metrics that a representation shows, in this order, as far as a result has them; DataFrames hold all.
SHOWN = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mrr@10", "map@100", "tracc", "set_f1")


def number(value: float | None) -> str:
    """Three decimals; a dash where there is no value."""
    return "-" if value is None else f"{value:.3f}"


def interval(low: float | None, high: float | None) -> str:
    """An interval; a dash where there is none."""
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first flush left and the others flush right."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in (head, *rows)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table with a caption and notes below it; every text is cleaned and escaped."""

    def escape(text: str) -> str:
        # Names come from run files and other people's results.
        return html.escape(clean(text))

    header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f"<div><strong>{escape(title)}</strong>"
        f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )


def pandas_module() -> ModuleType:
    """pandas, imported when a DataFrame is asked for.

    Raises:
        UnavailableError: it is not installed.
    """
    require("pandas", what="a DataFrame")
    import pandas

    return pandas


def frame(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> pandas.DataFrame:
    """Rows as a DataFrame with these columns, which it has also where there are no rows."""
    found: pandas.DataFrame = pandas_module().DataFrame(list(rows), columns=list(columns))
    return found

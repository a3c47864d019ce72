"""Small tables as plain text and as HTML, for what a notebook shows, and DataFrames where pandas is installed."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from bench.base.errors import require
from bench.base.text import clean, one_line

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


@dataclass(frozen=True)
class Table:
    """A small table: its title above, notes below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """As plain text."""
        return "\n".join([self.title, *([text_table(self.head, self.rows)] if self.head else []), *self.notes])

    def html(self) -> str:
        """As HTML, every text cleaned and escaped."""
        return html_table(self.title, self.head, self.rows, self.notes)


#: Longest line that stands for an object.
_MOST_LINE = 200


class Shown:
    """What is a line by `repr`, small tables by `print`, and the same in a notebook."""

    def _line(self) -> str:
        """What it is, in a line."""
        raise NotImplementedError

    def _tables(self) -> list[Table]:
        """What it holds, in tables."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self._line(), _MOST_LINE)}>"

    def __str__(self) -> str:
        return clean("\n\n".join(table.text() for table in self._tables()))

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self._tables())


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

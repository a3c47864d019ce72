"""One table, written as terminal text, plain text, Markdown, LaTeX, HTML or CSV. Everything that prints calls it.

A caller makes a `Table` of texts; a writer knows only its format. Texts are untrusted (run files, datasets, others'
results): each writer escapes what its format would interpret.
"""

from __future__ import annotations

import csv
import html as html_text
import io
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from bench.base.text import clean, one_line
from bench.show.numbers import NONE, format_fixed, interval

if TYPE_CHECKING:
    import rich.table

#: Emphasis of a cell: best and second best of a column, code (an id or a name), and terminal colours.
Emphasis = Literal["", "best", "second", "code", "good", "bad", "gold"]
#: Emphasis of a whole row; a title for the rows below has no other cells.
Style = Literal["", "bold", "dim", "title", "good", "bad", "gold"]
_COLOURS = {"good": "green", "bad": "red", "gold": "bold green"}
_CELL_STYLES = {**_COLOURS, "best": "bold", "second": "underline"}
_ROW_STYLES = {**_COLOURS, "bold": "bold", "dim": "dim", "title": "bold"}


@dataclass(frozen=True)
class Cell:
    """A cell with more than a text.

    Attributes:
        text: a name or a number.
        mark: a sign after the text: a dagger, or numbers of notes.
        before: a sign before the text.
        emphasis: the cell's emphasis.
        below: further lines, in formats that have room for them.
    """

    text: str
    mark: str = ""
    before: str = ""
    emphasis: Emphasis = ""
    below: tuple[str, ...] = ()

    @property
    def plain(self) -> str:
        """The cell on one line."""
        return " ".join([clean(self.before) + one_line(self.text) + one_line(self.mark), *map(one_line, self.below)])


def lines(texts: Sequence[str]) -> Cell:
    """A cell of several lines."""
    return Cell(texts[0] if texts else "", below=tuple(texts[1:]))


class Mean(Protocol):
    """A mean with its 95% interval, if it has one."""

    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def mean_cell(value: Mean | None, before: str = "") -> Cell:
    """A mean with its interval on the line below; a dash if there is none."""
    if value is None:
        return Cell(NONE)
    ends = interval(value.low, value.high, "short", none="")
    return Cell(format_fixed(value.mean), before=before, below=(ends,) if ends else ())


@dataclass(frozen=True)
class TableRow:
    """Cells of a row; missing last cells are empty.

    Attributes:
        rule: whether a line separates it from the row above.
    """

    cells: tuple[Cell, ...]
    style: Style = ""
    rule: bool = False


@dataclass
class Table:
    """Heads and rows of cells.

    Attributes:
        heads: names of the columns; terminals keep their line breaks.
        right: positions of right-aligned columns.
        title: the table's title.
        notes: sentences below it.
        whole: positions of columns that terminals do not wrap.
        widths: position -> width of a column in a terminal.
        tight: whether columns are close together in a terminal.
    """

    heads: Sequence[str]
    right: Collection[int] = ()
    title: str = ""
    notes: Sequence[str] = ()
    whole: Collection[int] = ()
    widths: Mapping[int, int] = field(default_factory=dict)
    tight: bool = False
    rows: list[TableRow] = field(default_factory=list)

    def add(self, *cells: str | Cell, style: Style = "", rule: bool = False) -> None:
        """Add a row."""
        if len(cells) > len(self.heads):
            raise ValueError(f"{len(cells)} cells for {len(self.heads)} columns")
        made = (cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
        self.rows.append(TableRow(tuple(made), style, rule))

    def extend(self, *cells: str | Cell) -> None:
        """Add cells to the last row."""
        last = self.rows.pop()
        self.add(*last.cells, *cells, style=last.style, rule=last.rule)

    def filled(self, row: TableRow) -> list[Cell]:
        """The cells of a row, one per column."""
        return [*row.cells, *[Cell("")] * (len(self.heads) - len(row.cells))]

    def __rich__(self) -> rich.table.Table:
        return terminal(self)


def table_of(
    heads: Sequence[str], rows: Iterable[Sequence[str | Cell]], title: str = "", notes: Sequence[str] = ()
) -> Table:
    """A table with a left-aligned first column and right-aligned others."""
    table = Table(heads, right=range(1, len(heads)), title=title, notes=notes)
    for row in rows:
        table.add(*row)
    return table


# Terminal and plain text ------------------------------------------------------------------------------------------


def terminal(table: Table) -> rich.table.Table:
    """A table without vertical lines, which rich fits to the width of the terminal."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=table.tight, header_style="bold")
    # Signs follow numbers, and numbers align.
    signs = {
        i: max((len(row.cells[i].mark) for row in table.rows if i < len(row.cells)), default=0) for i in table.right
    }
    for i, head in enumerate(table.heads):
        made.add_column(
            Text("\n".join(_head(head, table.widths.get(i)))),
            justify="right" if i in table.right else "left",
            overflow="fold",
            no_wrap=i in table.whole,
            width=table.widths.get(i),
        )
    for row in table.rows:
        if row.rule:
            made.add_section()
        cells = []
        for i, cell in enumerate(row.cells):
            text = Text(clean(cell.before)).append(one_line(cell.text), _CELL_STYLES.get(cell.emphasis))
            text.append(one_line(cell.mark).ljust(signs.get(i, 0) if cell.text else 0))
            cells.append(text.append("".join("\n" + one_line(line) for line in cell.below)))
        made.add_row(*cells, style=_ROW_STYLES.get(row.style))
    return made


def _head(head: str, width: int | None) -> list[str]:
    """The lines of a head; a long one is broken at its hyphens if its column has a width."""
    lines = [one_line(line) for line in head.split("\n")]
    return lines if width is None else [part for line in lines for part in textwrap.wrap(line, width)]


def text(table: Table) -> str:
    """Columns of fixed width, without a limit on the total; for logs and notebooks."""
    lines = [[clean(one_line(head)) for head in table.heads]]
    lines += [[cell.plain for cell in table.filled(row)] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join(
            cell.rjust(width) if i in table.right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    parts = [one_line(table.title)] if table.title else []
    parts += [aligned[0], rule, *aligned[1:]] if table.heads else []
    return "\n".join([*parts, *map(one_line, table.notes)])


# Markdown -----------------------------------------------------------------------------------------------------------

_MARKUP = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", **{sign: "\\" + sign for sign in "\\`*|$~"}})
#: An underscore inside a word is literal (GitHub's Markdown).
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
#: Characters that would begin a heading or a list.
_BEGINNING = re.compile(r"^(#{1,6}|[+-]|\d{1,9}(?=[.)]))(?=[.)]?(?:\s|$))")


def markdown_text(words: str) -> str:
    """A text on one line without markup, even at the beginning of a paragraph or an item."""
    return _BEGINNING.sub(lambda match: match[1] + "\\" if match[1].isdigit() else "\\" + match[1], _inline(words))


def _inline(words: str) -> str:
    return _UNDERSCORE.sub(r"\\_", one_line(words).translate(_MARKUP)).replace("](", "]\\(")


def markdown_code(words: str, in_table: bool = False) -> str:
    """A code span, in which nothing is markup, a mention or a link.

    The fence is longer than any run of backticks inside (CommonMark, section 6.1). In a table a `|` ends a cell even
    inside a code span, so it is written `\\|` there (GitHub's extension).
    """
    inner = one_line(words) or "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", inner)), default=0) + 1)
    inner = inner.replace("|", "\\|") if in_table else inner
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    return f"{fence}{pad}{inner}{pad}{fence}"


def _markdown_cell(cell: Cell, style: Style) -> str:
    if cell.emphasis == "code":
        return markdown_code(cell.text, in_table=True) + _inline(cell.mark)
    cell_text, said = _inline(cell.text), _inline(cell.before + cell.text + cell.mark)
    around = "**" if cell.emphasis == "best" or style in ("bold", "title") else "*" if cell.emphasis == "second" else ""
    if cell_text and around:
        said = f"{_inline(cell.before)}{around}{cell_text}{around}{_inline(cell.mark)}"
    return " ".join([said, *map(_inline, cell.below)])


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown, without title and notes."""
    dashes = ["---:" if i in table.right else "---" for i in range(len(table.heads))]
    lines = [[_inline(head) for head in table.heads], dashes]
    lines += [[_markdown_cell(cell, row.style) for cell in table.filled(row)] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# LaTeX --------------------------------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\symbol{34}",
}
_LATEX_MARKS = {"†": r"\dagger", "‡": r"\ddagger", "≈": r"\approx"}


def latex_text(words: str, most: int | None = None) -> str:
    """A text that LaTeX prints literally and does not execute."""
    signs = "".join(_LATEX.get(sign, sign) for sign in one_line(words, most))
    # Two in a row would form a ligature: hyphens a dash, quotes one sign.
    return re.sub(r"([-'])(?=\1)", r"\1{}", signs)


def _latex_cell(cell: Cell) -> str:
    # A dash stays a dash in LaTeX.
    said = "--" if cell.text == "-" else latex_text(cell.text)
    command = {"best": r"\textbf", "second": r"\underline"}.get(cell.emphasis)
    said = f"{command}{{{said}}}" if command and said else said
    mark = "".join(_LATEX_MARKS.get(sign, latex_text(sign)) for sign in cell.mark)
    said += f"$^{{{mark}}}$" if mark else ""
    said += "".join(rf" {{\scriptsize {latex_text(line)}}}" for line in cell.below)
    return latex_text(cell.before) + said


def latex(table: Table, caption: str, comments: Sequence[str] = ()) -> str:
    r"""A booktabs table, scaled down if it is wider than the text.

    Args:
        table: title and notes are left to the caption.
        caption: LaTeX; escape texts with `latex_text`.
        comments: texts in the file that are not printed.
    """
    columns = "".join("r" if i in table.right else "l" for i in range(len(table.heads)))
    lines = [
        r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
        *(f"% {one_line(comment)}" for comment in comments),
        r"\begin{table}",
        r"\centering",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(latex_text, table.heads)) + r" \\",
        r"\midrule",
    ]
    for i, row in enumerate(table.rows):
        # Below the heads there already is a line.
        lines += [r"\midrule"] if row.rule and i else []
        if row.style == "title":
            lines.append(rf"\multicolumn{{{len(table.heads)}}}{{l}}{{\emph{{{_latex_cell(row.cells[0])}}}}} \\")
        else:
            lines.append(" & ".join(map(_latex_cell, table.filled(row))) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"


# HTML ---------------------------------------------------------------------------------------------------------------


def html(table: Table) -> str:
    """A table with its title and notes, without a style of its own."""
    heads = "".join(f"<th>{_html(head)}</th>" for head in table.heads)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_html_cell(cell)}</td>" for cell in table.filled(row)) + "</tr>" for row in table.rows
    )
    notes = "".join(f"<div>{_html(note)}</div>" for note in table.notes)
    grid = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if table.heads else ""
    return f"<div><strong>{_html(table.title)}</strong>{grid}{notes}</div>"


def _html(words: str) -> str:
    return html_text.escape(clean(words))


def _html_cell(cell: Cell) -> str:
    tag = {"best": "strong", "second": "u", "code": "code"}.get(cell.emphasis)
    tagged_text = f"<{tag}>{_html(cell.text)}</{tag}>" if tag else _html(cell.text)
    return "<br>".join([f"{_html(cell.before)}{tagged_text}{_html(cell.mark)}", *map(_html, cell.below)])


# CSV ----------------------------------------------------------------------------------------------------------------


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Lines of values: numbers unchanged, `true` and `false`, and no text that a spreadsheet reads as a formula."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_csv_value, row) for row in rows)
    return out.getvalue()


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # Python 3.11 does not quote a carriage return, at which readers would begin another row.
    words = re.sub(r"\r\n?", "\n", value)
    return f"'{words}" if value[:1] in _FORMULA else words


_FORMULA = frozenset("=+-@\t\r")

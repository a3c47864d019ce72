"""Tables: every writer keeps the columns and the rows, and obeys nothing of what is in a cell."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from bench.base.text import one_line
from bench.show.tables import (
    Cell,
    Table,
    csv_text,
    html,
    latex,
    latex_text,
    lines,
    markdown,
    markdown_code,
    markdown_text,
    text,
)

NASTY = (
    "a|b*c`d<script>\\_[x](y)&%$#{}~^\nnext",
    "</td><script>alert(1)</script>",
    "\\input{/etc/passwd}",
    "=1+1",
    "| --- |",
    "# head",
    "1. item",
    "``",
    "\x1b[31mred\u202e",
    "\r\n",
    "--- ''",
)
NAMES = st.one_of(st.sampled_from(NASTY), st.text(max_size=20))


def table(*names: str) -> Table:
    made = Table(["system", "recall@5", *names[1:]], right=(1,), title=names[0], notes=names)
    for name in names:
        made.add(name, Cell("0.700", mark="‡", emphasis="best"), *names[1:])
    made.add(Cell(names[0], emphasis="code"), Cell("0.600", emphasis="second", below=(names[0],)), rule=True)
    made.add(names[0], style="title")
    return made


# Each format is read by a reader of its own -----------------------------------------------------------------------


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_markdown_keeps_its_columns_whatever_is_in_a_cell(names: list[str]) -> None:
    made = table(*names)
    written = markdown(made).split("\n")
    assert len(written) == 2 + len(made.rows)
    for line in written:
        # A bar ends a cell unless a backslash stands before it.
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == len(made.heads) + 1 or "`" in line
        assert line.startswith("| ")
        assert line.endswith(" |")
        outside = re.sub(r"(`+) ?.*?[^`] ?\1(?!`)", "", line)
        assert "<" not in outside


@given(NAMES)
def test_a_text_of_markdown_is_no_markup(name: str) -> None:
    written = markdown_text(name)
    assert "\n" not in written
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*|$~<]", written)
    assert "](" not in written
    assert not re.match(r"(#{1,6}|[+-])(\s|$)|\d{1,9}[.)](\s|$)", written)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("set_f1", "set_f1"),
        ("_x_", "\\_x\\_"),
        ("a__b", "a\\_\\_b"),
        ("-0.100 [0, 1]", "-0.100 [0, 1]"),
        ("- x", "\\- x"),
    ],
)
def test_markdown_escapes_no_more_than_it_must(name: str, written: str) -> None:
    assert markdown_text(name) == written


@given(NAMES)
def test_code_of_markdown_ends_where_it_should(name: str) -> None:
    written = markdown_code(name)
    fence = re.match("`+", written)
    assert fence is not None
    runs = re.findall("`+", written)
    assert runs.count(fence[0]) == 2
    assert written.endswith(fence[0])


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_latex_keeps_its_columns_and_runs_nothing_of_a_cell(names: list[str]) -> None:
    made = table(*names)
    comments, begin, written = latex(made, latex_text(names[0]), names).partition("\\begin{table}")
    assert all(line.startswith("% ") for line in re.split("[\n\r\f\v]", comments.removesuffix("\n")))
    written = begin + written
    body = written.split("\\toprule\n")[1].split("\\bottomrule")[0]
    rows = [line for line in body.split("\n") if line and line != "\\midrule"]
    assert len(rows) == 1 + len(made.rows)
    for line in rows[:-1]:
        assert len(re.findall(r"(?<!\\)&", line)) == len(made.heads) - 1
    assert written.count("{") - written.count("\\{") == written.count("}") - written.count("\\}")
    commands = set(re.findall(r"\\([a-zA-Z]+)", written))
    ours = "begin end centering toprule midrule bottomrule caption textbf underline emph multicolumn ddagger scriptsize"
    fits = "resizebox ifdim width linewidth else fi"
    signs = "textbackslash textasciitilde textasciicircum textless textgreater textbar textasciigrave symbol"
    assert commands <= {*ours.split(), *fits.split(), *signs.split()}
    assert len(re.findall(r"(?<!\\)\$", written)) % 2 == 0
    assert not re.search(r"(?<!\\)[#]", written)


class Cells(HTMLParser):
    """The tags of a page, and the texts of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_html_has_our_tags_alone(names: list[str]) -> None:
    made = table(*names)
    found = Cells()
    found.feed(html(made))
    known = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "u", "br"}
    assert set(found.tags) <= known
    assert [len(row) for row in found.rows] == [len(made.heads)] * (1 + len(made.rows))


@given(st.lists(st.one_of(NAMES, st.integers(), st.floats(allow_nan=False), st.none(), st.booleans()), max_size=4))
@example(["bm25\r=HYPERLINK(1)", "\r0", "a\r\nb"])
def test_csv_reads_back_and_holds_no_formula(values: list[object]) -> None:
    (read,) = csv.reader(io.StringIO(csv_text([["first", *values]]), newline=""))
    assert len(read) == 1 + len(values)
    for value, cell in zip(values, read[1:], strict=True):
        if isinstance(value, str):
            words = re.sub("\r\n?", "\n", value)
            assert cell.removeprefix("'") in (words, words.removeprefix("'"))
            assert cell[:1] not in {"=", "+", "-", "@", "\t", "\r"}
        elif isinstance(value, bool):
            assert cell == str(value).lower()
        else:
            assert cell == ("" if value is None else str(value))


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_plain_text_has_a_line_for_each_row(names: list[str]) -> None:
    made = table(*names)
    titled = 1 if made.title else 0
    written = text(made).split("\n")
    assert len(written) == titled + 2 + len(made.rows) + len(made.notes)
    assert not any(sign in text(made) for sign in "\x1b\u202e\r")


@given(st.lists(NAMES, min_size=1, max_size=3), st.integers(30, 120))
def test_a_terminal_shows_no_line_wider_than_it_is(names: list[str], width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, emoji=False, highlight=False).print(table(*names))
    assert not any(sign in out.getvalue() for sign in "\x1b\u202e")
    assert "0.700‡" in re.sub(r"\s", "", out.getvalue()) or width < 60


# The record -------------------------------------------------------------------------------------------------------


def test_a_row_has_no_more_cells_than_there_are_columns() -> None:
    made = Table(["a", "b"])
    with pytest.raises(ValueError, match="3 cells for 2 columns"):
        made.add("1", "2", "3")
    made.add("1")
    made.extend("2")
    assert [cell.text for cell in made.filled(made.rows[0])] == ["1", "2"]


def test_a_cell_of_several_lines_is_one_line_elsewhere() -> None:
    made = Table(["a"])
    made.add(lines(["x", "y"]))
    made.add(lines([]))
    assert text(made).split("\n")[2:] == ["x y", ""]
    assert markdown(made).split("\n")[2:] == ["| x y |", "|  |"]
    assert "x<br>y" in html(made)


def test_what_stands_out_does_so_in_every_format() -> None:
    made = Table(["system", "mean"], right=(1,))
    made.add("a", Cell("0.7", mark="†", emphasis="best"))
    made.add("b", Cell("0.6", emphasis="second"))
    made.add("c", "-", rule=True)
    assert markdown(made).split("\n")[1:] == ["| --- | ---: |", "| a | **0.7**† |", "| b | *0.6* |", "| c | - |"]
    assert r"a & \textbf{0.7}$^{\dagger}$ \\" in latex(made, "")
    assert "b & \\underline{0.6} \\\\\n\\midrule\nc & -- \\\\" in latex(made, "")
    assert "<strong>0.7</strong>†" in html(made)
    assert "<u>0.6</u>" in html(made)


@given(NAMES)
def test_a_name_is_on_one_line(name: str) -> None:
    assert Cell(name).plain == one_line(name)

"""The papers' result tables, cell by cell, as printed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from bench.base.errors import DataError
from bench.base.reading import Reader
from bench.base.records import Record, read_toml

FOLDER = Path(__file__).parent / "tables"

#: The unit of a printed number: a share of 1, per cent, a count, a difference of shares or of percentage points.
Unit = Literal["share", "percent", "count", "difference", "points"]
_COLUMNS = ["table", "row", "dataset", "split", "metric", "printed", "unit"]


@dataclass(frozen=True)
class PrintedCell:
    """One printed number.

    Attributes:
        table: `tgr-2` is table 2 of the paper `tgr`.
        row: the row's name, with its setting.
        dataset, split: as the paper calls them; split is empty if the paper names none.
        metric: our canonical string if we have the metric, else the paper's name for it.
    """

    table: str
    row: str
    dataset: str
    split: str
    metric: str
    printed: str
    unit: Unit

    @property
    def place(self) -> str:
        """Dataset and split in one text."""
        return f"{self.dataset} {self.split}".strip()

    @property
    def value(self) -> float:
        """The number as a share of 1 (or a count)."""
        number = float(self.printed.replace(",", "").removesuffix("%"))
        return number / 100 if self.unit in {"percent", "points"} else number

    @property
    def is_difference(self) -> bool:
        """Whether the number is itself a difference of two rows."""
        return self.unit in {"difference", "points"}

    def __str__(self) -> str:
        return f"{self.table}, {self.row}, {self.place}, {self.metric}"


class PaperData(Record):
    """The sizes of a paper's test set and library, if it or its released files give them."""

    queries: int | None = None
    tools: int | None = None


class Unreadable(Record):
    """Cells that are missing in the copy of the paper that we read."""

    row: str
    cells: int
    reason: str


class TableInfo(Record):
    """What a table shows."""

    title: str
    data: dict[str, PaperData] = {}
    unreadable: list[Unreadable] = []
    notes: list[str] = []


class TranscribedPaper(Record):
    """A paper whose tables are transcribed.

    `drawn` lists what the paper shows without numbers (figures and cases): name -> what it shows, and our counterpart.
    """

    title: str
    citation: str
    url: str
    tables: dict[str, TableInfo]
    drawn: dict[str, tuple[str, str]] = {}


@cache
def papers() -> dict[str, TranscribedPaper]:
    """Every transcribed paper by its short name, in the order of the names."""
    return {path.stem: read_paper(path) for path in sorted(FOLDER.glob("*.toml"))}


def table_names() -> list[str]:
    """Names of all tables: by paper, then in the paper's order."""
    return [name for paper in papers().values() for name in paper.tables]


def table_info(table: str) -> TableInfo:
    """What a table shows."""
    return papers()[paper_of(table)].tables[table]


def paper_of(table: str) -> str:
    """`tgr` of `tgr-2`."""
    return table.rpartition("-")[0]


@cache
def cells() -> tuple[PrintedCell, ...]:
    """Every transcribed cell, in the order of the files."""
    return tuple(cell for name in papers() for cell in read_cells(FOLDER / f"{name}.tsv"))


def table_cells(table: str) -> list[PrintedCell]:
    """The cells of a table."""
    return [cell for cell in cells() if cell.table == table]


def cell_at(table: str, row: str, place: str, metric: str) -> PrintedCell:
    """One cell; raises `DataError` if there is none."""
    for cell in table_cells(table):
        if (cell.row, cell.place, cell.metric) == (row, place, metric):
            return cell
    raise DataError(f"table {table} has no cell of {row}, {place}, {metric}.")


def read_paper(path: Path) -> TranscribedPaper:
    """A paper's description out of its TOML file; raises `DataError`."""
    return read_toml(TranscribedPaper, path, "the paper", DataError)


def read_cells(path: Path) -> list[PrintedCell]:
    """Cells out of a tab-separated file.

    Raises:
        DataError: a column is missing, a number is none, a unit is unknown, or a cell occurs twice; with the line.
    """
    lines = Reader(f"the table {path}", DataError).read_text(path).splitlines()
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != _COLUMNS:
        raise DataError(f"{path} must begin with the columns {', '.join(_COLUMNS)}.")
    by_place: dict[tuple[str, ...], PrintedCell] = {}
    for number, row in enumerate(rows[1:], 2):
        where = f"{path}, line {number}"
        if len(row) != len(_COLUMNS):
            raise DataError(f"{where} has {len(row)} fields instead of {len(_COLUMNS)}.")
        table, name, dataset, split, metric, printed, unit = row
        if unit not in get_args(Unit):
            raise DataError(f"{where}: {unit!r} is not one of the units {', '.join(get_args(Unit))}.")
        cell = PrintedCell(table, name, dataset, split, metric, printed, unit)  # type: ignore[arg-type]
        try:
            _ = cell.value
        except ValueError:
            raise DataError(f"{where}: {printed!r} is not a number.") from None
        if tuple(row[:5]) in by_place:
            raise DataError(f"{where}: the cell {cell} occurs twice.")
        by_place[tuple(row[:5])] = cell
    return list(by_place.values())

"""The papers' claims in our words, with the paired comparisons that test them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from bench.base.errors import DataError
from bench.base.records import Record, read_toml
from bench.lab.reproduce.cells import PrintedCell, table_cells
from bench.lab.reproduce.outcomes import Difference
from bench.lab.reproduce.recipes import RecipeQuestion
from bench.lab.reproduce.report import PrintedReport

FOLDER = Path(__file__).parent / "claims"


class ClaimTest(RecipeQuestion):
    """`better` is claimed to beat `worse` on every one of the metrics."""

    better: str
    worse: str
    metrics: tuple[str, ...] = Field(min_length=1)
    differences: tuple[Difference, ...] = ()
    needs: tuple[str, ...] = ()


class Printed(Record):
    """Two rows of printed tables of which the first should be above the second, wherever both have a cell.

    `better` and `worse` are `TABLE: ROW`; `places` and `metrics` narrow the cells, all by default. In a table of
    differences, `below_zero` asks the cells of one row for their sign instead.
    """

    better: str
    worse: str = ""
    places: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    below_zero: bool = False

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Printed:
        if bool(self.worse) == self.below_zero:
            raise ValueError("give either worse or below_zero")
        return self


class Claim(Record):
    """A claim of a paper.

    Attributes:
        id: its name here.
        paper: the paper's short name.
        claim: what it says, in our words.
        where: in which section or table.
        tests: what decides it; all that can run must come out as claimed.
        printed: what the paper's own cells should show.
        needs: what is lacking where it cannot be tested as comparisons of our specs.
        note: what else a reader must know.
    """

    id: str
    paper: str
    claim: str
    where: str
    tests: tuple[ClaimTest, ...] = ()
    printed: tuple[Printed, ...] = ()
    needs: tuple[str, ...] = ()
    note: str = ""


class ClaimFile(Record):
    """The claims of a paper."""

    claim: list[Claim]


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the files."""
    return tuple(claim for path in sorted(FOLDER.glob("*.toml")) for claim in read_claims(path))


def read_claims(path: Path) -> list[Claim]:
    """Claims out of a TOML file; raises `DataError`."""
    return read_toml(ClaimFile, path, "the claims", DataError).claim


def check_printed(printed: tuple[Printed, ...]) -> PrintedReport | None:
    """How the paper's own cells relate to a claim; None where none bears on it.

    Raises:
        DataError: a row is not in its table, or two rows share no cell.
    """
    against = []
    total = 0
    for pair in printed:
        first = _cells(pair.better, pair)
        if pair.below_zero:
            total += len(first)
            against += [f"{cell} {cell.printed}" for cell in first.values() if cell.value >= 0]
            continue
        second = _cells(pair.worse, pair)
        shared = [key for key in first if key in second]
        if not shared:
            raise DataError(f"{pair.better!r} and {pair.worse!r} share no printed cell.")
        total += len(shared)
        for key in shared:
            better, worse = first[key], second[key]
            if better.value <= worse.value:
                against.append(f"{better} {better.printed}, and {worse.row} {worse.printed}")
    return PrintedReport(agree=total - len(against), cells=total, against=against) if printed else None


def _cells(row: str, pair: Printed) -> dict[tuple[str, str], PrintedCell]:
    table, _, name = row.partition(": ")
    cells = {
        (cell.place, cell.metric): cell
        for cell in table_cells(table)
        if cell.row == name
        and (not pair.places or cell.place in pair.places)
        and (not pair.metrics or cell.metric in pair.metrics)
    }
    if not cells:
        raise DataError(f"no printed cell of {row!r} is among those that a claim names.")
    return cells

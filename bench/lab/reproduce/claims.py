"""The papers' claims in our words, with the paired comparisons that test them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from bench.base.errors import DataError
from bench.base.records import Record, read_toml
from bench.lab.reproduce.cells import PrintedCell, table_cells
from bench.lab.reproduce.outcomes import Difference
from bench.lab.reproduce.recipes import RecipeQuestion
from bench.lab.reproduce.report import PrintedReport
from bench.results.settings import EvaluatedSplit

FOLDER = Path(__file__).parent / "claims"


#: Numbers that a precondition may require: replies of a language model per query; macro F1 of the discriminator that a
#: test names, on annotated pairs; 1 if the generator that a test names was fine-tuned from a pretrained model, else 0.
FactName = Literal["llm_replies_per_query", "discriminator_f1", "pretrained"]


class Precondition(Record):
    """What makes a test relevant to the claim: two systems of which the first is better, or a large enough number.

    Attributes:
        better, worse, metric: the two systems.
        on, split: the data; a number from the test's own results needs none.
    """

    name: str
    needs: str
    better: str = ""
    worse: str = ""
    metric: str = ""
    on: tuple[str, ...] = ()
    split: EvaluatedSplit | None = None
    fact: FactName | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Precondition:
        compares = bool(self.better and self.worse and self.metric and self.on)
        if compares == (self.fact is not None) or (self.fact is None) != (self.at_least is None):
            raise ValueError("give either better, worse, metric and on, or fact and at_least")
        return self


class ClaimTest(RecipeQuestion):
    """`better` is claimed to beat `worse` on all metrics, given a precondition from the same file."""

    better: str
    worse: str
    metrics: tuple[str, ...] = Field(min_length=1)
    differences: tuple[Difference, ...] = ()
    needs: tuple[str, ...] = ()
    precondition: Precondition | None = None


class Printed(Record):
    """Two rows of printed tables of which the first should be above the second, wherever both have a cell.

    `better` and `worse` are `TABLE: ROW`; `places` and `metrics` narrow the cells, all by default. Without `better`,
    the row `worse` of a table of differences should be below zero.
    """

    better: str = ""
    worse: str
    places: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


class Claim(Record):
    """A claim of a paper.

    Attributes:
        id: its name here; `ours-...` for our own questions, which do not count for the paper.
        claim: what it says, in our words.
        tests: the tests that decide it; all that can run must come out as claimed.
        printed: what the paper's own cells should show.
        needs: what is missing if it cannot be tested as comparisons of our specs.
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
    """The claims of a paper, and the preconditions that their tests name."""

    precondition: dict[str, Precondition] = {}
    claim: list[Claim]

    @model_validator(mode="before")
    @classmethod
    def _names_are_preconditions(cls, data: object) -> object:
        """Replace a precondition's name by the precondition."""
        if not isinstance(data, dict):
            return data
        known = {name: {"name": name, **table} for name, table in data.get("precondition", {}).items()}

        def named(test: dict[str, Any]) -> dict[str, Any]:
            name = test.get("precondition")
            if name is not None and name not in known:
                raise ValueError(f"there is no precondition {name!r}")
            return test if name is None else {**test, "precondition": known[name]}

        claims = [{**claim, "tests": [named(test) for test in claim.get("tests", [])]} for claim in data["claim"]]
        return {**data, "precondition": known, "claim": claims}


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the files."""
    return tuple(claim for path in sorted(FOLDER.glob("*.toml")) for claim in read_claims(path))


def read_claims(path: Path) -> list[Claim]:
    """Claims out of a TOML file; raises `DataError`."""
    return read_toml(ClaimFile, path, "the claims", DataError).claim


def check_printed(printed: tuple[Printed, ...]) -> PrintedReport | None:
    """How the paper's own cells relate to a claim; None if none does.

    Raises:
        DataError: a row is not in its table, or two rows share no cell.
    """
    against = []
    total = 0
    for pair in printed:
        second = _cells(pair.worse, pair)
        if not pair.better:
            total += len(second)
            against += [f"{cell} {cell.printed}" for cell in second.values() if cell.value >= 0]
            continue
        first = _cells(pair.better, pair)
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

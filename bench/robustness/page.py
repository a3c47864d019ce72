"""The page of what breaks methods: a board for each dataset, and a part of each method's page.

Rows are the results of the main boards that their maintainers ran and that have a current file of `bench stress`
(`bench.robustness.report.read_current`): asked again, these methods give the numbers that the boards rank.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from bench.base.errors import ResultError, UsageError
from bench.base.spec import parse
from bench.leaderboard.boards.board import Board, Row
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import anchor, picture, render
from bench.robustness.perturbation import built_in
from bench.robustness.report import (
    Effect,
    MethodStress,
    StressReport,
    by_name,
    names_of,
    read_current,
    with_family,
)
from bench.show.figures import Sized

PATH = "stress.html"
#: Losses of a dataset on a method's page.
_MOST_LOSSES = 3


@dataclass(frozen=True, eq=False)
class StressBoard:
    """What breaks the methods of a board.

    Attributes:
        board: the board.
        report: the methods, most robust first.
        rows: result id -> row of the board.
        left: why other files are not shown, as sentences.
    """

    board: Board
    report: StressReport
    rows: dict[str, Row]
    left: tuple[str, ...]

    @property
    def methods(self) -> list[tuple[Row, MethodStress]]:
        """The methods with their rows of the main board."""
        return [(self.rows[method.result_id], method) for method in self.report.methods]


def stress_boards(content: SiteData) -> tuple[StressBoard, ...]:
    """A board for each main board with files of `bench stress`."""
    return tuple(made for board in content.main.values() if (made := _read(board)) is not None)


def _read(board: Board) -> StressBoard | None:
    found, left, rows = list[MethodStress](), [], {row.id: row for row in board.rows}
    for row in board.rows:
        try:
            method = read_current(row.result)
        except ResultError as error:
            left.append(f"{row.name}: {str(error).replace(f'{row.result.folder}/', '')}")
            continue
        # Nobody measures again what is submitted.
        if method is None or row.evidence != "run here":
            continue
        found.append(method)
    if not found and not left:
        return None
    return StressBoard(board, with_family(found), rows, tuple(left))


def _values(content: SiteData) -> dict[str, Any] | None:
    boards = stress_boards(content)
    if not boards:
        return None
    return {"sections": [_section(made) for made in boards], "said": _describe()}


def _section(made: StressBoard) -> dict[str, Any]:
    report, name = made.report, made.board.name
    return {
        "made": made,
        "anchor": anchor(made.board.slug),
        "methods": [(row, method, by_name(method)) for row, method in made.methods],
        "columns": names_of(report, "request", "library", "attack"),
        "attacks": names_of(report, "attack"),
        "absent": names_of(report, "absence"),
        "growth": picture(
            charts.sizes(
                f"{report.methods[0].metric} by library size, {name}", [*_lines(made)], report.methods[0].metric
            )
        )
        if report.methods
        else "",
    }


def _lines(made: StressBoard) -> Iterator[Sized]:
    """For each method, the means on the growing libraries of random order, and on the whole one."""
    for row, method in made.methods:
        grown = [
            effect
            for effect in method.effects
            if effect.kind == "growth" and effect.before is not None and "first" not in dict(_arguments(effect))
        ]
        if grown:
            value = row.result.metrics.metrics[method.metric]
            points = [(effect.tools, effect.before or 0.0, None, None) for effect in grown]
            whole = (row.result.manifest.dataset.tools, value.mean, value.low, value.high)
            yield Sized(row.name, tuple(sorted([*points, whole], key=lambda point: point[0])))


def _arguments(effect: Effect) -> tuple[tuple[str, Any], ...]:
    try:
        return parse(effect.perturbation).arguments
    except UsageError:
        return ()


def _describe() -> dict[str, str]:
    """Name -> what a built-in perturbation does, and the claim about its gold."""
    told = {}
    for name, item in built_in().items():
        first = (inspect.getdoc(item.function) or "").split("\n\n")[0].replace("\n", " ")
        told[name] = f"{first} Claim: {item.invariant}. Source: {item.source}."
    return told


def _of_method(boards: Sequence[StressBoard], family: str) -> Markup:
    """The largest losses of a method on each dataset."""
    found = []
    for made in boards:
        for row, method in made.methods:
            if row.family == family:
                measured = [item for item in method.effects if item.decided and item.kind != "growth"]
                worst = sorted(measured, key=lambda item: -(item.loss or 0.0))[:_MOST_LOSSES]
                found += [(made, row, method, effect) for effect in worst]
    return Markup(render("stress-method", "../", found=found, path=PATH)) if found else Markup("")


def _on_home(content: SiteData) -> Markup:
    if not stress_boards(content):
        return Markup("")
    return Markup('. <a href="{}">What breaks methods</a>').format(PATH)


PAGE = Page(
    "stress",
    PATH,
    values=_values,
    on_home=_on_home,
    on_method=lambda content: partial(_of_method, stress_boards(content)),
)

"""The page of choices: does a language model, shown the tools that a method found, call the right ones?"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from bench.leaderboard.boards.board import Board
from bench.leaderboard.boards.choices import ChoiceBoard, ChoiceRow, Picker, PickerBoard
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import anchor, picture
from bench.results.choices import BESIDE, MEANINGS, Outcome
from bench.show.figures import Sized
from bench.stats.noninferiority import FEWEST_UNITS

PATH = "choices.html"
#: Parts of a bar -> the outcomes that they count.
PARTS: dict[str, tuple[Outcome, ...]] = {
    "right": ("right",),
    "not retrieved": ("not retrieved",),
    "not all chosen": ("not all chosen", "abstained"),
    "wrong tools": ("wrong tools", "wrong tools too", "called without need"),
    "no usable reply": ("unreadable", "unknown name"),
    "failed": ("failed", "filtered"),
}
FORMS = {"calls": "tool calls", "json": "a JSON object of names", "names": "one name on each line"}


def choices_path(board: Board) -> str:
    """Where the choices of a board are."""
    return f"{PATH}#{anchor(board.slug)}"


def _values(content: Content) -> dict[str, Any] | None:
    if not content.choices:
        return None
    retrieval = {board.slug for board in content.boards}
    sections = [
        {
            "board": item.board,
            "anchor": anchor(item.board.slug),
            "linked": item.board.slug in retrieval,
            "pickers": [_part(item, one) for one in item.pickers],
        }
        for item in content.choices
    ]
    return {"sections": sections, "meanings": MEANINGS, "fewest": FEWEST_UNITS}


def _part(choices: ChoiceBoard, made: PickerBoard) -> dict[str, Any]:
    """What the template says of one picker."""
    place = anchor(f"{choices.board.slug} {made.picker}")
    return {
        "made": made,
        "anchor": place,
        "how": how(made.picker),
        "outcomes": _outcomes(made, place),
        "beside": {fault: told for fault, told in BESIDE.items() if any(row.faults[fault] for row in made.rows)},
        "curve": _curve(made),
        "paid": any(row.cost is not None for row in made.rows),
    }


def how(picker: Picker) -> str:
    """How a picker is asked, for a reader."""
    order = "in random order" if picker.order == "shuffled" else "in the order of the ranking"
    return f"{FORMS.get(picker.form, picker.form)}, tools {order}" + (f", seed {picker.seed}" if picker.seed else "")


def name_of(row: ChoiceRow) -> str:
    """What is shown to the model, as a chart names it."""
    return row.base if row.shown is None else f"{row.base}, {row.shown}"


def _counts(row: ChoiceRow) -> list[int]:
    """How many queries each of the parts has."""
    return [sum(row.counts[outcome] for outcome in outcomes) for outcomes in PARTS.values()]


def _outcomes(made: PickerBoard, place: str) -> Markup:
    rows = [(name_of(row), _counts(row)) for row in made.rows]
    return picture(charts.shares(f"What became of the queries, {made.picker.model}", rows, list(PARTS), place))


def _curve(made: PickerBoard) -> Markup:
    lines: dict[str, list[ChoiceRow]] = {}
    for row in made.rows:
        if row.shown is not None and not row.row.oracle and not row.same_as:
            lines.setdefault(row.base, []).append(row)
    sized = [
        Sized(
            base,
            tuple(
                (row.shown or 0, row.accuracy.mean, row.accuracy.low, row.accuracy.high)
                for row in sorted(rows, key=lambda row: row.shown or 0)
            ),
        )
        for base, rows in lines.items()
    ]
    return picture(
        charts.sizes(f"Right choices by tools shown, {made.picker.model}", sized, "right choices", "tools shown")
    )


PAGE = Page("choices", PATH, values=_values)

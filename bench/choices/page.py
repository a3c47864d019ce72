"""The page of choices: for each dataset, by model and settings.

A choice orders tools by a model's calls, and some of its arms know the gold, so it is on no retrieval board. Its own
numbers are the share of right choices and the outcomes of the others. The build of the site requests `choice_board` by
name, and finds `PAGE`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.base.text import label, one_line
from bench.choices.fitness import AMONG, CALIBRATION_TOOLS, Calibration, Fitness, Part, fitness, same_choices
from bench.choices.outcomes import BESIDE, GROUPS, MEANINGS, Replies, Summary, read_replies
from bench.choices.runs import Picker
from bench.comparison.best import join_names
from bench.leaderboard.boards.board import Board, Rejected, Row
from bench.leaderboard.boards.names import method_name
from bench.leaderboard.boards.standings import RankedSystems, rank_systems
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import ChoiceBoard, Page, SiteData
from bench.leaderboard.pages.rendering import anchor, picture
from bench.models.llm.local import short_name
from bench.results.choices import ShownTools, shown_tools
from bench.results.costs import money_per_query
from bench.results.units import number_units
from bench.show.figures import Sized
from bench.show.numbers import estimate, format_fixed, several
from bench.stats.bounded import SHARE
from bench.stats.noninferiority import FEWEST_UNITS

PATH = "choices.html"
_FORMS = {"calls": "tool calls", "json": "a JSON object of names", "names": "one name on each line"}
#: Maximum tokens and seconds of a reply; notes are untrusted.
_MOST = 1e9


@dataclass(frozen=True)
class ChoiceRow:
    """The choices of a picker among the tools of one ranking.

    Attributes:
        row: the result.
        base: the method whose tools are shown, or another source.
        shown: number of tools; None for the whole library, and for the gold alone.
        summary: totals of the replies.
        cost: of 100 queries; None if no price is known.
        same_as: the base of another row that shows the same tools for every query, so that this one is no separate
            evidence; empty if there is none.
    """

    row: Row
    base: str
    shown: int | None
    summary: Summary
    cost: float | None
    same_as: str = ""

    @property
    def name(self) -> str:
        """What the model is shown, as a chart names it."""
        return self.base if self.shown is None else f"{self.base}, {self.shown}"


@dataclass(frozen=True, eq=False)
class PickerBoard:
    """A picker's choices on the queries of a dataset.

    Attributes:
        picker: the model with its settings.
        calibration: its choices with known gold; without the hard tools in another order.
        rows: best first, those that know the gold last; for an unfit picker by base and number of tools.
        standing: tests and ranks of the rows that do not know the gold, without repeated ones; None for an unfit
            picker.
    """

    picker: Picker
    calibration: Calibration
    rows: tuple[ChoiceRow, ...]
    standing: RankedSystems | None


@dataclass(frozen=True, eq=False)
class _Read:
    """A result in the calibration: its `part`, and `tested` for a part of a calibration."""

    picker: Picker
    row: ChoiceRow
    replies: Replies
    part: Part | None
    tested: Fitness | None


def choice_board(board: Board) -> tuple[ChoiceBoard, list[Rejected]]:
    """The pickers' choices on a board.

    Args:
        board: results that are choices (`bench.results.choices.is_choice`).

    Returns:
        The choices, and the results with unreadable notes, which are left out.
    """
    read: dict[Picker, list[_Read]] = {}
    rejected = []
    queries: list[str] | None = None
    for row in board.rows:
        try:
            made = _read(row)
        except (BenchError, pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = one_line(str(error).splitlines()[0]) if str(error) else type(error).__name__
            rejected.append(Rejected(f"{board.name}, {row.id}", f"its choices cannot be read: {reason}"))
            continue
        queries = made.replies.queries if queries is None else queries
        if made.replies.queries == queries:
            read.setdefault(made.picker, []).append(made)
        else:
            rejected.append(Rejected(f"{board.name}, {row.id}", "its choices are of other queries."))
    # The hard tools in another order are part of a picker's calibration, not another picker.
    reordered = {who.reordered for who in read if all(one.part == "hard" for one in read.get(who.reordered, ()))}
    pickers = [_picker_board(who, read[who], read.get(who.reordered, ())) for who in sorted(read.keys() - reordered)]
    return ChoiceBoard(board, f"{PATH}#{anchor(board.slug)}", pickers), rejected


def _read(row: Row) -> _Read:
    spec = parse(row.result.manifest.method.full_spec)
    given, shown, replies = dict(spec.arguments), shown_tools(spec), read_replies(row.result)
    picker = Picker(str(given["llm"]), str(given["form"]), str(given["order"]), int(str(given["seed"])))
    part = _part_of_calibration(shown)
    if shown.tools is not None and not 0 < shown.tools <= _MOST:
        raise ValueError(f"{shown.tools} is not a number of tools.")
    summary = replies.summary
    if not all(number < _MOST for number in (summary.seconds or 0.0, *summary.tokens)):
        raise ValueError("its notes count more tokens or seconds than there can be.")
    base, money = shown.words(method_name), money_per_query(row.result.manifest)
    base = label(f"{base}, {row.setting}" if row.setting else base)
    choice_row = ChoiceRow(row, base, shown.tools, summary, None if money is None else 100 * money)
    return _Read(picker, choice_row, replies, part, None if part is None else fitness(row.result))


def _part_of_calibration(shown: ShownTools) -> Part | None:
    """The part of a calibration that a choice is (`calibration_plans`), whatever the order of its tools."""
    if shown.arm == "gold":
        return "alone"
    if shown.arm != "with-gold" or shown.tools != CALIBRATION_TOOLS:
        return None
    parts: dict[str, Part] = {"random": "random", "dense": "hard"}
    return parts.get(shown.base.name)


def _picker_board(picker: Picker, read: Sequence[_Read], reordered: Sequence[_Read]) -> PickerBoard:
    found = {one.part: one.tested for one in read if one.tested is not None}
    hard = [one.row.row.result.of_repeat() for each in (read, reordered) for one in each if one.part == "hard"]
    tests = {part: found[part] for part in AMONG if part in found}
    calibration = Calibration(tests, same_choices(*hard) if len(hard) == 2 else None)
    # The gold alone is also an upper bound of the rows.
    kept = _mark_repeated([one for one in read if one.part in {None, "alone"}])
    right = {one.row.row.id: one.replies.right for one in kept if not one.row.row.oracle and not one.row.same_as}
    standing, order = None, dict[str, int]()
    if right and not calibration.faults:
        units = number_units(kept[0].replies.units)
        standing = rank_systems(list(right), np.column_stack(list(right.values())), units, span=SHARE.of_differences())
        order = {name: int(best) for name, best in zip(standing.ids, standing.ranks[:, 0], strict=True)}

    def place(row: ChoiceRow) -> tuple[object, ...]:
        told = (row.base.casefold(), row.shown is None, row.shown or 0, row.row.id)
        best = () if calibration.faults else (order.get(row.row.id, 0), -row.summary.accuracy.mean)
        return row.row.oracle, *best, *told

    return PickerBoard(picker, calibration, tuple(sorted((one.row for one in kept), key=place)), standing)


def _mark_repeated(read: Sequence[_Read]) -> list[_Read]:
    """The same rows; those that show what an earlier one shows are marked with it."""
    bases: dict[tuple[object, ...], str] = {}
    marked = []
    for one in sorted(read, key=lambda one: (one.row.base.casefold(), one.row.row.id)):
        prompts = tuple(None if note is None else tuple(note.shown) for note in one.replies.notes)
        base = bases.setdefault((one.row.shown, prompts), one.row.base)
        marked.append(one if base == one.row.base else replace(one, row=replace(one.row, same_as=base)))
    return marked


def _values(content: SiteData) -> dict[str, Any] | None:
    if not content.choices:
        return None
    retrieval = {board.slug for board in content.boards}
    names = _short_names({one.picker.model for item in content.choices for one in item.pickers})
    sections = [
        {
            "board": item.board,
            "anchor": anchor(item.board.slug),
            "linked": item.board.slug in retrieval,
            "pickers": [_picker_values(item, one, names) for one in item.pickers],
        }
        for item in content.choices
    ]
    return {"sections": sections, "meanings": MEANINGS, "fewest": FEWEST_UNITS}


def _short_names(models: set[str]) -> dict[str, str]:
    """Model -> its short name; its whole name if another model has the same short one."""
    short = {model: label(short_name(model), 60) for model in models}
    counts = Counter(short.values())
    return {model: name if counts[name] == 1 else label(model, 80) for model, name in short.items()}


def _sentence(made: PickerBoard) -> str:
    """What the rows of a picker say, in short: the best one if they are ranked, else the range of their means."""
    shown = [row for row in made.rows if not row.row.oracle and not row.same_as]
    bounds = [row for row in made.rows if row.row.oracle and row.shown is None]
    bound = f" With {bounds[0].base}: {format_fixed(bounds[0].summary.accuracy.mean)}." if bounds else ""
    if not shown:
        return bound.strip()
    if made.standing is None or not made.standing.decided:
        means = [row.summary.accuracy.mean for row in shown]
        ends = f"{format_fixed(min(means))} to {format_fixed(max(means))}"
        undecided = "" if made.standing is None else "Nothing is decided. "
        return f"{undecided}Right choices: {ends}, over {several(len(shown), 'row')}.{bound}"
    names = {row.row.id: row.name for row in shown}
    best, right = shown[0], shown[0].summary.accuracy
    position = made.standing.position(best.row.id)
    alike = [] if position is None else np.flatnonzero(made.standing.ties(position)).tolist()
    tied = [f"“{names[made.standing.ids[i]]}”" for i in alike]
    rest = f", not told apart from {join_names(tied)}" if tied else ", significantly ahead of all other rows"
    value = estimate(right.mean, right.low, right.high)
    return f"Shown “{best.name}”, it makes most right choices, {value}{rest if len(shown) > 1 else ''}.{bound}"


def _picker_values(choices: ChoiceBoard, made: PickerBoard, names: Mapping[str, str]) -> dict[str, Any]:
    """The template's values for one picker."""
    name = names[made.picker.model]
    place = anchor(f"{choices.board.slug} {made.picker}")
    bars = [(row.name, list(row.summary.groups().values())) for row in made.rows]
    return {
        "made": made,
        "name": name,
        "sentence": _sentence(made),
        "anchor": place,
        "among": AMONG,
        "how": _how(made.picker),
        "outcomes": picture(charts.shares(f"What became of the queries, {name}", bars, list(GROUPS), place)),
        "beside": {f: told for f, told in BESIDE.items() if any(row.summary.faults[f] for row in made.rows)},
        "curve": _curve(made, name),
        "paid": any(row.cost is not None for row in made.rows),
    }


def _how(picker: Picker) -> str:
    """A picker's settings, for readers."""
    order = "in random order" if picker.order == "shuffled" else "in the order of the ranking"
    return f"{_FORMS.get(picker.form, picker.form)}, tools {order}" + (f", seed {picker.seed}" if picker.seed else "")


def _curve(made: PickerBoard, name: str) -> Markup:
    lines: dict[str, list[tuple[int, float, float | None, float | None]]] = {}
    for row in made.rows:
        if row.shown is not None and not row.row.oracle and not row.same_as:
            right = row.summary.accuracy
            lines.setdefault(row.base, []).append((row.shown, right.mean, right.low, right.high))
    sized = [Sized(base, tuple(sorted(points, key=itemgetter(0)))) for base, points in lines.items()]
    return picture(charts.sizes(f"Right choices by tools shown, {name}", sized, "right choices", "tools shown"))


PAGE = Page("choices", PATH, values=_values)

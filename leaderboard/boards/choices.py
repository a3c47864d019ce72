"""Choices of language models among retrieved tools: for each dataset, by who chooses and how it is asked.

A choice orders tools by the calls of a model, and some of its arms know the gold. So it is on no board of retrieval:
its own numbers are the share of right choices, and what became of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from bench.base.errors import BenchError
from bench.base.spec import Spec, parse
from bench.base.text import label, one_line
from bench.evaluation.choosing import CALIBRATION_TOOLS
from bench.leaderboard.boards.board import Board, Rejected, Row
from bench.leaderboard.boards.names import method_name
from bench.leaderboard.boards.standings import RankedSystems, rank_systems
from bench.results.choices import Choices, Outcome, read_choices, what_is_shown
from bench.results.costs import money_per_query
from bench.results.manifest import MetricValue
from bench.results.picker import Fitness, fitness, same_in_another_order
from bench.results.units import number_units
from bench.stats.bounded import SHARE

#: What the gold is shown among, in the order in which a calibration is read.
Among = Literal["random tools", "hard tools", "nothing else"]
AMONG: tuple[Among, ...] = ("random tools", "hard tools", "nothing else")
#: No reply has more tokens or takes more seconds; notes may come from strangers.
_MOST = 1e9


@dataclass(frozen=True, order=True)
class Picker:
    """Who chooses, and how it is asked.

    Attributes:
        model: its name.
        form: as of `choose(form=...)`.
        order: of the shown tools.
        seed: of the order.
    """

    model: str
    form: str
    order: str
    seed: int


@dataclass(frozen=True)
class ChoiceRow:
    """The choices of a picker among the tools of one ranking.

    Attributes:
        row: the result.
        base: the method whose tools are shown, or what else is.
        shown: how many tools; None for the whole library, and for the gold alone.
        accuracy: share of right choices among all queries.
        counts: how many queries had each outcome.
        faults: in how many replies each fault was, also beside right calls.
        tokens: mean input, cached and output tokens of a query; of `estimated` replies they are upper bounds.
        seconds: median time of a reply; None where the journal has no times.
        cost: of 100 queries; None where no price is known.
        same_as: the base of the row that shows the same tools for every query, so that this one is no evidence of its
            own; empty where there is none.
    """

    row: Row
    base: str
    shown: int | None
    accuracy: MetricValue
    counts: dict[Outcome, int]
    faults: dict[str, int]
    tokens: tuple[float, float, float]
    estimated: int
    seconds: float | None
    cost: float | None
    same_as: str = ""


@dataclass(frozen=True, eq=False)
class PickerBoard:
    """What a picker chose on the queries of a dataset.

    Attributes:
        picker: who.
        calibration: what the gold was shown among, and how the picker chose.
        same_reordered: share of queries with the same choice in another order of the hard tools; None if that was not
            asked.
        faults: why it is not fit to judge rankings, each without a full stop; empty if it is.
        rows: best first, those that know the gold last; of an unfit picker by base and number of tools.
        standing: tests and ranks of the rows that do not know the gold, but for those that repeat another one; None for
            an unfit picker.
    """

    picker: Picker
    calibration: tuple[tuple[Among, Fitness], ...]
    same_reordered: float | None
    faults: tuple[str, ...]
    rows: tuple[ChoiceRow, ...]
    standing: RankedSystems | None


@dataclass(frozen=True, eq=False)
class ChoiceBoard:
    """The choices on the queries of a dataset: its results, and who made them."""

    board: Board
    pickers: tuple[PickerBoard, ...]


def choice_board(board: Board) -> tuple[ChoiceBoard, list[Rejected]]:
    """What pickers chose.

    Args:
        board: results that are choices (`bench.results.choices.is_choice`).

    Returns:
        The choices; which results have notes that cannot be read, and are left out.
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
        queries = made.choices.queries if queries is None else queries
        if made.choices.queries == queries:
            read.setdefault(made.picker, []).append(made)
        else:
            rejected.append(Rejected(f"{board.name}, {row.id}", "its choices are of other queries."))
    pickers = []
    for who in sorted(read):
        before = replace(who, seed=who.seed - 1)
        # The hard tools in another order are no picker, but a part of the calibration of one.
        if not (before in read and all(one.among == "hard tools" for one in read[who])):
            pickers.append(_picker_board(who, read[who], read.get(replace(who, seed=who.seed + 1), ())))
    return ChoiceBoard(board, tuple(pickers)), rejected


@dataclass(frozen=True, eq=False)
class _Read:
    """A result as it is read: `among` and `tested` of a part of a calibration."""

    picker: Picker
    row: ChoiceRow
    choices: Choices
    among: Among | None
    tested: Fitness | None


def _read(row: Row) -> _Read:
    spec = parse(row.result.manifest.method.full_spec)
    given, among, choices = dict(spec.arguments), _among(spec), read_choices(row.result)
    picker = Picker(str(given["llm"]), str(given["form"]), str(given["order"]), int(str(given["seed"])))
    tested = None if among is None else fitness(row.result)
    return _Read(picker, _choice_row(row, spec, choices), choices, among, tested)


def _picker_board(picker: Picker, read: Sequence[_Read], reordered: Sequence[_Read]) -> PickerBoard:
    found = {one.among: one.tested for one in read if one.tested is not None}
    hard = [one.row.row.result for each in (read, reordered) for one in each if one.among == "hard tools"]
    calibration = tuple((among, found[among]) for among in AMONG if among in found)
    faults = found["random tools"].faults if "random tools" in found else ["it was not calibrated on these queries"]
    # The gold alone is an upper bound of the rows, too.
    kept = _mark_repeated([one for one in read if one.among not in AMONG[:2]])
    right = {
        one.row.row.id: np.array([outcome == "right" for outcome in one.choices.outcomes], dtype=np.float64)
        for one in kept
        if not one.row.row.oracle and not one.row.same_as
    }
    standing, order = None, dict[str, int]()
    if right and not faults:
        units = number_units(kept[0].choices.units)
        standing = rank_systems(list(right), np.column_stack(list(right.values())), units, span=SHARE.of_differences())
        order = {name: int(best) for name, best in zip(standing.ids, standing.ranks[:, 0], strict=True)}

    def place(row: ChoiceRow) -> tuple[object, ...]:
        told = (row.base.casefold(), row.shown is None, row.shown or 0, row.row.id)
        return (
            (row.row.oracle, *told) if faults else (row.row.oracle, order.get(row.row.id, 0), -row.accuracy.mean, *told)
        )

    return PickerBoard(
        picker=picker,
        calibration=calibration,
        same_reordered=same_in_another_order(*hard) if len(hard) == 2 else None,
        faults=tuple(faults),
        rows=tuple(sorted((one.row for one in kept), key=place)),
        standing=standing,
    )


def _mark_repeated(read: Sequence[_Read]) -> list[_Read]:
    """The same, each row that shows what another one shows marked with the first of them."""
    bases: dict[tuple[object, ...], str] = {}
    marked = []
    for one in sorted(read, key=lambda one: (one.row.base.casefold(), one.row.row.id)):
        prompts = tuple(None if note is None else tuple(note.shown) for note in one.choices.notes)
        base = bases.setdefault((one.row.shown, prompts), one.row.base)
        marked.append(one if base == one.row.base else replace(one, row=replace(one.row, same_as=base)))
    return marked


def _choice_row(row: Row, spec: Spec, choices: Choices) -> ChoiceRow:
    base, shown = what_is_shown(spec, method_name)
    if shown is not None and not 0 < shown <= _MOST:
        raise ValueError(f"{shown} is no number of tools.")
    seconds, tokens = choices.median_seconds(), choices.mean_tokens()
    if not all(number < _MOST for number in (seconds or 0.0, *tokens)):
        raise ValueError("its notes count more tokens or seconds than there can be.")
    money = money_per_query(row.result.manifest)
    return ChoiceRow(
        row=row,
        base=label(f"{base}, {row.setting}" if row.setting else base),
        shown=shown,
        accuracy=choices.accuracy(),
        counts=choices.counts(),
        faults=choices.faults(),
        tokens=tokens,
        estimated=choices.estimated(),
        seconds=seconds,
        cost=None if money is None else 100 * money,
    )


def _among(spec: Spec) -> Among | None:
    """What the gold is shown among, where this is a part of a calibration (`calibration_plans`)."""
    base, shown = what_is_shown(spec, lambda base: base.name)
    if shown not in {None, CALIBRATION_TOOLS}:
        return None
    told: dict[str, Among] = {
        "random, with the gold put in": "random tools",
        "dense, with the gold put in": "hard tools",
        "the gold alone": "nothing else",
    }
    return told.get(base)

"""The outcome of each query in a language model's choice among retrieved tools (`methods/choose.py`).

A choice is a result like any other: the shown tools are its ranking, the called ones its recommended set. This module
derives from the stored values alone why a choice is not the gold set, for the report and the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from bench.base.errors import ResultError, UsageError
from bench.base.records import Record, first_fault
from bench.base.spec import parse
from bench.base.strict_json import loads
from bench.results.choices import is_choice, shown_tools
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import MetricValue
from bench.results.store import StoredResult
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE

#: Exactly one per query, the first that applies.
Outcome = Literal[
    "failed",
    "filtered",
    "unreadable",
    "unknown name",
    "right",
    "called without need",
    "not retrieved",
    "abstained",
    "not all chosen",
    "wrong tools too",
    "wrong tools",
]
#: All of them, with explanations for readers.
MEANINGS: dict[Outcome, str] = {
    "failed": "the endpoint gave no reply, or the search failed",
    "filtered": "the model refused, or a content filter withheld or cut the reply",
    "unreadable": "the reply could not be read, was cut short, or wrote its call as text",
    "unknown name": "only names that were not shown were called",
    "right": "the called tools are the gold tools; without gold among the shown tools by design, none was called",
    "called without need": "no shown tool answers the request by design, and one was called",
    "not retrieved": "a gold tool was not among the shown tools",
    "abstained": "all gold was shown; no tool was called",
    "not all chosen": "all gold was shown; only gold tools were called, and not all of them",
    "wrong tools too": "all gold was shown and called, and other tools as well",
    "wrong tools": "all gold was shown; other tools were called, and not all gold tools",
}
#: The groups of tables and bars.
GROUPS: dict[str, tuple[Outcome, ...]] = {
    "right": ("right",),
    "not retrieved": ("not retrieved",),
    "not all chosen": ("not all chosen", "abstained"),
    "wrong tools": ("wrong tools", "wrong tools too", "called without need"),
    "no usable reply": ("failed", "unreadable", "unknown name"),
    "filtered": ("filtered",),
}
#: Outcomes of queries without a choice.
UNANSWERED: frozenset[Outcome] = frozenset({*GROUPS["no usable reply"], *GROUPS["filtered"]})

#: Possible faults of a reply (`methods/choose.py`); with the first ones, nothing usable may be left.
Fault = Literal["unreadable", "call in text", "cut short", "unknown name", "arguments", "filtered"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
_UNREADABLE = frozenset(FAULTS[:3])
#: Faults that are counted besides the outcomes: such a reply may still call the right tools.
BESIDE = {"unknown name": "unknown names", "arguments": "wrong arguments"}
#: `recall@100` covers the whole ranking of a choice, which contains the shown tools.
_SHOWN_RECALL, _CHOSEN_RECALL, _PRECISION = "recall@100", "set_recall", "set_precision"


class ChoiceNote(Record):
    """The record of one query's choice.

    Attributes:
        shown: ids of the shown tools, in display order.
        called: the first names that it called, as written.
        faults: faults of the reply.
        input_tokens, cached_tokens, output_tokens: as counted by the endpoint; cached ones are part of the input.
        estimated: the endpoint counted none, or implausibly: the numbers are upper bounds.
        seconds: duration of the reply; null in replays of journals without it.
        failed: why there was no reply.
    """

    shown: list[str] = []
    called: list[str] = []
    faults: list[Fault] = []
    input_tokens: int = Field(0, ge=0)
    cached_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    estimated: bool = False
    seconds: float | None = Field(None, ge=0)
    failed: str = ""


@dataclass(frozen=True)
class Summary:
    """Totals over the replies of a result.

    Attributes:
        accuracy: share of right choices among all queries, with its 95% interval by units.
        counts: number of queries with each outcome, zeros included.
        faults: number of replies with each fault, also beside usable tools.
        tokens: mean input, cached and output tokens of the answered queries; zeros without any.
        estimated: number of answers whose tokens are upper bounds, because the endpoint counted none.
        seconds: median duration of a reply; None if unknown.
    """

    accuracy: MetricValue
    counts: dict[Outcome, int]
    faults: dict[str, int]
    tokens: tuple[float, float, float]
    estimated: int
    seconds: float | None

    def groups(self) -> dict[str, int]:
        """The number of queries in each of the `GROUPS` of outcomes."""
        return {name: sum(self.counts[outcome] for outcome in outcomes) for name, outcomes in GROUPS.items()}


@dataclass(frozen=True)
class Replies:
    """The choices of one result, by query.

    Attributes:
        queries: their ids.
        outcomes: one per query.
        notes: one per query; None for a query that was not put to the model.
        units: (queries,) the unit of independence of each.
        choice: the metric of that name, as stored, over all repeats; None if another choice than the gold is right
            by design, and in results without it.
    """

    queries: list[str]
    outcomes: list[Outcome]
    notes: list[ChoiceNote | None]
    units: NDArray[np.int64]
    choice: MetricValue | None = None

    @cached_property
    def summary(self) -> Summary:
        """Their totals."""
        answers = self._answers
        rows = [(note.input_tokens, note.cached_tokens, note.output_tokens) for note in answers]
        given, cached, made = np.mean(rows or [(0, 0, 0)], axis=0).tolist()
        outcomes = Counter(self.outcomes)
        faults = Counter[str](fault for note in self.notes if note is not None for fault in set(note.faults))
        seconds = [note.seconds for note in self.notes if note is not None and note.seconds is not None]
        return Summary(
            accuracy=self._accuracy(),
            counts={outcome: outcomes[outcome] for outcome in MEANINGS},
            faults={fault: faults[fault] for fault in FAULTS},
            tokens=(given, cached, made),
            estimated=sum(note.estimated for note in answers),
            seconds=float(np.median(seconds)) if seconds else None,
        )

    @property
    def right(self) -> NDArray[np.float64]:
        """(queries,) 1 for a right choice, else 0."""
        return np.array([outcome == "right" for outcome in self.outcomes], dtype=np.float64)

    @property
    def _answers(self) -> list[ChoiceNote]:
        # An answer that a filter withheld was made and paid for.
        return [note for note in self.notes if note is not None and (note.input_tokens or not note.failed)]

    def _accuracy(self) -> MetricValue:
        if self.choice is not None:
            return self.choice
        units = number_units(self.units)
        ends = bca_intervals(self.right[:, None], seed=BOOTSTRAP_SEED, units=units, span=SHARE)[0]
        low, high = (None if np.isnan(end) else float(end) for end in ends)
        return MetricValue(mean=float(self.right.mean()), low=low, high=high, n=len(self.right))

    def mean_shown(self, sizes: Mapping[str, float]) -> float:
        """Mean size of all tools shown for an answered query, by the size of each tool; 0 without any."""
        return float(np.mean([sum(sizes[tool] for tool in note.shown) for note in self._answers] or [0.0]))


def read_replies(result: StoredResult) -> Replies:
    """The choices of a result; with repeats, those of the first.

    Raises:
        UsageError: it is not a choice.
        ResultError: its notes are missing, damaged, or about other queries.
    """
    if not is_choice(result):
        raise UsageError(f"{result.label} is not a choice of a language model; `bench choose` makes them.")
    one = result.of_repeat()
    table = one.per_query
    ids: list[str] = table["query_id"].to_pylist()
    n_gold = table["n_gold"].to_pylist()
    failed = table["failed"].to_pylist()
    sizes = [len(tools or ()) for tools in table["recommended"].to_pylist()]
    recall, chosen, precision = (one.values(name) for name in (_SHOWN_RECALL, _CHOSEN_RECALL, _PRECISION))
    shown = shown_tools(parse(result.manifest.method.full_spec))
    left_out = shown.arm == "without-gold"
    notes = _notes(result, ids)
    outcomes = []
    for i, note in enumerate(notes):
        outcome: Outcome
        if note is None and failed[i]:
            # Nothing was found to show. Without gold that is right, unless the search failed.
            outcome = "not retrieved" if n_gold[i] else "failed"
        elif note is not None and note.failed:
            outcome = "filtered" if "filtered" in note.faults else "failed"
        elif note is not None and not sizes[i] and not _UNREADABLE.isdisjoint(note.faults):
            outcome = "unreadable"
        elif note is not None and not sizes[i] and "unknown name" in note.faults:
            outcome = "unknown name"
        elif not n_gold[i] or left_out:
            outcome = "called without need" if sizes[i] else "right"
        elif recall[i] < 1 and (shown.tools is not None or shown.arm == "gold"):
            # If all tools are shown, the ranking is cut at its depth.
            outcome = "not retrieved"
        elif sizes[i] == 0:
            outcome = "abstained"
        elif chosen[i] == 1:
            outcome = "right" if precision[i] == 1 else "wrong tools too"
        else:
            outcome = "not all chosen" if precision[i] == 1 else "wrong tools"
        outcomes.append(outcome)
    choice = None if left_out else result.metrics.metrics.get("choice")
    return Replies(ids, outcomes, notes, one.units, choice)


def _notes(result: StoredResult, ids: list[str]) -> list[ChoiceNote | None]:
    table = result.notes
    if table is None:
        raise ResultError(f"{result.label} has no notes; run it again.")
    rows = [
        (query, note)
        for repeat, query, note in zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        if repeat == 1
    ]
    if [query for query, _ in rows] != ids:
        raise ResultError(f"the notes of {result.label} are of other queries than its values; run it again.")
    try:
        return [None if note in (None, "null") else ChoiceNote.model_validate(loads(note)) for _, note in rows]
    except ValidationError as error:
        raise ResultError(f"a note of {result.label} is not valid ({first_fault(error)}); run it again.") from None
    except (ValueError, RecursionError):
        raise ResultError(f"a note of {result.label} is not JSON; run it again.") from None

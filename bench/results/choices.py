"""What became of each choice of a language model among retrieved tools (`methods/choose.py`).

A choice is a result like any other: the shown tools are its ranking, the called ones its recommended set. This reads
from the stored values alone why a choice is not the gold set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from bench.base.errors import ResultError, UsageError
from bench.base.records import Record, first_fault
from bench.base.spec import Spec, Value, parse
from bench.base.strict_json import loads
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import MethodIdentity, MetricValue
from bench.results.store import StoredResult
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE

#: Exactly one for each query, the first that is true.
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
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
#: What they mean, for readers.
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
assert tuple(MEANINGS) == OUTCOMES
#: Those of queries without a choice.
UNANSWERED: frozenset[Outcome] = frozenset({"failed", "filtered", "unreadable", "unknown name"})

#: What may be wrong with a reply (`methods/choose.py`); of the first ones nothing may be left.
Fault = Literal["unreadable", "call in text", "cut short", "unknown name", "arguments", "filtered"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
_UNREADABLE = frozenset(FAULTS[:3])
#: Those that are counted beside the outcomes: a reply may have them and yet call the right tools.
BESIDE = {"unknown name": "unknown names", "arguments": "wrong arguments"}
#: `recall@100` is over the whole ranking of a choice, which holds the shown tools.
_SHOWN_RECALL, _CHOSEN_RECALL, _PRECISION = "recall@100", "set_recall", "set_precision"


class ChoiceNote(Record):
    """What a choice tells of one query.

    Attributes:
        shown: ids of the shown tools, in the order in which they were shown.
        called: the names that it called, as it wrote them; the first ones.
        faults: what was wrong with the reply.
        input_tokens, cached_tokens, output_tokens: as the endpoint counted them; cached ones are among the input.
        estimated: it counted none, or absurdly: they are upper bounds.
        seconds: how long the reply took; null in replays of journals that lack it.
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
class Choices:
    """The choices of one result, by query.

    Attributes:
        queries: their ids.
        outcomes: one for each.
        notes: one for each; None for a query that was not put to the model.
        units: (queries,) the unit of independence of each.
        choice: the metric of that name, as it is stored, over all repeats; None where another choice than the gold is
            right by design, and in results that lack it.
    """

    queries: list[str]
    outcomes: list[Outcome]
    notes: list[ChoiceNote | None]
    units: NDArray[np.int64]
    choice: MetricValue | None = None

    @property
    def _answers(self) -> list[ChoiceNote]:
        return [note for note in self.notes if note is not None and (note.input_tokens or not note.failed)]

    def counts(self) -> dict[Outcome, int]:
        """How many queries had each outcome, those that none had included."""
        counted = Counter(self.outcomes)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def faults(self) -> dict[str, int]:
        """In how many replies each fault was, also beside tools that count; those that none had included."""
        counted = Counter[str](fault for note in self.notes if note is not None for fault in set(note.faults))
        return {fault: counted[fault] for fault in FAULTS}

    def accuracy(self) -> MetricValue:
        """The share of right choices among all queries, with its 95% interval by units."""
        if self.choice is not None:
            return self.choice
        right = np.array([outcome == "right" for outcome in self.outcomes], dtype=np.float64)
        ends = bca_intervals(right[:, None], seed=BOOTSTRAP_SEED, units=number_units(self.units), span=SHARE)[0]
        low, high = (None if np.isnan(end) else float(end) for end in ends)
        return MetricValue(mean=float(right.mean()), low=low, high=high, n=len(right))

    def mean_tokens(self) -> tuple[float, float, float]:
        """Mean input, cached and output tokens of the queries that the model answered; zeros without any.

        An answer that a filter withheld was made and paid for.
        """
        if not self._answers:
            return 0.0, 0.0, 0.0
        rows = [(note.input_tokens, note.cached_tokens, note.output_tokens) for note in self._answers]
        given, cached, made = np.mean(rows, axis=0).tolist()
        return given, cached, made

    def mean_shown(self, sizes: Mapping[str, float]) -> float:
        """Mean size of all tools shown for a query that the model answered, by the size of each tool; 0 without any."""
        return float(np.mean([sum(sizes[tool] for tool in note.shown) for note in self._answers] or [0.0]))

    def estimated(self) -> int:
        """Of how many answers the tokens are upper bounds, since the endpoint counted none."""
        return sum(note.estimated for note in self._answers)

    def median_seconds(self) -> float | None:
        """Median time of a reply; None where no time is known."""
        seconds = [note.seconds for note in self.notes if note is not None and note.seconds is not None]
        return float(np.median(seconds)) if seconds else None


def is_choice(result: StoredResult) -> bool:
    """Whether a result is that of a choice."""
    return result.manifest.method.full_spec.startswith("choose(")


def what_is_shown(spec: Spec, name: Callable[[Spec], str] = str) -> tuple[str, int | None]:
    """What a choice shows to its model, in words, and how many tools of it; None where it is all of them.

    Args:
        spec: of a choice, with all of its parameters.
        name: what a method is called.
    """
    given = dict(spec.arguments)
    base, shown = _spec(given["base"]), int(str(given["shown"]))
    if base.name == "oracle":
        return "the gold alone", None
    if not shown:
        # A search may leave tools out, also of the whole library.
        return "the whole library" if base.name == "random" else f"all that {name(base)} finds", None
    if base.name != "planted":
        return name(base), shown
    planted = dict(base.arguments)
    gold = "without the gold" if planted.get("gold") == "out" else "with the gold put in"
    return f"{name(_spec(planted.get('base', 'dense')))}, {gold}", shown


def _spec(value: Value) -> Spec:
    return value if isinstance(value, Spec) else Spec(str(value))


def choice_label(method: MethodIdentity) -> str:
    """What tables call a choice: shorter than its spec, and with the number of tools also where it is the default.

    Its form, order and seed are named where they are not the usual ones.
    """
    spec = parse(method.full_spec)
    given = {name: str(value) for name, value in spec.arguments}
    if not given.keys() >= {"base", "shown", "llm", "form", "order", "seed"}:
        return method.label
    base, shown = what_is_shown(spec, lambda base: str(base).removesuffix("()"))
    usual = {"form": "calls", "order": "shuffled", "seed": "0"}
    more = [f"{name} {given[name]}" for name, value in usual.items() if given[name] != value]
    return ", ".join([base if shown is None else f"{base}, {shown} shown", *more, given["llm"].rpartition("/")[2]])


def read_choices(result: StoredResult) -> Choices:
    """The choices of a result; of one with repeats, those of the first.

    Raises:
        UsageError: it is no choice.
        ResultError: its notes are missing, damaged, or of other queries.
    """
    if not is_choice(result):
        raise UsageError(f"{result.label} is no choice of a language model; `bench choose` makes them.")
    one = result.of_repeat()
    table = one.per_query
    ids: list[str] = table["query_id"].to_pylist()
    n_gold = table["n_gold"].to_pylist()
    failed = table["failed"].to_pylist()
    sizes = [len(tools or ()) for tools in table["recommended"].to_pylist()]
    shown, chosen, precision = (one.values(name) for name in (_SHOWN_RECALL, _CHOSEN_RECALL, _PRECISION))
    # The whole library is shown, and the ranking cut at its depth.
    arguments = dict(parse(result.manifest.method.full_spec).arguments)
    everything = arguments.get("shown") == 0
    base = arguments.get("base")
    left_out = isinstance(base, Spec) and base.name == "planted" and dict(base.arguments).get("gold") == "out"
    notes = _notes(result, ids)
    outcomes = []
    for i, note in enumerate(notes):
        outcome: Outcome
        if note is None and failed[i]:
            # Nothing was found that could be shown. Without gold that would be right, unless the search failed.
            outcome = "not retrieved" if n_gold[i] else "failed"
        elif note is not None and note.failed:
            outcome = "filtered" if "filtered" in note.faults else "failed"
        elif note is not None and not sizes[i] and not _UNREADABLE.isdisjoint(note.faults):
            outcome = "unreadable"
        elif note is not None and not sizes[i] and "unknown name" in note.faults:
            outcome = "unknown name"
        elif not n_gold[i] or left_out:
            outcome = "called without need" if sizes[i] else "right"
        elif shown[i] < 1 and not everything:
            outcome = "not retrieved"
        elif sizes[i] == 0:
            outcome = "abstained"
        elif chosen[i] == 1:
            outcome = "right" if precision[i] == 1 else "wrong tools too"
        else:
            outcome = "not all chosen" if precision[i] == 1 else "wrong tools"
        outcomes.append(outcome)
    choice = None if left_out else result.metrics.metrics.get("choice")
    return Choices(ids, outcomes, notes, one.units, choice)


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
        raise ResultError(f"a note of {result.label} is no JSON; run it again.") from None

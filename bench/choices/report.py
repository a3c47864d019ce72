"""Report of a language model's choices among ranked tools: calibration, accuracy, outcomes, costs.

`bench.choose` returns it, and `bench choose` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.api.results import Result
from bench.choices.costs import HIT_SHARE, CachedBreakEven, Priced, cost_of_100
from bench.choices.fitness import AMONG, Calibration
from bench.choices.outcomes import BESIDE, GROUPS, MEANINGS
from bench.choices.runs import Choice
from bench.results.failures import result_to_dict
from bench.results.manifest import MetricValue
from bench.show.numbers import money
from bench.show.objects import Displayable, frame
from bench.show.tables import Table, mean_cell

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("method", "dataset", "arm", "shown", "queries", "accuracy", "low", "high", *MEANINGS)


class Choices(Displayable):
    """The result of `bench.choose`.

    Attributes:
        calibration: dataset -> the model's choices with known gold; `calibration[dataset].faults` says why it is
            not fit to judge rankings there, and is empty if it is.
    """

    def __init__(self, calibration: Mapping[str, Calibration], choices: Sequence[Choice], price: Priced | None) -> None:
        self.calibration = dict(calibration)
        self._choices = choices
        #: Prices for costs; None if unknown.
        self._price = price

    @property
    def results(self) -> list[Result]:
        """The choices as results, for `bench.compare` and `bench.gate`."""
        return [Result(choice.result) for choice in self._choices]

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row per choice: what was shown, the share of right choices with its 95% interval, and counts of outcomes.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows: list[dict[str, object]] = []
        for choice in self._choices:
            right = choice.replies.summary.accuracy
            of = [choice.source.manifest.method.label, choice.result.manifest.dataset.spec, choice.arm, choice.shown]
            values = [*of, right.n, right.mean, right.low, right.high, *choice.replies.summary.counts.values()]
            rows.append(dict(zip(_COLUMNS, values, strict=True)))
        return frame(rows, _COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as in `bench choose --json`."""
        return {
            "prices": None if self._price is None else self._price.told,
            "calibration": {dataset: each.to_dict() for dataset, each in self.calibration.items()},
            "choices": [self._choice_dict(choice) for choice in self._choices],
        }

    def _choice_dict(self, choice: Choice) -> dict[str, Any]:
        summary, against = choice.replies.summary, self._break_even(choice)
        return {
            "of": choice.source.manifest.result_id,
            "arm": choice.arm,
            "shown": choice.shown,
            "outcomes": summary.counts,
            **result_to_dict(choice.result),
            "faults": summary.faults,
            "mean_tokens": dict(zip(("input", "cached", "output"), summary.tokens, strict=True)),
            "estimated_replies": summary.estimated,
            "median_seconds": summary.seconds,
            "cost_of_100": self._cost(choice),
            "break_even": None if against is None else against.to_dict(),
        }

    def _line(self) -> str:
        return f"of {len(self._choices)} rankings on {', '.join(self.calibration)}"

    def _tables(self) -> list[Table]:
        return [table for _, table, _ in self.parts()]

    def parts(self) -> Iterator[tuple[str, Table, list[str]]]:
        """Title, table and notes of each part, for the terminal."""
        for dataset, calibration in self.calibration.items():
            verdict = f"NOT fit to judge: {'; '.join(calibration.faults)}" if calibration.faults else "fit to judge"
            again = f"the same choice in another order of the hard tools: {calibration.same_reordered:.2f} of queries"
            yield f"{dataset}: {verdict}", _calibration_table(calibration), [again]
        sizes = [(choice.shown, choice.source.manifest.dataset) for choice in self._choices]
        small = {f"k is {data.tools}: {data.spec} has no more tools." for k, data in sizes if k >= data.tools}
        yield "", self._accuracy_table(), sorted(small)
        yield "", self._outcome_table(), []
        told = [] if self._price is None else [f"Costs of 100 requests in {self._price}."]
        if any(choice.replies.summary.estimated for choice in self._choices):
            told.append("~ estimated: the endpoint counted no tokens in so many replies; upper bounds stand for them.")
        if any(self._break_even(choice) is not None for choice in self._choices):
            told.append(
                f"All tools, cached: their definitions in a prompt that {HIT_SHARE:.0%} of the requests find in the "
                "cache. From so many tools on, a search that shows whole definitions is cheaper."
            )
        yield "", self._cost_table(), told

    def _accuracy_table(self) -> Table:
        """One row per choice: the share of right ones, and looser measures."""
        metrics = {"set_hit": "a gold tool called", "set_pass": "all gold called"}
        if any("forbidden" in choice.result.metrics.metrics for choice in self._choices):
            metrics["forbidden"] = "a forbidden tool called"
        columns = ["method", "shown", "queries", "right", *metrics.values()]
        table = Table(columns, right=range(1, len(columns)), whole=(0, 3, 4, 5))
        for choice in self._choices:
            cells = [choice.replies.summary.accuracy, *map(choice.result.metrics.metrics.get, metrics)]
            table.add(*_names(choice), str(len(choice.replies.queries)), *map(mean_cell, cells))
        return table

    def _outcome_table(self) -> Table:
        summaries = [choice.replies.summary for choice in self._choices]
        counted = [fault for fault in BESIDE if any(each.faults[fault] for each in summaries)]
        filtered = any(each.faults["filtered"] for each in summaries)
        groups = [name for name in GROUPS if filtered or name != "filtered"]
        columns = ["method", "shown", *groups, *(BESIDE[fault] for fault in counted)]
        table = Table(columns, right=range(1, len(columns)))
        for choice, summary in zip(self._choices, summaries, strict=True):
            counts = [summary.groups()[name] for name in groups] + [summary.faults[fault] for fault in counted]
            table.add(*_names(choice), *map(str, counts))
        return table

    def _cost_table(self) -> Table:
        """One row per choice: tokens, time and money; `~` if the endpoint counted tokens for some replies only."""
        guessed = any(choice.replies.summary.estimated for choice in self._choices)
        columns = ["method", "shown", "tokens in", "cached", "out", *["estimated"] * guessed, "seconds"]
        columns += ["cost of 100", "all tools, cached", "search cheaper from"] * (self._price is not None)
        table = Table(columns, right=range(1, len(columns)), whole=(0,))
        for choice in self._choices:
            summary, against = choice.replies.summary, self._break_even(choice)
            about, (given, cached, made) = "~" if summary.estimated else "", summary.tokens
            cells = [f"{about}{given:,.0f}", f"{cached:,.0f}", f"{about}{made:,.0f}"]
            cells += [str(summary.estimated)] * guessed
            cells.append("" if summary.seconds is None else f"{summary.seconds:.1f}")
            if self._price is not None:
                least = None if against is None else against.from_tools
                cells.append(about + money(self._cost(choice)))
                cells.append("" if against is None else about + money(100 * against.library_cost))
                cells.append("" if against is None else "never" if least is None else f"{least:,} tools")
            table.add(*_names(choice), *cells)
        return table

    def _cost(self, choice: Choice) -> float | None:
        return None if self._price is None else cost_of_100(choice.replies.summary.tokens, self._price.price)

    def _break_even(self, choice: Choice) -> CachedBreakEven | None:
        """The row's search compared with the whole library in a cached prompt; None without prices or token counts."""
        definitions = self.calibration[choice.source.manifest.dataset.spec].definitions
        if self._price is None or choice.arm != "retrieved" or not definitions:
            return None
        given, _, made = choice.replies.summary.tokens
        shown, library = choice.replies.mean_shown(definitions), sum(definitions.values())
        return CachedBreakEven(shown, library, len(definitions), max(0.0, given - shown), made, self._price.price)


def _names(choice: Choice) -> tuple[str, str]:
    """What was shown, and the number of tools."""
    return choice.label, str(choice.shown or "all")


def _calibration_table(calibration: Calibration) -> Table:
    table = Table(
        ["gold among", "n", "hit", "above chance", "by position", "same twice", "unknown", "unreadable"],
        right=(1, 2, 3, 5, 6, 7),
        whole=(0, 3),
    )
    for part, test in calibration.tests.items():
        above = MetricValue(mean=test.above_chance, low=test.low, high=test.high, n=test.n)
        p = "" if test.position_p is None else f" (p {test.position_p:.2g})"
        table.add(
            AMONG[part],
            str(test.n),
            f"{test.hit:.3f}",
            mean_cell(above),
            " ".join(f"{share:.2f}" for share in test.positions) + p if part != "alone" else "",
            "" if test.same is None else f"{test.same:.2f}",
            str(test.unknown),
            str(test.unreadable),
        )
    return table

"""What the choices of a language model among ranked tools show: calibration, accuracy, outcomes, costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.evaluation.choosing import Calibration, Choice, ChoiceRun
from bench.evaluation.plan import Plan
from bench.models.llm.local import is_file_model
from bench.models.llm.prices import listed_price, price_table
from bench.models.llm.settings import Price, chat_settings
from bench.results.choice_costs import HIT_SHARE, CachedBreakEven, cost_of_100
from bench.results.choices import BESIDE, Outcome
from bench.results.manifest import MetricValue
from bench.show.numbers import money
from bench.show.tables import Table, mean_cell

#: Columns of the table -> the outcomes that they count.
_SPLIT: dict[str, tuple[Outcome, ...]] = {
    "right": ("right",),
    "not retrieved": ("not retrieved",),
    "not chosen": ("not all chosen", "abstained"),
    "wrong": ("wrong tools", "wrong tools too", "called without need"),
    "filtered": ("filtered",),
    "no usable reply": ("failed", "unreadable", "unknown name"),
}
_AMONG = {"random": "random tools", "hard": "hard tools", "reordered": "hard, reordered", "alone": "none"}
#: Tokens of a reply, for an estimate.
_REPLY = 40


@dataclass(frozen=True)
class Priced:
    """Prices, and where they are from."""

    price: Price
    told: dict[str, str]

    def __str__(self) -> str:
        return ", ".join(self.told.values())


def priced_model(model: str, named: str | None = None) -> Priced | None:
    """The prices of the model that is named, else those of the environment, else of the model's own row of the table.

    Args:
        model: the language model that chooses.
        named: a model of the table of prices (`bench.models.llm.prices`).

    Returns:
        None for a model without a known price.

    Raises:
        UsageError: the table has no such model, or is damaged.
    """
    own = None if is_file_model(model) else chat_settings().price
    if named is None and own is not None:
        return Priced(own, {"source": "BENCH_LLM_PRICE"})
    row = price_table().of(model) if named is None else listed_price(named)
    if row is None:
        return None
    told = {"model": row.model, "currency": row.currency, "date": str(row.date), "source": row.source}
    return Priced(row.price, told)


def estimate(runs: Sequence[ChoiceRun], plans: Sequence[Plan], price: Priced | None) -> str:
    """What is about to be asked, at most: calls, tokens of the definitions, and their cost where prices are known."""
    known = {str(run.plan.dataset): run.source for run in runs}
    calls = tokens = 0.0
    for plan in plans:
        source = known[str(plan.dataset)]
        queries = min(plan.limit or source.manifest.dataset.queries, source.manifest.dataset.queries) * plan.repeats
        arguments = dict(plan.method.arguments)
        # Lists in a prompt have no schemas.
        counted = "definitions_top_5" if arguments["form"] == "calls" else "top_5"
        each = source.metrics.tokens.get(counted, 0.0) / min(5, source.manifest.dataset.tools)
        shown = 1 if arguments["base"] == "oracle" else arguments["shown"] or source.manifest.dataset.tools
        calls += queries
        tokens += queries * each * min(float(str(shown)), source.manifest.dataset.tools)
    cost = "" if price is None else f", about {price.price.of(tokens, calls * _REPLY):.2g} by {price}"
    return f"at most {calls:,.0f} calls, with about {tokens:,.0f} tokens of tools{cost}; what the journal has is free"


@dataclass(frozen=True)
class ChoiceReport:
    """All that choices show.

    Attributes:
        calibration: dataset -> how the model chooses where the gold is shown.
        choices: in the order in which they were asked for.
        price: by which costs are told; None where none is known.
    """

    calibration: Mapping[str, Calibration]
    choices: Sequence[Choice]
    price: Priced | None

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "prices": None if self.price is None else self.price.told,
            "calibration": {dataset: each.to_dict() for dataset, each in self.calibration.items()},
            "choices": [
                {
                    **choice.to_dict(),
                    "faults": choice.choices.faults(),
                    "mean_tokens": dict(zip(("input", "cached", "output"), choice.choices.mean_tokens(), strict=True)),
                    "estimated_replies": choice.choices.estimated(),
                    "median_seconds": choice.choices.median_seconds(),
                    "cost_of_100": self._cost(choice),
                    "break_even": _break_even_dict(self._break_even(choice)),
                }
                for choice in self.choices
            ],
        }

    def parts(self) -> Iterator[tuple[str, Table | None, list[str]]]:
        """Title, table, and sentences below it, part by part, for the terminal."""
        for dataset, calibration in self.calibration.items():
            verdict = f"NOT fit to judge: {'; '.join(calibration.faults)}" if calibration.faults else "fit to judge"
            again = f"the same choice in another order of the hard tools: {calibration.same_reordered:.2f} of queries"
            yield f"{dataset}: {verdict}", _calibration_table(calibration), [again]
        sizes = [(choice.run.shown, choice.run.source.manifest.dataset) for choice in self.choices]
        small = {f"k is {data.tools}: {data.spec} has no more tools." for k, data in sizes if k >= data.tools}
        yield "", self.accuracy_table(), sorted(small)
        yield "", self._outcome_table(), []
        told = [] if self.price is None else [f"Costs of 100 requests in {self.price}."]
        if any(choice.choices.estimated() for choice in self.choices):
            told.append("~ estimated: the endpoint counted no tokens in so many replies; upper bounds stand for them.")
        if any(self._break_even(choice) is not None for choice in self.choices):
            told.append(
                f"All tools, cached: their definitions in a prompt that {HIT_SHARE:.0%} of the requests find in the "
                "cache. From so many tools on, a search that shows whole definitions is cheaper."
            )
        yield "", self._cost_table(), told

    def accuracy_table(self) -> Table:
        """One row a choice: the share of right ones, and looser ones."""
        forbidden = any("forbidden" in choice.result.metrics.metrics for choice in self.choices)
        columns = ["method", "shown", "queries", "right", "a gold tool called", "all gold called"]
        columns += ["a forbidden tool called"] * forbidden
        table = Table(columns, right=range(1, len(columns)), whole=(0, 3, 4, 5))
        for choice in self.choices:
            choices, metrics = choice.choices, choice.result.metrics.metrics
            cells = [choices.accuracy(), metrics.get("set_hit"), metrics.get("set_pass")]
            cells += [metrics.get("forbidden")] * forbidden
            table.add(choice.label, _shown(choice), str(len(choices.queries)), *map(mean_cell, cells))
        return table

    def _outcome_table(self) -> Table:
        faults = [choice.choices.faults() for choice in self.choices]
        counted = [fault for fault in BESIDE if any(each[fault] for each in faults)]
        filtered = any(each["filtered"] for each in faults)
        outcomes_by_column = {name: outcomes for name, outcomes in _SPLIT.items() if filtered or name != "filtered"}
        columns = ["method", "shown", *outcomes_by_column, *(BESIDE[fault] for fault in counted)]
        table = Table(columns, right=range(1, len(columns)))
        for choice, had in zip(self.choices, faults, strict=True):
            counts = choice.choices.counts()
            split = (str(sum(counts[one] for one in outcomes)) for outcomes in outcomes_by_column.values())
            table.add(choice.label, _shown(choice), *split, *(str(had[fault]) for fault in counted))
        return table

    def _cost_table(self) -> Table:
        """One row a choice: tokens, time and money; `~` where the endpoint counted the tokens of some replies only."""
        guessed = [choice.choices.estimated() for choice in self.choices]
        columns = ["method", "shown", "tokens in", "cached", "out", *["estimated"] * any(guessed), "seconds"]
        columns += ["cost of 100", "all tools, cached", "search cheaper from"] * (self.price is not None)
        table = Table(columns, right=range(1, len(columns)), whole=(0,))
        for choice, count in zip(self.choices, guessed, strict=True):
            choices, against, about = choice.choices, self._break_even(choice), "~" if count else ""
            seconds = choices.median_seconds()
            given, cached, made = choices.mean_tokens()
            cells = [f"{about}{given:,.0f}", f"{cached:,.0f}", f"{about}{made:,.0f}"]
            cells += [str(count)] * any(guessed)
            cells.append("" if seconds is None else f"{seconds:.1f}")
            if self.price is not None:
                least = None if against is None else against.from_tools
                cells.append(about + money(self._cost(choice)))
                cells.append("" if against is None else about + money(100 * against.library_cost))
                cells.append("" if against is None else "never" if least is None else f"{least:,} tools")
            table.add(choice.label, _shown(choice), *cells)
        return table

    def _cost(self, choice: Choice) -> float | None:
        return None if self.price is None else cost_of_100(choice.choices.mean_tokens(), self.price.price)

    def _break_even(self, choice: Choice) -> CachedBreakEven | None:
        """The search of a row against the whole library in a cached prompt; None without prices or counts of tokens."""
        definitions = self.calibration[str(choice.run.plan.dataset)].definitions
        if self.price is None or choice.run.arm != "retrieved" or not definitions:
            return None
        given, _, made = choice.choices.mean_tokens()
        shown, library = choice.choices.mean_shown(definitions), sum(definitions.values())
        return CachedBreakEven(shown, library, len(definitions), max(0.0, given - shown), made, self.price.price)


def _shown(choice: Choice) -> str:
    return str(choice.run.shown or "all")


def _calibration_table(calibration: Calibration) -> Table:
    table = Table(
        ["gold among", "n", "hit", "above chance", "by position", "same twice", "unknown", "unreadable"],
        right=(1, 2, 3, 5, 6, 7),
        whole=(0, 3),
    )
    for name, test in calibration.tests.items():
        above = MetricValue(mean=test.above_chance, low=test.low, high=test.high, n=test.n)
        p = "" if test.position_p is None else f" (p {test.position_p:.2g})"
        table.add(
            _AMONG[name],
            str(test.n),
            f"{test.hit:.3f}",
            mean_cell(above),
            " ".join(f"{share:.2f}" for share in test.positions) + p if name != "alone" else "",
            "" if test.same is None else f"{test.same:.2f}",
            str(test.unknown),
            str(test.unreadable),
        )
    return table


def _break_even_dict(against: CachedBreakEven | None) -> dict[str, Any] | None:
    if against is None:
        return None
    return {
        "hit_share": against.hit_share,
        "search_cost_of_100": 100 * against.search_cost,
        "library_cost_of_100": 100 * against.library_cost,
        "search_cheaper_from_tools": against.from_tools,
    }

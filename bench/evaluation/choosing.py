"""The runs that a choice of a language model takes: stored rankings, arms with planted gold, and the calibration.

A choice is a method like any other (`methods/choose.py`), over the method of a stored result and on its queries. So it
is run, resumed, replayed, stored, compared and gated as any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from bench.base.errors import BenchError, UsageError
from bench.base.spec import Spec, Value, parse
from bench.data.tables import Tool
from bench.data.template import Template
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.results.choice_costs import tokens_per_byte
from bench.results.choices import Choices, read_choices
from bench.results.failures import result_to_dict
from bench.results.picker import Fitness, fitness, same_in_another_order
from bench.results.store import StoredResult

#: What is shown to the model: the first k of the ranking; the gold alone; the whole library; a sample of k tools of it
#: with the gold; the first k with the gold put in; the first k without the gold, where it must not call any.
Arm = Literal["retrieved", "gold", "library", "sample", "with-gold", "without-gold"]
Form = Literal["calls", "json", "names"]

#: No dataset has more gold tools for a query.
_ALL_GOLD = 100
#: The text of a tool that is nearest to what a prompt of each form says of it.
_PROMPT_TEXTS: dict[Form, Template] = {"calls": "full", "json": "name_description", "names": "name_description"}
#: Characters of a description that a prompt has (`methods/choose.py`).
LONGEST_DESCRIPTION = 1024
#: How the calibration is run: so many tools, and the requests with hard ones twice.
CALIBRATION_TOOLS, CALIBRATION_REPEATS = 5, 2


@dataclass(frozen=True)
class Chooser:
    """Who chooses, how it is asked, and the seed of the order in which it sees the tools."""

    model: str
    form: Form = "calls"
    seed: int = 0

    def spec(self, base: Spec, shown: int) -> Spec:
        """The method that has it choose among the first tools of another one."""
        given: dict[str, Value] = {"base": _value(base), "llm": self.model, "shown": shown, "form": self.form}
        if self.seed:
            given["seed"] = self.seed
        return Spec.of("choose", given)


def arm_spec(chooser: Chooser, base: Spec, arm: Arm, shown: int) -> Spec:
    """The method of one arm.

    Args:
        chooser: who chooses.
        base: the method whose ranking is shown.
        arm: what of it is shown.
        shown: how many tools.
    """
    if arm == "library":
        # The order is drawn in any case, but a search may leave tools out: this one ranks all.
        return chooser.spec(Spec("random"), 0)
    if arm == "gold":
        return chooser.spec(Spec("oracle"), _ALL_GOLD)
    if arm == "retrieved":
        return chooser.spec(base, shown)
    if arm == "sample":
        # The same for all methods, and drawn for each query.
        base = Spec("random")
    planted: dict[str, Value] = {"base": _value(base), **({"gold": "out"} if arm == "without-gold" else {})}
    return chooser.spec(Spec.of("planted", planted), shown)


def _value(spec: Spec) -> Value:
    """A method as an argument of another: the name alone where it has no parameters, as people write it."""
    return spec if spec.arguments else spec.name


def choice_plans(
    result: StoredResult, chooser: Chooser, shown: Sequence[int], arms: Sequence[Arm], limit: int | None = None
) -> dict[tuple[Arm, int], Plan]:
    """The runs of a stored result's ranking: (arm, number of tools) -> plan, each distinct run once.

    Args:
        result: whose method ranks, on whose queries.
        chooser: who chooses.
        shown: numbers of tools; those that are larger than the library are its size.
        arms: what is shown.
        limit: number of queries; None for those of the result.

    Raises:
        UsageError: its ranking cannot be made again, or is itself a choice.
    """
    method = result.manifest.method
    if method.run_file is not None:
        raise UsageError(f"{result.label} is a scored run file, whose ranking no method makes again; name another.")
    base = parse(method.full_spec)
    if base.name == "choose":
        raise UsageError(f"{result.label} is a choice itself; name the result that it chose from.")
    data = result.manifest.dataset
    plan = Plan(
        dataset=parse(data.spec),
        method=base,
        split=data.split,
        limit=data.limit if limit is None else limit,
        template=data.template,
        depth=max(result.manifest.depth, *shown),
    )
    plans: dict[tuple[Arm, int], Plan] = {}
    for arm in arms:
        for k in (min(k, data.tools) for k in shown) if arm not in {"gold", "library"} else [0]:
            plans[arm, k] = replace(plan, method=arm_spec(chooser, parse(method.spec), arm, k))
    return plans


def calibration_plans(plan: Plan, chooser: Chooser) -> dict[str, Plan]:
    """The runs that show whether a model is fit to judge on a dataset.

    The gold is shown with random tools, with hard ones (asked twice: random ones would be drawn anew), with the same
    hard ones in another order, and alone.

    Args:
        plan: any run on the dataset, whose settings are taken.
        chooser: who chooses.
    """
    arms: dict[str, tuple[Arm, str]] = {
        "random": ("with-gold", "random"),
        "hard": ("with-gold", "dense"),
        "reordered": ("with-gold", "dense"),
        "alone": ("gold", "oracle"),
    }
    reordered = replace(chooser, seed=chooser.seed + 1)
    return {
        name: replace(
            plan,
            method=arm_spec(reordered if name == "reordered" else chooser, Spec(base), arm, CALIBRATION_TOOLS),
            repeats=CALIBRATION_REPEATS if name == "hard" else 1,
        )
        for name, (arm, base) in arms.items()
    }


@dataclass(frozen=True)
class Calibration:
    """How a model chooses on a dataset where the gold is shown.

    Attributes:
        tests: by what the gold is among: `random` tools, `hard` ones, the same `reordered`, or `alone`.
        same_reordered: the share of queries with the same choice in another order of the hard tools.
        definitions: tool id -> tokens of its definition in a prompt of the model; empty where they are not known.
    """

    tests: dict[str, Fitness]
    same_reordered: float
    definitions: Mapping[str, float]

    @property
    def faults(self) -> list[str]:
        """Why the model is not fit to judge on this dataset; empty if it is."""
        return self.tests["random"].faults

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        tests = {name: {**asdict(test), "faults": test.faults} for name, test in self.tests.items()}
        return {**tests, "same_reordered": self.same_reordered, "faults": self.faults}


@dataclass(frozen=True)
class ChoiceRun:
    """One run of a choice: of which stored result, which arm, how many tools (0: all), and the plan."""

    source: StoredResult
    arm: Arm
    shown: int
    plan: Plan


@dataclass(frozen=True)
class Choice:
    """What came of a run."""

    run: ChoiceRun
    result: StoredResult

    @cached_property
    def choices(self) -> Choices:
        """What became of each query; raises as `read_choices` does."""
        return read_choices(self.result)

    @property
    def label(self) -> str:
        """What was shown, in a few words: the method, the arm, or both."""
        method = self.run.source.manifest.method.label
        if self.run.arm == "retrieved":
            return method
        return self.run.arm if self.run.arm in {"gold", "library", "sample"} else f"{method}, {self.run.arm}"

    def to_dict(self) -> dict[str, Any]:
        """The result, what it is of, and what became of its queries, for JSON."""
        return {
            "of": self.run.source.manifest.result_id,
            "arm": self.run.arm,
            "shown": self.run.shown,
            "outcomes": self.choices.counts(),
            **result_to_dict(self.result),
        }


def make_choices(
    runner: Runner,
    sources: Sequence[StoredResult],
    chooser: Chooser,
    shown: Sequence[int],
    arms: Sequence[Arm],
    limit: int | None,
    tell: Callable[[Sequence[ChoiceRun], Sequence[Plan]], None],
) -> tuple[dict[str, Calibration], list[Choice]]:
    """Calibrate a model on the datasets of stored results, and let it choose among the tools that they ranked.

    Args:
        runner: runs what is not stored yet.
        sources: whose rankings are shown.
        chooser: who chooses.
        shown: numbers of tools.
        arms: what is shown.
        limit: number of queries; None for those of each result.
        tell: is told all runs of choices, and the plans of calibrations and choices that are not stored yet, when all
            is checked and before the first call.

    Returns:
        Dataset -> calibration, and the choices in the order of sources, arms and numbers.

    Raises:
        BenchError: a plan cannot be run, or a run failed; what was answered is kept.
    """
    runs = [
        ChoiceRun(source, arm, k, plan)
        for source in sources
        for (arm, k), plan in choice_plans(source, chooser, shown, arms, limit).items()
    ]
    calibrations = {str(run.plan.dataset): calibration_plans(run.plan, chooser) for run in runs}
    prepared = runner.check(
        [*(plan for plans in calibrations.values() for plan in plans.values()), *(run.plan for run in runs)]
    )
    tell(runs, [item.plan for item in prepared if not runner.keeps(item)])
    made = deque(_made(outcome) for outcome in runner.run_checked(prepared))
    tested = {}
    for dataset, plans in calibrations.items():
        results = {name: made.popleft() for name in plans}
        tests = {name: fitness(result) for name, result in results.items()}
        sizes = {tool.tool_id: _bytes(tool, chooser.form) for tool in runner.dataset(plans["random"].dataset).tools}
        slope = tokens_per_byte(map(read_choices, results.values()), sizes)
        definitions = {} if slope is None else {tool: slope * size for tool, size in sizes.items()}
        same = same_in_another_order(results["hard"], results["reordered"])
        tested[dataset] = Calibration(tests, same, definitions)
    return tested, [Choice(run, made.popleft()) for run in runs]


def _bytes(tool: Tool, form: Form) -> int:
    """How long the definition of a tool is in a prompt."""
    cut = replace(tool, description=tool.description[:LONGEST_DESCRIPTION])
    return len(cut.text(_PROMPT_TEXTS[form]).encode("utf-8", "replace"))


def _made(outcome: StoredResult | BenchError) -> StoredResult:
    if isinstance(outcome, BenchError):
        raise outcome
    return outcome

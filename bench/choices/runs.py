"""The runs behind a language model's choices: stored rankings, arms with inserted gold, and the calibration.

A choice is a method like any other (`methods/choose.py`), over the method of a stored result and on its queries, so it
is run, resumed, replayed, stored, compared and gated in the same way. `bench.choose` calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from bench.base.errors import BenchError, UsageError
from bench.base.spec import Spec, Value, parse
from bench.choices.costs import tokens_per_byte
from bench.choices.fitness import (
    CALIBRATION_REPEATS,
    CALIBRATION_TOOLS,
    Calibration,
    Part,
    fitness,
    same_choices,
)
from bench.choices.outcomes import Replies, read_replies
from bench.data.tables import Tool
from bench.data.template import Template
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.results.choices import Arm, is_choice
from bench.results.store import StoredResult

#: Forms of answers: the provider's tool calls, a JSON object of names, or one name per line.
Form = Literal["calls", "json", "names"]

#: Upper bound of gold tools per query.
_ALL_GOLD = 100
#: The template closest to what a prompt of each form contains of a tool.
_PROMPT_TEXTS: dict[str, Template] = {"calls": "full", "json": "name_description", "names": "name_description"}
#: Maximum characters of a description in a prompt (`methods/choose.py`).
LONGEST_DESCRIPTION = 1024


@dataclass(frozen=True, order=True)
class Picker:
    """The model that chooses, with its settings.

    Attributes:
        model: its name.
        form: as in `choose(form=...)`.
        order: order of the shown tools.
        seed: seed of the order.
    """

    model: str
    form: str = "calls"
    order: str = "shuffled"
    seed: int = 0

    @property
    def reordered(self) -> Picker:
        """The same picker with the tools in another order."""
        return replace(self, seed=self.seed + 1)


def arm_spec(picker: Picker, base: Spec, arm: Arm, shown: int) -> Spec:
    """The method of one arm.

    Args:
        picker: who chooses.
        base: the method whose ranking is shown.
        arm: which tools are shown.
        shown: number of tools.
    """
    if arm == "library":
        # The order is drawn anyway, and a search may leave tools out: this method ranks all.
        base, shown = Spec("random"), 0
    elif arm == "gold":
        base, shown = Spec("oracle"), _ALL_GOLD
    elif arm != "retrieved":
        # A sample is the same for all methods, and drawn per query.
        planted: dict[str, Value] = {"base": _value(Spec("random") if arm == "sample" else base)}
        base = Spec.of("planted", planted | ({"gold": "out"} if arm == "without-gold" else {}))
    given: dict[str, Value] = {"base": _value(base), "llm": picker.model, "shown": shown, "form": picker.form}
    return Spec.of("choose", given | ({"seed": picker.seed} if picker.seed else {}))


def _value(spec: Spec) -> Value:
    """A method as an argument of another: the name alone without parameters, as people write it."""
    return spec if spec.arguments else spec.name


def choice_plans(
    result: StoredResult, picker: Picker, shown: Sequence[int], arms: Sequence[Arm], limit: int | None = None
) -> dict[tuple[Arm, int], Plan]:
    """The runs of a stored result's ranking: (arm, number of tools) -> plan, each distinct run once.

    Args:
        result: whose method ranks, on its queries.
        picker: who chooses.
        shown: numbers of tools; those beyond the library become its size.
        arms: which tools are shown.
        limit: number of queries; None for those of the result.

    Raises:
        UsageError: its ranking cannot be reproduced, or is itself a choice.
    """
    method, data = result.manifest.method, result.manifest.dataset
    if method.run_file is not None:
        raise UsageError(f"{result.label} is a scored run file, whose ranking no method makes again; name another.")
    if is_choice(result):
        raise UsageError(f"{result.label} is a choice itself; name the result that it chose from.")
    plan = Plan(
        dataset=parse(data.spec),
        method=parse(method.full_spec),
        split=data.split,
        limit=data.limit if limit is None else limit,
        template=data.template,
        depth=max(result.manifest.depth, *shown),
    )
    return {
        (arm, k): plan.model_copy(update={"method": arm_spec(picker, parse(method.spec), arm, k)})
        for arm in arms
        for k in ([0] if arm in {"gold", "library"} else [min(k, data.tools) for k in shown])
    }


def calibration_plans(plan: Plan, picker: Picker) -> dict[Part, Plan]:
    """The runs that show whether a model is fit to judge on a dataset.

    The gold is shown with random tools, with hard ones (asked twice), with the same hard ones in another order, and
    alone.

    Args:
        plan: any run on the dataset, for its settings.
        picker: who chooses.
    """
    random, hard = Spec("random"), Spec("dense")
    specs: dict[Part, Spec] = {
        "random": arm_spec(picker, random, "with-gold", CALIBRATION_TOOLS),
        "hard": arm_spec(picker, hard, "with-gold", CALIBRATION_TOOLS),
        "reordered": arm_spec(picker.reordered, hard, "with-gold", CALIBRATION_TOOLS),
        "alone": arm_spec(picker, random, "gold", CALIBRATION_TOOLS),
    }
    repeats = {"hard": CALIBRATION_REPEATS}
    return {
        part: plan.model_copy(update={"method": spec, "repeats": repeats.get(part, 1)}) for part, spec in specs.items()
    }


@dataclass(frozen=True)
class Choice:
    """A choice among the tools of a stored result.

    Attributes:
        source: the result that ranked them.
        arm: which of them were shown.
        shown: their number; 0 for all.
        result: the resulting choice.
    """

    source: StoredResult
    arm: Arm
    shown: int
    result: StoredResult

    @cached_property
    def replies(self) -> Replies:
        """The outcome of each query; raises as `read_replies` does."""
        return read_replies(self.result)

    @property
    def label(self) -> str:
        """What was shown, in a few words: the method, the arm, or both."""
        method = self.source.manifest.method.label
        if self.arm == "retrieved":
            return method
        return self.arm if self.arm in {"gold", "library", "sample"} else f"{method}, {self.arm}"


def make_choices(
    runner: Runner,
    sources: Sequence[StoredResult],
    picker: Picker,
    shown: Sequence[int],
    arms: Sequence[Arm],
    limit: int | None,
    tell: Callable[[Sequence[Plan]], None],
) -> tuple[dict[str, Calibration], list[Choice]]:
    """Calibrate a model on the datasets of stored results, and let it choose among the tools that they ranked.

    Args:
        runner: runs what is not yet stored.
        sources: results whose rankings are shown.
        picker: who chooses.
        shown: numbers of tools.
        arms: which tools are shown.
        limit: number of queries; None for those of each result.
        tell: called with the plans that are not yet stored, once all is checked and before the first call.

    Returns:
        Dataset -> calibration, and the choices in the order of sources, arms and numbers.

    Raises:
        BenchError: a plan cannot be run, or a run failed; what was answered is kept.
    """
    runs = [(source, choice_plans(source, picker, shown, arms, limit)) for source in sources]
    calibrations = {str(plan.dataset): calibration_plans(plan, picker) for _, plans in runs for plan in plans.values()}
    every = [plan for plans in calibrations.values() for plan in plans.values()]
    prepared = runner.check(every + [plan for _, plans in runs for plan in plans.values()])
    tell([item.plan for item in prepared if not runner.keeps(item)])
    made = iter([_made(outcome) for outcome in runner.run_checked(prepared)])
    calibrated = {}
    for dataset, plans in calibrations.items():
        results = {part: next(made) for part in plans}
        sizes = {tool.tool_id: _bytes(tool, picker.form) for tool in runner.dataset(plans["random"].dataset).tools}
        slope = tokens_per_byte(map(read_replies, results.values()), sizes)
        calibrated[dataset] = Calibration(
            {part: fitness(result) for part, result in results.items()},
            same_choices(results["hard"].of_repeat(), results["reordered"].of_repeat()),
            {} if slope is None else {tool: slope * size for tool, size in sizes.items()},
        )
    return calibrated, [Choice(source, arm, k, next(made)) for source, plans in runs for arm, k in plans]


def _bytes(tool: Tool, form: str) -> int:
    """Length of a tool's definition in a prompt."""
    cut = replace(tool, description=tool.description[:LONGEST_DESCRIPTION])
    return len(cut.text(_PROMPT_TEXTS[form]).encode("utf-8", "replace"))


def _made(outcome: StoredResult | BenchError) -> StoredResult:
    if isinstance(outcome, BenchError):
        raise outcome
    return outcome

"""The runs that a choice of a language model takes: stored rankings, arms with planted gold, and the calibration.

A choice is a method like any other (`methods/choose.py`), over the method of a stored result and on its queries. So it
is run, resumed, replayed, stored, compared and gated as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench.base.errors import UsageError
from bench.base.spec import Spec, Value, parse
from bench.evaluation.plan import Plan
from bench.results.store import StoredResult

#: What is shown to the model: the first k of the ranking; the gold alone; the whole library; the first k with the gold
#: put in; the first k without the gold, where it must not call any.
Arm = Literal["retrieved", "gold", "library", "with-gold", "without-gold"]
Form = Literal["calls", "json", "names"]

#: No dataset has more gold tools for a query.
_ALL_GOLD = 100
#: How the calibration is run: so many tools, and the requests with hard ones twice.
CALIBRATION_TOOLS, CALIBRATION_REPEATS = 5, 2


@dataclass(frozen=True)
class Chooser:
    """Who chooses, and how it is asked."""

    model: str
    form: Form = "calls"

    def spec(self, base: Spec, shown: int) -> Spec:
        """The method that has it choose among the first tools of another one."""
        given: dict[str, Value] = {"base": _value(base), "llm": self.model, "shown": shown, "form": self.form}
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
        # The order is drawn in any case, so which method ranks does not matter.
        return chooser.spec(Spec("bm25"), 0)
    if arm == "gold":
        return chooser.spec(Spec("oracle"), _ALL_GOLD)
    if arm == "retrieved":
        return chooser.spec(base, shown)
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
        shown: numbers of tools.
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
        for k in shown if arm not in {"gold", "library"} else [0]:
            plans[arm, k] = replace(plan, method=arm_spec(chooser, parse(method.spec), arm, k))
    return plans


def calibration_plans(plan: Plan, chooser: Chooser) -> dict[str, Plan]:
    """The runs that show whether a model is fit to judge on a dataset.

    The gold is shown with random tools, with hard ones (asked twice: random ones would be drawn anew), and alone.

    Args:
        plan: any run on the dataset, whose settings are taken.
        chooser: who chooses.
    """
    arms: dict[str, tuple[Arm, str]] = {
        "random": ("with-gold", "random"),
        "hard": ("with-gold", "dense"),
        "alone": ("gold", "oracle"),
    }
    return {
        name: replace(
            plan,
            method=arm_spec(chooser, Spec(base), arm, CALIBRATION_TOOLS),
            repeats=CALIBRATION_REPEATS if name == "hard" else 1,
        )
        for name, (arm, base) in arms.items()
    }

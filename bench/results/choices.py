"""Which results are choices of a language model (`methods/choose.py`), what they show to it, and their names.

A choice orders tools by the calls of a model, and some choices are shown the gold: they are not ranked beside
retrievers. Tables and the site use this module; `bench/choices` makes choices, and reads the outcome of each query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench.base.spec import Spec, Value, parse

if TYPE_CHECKING:
    from bench.results.manifest import MethodIdentity
    from bench.results.store import StoredResult

#: What is shown to the model: the first k of the ranking; the gold alone; the whole library; a sample of k tools of it
#: with the gold; the first k with the gold added; the first k without the gold, for which the right answer is to call
#: no tool.
Arm = Literal["retrieved", "gold", "library", "sample", "with-gold", "without-gold"]


@dataclass(frozen=True)
class ShownTools:
    """What a choice shows to its model, by its spec.

    Attributes:
        arm: the kind of tools shown; a `sample` becomes `with-gold` of a random ranking.
        base: the method that ranks the tools.
        tools: how many of them; None for all.
    """

    arm: Arm
    base: Spec
    tools: int | None

    def words(self, name: Callable[[Spec], str] = str) -> str:
        """What is shown, without the number of tools; `name` returns the display name of a method."""
        if self.arm == "gold":
            return "the gold alone"
        if self.arm == "library":
            # A search may leave tools out, even if the whole library is asked for.
            return "the whole library" if self.base.name == "random" else f"all that {name(self.base)} finds"
        planted = {"with-gold": ", with the gold put in", "without-gold": ", without the gold"}
        return name(self.base) + planted.get(self.arm, "")


def is_choice(result: StoredResult) -> bool:
    """Whether a result comes from a choice."""
    return result.manifest.method.full_spec.startswith("choose(")


def shown_tools(spec: Spec) -> ShownTools:
    """What a choice shows, read from its full spec."""
    given = dict(spec.arguments)
    base, shown = _spec(given["base"]), int(str(given["shown"]))
    if base.name == "oracle":
        return ShownTools("gold", base, None)
    if base.name != "planted":
        return ShownTools("retrieved", base, shown) if shown else ShownTools("library", base, None)
    planted = dict(base.arguments)
    arm: Arm = "without-gold" if planted.get("gold") == "out" else "with-gold"
    return ShownTools(arm, _spec(planted.get("base", "dense")), shown or None)


def _spec(value: Value) -> Spec:
    return value if isinstance(value, Spec) else Spec(str(value))


def choice_label(method: MethodIdentity) -> str:
    """The name of a choice in tables: shorter than its spec, always with the number of tools.

    Form, order and seed are named unless they are the defaults.
    """
    spec = parse(method.full_spec)
    given = {name: str(value) for name, value in spec.arguments}
    if not given.keys() >= {"base", "shown", "llm", "form", "order", "seed"}:
        return method.label
    shown = shown_tools(spec)
    words = shown.words(lambda base: str(base).removesuffix("()"))
    usual = {"form": "calls", "order": "shuffled", "seed": "0"}
    more = [f"{name} {given[name]}" for name, value in usual.items() if given[name] != value]
    tools = [] if shown.tools is None else [f"{shown.tools} shown"]
    return ", ".join([words, *tools, *more, given["llm"].rpartition("/")[2]])

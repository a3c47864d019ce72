"""Gate policies in TOML.

level = 0.05            # chance of each error of each rule
power = 0.8             # of which the report says what it could have seen
margin = 0.02           # of every rule that does not give its own
catalogue = "may change"  # tools may be edited, if the queries and the tools that they need stay; else they must agree
max_failed = 0          # judged queries that may fail; without it, as many as in the baseline
max_changed_queries = 5  # queries that may be new, gone, reworded or given other tools; without it, any number
require_tools_given = true  # the gate does not run where the search has a catalogue of its own
max_capture = 0.10      # share of queries with an attacker among the first k, for each attack of `bench stress`

[[rule]]
metric = "recall@5"
margin = 0.03           # the largest loss of the mean that is acceptable
floor = 0.60            # the worst mean that is acceptable
max_broken = 0          # queries whose value may fall to 0 (rise from 0, where less is better)

[[rule]]
metric = "pass@5"
slice = { name = "gold", value = "2" }

[latency]
p95_ratio = 2.0         # to the baseline's, on the same hardware
p95_seconds = 0.050

[tokens]
top_5 = 400             # mean tokens of tool text that a query puts before the agent
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from bench.base.errors import UsageError
from bench.base.parameters import suggestion
from bench.base.records import StrictRecord, faults, toml_table
from bench.metrics import parse_metric
from bench.stats.noninferiority import LEVEL


def _canonical(text: str) -> str:
    try:
        return str(parse_metric(text))
    except UsageError as error:
        raise ValueError(str(error).rstrip(".")) from None


Level = Annotated[float, Field(gt=0, lt=0.5)]
Margin = Annotated[float, Field(ge=0)]
Budget = Annotated[float, Field(gt=0)]


class SliceOf(StrictRecord):
    """The queries with one value of a slice (`bench show --by`)."""

    name: str = Field(min_length=1)
    value: str


class Rule(StrictRecord):
    """What one metric must keep: its loss within `margin`, its mean at `floor` or better, its queries unbroken.

    For a metric where less is better (`size_diff`) the loss is a rise, and the floor the largest allowed mean. For all
    others both are shares: a margin below 1, a floor above 0 and at most 1.
    """

    metric: Annotated[str, AfterValidator(_canonical)]
    margin: Margin | None = None
    floor: float | None = None
    max_broken: Annotated[int, Field(ge=0)] | None = None
    level: Level | None = None
    slice: SliceOf | None = None


class LatencyBudget(StrictRecord):
    """Latency of a single query: p95 relative to the baseline's, and absolute."""

    p95_ratio: Budget | None = None
    p95_seconds: Budget | None = None


class TokenBudget(StrictRecord):
    """Maximum mean tokens of the tool text of the first five, the first ten, and the recommended tools."""

    top_5: Budget | None = None
    top_10: Budget | None = None
    recommended: Budget | None = None


class Policy(StrictRecord):
    """Everything a candidate must keep. A policy without demands is refused: it would let everything pass."""

    level: Level = LEVEL
    power: Annotated[float, Field(ge=0.5, lt=1)] = 0.8
    margin: Margin | None = None
    max_failed: Annotated[int, Field(ge=0)] | None = None
    max_changed_queries: Annotated[int, Field(ge=0)] | None = None
    catalogue: Literal["must agree", "may change"] = "must agree"
    require_tools_given: bool = False
    max_capture: Annotated[float, Field(gt=0, lt=1)] | None = None
    rule: list[Rule] = []
    latency: LatencyBudget = LatencyBudget()
    tokens: TokenBudget = TokenBudget()

    @model_validator(mode="after")
    def _asks_for_something(self) -> Policy:
        budgets = (*self.latency.model_dump().values(), *self.tokens.model_dump().values(), self.max_capture)
        if not self.rule and all(value is None for value in budgets):
            raise ValueError("it has no rule; add a [[rule]], max_capture, or a budget under [latency] or [tokens]")
        seen = set()
        for rule in self.rule:
            if self.margin_of(rule) is None and rule.floor is None and rule.max_broken is None:
                raise ValueError(f"the rule for {rule.metric} has no margin, no floor and no max_broken")
            if rule.slice is not None and not parse_metric(rule.metric).measure.averages:
                raise ValueError(f"{rule.metric} compares queries of all slices with one another; remove the slice")
            self._can_be_broken_and_kept(rule)
            if (rule.metric, rule.slice) in seen:
                raise ValueError(f"there are two rules for {rule.metric}; give one its own slice, or merge them")
            seen.add((rule.metric, rule.slice))
        return self

    def _can_be_broken_and_kept(self, rule: Rule) -> None:
        """Refuse limits that no value comes near: a metric is between 0 and 1, unless it is a difference or in bits."""
        measure = parse_metric(rule.metric).measure
        if rule.max_broken is not None and not measure.averages:
            raise ValueError(f"{rule.metric} has no value for a single query, so max_broken counts nothing")
        if not measure.higher_is_better or measure.kind == "chance":
            return
        margin = self.margin_of(rule)
        if margin is not None and margin >= 1:
            raise ValueError(f"{rule.metric} has the margin {margin:g}: margins are proportions: 0.02 is two points")
        if rule.floor is not None and not 0 < rule.floor <= 1:
            raise ValueError(
                f"{rule.metric} has the floor {rule.floor:g}, which is not above 0 and at most 1: floors "
                "are proportions: 0.6 is sixty per cent"
            )

    def margin_of(self, rule: Rule) -> float | None:
        """A rule's own margin, else the policy's."""
        return self.margin if rule.margin is None else rule.margin

    def level_of(self, rule: Rule) -> float:
        """A rule's own level, else the policy's."""
        return self.level if rule.level is None else rule.level


def read_policy(path: Path) -> Policy:
    """Read a policy from a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, or does not follow the model; the sentence says where.
    """
    try:
        return Policy.model_validate(toml_table(path, "the policy", UsageError))
    except ValidationError as error:
        raise UsageError(f"the policy {path} is not valid: {_sentence(error)}.") from None


def _sentence(error: ValidationError) -> str:
    """The first fault of a policy, in words: where, what, and the nearest name for an unknown one."""
    place, kind, message, _ = faults(error)[0]
    where = _place(place)
    if kind == "extra_forbidden":
        known = _known_keys(place[:-1])
        name = str(place[-1])
        return f"there is no key {where!r}{suggestion(name, known)}; known keys: {', '.join(known)}"
    return f"{where}: {message[:1].lower() + message[1:]}" if where else message


def _place(loc: Sequence[int | str]) -> str:
    """`rule[2].margin`: rules are counted from 1."""
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _known_keys(loc: Sequence[int | str]) -> list[str]:
    """The known keys of a table of the policy."""
    inner: dict[str, Any] = {"rule": Rule, "slice": SliceOf, "latency": LatencyBudget, "tokens": TokenBudget}
    names = [part for part in loc if isinstance(part, str)]
    model: type[BaseModel] = inner[names[-1]] if names else Policy
    return list(model.model_fields)

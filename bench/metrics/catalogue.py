"""Look up metrics by name: built-in measures and plug-ins. Scoring and comparisons call it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from bench.base.errors import UsageError
from bench.base.parameters import check_parameters, short_spec, suggestion
from bench.base.plugins import installed_points
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.spec import Spec, parse
from bench.metrics.measure import LARGEST_CUTOFF, Cutoff, Measure, Metric
from bench.metrics.measures import MEASURES

#: The metrics of every run. Set metrics are added if the method recommends sets.
DEFAULT_METRICS: tuple[str, ...] = (
    *(f"{name}@{k}" for name in ("recall", "precision", "hit", "ndcg", "pass", "tracc") for k in (1, 3, 5, 10, 20)),
    *("recall@50", "recall@100", "ndcg@50", "ndcg@100", "pass@100"),
    *("map@5", "map@10", "map@100", "mrr@10", "mrr@100", "mmrr@5", "mmrr@10", "mmrr@100"),
    *("recall@gold", "ndcg@gold", "ndcg_ptr@gold", "mmrr_printed@100"),
    *("tracc", "set_precision", "set_recall", "set_f1", "size_diff", "abstained", "answered"),
)

#: Further metrics of a run, if the evaluated queries or the library have what they need. Results may lack them.
FURTHER_METRICS: tuple[str, ...] = (
    *(f"{name}@{k}" for name in ("forbidden", "excess_destructive") for k in (1, 3, 5, 10, 20)),
    *("forbidden", "excess_destructive", "false_returns", "abstained@5", "auroc", "aurc@1", "aurc@5"),
    *("set_exact", "set_hit", "set_pass", "choice"),
)

#: A name, its parameters and its cut-off. The last parenthesis ends the parameters.
_PATTERN = re.compile(r"([a-z][a-z0-9_]*(?:\s*\(.*\))?)(?:@([0-9]+|gold))?", re.DOTALL)


@cache
def measures() -> dict[str, Measure]:
    """Every measure by name: built-in ones first, then entry points of the group `bench.metrics`.

    Raises:
        UsageError: a plug-in is not a Measure, or its name is taken.
    """
    by_name = {measure.name: measure for measure in MEASURES}
    for point in installed_points(group="bench.metrics"):
        try:
            measure = point.load()
        except Exception as error:
            raise UsageError(
                f"the plug-in metric {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}."
            ) from error
        if not isinstance(measure, Measure) or measure.name in by_name:
            raise UsageError(
                f"the plug-in metric {point.name!r} ({point.value}) is not a new Measure; "
                "uninstall it or ask its author to fix it."
            )
        by_name[measure.name] = measure
    return by_name


def get_measure(text: str) -> Measure:
    """The measure with this name, which may have parameters, such as `rbp(p=0.9)`.

    Raises:
        UsageError: there is no such measure or parameter, or the value is not allowed.
    """
    spec = parse(text) if "(" in text else Spec(text.strip())
    known = measures()
    if spec.name not in known:
        raise UsageError(
            f"there is no metric {spec.name!r}{suggestion(spec.name, known)}; `bench list metrics` lists them."
        )
    measure = known[spec.name]
    parameters = check_parameters(measure.parameters, spec, "metric")
    return _with_parameters(measure, short_spec(spec.name, parameters)) if spec.arguments else measure


@cache
def _with_parameters(measure: Measure, spec: Spec) -> Measure:
    """One object per spelling, so that equal metrics are equal."""
    return measure.at(check_parameters(measure.parameters, spec, "metric")) if spec.arguments else measure


def forms(measure: Measure) -> list[str]:
    """The forms of a measure's name: bare, with a cut-off k, or cut at the number of gold tools."""
    written = {"none": measure.name, "k": f"{measure.name}@k", "gold": f"{measure.name}@gold"}
    return [text for form, text in written.items() if form in measure.cutoffs]


def describe_measure(measure: Measure) -> dict[str, Any]:
    """A measure as listings show it."""
    fields = measure.parameters.model_fields
    return {
        "metric": ", ".join(forms(measure)),
        "definition": measure.definition,
        "edge_cases": measure.edge_cases,
        "source": measure.source,
        "kind": measure.kind,
        "higher_is_better": measure.higher_is_better,
        "reproduction_only": measure.reproduction_only,
        "parameters": {
            name: {"default": field.get_default(), "description": field.description or ""}
            for name, field in fields.items()
        },
    }


def parse_metric(text: str) -> Metric:
    """The metric of a string such as `ndcg@5` or `rbp(p=0.9)@10`; `str()` of it is the canonical form.

    A bare name means the cut-off 100 (the protocol's depth) if the measure has no bare form.

    Raises:
        UsageError: unknown name or parameter, a value out of range, or a cut-off that the measure does not take.
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold.")
    cut = match[2]
    measure = get_measure(match[1])
    name = measure.name
    cutoff: Cutoff
    if cut is None:
        if "none" in measure.cutoffs:
            cutoff = None
        elif "k" in measure.cutoffs:
            cutoff = DEFAULT_DEPTH
        else:
            cutoff = "gold"
        return Metric(measure, cutoff)
    if cut == "gold":
        cutoff, kind = "gold", "gold"
    elif len(cut) <= 7 and 1 <= int(cut) <= LARGEST_CUTOFF:
        cutoff, kind = int(cut), "k"
    else:
        raise UsageError(f"the cut-off of {text!r} must be between 1 and {LARGEST_CUTOFF}.")
    if kind not in measure.cutoffs:
        examples = {"k": f"{name}@5", "gold": f"{name}@gold", "none": name}
        allowed = " or ".join(examples[form] for form in sorted(measure.cutoffs))
        raise UsageError(f"{name} does not take the cut-off {cut}; write {allowed}.")
    return Metric(measure, cutoff)


def parse_metrics(texts: Iterable[str]) -> tuple[Metric, ...]:
    """Several metrics in order, without repetitions."""
    return tuple(dict.fromkeys(parse_metric(text) for text in texts))

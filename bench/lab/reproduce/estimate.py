"""Estimate what a reproduction will take: results, time, calls to language models and their cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.base.errors import BenchError, ResultError
from bench.base.spec import Spec, parse
from bench.base.text import slug
from bench.evaluation.plan import Plan
from bench.lab.reproduce.artefacts import resolve_references
from bench.lab.reproduce.report import RunEstimate
from bench.lab.reproduce.reproduction import RecipePlans, plan_runs
from bench.lab.reproduce.runs import MethodRuns
from bench.models.llm.rules import RULES
from bench.models.llm.settings import chat_settings
from bench.results.manifest import Manifest
from bench.results.store import StoredResult, folders_of
from bench.show.numbers import count, duration, money, several

#: Maximum calls per query. PTR asks for functionalities, for tools that serve them, and for the remainder.
MOST_CALLS = {"ptr": 3, "query-generation": 1, "choose": 1}


def estimate_runs(asked: Sequence[RecipePlans], runs: MethodRuns) -> RunEstimate:
    """The estimate for the plans from `look_ahead`."""
    planned = plan_runs(asked)
    to_run = [plan for plan in planned if not runs.checked[plan].kept]
    known = _known(runs.results, {plan.method.name for plan in to_run})
    times = [_seconds(plan, known, runs) for plan in to_run]
    calling = [plan for plan in to_run if runs.checked[plan].calls]
    calls = sum(MOST_CALLS.get(plan.method.name, 0) * _queries(plan, runs) for plan in calling)
    tokens, cost = _tokens(calling, known, runs)
    return RunEstimate(
        to_run=len(to_run),
        kept=len(planned) - len(to_run),
        methods=len({plan.method for plan in to_run}),
        datasets=len({plan.dataset for plan in to_run}),
        seconds=round(sum(time for time in times if time is not None), 1),
        untimed=times.count(None),
        calls=calls,
        tokens=tokens,
        cost=cost,
        more_calls=_more_calls(asked, runs),
    )


def estimate_text(estimate: RunEstimate) -> list[str]:
    """The estimate in sentences."""
    if estimate.to_run:
        kept = f"; {estimate.kept} more are kept" if estimate.kept else ""
        size = f"{several(estimate.methods, 'method')}, {several(estimate.datasets, 'dataset')}"
        sentences = [f"to run: {several(estimate.to_run, 'result')} ({size}){kept}; {_time(estimate)}"]
    elif estimate.kept:
        sentences = [f"nothing to run: {several(estimate.kept, 'result')} kept"]
    else:
        sentences = ["nothing of it can run on this machine"]
    if estimate.calls:
        tokens = "tokens not known before a first result is kept"
        if estimate.tokens is not None:
            tokens = f"about {count(estimate.tokens)} tokens"
            tokens += "" if estimate.cost is None else f", about {money(estimate.cost)} by BENCH_LLM_PRICE"
        sentences.append(
            f"language models: at most {count(estimate.calls)} calls, {tokens}; BENCH_LLM_LIMIT bounds them"
        )
    if estimate.more_calls:
        calls = f"at most {count(estimate.more_calls)} calls"
        sentences.append(f"not run, because their language models are not here: {calls} (--model ROLE=MODEL)")
    return sentences


def _time(estimate: RunEstimate) -> str:
    timed = estimate.to_run - estimate.untimed
    if not timed:
        return "time not known, as no result of the same methods is kept"
    about = f"about {duration(estimate.seconds)}"
    return about if not estimate.untimed else f"{about} for {timed} of them, not known for {estimate.untimed}"


def _queries(plan: Plan, runs: MethodRuns) -> int:
    return len(plan.rows(runs.dataset(plan.dataset)))


def _known(results: Path, names: set[str]) -> dict[str, list[Manifest]]:
    """Stored results of methods by name; unreadable ones are treated as missing."""
    known: dict[str, list[Manifest]] = {name: [] for name in names}
    slugs = {slug(name): name for name in names}
    for folder in folders_of(results):
        if name := slugs.get(folder.name.rpartition("-")[0]):
            with suppress(ResultError):
                known[name].append(StoredResult.read(folder).manifest)
    return known


def _seconds(plan: Plan, known: Mapping[str, Sequence[Manifest]], runs: MethodRuns) -> float | None:
    """From the median time per query: of the same method on any data, else of methods with its name."""
    named = known[plan.method.name]
    same = [manifest for manifest in named if manifest.method.spec == str(plan.method)] or named
    rates = [sum(item.timings.values()) / (item.dataset.queries * item.repeats) for item in same]
    return statistics.median(rates) * _queries(plan, runs) if rates else None


def _tokens(
    calling: Sequence[Plan], known: Mapping[str, Sequence[Manifest]], runs: MethodRuns
) -> tuple[int | None, float | None]:
    """Tokens and their cost, from those per query in stored results; None if a method has none."""
    if not calling:
        return None, None
    price = chat_settings().price
    total_in = total_out = 0.0
    for plan in calling:
        used = [(item.model_use, item) for item in known[plan.method.name] if item.model_use is not None]
        asked = sum(item.dataset.queries * item.repeats for _, item in used)
        if not asked:
            return None, None
        total_in += _queries(plan, runs) * sum(use.input_tokens for use, _ in used) / asked
        total_out += _queries(plan, runs) * sum(use.output_tokens for use, _ in used) / asked
    tokens = round(total_in), round(total_out)
    return sum(tokens), None if price is None else price.of(*tokens)


def _more_calls(asked: Sequence[RecipePlans], runs: MethodRuns) -> int:
    """Calls of methods that name a language model and cannot run here, once per method and dataset."""
    calls: dict[tuple[str, Spec], int] = {}
    for item in asked:
        for text in item.methods if item.plans is None else ():
            try:
                spec = parse(resolve_references(text))
                if not _names_a_model(spec):
                    continue
                for name in map(parse, map(resolve_references, item.question.on)):
                    plan = Plan(name, spec, template=item.question.template, split=item.question.split)
                    calls[text, name] = MOST_CALLS[spec.name] * _queries(plan, runs)
            except BenchError:  # the data is missing
                continue
    return sum(calls.values())


def _names_a_model(spec: Spec) -> bool:
    """Whether a spec names a language model to call; a generator trained by bench does not count."""
    name = dict(spec.arguments).get("llm", RULES)
    return spec.name in MOST_CALLS and isinstance(name, str) and name not in {RULES, "trained"} and ":" not in name

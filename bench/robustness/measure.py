"""Ask a method on a dataset as it is and as perturbed, and compare both, query by query.

The method is built again for each perturbed library, and only ranks again for perturbed requests. Embeddings are cached
by text, so only changed texts are encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.evaluation.ask import Answers, ask, ask_queries, asking_order, prepare
from bench.evaluation.method_errors import check_marks
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner, views
from bench.interface import Method, Queries
from bench.interface.marks import OWN_CATALOGUE
from bench.metrics import Metric, evaluate
from bench.models.tokens import can_count_tokens, count_tokens
from bench.results.manifest import MetricValue
from bench.results.store import StoredResult, span_of
from bench.results.units import number_units
from bench.robustness.attacks import ATTACKER
from bench.robustness.perturbation import Chosen, apply
from bench.robustness.report import Capture, Effect, MethodStress, Worst, code_of_stress
from bench.robustness.separation import past_queries, separate
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE
from bench.stats.paired import compare

_OTHER = "asked again, the method gives other numbers than its result; both sides of the losses are of today"


@dataclass(frozen=True)
class Side:
    """The answers on a dataset.

    Attributes:
        data: the dataset.
        answers: of the evaluated queries.
        values: (queries,) of the metric, NaN for queries without gold.
        first: (queries, k) ids of the first tools, empty beyond the answer.
    """

    data: Dataset
    answers: Answers
    values: NDArray[np.float64]
    first: NDArray[np.str_]


@dataclass
class Subject:
    """A method under stress.

    Attributes:
        runner: builds the method.
        plan, result: the run on the unperturbed dataset, and its result.
        metric: a metric of rankings with a cut-off k.
        seed: of the draws of perturbations.
        reworded: (perturbation, query id) -> text of the worst query, filled by `stress`.
    """

    runner: Runner
    plan: Plan
    result: StoredResult
    metric: Metric
    seed: int
    reworded: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def k(self) -> int:
        """The number of tools that count as shown."""
        assert isinstance(self.metric.cutoff, int)
        return self.metric.cutoff

    @cached_property
    def data(self) -> Dataset:
        """The unperturbed dataset."""
        return self.runner.dataset(self.plan.dataset)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The evaluated queries."""
        return self.plan.rows(self.data)

    @cached_property
    def method(self) -> Method:
        """The method on the unperturbed library."""
        return self.prepare_on(self.data)

    @cached_property
    def base(self) -> Side:
        """The answers on the unperturbed dataset."""
        return self._side(self.method, self.data, "as it is")

    def prepare_on(self, data: Dataset) -> Method:
        """A fresh method that has learnt from the past queries of a dataset and indexed its library."""
        method = self.runner.build(self.plan.method)
        order = self.rows[asking_order(data, self.rows)]
        library, history = views(self.plan, data)
        prepare(method, library, history, data.gold.take(order))
        return method

    def _side(self, method: Method, data: Dataset, stage: str) -> Side:
        answers = ask(method, data, self.rows, self.plan.depth, None, self.runner.progress, stage)
        ranking, gold = answers.ranking, data.gold.take(self.rows)
        values = evaluate(ranking.tools, gold, [self.metric], unanswered=ranking.failed).values[:, 0]
        ids = np.array([*(tool.tool_id for tool in data.tools), ""])
        width = ranking.tools.shape[1]
        first = ids[np.pad(ranking.tools, ((0, 0), (0, max(0, self.k - width))), constant_values=-1)[:, : self.k]]
        return Side(data, answers, np.where(gold.counts > 0, values, np.nan), first)

    def stress(self, chosen: Sequence[Chosen]) -> MethodStress:
        """The effects of perturbations.

        Raises:
            UsageError: a perturbation fails or breaks a promise.
            BenchError: the method fails.
        """
        own = check_marks(self.method).get(OWN_CATALOGUE, "")
        stored = self.result.values(str(self.metric))
        identity = self.result.manifest
        return MethodStress(
            result_id=identity.result_id,
            label=self.result.label,
            method=identity.method.label,
            dataset=identity.dataset.spec,
            content_hash=identity.dataset.content_hash,
            metric=str(self.metric),
            k=self.k,
            seed=self.seed,
            code=code_of_stress(),
            note="" if np.allclose(self.base.values, stored, equal_nan=True) else _OTHER,
            effects=[self._effect(item, own) for item in chosen],
        )

    def _effect(self, item: Chosen, own: str) -> Effect:
        """The effect of a perturbation; `own` says why the method is not given the tools, if it is not."""
        kind, data = item.perturbation.kind, self.data
        if kind == "absence":
            return self._absence(item)
        refused = Effect(perturbation=str(item), kind=kind or "library", note=f"the method {own}")
        if own and kind not in {"request", ""}:
            return refused
        # What stays in a library is decided by the queries of all splits.
        rows = np.arange(len(data.queries)) if kind == "growth" else self.rows
        changed, kind = apply(item, data, rows, self.seed, self._ask)
        if own and kind != "request":
            return refused
        effect = Effect(perturbation=str(item), kind=kind, tools=len(changed.tools))
        taken, method = ~np.isnan(self.base.values), self.method
        if changed.tools == data.tools:
            pairs = [(data.queries[row], changed.queries[row]) for row in self.rows.tolist()]
            taken &= np.array([old != new for old, new in pairs])
            if not taken.any():
                return effect.model_copy(update={"note": "it changes nothing on this dataset"})
        else:
            method = self.prepare_on(changed)
        side = self._side(method, changed, str(item))
        # Growth is what the other tools cost: from the smaller library to the whole.
        before, after = (side, self.base) if kind == "growth" else (self.base, side)
        more = self._loss(taken, before, after) | {"note": self._unseen(changed)}
        if worst := more["worst"]:
            row = changed.query_codes[worst.query_id]
            self.reworded[str(item), worst.query_id] = changed.queries[row].text
        if kind == "attack":
            more["capture"] = self._capture(side)
        return effect.model_copy(update=more)

    def _unseen(self, changed: Dataset) -> str:
        """A sentence if the text of a changed tool, or of an attacker, reads as that of the tool it was made from."""
        template, old = self.plan.tool_text(self.data), {tool.tool_id: tool for tool in self.data.tools}
        shown = total = 0
        for tool in changed.tools:
            made_from = old.get(tool.tool_id) or old.get(tool.tool_id.removeprefix(f"{ATTACKER}/"))
            if made_from is None or replace(tool, tool_id=made_from.tool_id, parent=made_from.parent) == made_from:
                continue
            total += 1
            shown += tool.text(template) != made_from.text(template)
        if shown == total:
            return ""
        return f"the template {template!r} does not show the change in {total - shown} of {total} changed tools"

    def _ask(self, tools: Sequence[Tool], texts: Sequence[str]) -> list[list[str]]:
        """The black box that an attacker asks: ids of the first tools for texts, on another library."""
        data = Dataset.build(self.data.spec, self.data.card, replace(self.data.rows_again(), tools=tools))
        method = self.prepare_on(data)
        queries = Queries(tuple(texts), np.arange(len(texts)))
        ranking, _ = ask_queries(method, queries, len(tools), self.plan.depth, "ranking the texts of an attacker")
        return [[data.tools[tool].tool_id for tool in row if tool >= 0] for row in ranking.tools.tolist()]

    def _loss(self, taken: NDArray[np.bool_], before: Side, after: Side) -> dict[str, Any]:
        """The fields of an effect that compare two sides on the taken queries."""
        rows = np.flatnonzero(taken)
        lost = (before.values - after.values)[rows]
        units = number_units(self.result.units[rows])
        (pair,) = compare(lost[:, None], units=units, span=span_of(str(self.metric), [self.result]).of_differences())
        others = [set(before.first[row]) != set(after.first[row]) for row in rows]
        worst = None
        if lost.max() > 0:
            row = int(rows[int(lost.argmax())])
            first_before, first_after = (str(side.first[row, 0]) or None for side in (before, after))
            worst = Worst(
                query_id=self.data.queries[self.rows[row]].query_id,
                before=float(before.values[row]),
                after=float(after.values[row]),
                first_before=first_before,
                first_after=first_after,
            )
        return {
            "n": len(rows),
            "units": pair.units,
            "decided": pair.decided,
            "before": float(before.values[rows].mean()),
            "after": float(after.values[rows].mean()),
            "loss": pair.difference,
            "low": pair.low,
            "high": pair.high,
            "p": pair.p,
            "worse": pair.wins,
            "better": pair.losses,
            "changed": float(np.mean(others)),
            "worst": worst,
        }

    def _capture(self, side: Side) -> Capture:
        old = self.data.tool_codes
        attackers = [tool for tool in side.data.tools if tool.tool_id not in old]
        mine = np.isin(side.first, [tool.tool_id for tool in attackers])
        among = mine.sum(axis=1)
        captured = (among > 0).astype(np.float64)
        low, high = bca_intervals(captured[:, None], units=number_units(self.result.units), span=SHARE)[0].tolist()
        pairs = above = 0
        for row, attacked in zip(side.first.tolist(), mine.tolist(), strict=True):
            for place, name in enumerate(row):
                # An attacker of a user may have no target.
                target = name.removeprefix(f"{ATTACKER}/")
                if attacked[place] and target != name and target in row:
                    pairs += 1
                    above += place < row.index(target)
        tokens = count_tokens([tool.description for tool in attackers]).mean() if can_count_tokens() else None
        ids = self.result.per_query["query_id"].to_pylist()
        return Capture(
            attackers=len(attackers),
            capture=MetricValue(
                mean=float(captured.mean()),
                low=None if np.isnan(low) else low,
                high=None if np.isnan(high) else high,
                n=len(captured),
            ),
            mean=float(among.mean()),
            domination=float((among == self.k).mean()),
            pairs=pairs,
            above=above / pairs if pairs else None,
            tokens=None if tokens is None else round(float(tokens), 1),
            captured=[query for query, hit in zip(ids, captured.tolist(), strict=True) if hit],
        )

    def _absence(self, item: Chosen) -> Effect:
        effect = Effect(perturbation=str(item), kind="absence", tools=len(self.data.tools))
        past = past_queries(self.plan, self.data)
        hidden, _ = apply(item, self.data, np.concatenate([self.rows, past.held]), self.seed)
        left = np.flatnonzero((self.data.gold.counts > hidden.gold.counts)[self.rows])
        if not len(left):
            return effect.model_copy(update={"note": "no request may see other tools than the right ones"})
        progress, depth = self.runner.progress, self.plan.depth
        asked = ask(self.method, hidden, self.rows[left], depth, None, progress, str(item))
        before, after = self.base.answers.ranking.take(left), asked.ranking
        if before.scores is None or after.scores is None:
            return effect.model_copy(update={"note": "the method gives no scores"})
        known = None
        if len(past.held):
            library, history = views(self.plan, self.data)
            method = self.runner.build(self.plan.method)
            # As for a learnt cut, the method does not know the queries that it is learnt on.
            prepare(method, library, history.take(past.fitted), history.gold)
            known = ask(method, hidden, past.held, depth, None, progress, f"{item}, past queries").ranking
        made = separate(before, after, self.data.gold.take(self.rows[left]), self.result.units[left], known)
        note = "" if known is not None else "there are too few past queries to learn a cut on"
        return effect.model_copy(update={"separation": made, "n": len(left), "note": note})

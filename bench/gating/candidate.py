"""Candidates: a stored result, or a search function that is evaluated now. `judge` receives them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import MethodError, UnresolvedError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.queryviews import merge_rankings
from bench.data.tool_names import MAPPED, NameRecord, ToolNames
from bench.evaluation.ask import Answers, asking_order, calls_of
from bench.evaluation.machine import hardware, package_versions
from bench.evaluation.plan import Plan
from bench.evaluation.runner import dataset_identity
from bench.evaluation.scoring import score, scoring_code
from bench.gating.baseline import Baseline, answers_digest, in_order, label_of
from bench.interface import Ranking, version_for
from bench.metrics import Metric
from bench.metrics.ties import Beyond
from bench.results.across_catalogues import Snapshot, why_not_given
from bench.results.comparability import without_code
from bench.results.failures import sentences
from bench.results.intervals import check_values
from bench.results.manifest import DatasetIdentity, Latency, Mark, ScoringCode
from bench.results.store import StoredResult

#: A project's own search: the text of a query in, ids of tools out, best first.
Search = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Candidate:
    """What the gate needs to know about a candidate.

    Attributes:
        label: its name in reports.
        result_id, method_hash: of a stored result; None for a search function.
        protocol, scoring: version of the rules, and code that computed the values.
        n_failed: judged queries that failed or were not answered.
        rankings: sha256 over rankings and sets (`answers_digest`).
        per_query: a row per query: query_id, unit, n_gold, and a column for each metric.
        run: the rankings of the first repeat, with the columns query_id, rank and tool_id; None if unknown.
        repeats: number of answers per query.
        snapshot: the queries and tools, if known without the dataset.
        packages: package versions; empty if unknown.
        names: how its names of tools were mapped to ids; empty if all are ids.
        marks: marks of the run and its method.
        not_given: why it did not receive the dataset's tools; empty if it did.
        failures: why queries failed, most frequent first, as sentences.
    """

    label: str
    result_id: str | None
    method_hash: str | None
    dataset: DatasetIdentity
    depth: int
    protocol: str
    scoring: ScoringCode
    n_failed: int
    latency: Latency | None
    hardware: dict[str, str | int]
    tokens: dict[str, float]
    rankings: str
    per_query: pa.Table
    run: pa.Table | None = None
    repeats: int = 1
    snapshot: Snapshot | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    names: str = ""
    marks: Sequence[Mark] = ()
    not_given: str = ""
    failures: Sequence[str] = ()

    @staticmethod
    def of_baseline(baseline: Baseline) -> Candidate:
        """A result in the form of a baseline: a new baseline is compared with the one that it replaces."""
        columns: dict[str, Any] = {
            "query_id": baseline.query_ids,
            "unit": [f"{unit:09}" for unit in baseline.units],
            "n_gold": baseline.n_gold,
        }
        columns |= {name: values.array() for name, values in baseline.values.items()}
        # Fields that both have under the same name.
        shared = {item.name for item in fields(Candidate)} & {"label", *Baseline.model_fields}
        return Candidate(
            **{name: getattr(baseline, name) for name in shared},
            method_hash=baseline.method.hash,
            per_query=pa.table(columns),
            snapshot=baseline.asked,
        )

    @staticmethod
    def of(result: StoredResult) -> Candidate:
        """From a stored result; raises `ResultError` if its tables cannot be read."""
        manifest, scored = result.manifest, result.metrics
        sets = result.per_query if result.repeats is None else result.repeats
        return Candidate(
            label=label_of(manifest.method, manifest.dataset),
            result_id=manifest.result_id,
            method_hash=manifest.method.hash,
            dataset=manifest.dataset,
            depth=manifest.depth,
            protocol=manifest.protocol,
            scoring=manifest.scoring,
            n_failed=scored.n_failed,
            latency=manifest.latency,
            hardware=manifest.environment.hardware,
            tokens=scored.tokens,
            # Without its ranking it is unknown whether its answers are the same.
            rankings=answers_digest(result.run, sets) if result.has_run else "",
            per_query=result.per_query,
            run=result.of_repeat().run if result.has_run else None,
            repeats=manifest.repeats,
            packages=manifest.environment.packages,
            names=str(manifest.facts.get(MAPPED, "")),
            marks=manifest.marks,
            not_given=why_not_given(manifest.method),
            failures=sentences(result),
        )

    @property
    def units(self) -> list[int]:
        """The unit of independence of each query, as codes from 0 in order of first appearance."""
        return in_order(np.unique(self.per_query["unit"].to_pylist(), return_inverse=True)[1])

    def values(self, metric: str) -> NDArray[np.float64] | None:
        """(queries,) values of a metric, NaN if it does not apply; None if they, or their code, are unknown.

        Raises:
            ResultError: a value is impossible for the metric.
        """
        if metric not in self.per_query.column_names or without_code(self.scoring, [metric]):
            return None
        values = np.array(self.per_query[metric].to_pylist(), dtype=np.float64)
        check_values(values, metric, self.label)
        return values


def ask_search(
    search: Search, dataset: Dataset, baseline: Baseline, metrics: Iterable[Metric] = (), name: str = "candidate"
) -> Candidate:
    """Ask a search for each query of a baseline, one by one, and score its answers.

    Queries come in the order that methods get, so that nothing can be guessed from their neighbours. Exceptions of the
    search are not caught. The clock runs until the answer has been read completely.

    Args:
        search: text of a query -> ids of tools, best first; an empty answer counts as failed.
        dataset: the baseline's.
        baseline: says which queries to ask.
        metrics: metrics in addition to the default ones.
        name: name of the search.

    Raises:
        MethodError: an answer is not a list of ids, names an unknown tool, or repeats one.
        UnresolvedError: an answer names an unknown tool before any name was resolved.
    """
    known = baseline.dataset
    plan = Plan(Spec(dataset.spec), Spec("search"), split=known.split, limit=known.limit, template=known.template)
    plan = plan.normal(dataset)
    rows = plan.rows(dataset)
    rankings: list[list[int]] = [[] for _ in rows]
    seconds = []
    names, record = ToolNames(dataset.tools), NameRecord()
    for position in asking_order(dataset, rows):
        query = dataset.queries[int(rows[position])]
        answers_of_calls: list[list[int]] = []
        for text in calls_of(query):
            started = time.perf_counter()
            answer: object = search(text)
            if isinstance(answer, Iterable) and not isinstance(answer, str | bytes):
                # A generator works when it is read. An endless one has repeated a tool by then.
                answer = list(islice(answer, len(dataset.tools) + 1))
            seconds.append(time.perf_counter() - started)
            answers_of_calls.append(_codes(answer, names, record, f"{name} answered the query {query.query_id} with"))
        rankings[position] = (
            merge_rankings(answers_of_calls, len(dataset.tools)) if query.calls else answers_of_calls[0]
        )
    answers = Answers(Ranking.of_lists(rankings), Beyond.none(len(rows)), None)
    scored = score("", dataset, rows, [answers], known.template, list(metrics))
    return Candidate(
        label=f"{name} @ {dataset.spec}",
        result_id=None,
        method_hash=None,
        dataset=dataset_identity(plan, dataset, rows, 0),
        depth=max(1, answers.ranking.tools.shape[1]),
        protocol=version_for(dataset.gold),
        scoring=scoring_code(scored.metrics.metrics),
        n_failed=scored.metrics.n_failed,
        latency=Latency.of(seconds, cached=False),
        hardware=hardware(),
        tokens=scored.metrics.tokens,
        rankings=answers_digest(scored.run, scored.per_query),
        per_query=scored.per_query,
        run=scored.run,
        packages=package_versions(),
        names=record.mapped(),
        not_given="a search function has a catalogue of its own",
    )


def _codes(answer: object, names: ToolNames, record: NameRecord, said: str) -> list[int]:
    """Tool codes of an answer, in order; `said` begins the sentence of an error."""
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise MethodError(f"{said} {type(answer).__name__}; it must give a list of tool ids.")
    codes: dict[int, None] = {}
    for tool in answer:
        meant = names.find(tool) if isinstance(tool, str) else ()
        if len(meant) != 1:
            kind = MethodError if record.known or not isinstance(tool, str) else UnresolvedError
            why = f": {names.fault(tool)}" if isinstance(tool, str) else ", which is not the id of a tool"
            raise kind(f"{said} {tool!r:.80}{why}.")
        if meant[0] in codes:
            raise MethodError(f"{said} the tool {tool!r:.80} twice.")
        codes[meant[0]] = None
        record.take(tool, names.tools[meant[0]].tool_id)
    return list(codes)

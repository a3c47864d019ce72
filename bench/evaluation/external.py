"""Scores run files of other systems and stores them as results. `bench score` calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.keys import refuse
from bench.base.spec import Spec
from bench.base.text import shorten
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.data.tool_names import NameRecord
from bench.evaluation.ask import Answers, scope_sentences
from bench.evaluation.observed import observe
from bench.evaluation.plan import Plan
from bench.evaluation.run_files import parse_run
from bench.evaluation.runner import dataset_identity, environment
from bench.evaluation.scoring import score
from bench.interface import version_for
from bench.interface.ranking import PAD
from bench.interface.scope import keep_in_scope
from bench.metrics import Metric
from bench.results.code_versions import scoring_code
from bench.results.commands import print_command, stored_settings
from bench.results.ids import RANKING_RULES
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import Manifest, Mark, MethodIdentity, name_fault
from bench.results.settings import EvaluatedSplit
from bench.results.store import StoredResult, result_folder, result_lock, write_result


def score_run_file(
    data: bytes,
    file: str,
    dataset: Dataset,
    results: Path,
    *,
    name: str,
    command: str = "",
    split: EvaluatedSplit | None = None,
    template: Template | None = None,
    metrics: Sequence[Metric] = (),
) -> StoredResult:
    """Score a TREC or JSONL run file and store it as a result.

    Args:
        data: the file's bytes.
        file: the name of the file.
        dataset: the dataset that the system ran on.
        results: the folder of results.
        name: the name of the system.
        command: the command for the manifest; empty for the `bench score` command.
        split: the queries that are scored; None for the dataset's default.
        template: the template of the texts whose tokens are counted; None for the dataset's default.
        metrics: metrics beyond the default ones.

    Raises:
        UsageError: a name or the command holds a key, or the name cannot be shown as it is.
        ResultError: the file does not fit the dataset.
        UnresolvedError: none of its tool names is a tool of the dataset.
    """
    refuse("the run file's name", name, file, command)
    if fault := name_fault(name):
        raise UsageError(f"the name {shorten(name, 80)!a} cannot be shown: {fault}. Choose another --name.")
    plan = Plan(Spec.of(dataset.spec), Spec.of(name), split=split, template=template).normal(dataset)
    rows = plan.rows(dataset)
    record = NameRecord()
    warnings = ["scored from a run file: how the system was run, and what data it saw, is unknown"]
    answers = parse_run(data, file, dataset, rows, record, warnings)
    if dataset.scope is not None:
        answers, hidden = _within_scope(answers, dataset.scope[rows])
        warnings += [f"{hidden} tools that a request may not see were left out of its ranking"] if hidden else []
    digest = hashlib.sha256(data).hexdigest()
    identifier = run_file_id(plan, dataset, digest)
    scored = score(identifier, dataset, rows, [answers], plan.tool_text(dataset), metrics)
    failures, marks, _ = observe(dataset, rows, [answers])
    settings = stored_settings(name, dataset.spec, plan, metrics, file)
    manifest = Manifest(
        result_id=identifier,
        protocol=version_for(dataset.gold),
        dataset=dataset_identity(plan, dataset, rows, 0),
        method=MethodIdentity(
            spec=name,
            full_spec=name,
            hash=digest,
            revisions={},
            code="",
            oracle=False,
            needs_llm=False,
            run_file=f"{file} sha256:{digest}",
            marks=[Mark.from_method(mark, sentence) for mark, sentence in marks.items()],
        ),
        depth=max(1, answers.ranking.tools.shape[1]),
        seeds={"bootstrap": BOOTSTRAP_SEED},
        settings=settings,
        environment=environment(command or print_command(settings)),
        timings={},
        latency=None,
        peak_memory_mib=None,
        facts={**record.facts()},
        failures=failures,
        warnings=[*warnings, *scope_sentences(dataset, rows)],
        scoring=scoring_code(scored.metrics.metrics),
    )
    folder = result_folder(results, dataset.spec, name, identifier)
    with result_lock(results, folder):
        return write_result(folder, manifest, scored.metrics, scored.run, scored.per_query)


def run_file_id(plan: Plan, dataset: Dataset, digest: str) -> str:
    """The id of a scored run file with this sha256; the plan has the system's name in place of a method."""
    conditions = f"{plan.evaluated_split(dataset)} {plan.tool_text(dataset)}"
    identity = f"{RANKING_RULES} {dataset.content_hash} {conditions} {plan.method.name} {digest}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _within_scope(answers: Answers, scope: NDArray[np.uint8]) -> tuple[Answers, int]:
    """The answers without tools that requests may not see, and the number of tools removed."""
    ranking = answers.ranking
    kept = keep_in_scope(ranking, scope, max(1, ranking.tools.shape[1]))
    return replace(answers, ranking=kept), int((ranking.tools != PAD).sum() - (kept.tools != PAD).sum())

"""Run files of other systems: scored as results, and opened as results are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.progress import QUIET, Progress
from bench.base.secrets import refuse
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.data.tool_names import MAPPED, NameRecord
from bench.evaluation.ask import Answers, scope_sentences
from bench.evaluation.run_files import read_run_file
from bench.interface import version_for
from bench.interface.ranking import PAD
from bench.interface.scope import keep_in_scope
from bench.lookup.finding import find_result, is_alias
from bench.metrics import Metric
from bench.registry import load_dataset
from bench.results.commands import print_command, stored_settings
from bench.results.ids import RANKING_RULES
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import Manifest, Mark, MethodIdentity
from bench.results.settings import EvaluatedSplit
from bench.results.store import StoredResult, result_folder, result_lock, write_result

if TYPE_CHECKING:
    from bench.evaluation.plan import Plan


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
        file: its name.
        dataset: what it ran on.
        results: the folder of results.
        name: what the system is called.
        command: the command, for the manifest; empty for that of `bench score`.
        split: which queries are scored; None for the dataset's default.
        template: the text whose tokens are counted; None for the dataset's default.
        metrics: metrics in addition to the default ones.

    Raises:
        UsageError: a name or the command holds a key.
        ResultError: the file does not fit the dataset.
        UnresolvedError: none of its names of tools means a tool of the dataset.
    """
    # Most commands open results and score none.
    from bench.evaluation.observed import observe
    from bench.evaluation.plan import Plan
    from bench.evaluation.run_files import parse_run
    from bench.evaluation.runner import dataset_identity, environment
    from bench.evaluation.scoring import score, scoring_code

    refuse("the run file's name", name, file, command)
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
    """The answers without what requests may not see, and how many tools that were."""
    ranking = answers.ranking
    kept = keep_in_scope(ranking, scope, max(1, ranking.tools.shape[1]))
    return replace(answers, ranking=kept), int((ranking.tools != PAD).sum() - (kept.tools != PAD).sum())


def open_result(name: str, results: Path, dataset: str | None = None, progress: Progress = QUIET) -> StoredResult:
    """A result by its folder, id or `method@dataset`; or a run file, which is scored and stored like any other.

    Args:
        name: the name. A run file may be followed by `@dataset`.
        results: the folder of results.
        dataset: what a run file without `@dataset` ran on; what is added to a method's name without one.
        progress: where downloads report to.

    Raises:
        UsageError: nothing has that name, or several have; or nobody says what a run file ran on.
        ResultError: it cannot be read, or does not fit the dataset.
    """
    head, _, tail = name.rpartition("@")
    for path, on in ((Path(name), dataset), (Path(head), tail.strip())):
        # A long spec is no name of a file, and no error.
        if os.path.isfile(path):
            return _score_run_file(path, on, results, progress)
    if dataset is not None and "@" not in name and is_alias(results, name):
        # An alias alone names the newest result that has it, of whatever code and data.
        name = f"{name}@{dataset}"
    try:
        return find_result(results, name)
    except UsageError:
        if dataset is None or "@" in name:
            raise
    return find_result(results, f"{name}@{dataset}")


def _score_run_file(path: Path, dataset: str | None, results: Path, progress: Progress) -> StoredResult:
    if dataset is None:
        raise UsageError(f"{path} is a run file: name its dataset, as in {path.name}@apibank.")
    data = read_run_file(path)
    loaded = load_dataset(dataset, progress)
    result = score_run_file(data, path.name, loaded, results, name=path.stem)
    if mapped := result.manifest.facts.get(MAPPED):
        progress.note(f"{result.label}: {mapped}")
    return result

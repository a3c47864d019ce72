"""Shared by the command line, the API and the pytest plug-in: a baseline's dataset, and gating a search function."""

from __future__ import annotations

from pathlib import Path

from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.evaluation.scoring import scoring_code
from bench.gating.baseline import Baseline, read_baseline
from bench.gating.candidate import Candidate, Search, ask_search
from bench.gating.judge import Loader, baseline_side, judge, not_comparable, side_of
from bench.gating.policy import Policy, read_policy
from bench.gating.report import GateReport, Side, not_judged
from bench.interface import version_for
from bench.interface.marks import RESUMED
from bench.metrics import parse_metrics
from bench.registry import load_dataset
from bench.registry.versions import is_added, load_version
from bench.results.manifest import DatasetIdentity
from bench.results.store import StoredResult
from bench.results.unfinished import unfinished_marks


def gate_search(search: Search, baseline_file: Path, policy_file: Path, name: str = "candidate") -> GateReport:
    """Ask a search for each query of a baseline, and judge its answers by a policy.

    Args:
        search: text of a query -> ids of tools, best first.
        baseline_file, policy_file: as for `bench gate`.
        name: name of the search.

    Raises:
        BenchError: a file cannot be read, the dataset cannot be loaded, or an answer is not a list of known ids.
    """
    policy = read_policy(policy_file)
    baseline = read_baseline(baseline_file)
    dataset = load_dataset(baseline.dataset.spec)
    metrics = parse_metrics(rule.metric for rule in policy.rule)
    names = [str(metric) for metric in metrics]
    now = baseline.dataset.model_copy(update={"content_hash": dataset.content_hash})
    # The data and the code that score a search function now.
    here = {"dataset": now, "protocol": version_for(dataset.gold), "scoring": scoring_code(names)}
    if reasons := not_comparable(baseline.model_copy(update=here), baseline, names, across=baseline.asked is not None):
        # Reported before a search that may take long.
        return not_judged("not comparable", reasons, Side(label=name), baseline_side(baseline))

    def load(at_hand: bool) -> Dataset:
        return dataset

    return judge(ask_search(search, dataset, baseline, metrics, name), baseline, policy, load)


def gate_stored(
    stored: StoredResult, baseline: Baseline, policy: Policy, name: str = "", progress: Progress = QUIET
) -> GateReport:
    """Judge a stored result. One that is not the last run of its method is only judged if its id was named.

    Args:
        stored: the result.
        baseline, policy: what to judge it by.
        name: the user's name for it; empty for a result from a program.
        progress: receives the progress of downloads.

    Raises:
        BenchError: its tables, or the dataset of a rule with a slice, cannot be read.
    """
    candidate = Candidate.of(stored)
    resumed = [mark for mark in stored.manifest.marks if mark.text == RESUMED]
    later = [mark.why for mark in (*unfinished_marks(stored), *resumed)]
    identifier = name.rpartition("#")[2]
    if later and not (identifier and candidate.result_id and candidate.result_id.startswith(identifier)):
        again = f"run it again, or name this result by its id, {candidate.result_id}, to judge it all the same"
        return not_judged("not run", [f"{later[0]}: {again}"], side_of(candidate), baseline_side(baseline))
    report = judge(candidate, baseline, policy, dataset_loader(candidate.dataset, progress))
    return report.model_copy(update={"warnings": [*later, *report.warnings]})


def dataset_loader(data: DatasetIdentity, progress: Progress = QUIET) -> Loader:
    """A loader of a candidate's dataset, used once, if `judge` needs it.

    The loader raises `UsageError` if a dataset that users cannot replace has changed, and what `load_version` and
    `load_dataset` raise.
    """
    loaded: list[Dataset] = []

    def load(at_hand: bool) -> Dataset:
        if not loaded:
            with config_context(offline=at_hand or None):
                if is_added(data.spec):
                    loaded.append(load_version(data.spec, data.content_hash, progress))
                else:
                    loaded.append(load_dataset(data.spec, progress))
        if loaded[0].content_hash != data.content_hash:
            raise UsageError(
                f"{data.spec} is not what it was when {data.content_hash[:12]} was the hash of its content: that is "
                f"{loaded[0].content_hash[:12]} now."
            )
        return loaded[0]

    return load

"""Gating a stored result, for the command line and the API."""

from __future__ import annotations

from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.gating.baseline import Baseline
from bench.gating.candidate import Candidate
from bench.gating.judge import Loader, baseline_side, judge, side_of
from bench.gating.policy import Policy
from bench.gating.report import GateReport, not_judged
from bench.interface.marks import RESUMED
from bench.lookup.unfinished import unfinished_marks
from bench.registry.added import is_added
from bench.results.manifest import DatasetIdentity
from bench.results.store import StoredResult


def gate_stored(
    stored: StoredResult, baseline: Baseline, policy: Policy, name: str = "", progress: Progress = QUIET
) -> GateReport:
    """Judge a stored result. One that is not of the last run of its method alone is judged only if its id was named.

    Args:
        stored: the result.
        baseline, policy: what it is held against.
        name: how a user named it; empty for a result that a program has in hand.
        progress: where downloads report to.

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
    """What loads a candidate's dataset, once, when `judge` asks for it.

    The loader raises `UsageError` if a dataset that nobody here replaces is no longer what it was, and what
    `load_version` and `load_dataset` raise.
    """
    loaded: list[Dataset] = []

    def load(at_hand: bool) -> Dataset:
        if not loaded:
            # Few gates need it: the values are stored.
            from bench.registry import load_dataset
            from bench.registry.versions import load_version

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

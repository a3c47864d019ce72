"""What the command line, the API and the pytest plug-in share: a baseline's dataset, and gating a search function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.evaluation.scoring import scoring_code
from bench.gating.baseline import Baseline, read_baseline
from bench.gating.candidate import Search, ask_search
from bench.gating.judge import Loader, baseline_side, judge, not_comparable
from bench.gating.policy import Policy, read_policy
from bench.gating.report import GateReport, Side, not_judged
from bench.interface import version_for
from bench.metrics import parse_metrics
from bench.registry import load_dataset
from bench.registry.versions import load_version
from bench.results.manifest import DatasetIdentity, ScoringCode


@dataclass(frozen=True)
class _Here:
    """On what a search that is asked now is scored, and by which code."""

    dataset: DatasetIdentity
    protocol: str
    scoring: ScoringCode


def gate_search(search: Search, baseline_file: Path, policy_file: Path, name: str = "candidate") -> GateReport:
    """Ask a search for each query of a baseline, and judge its answers by a policy.

    Args:
        search: text of a query -> ids of tools, best first.
        baseline_file, policy_file: as `bench gate` takes them.
        name: what the search is called.

    Raises:
        BenchError: a file cannot be read, the dataset cannot be loaded, or an answer is no list of known ids.
    """
    policy = read_policy(policy_file)
    baseline = read_baseline(baseline_file)
    dataset = load_dataset(baseline.dataset.spec)
    metrics = parse_metrics(rule.metric for rule in policy.rule)
    names = [str(metric) for metric in metrics]
    now = baseline.dataset.model_copy(update={"content_hash": dataset.content_hash})
    across = policy.catalogue == "may change"
    here = _Here(now, version_for(dataset.gold), scoring_code(names))
    if reasons := not_comparable(here, baseline, names, across=across):
        # Said before a search is asked that may take long.
        return not_judged("not comparable", reasons, Side(label=name), baseline_side(baseline))

    def load(at_hand: bool) -> Dataset:
        return dataset

    return judge(ask_search(search, dataset, baseline, metrics, name), baseline, policy, load)


def dataset_loader(
    policy: Policy, candidate: DatasetIdentity, baseline: Baseline, progress: Progress = QUIET
) -> Loader:
    """What loads the dataset that `judge` asks for: the candidate's where the policy lets catalogues differ."""
    if policy.catalogue == "must agree" or candidate.content_hash == baseline.dataset.content_hash:
        return baseline_loader(baseline, progress)

    @cache
    def load(at_hand: bool) -> Dataset:
        with config_context(offline=at_hand or None):
            return load_version(candidate.spec, candidate.content_hash, progress)

    return load


def baseline_loader(baseline: Baseline, progress: Progress) -> Loader:
    """What loads a baseline's dataset, once, when `judge` asks for it.

    The loader raises `UsageError` if the dataset's content is no longer what it was when the baseline was blessed, and
    what `load_dataset` raises.
    """
    loaded: list[Dataset] = []

    def load(at_hand: bool) -> Dataset:
        known = baseline.dataset
        if not loaded:
            with config_context(offline=at_hand or None):
                loaded.append(load_dataset(known.spec, progress))
        if loaded[0].content_hash != known.content_hash:
            raise UsageError(
                f"{known.spec} is not what it was when the baseline was blessed: its content has the hash "
                f"{loaded[0].content_hash[:12]}, and had {known.content_hash[:12]}."
            )
        return loaded[0]

    return load

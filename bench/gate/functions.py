"""Gating a project's own search function without a method or stored result."""

from __future__ import annotations

from pathlib import Path

from bench.data.dataset import Dataset
from bench.data.sources import Sources
from bench.gate.baseline import read_baseline
from bench.gate.candidate import Search, ask_search
from bench.gate.judge import baseline_side, judge
from bench.gate.policy import read_policy
from bench.gate.report import GateReport, Side, not_judged
from bench.identity.sources import scoring_hash
from bench.metrics import parse_metrics
from bench.registry import load_dataset


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
    dataset = load_dataset(baseline.dataset.spec, Sources.from_environment())
    if dataset.content_hash != baseline.dataset.content_hash:
        # Said before a search is asked that may take long.
        reason = (
            f"the content of the dataset differs: {dataset.content_hash[:12]} here, "
            f"{baseline.dataset.content_hash[:12]} for the baseline ({dataset.spec})"
        )
        return not_judged("not comparable", [reason], Side(label=name), baseline_side(baseline))
    if scoring_hash() != baseline.scoring:
        reason = (
            f"the version of the scoring code differs: {scoring_hash()[:12]} here, {baseline.scoring[:12]} for the "
            "baseline; bless it again from a result of this version"
        )
        return not_judged("not comparable", [reason], Side(label=name), baseline_side(baseline))

    def load(at_hand: bool) -> Dataset:
        return dataset

    metrics = parse_metrics(rule.metric for rule in policy.rule)
    return judge(ask_search(search, dataset, baseline, metrics, name), baseline, policy, load)

"""The gate over time: compare each version of a baseline, and each result on its question, with the one in force.

Verdicts are those of `bench gate` under the current policy. A result is compared with the last baseline that was
blessed before it, a new version of a baseline with the version that it replaced. The page `gates` shows them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.data.dataset import Dataset
from bench.gating.baseline import Baseline, label_of
from bench.gating.candidate import Candidate
from bench.gating.judge import baseline_side, judge, side_of
from bench.gating.policy import Policy, read_policy
from bench.gating.report import GateReport, Side, not_judged
from bench.leaderboard.boards.board import RANKED
from bench.leaderboard.boards.ledger import Ledger, Version, read_ledgers
from bench.lookup.finding import FIRST_DATE, moment
from bench.metrics import Scores, parse_metric
from bench.registry.versions import load_version
from bench.results.intervals import means_and_intervals
from bench.results.manifest import Manifest, MetricValue
from bench.results.store import StoredResult
from bench.results.units import number_units

#: The default policy of a folder of baselines.
POLICY = "gate.toml"
#: Maximum events per baseline.
MOST_EVENTS = 100


@dataclass(frozen=True)
class Event:
    """A blessed baseline or a new result, with its verdict.

    Attributes:
        at: time in UTC; results without a date come first.
        version: the baseline; None for a result.
        result: the result; for a baseline, the blessed result if it is on the site.
        against: the baseline it is compared with; None for the first one and for results before it.
        value: the mean of the metric that the history shows, with its interval; None if unknown.
        report: the gate's report.
    """

    at: datetime.datetime
    version: Version | None
    result: StoredResult | None
    against: Baseline | None
    value: MetricValue | None = None
    report: GateReport | None = None

    @property
    def verdict(self) -> str:
        """The gate's outcome; empty if there was nothing to compare with."""
        return "" if self.report is None else self.report.outcome


@dataclass(frozen=True)
class BaselineHistory:
    """The history of a baseline.

    Attributes:
        metric: the metric of the policy's first rule on all queries.
        events: oldest first, limited to the newest `MOST_EVENTS`.
        omitted: number of earlier events.
    """

    ledger: Ledger
    metric: str
    events: tuple[Event, ...]
    omitted: int

    @property
    def now(self) -> Baseline:
        """The baseline in force."""
        return self.ledger.versions[-1].baseline

    @property
    def last(self) -> Event:
        """The last event."""
        return self.events[-1]

    @property
    def since(self) -> Event:
        """The first of the last events with one verdict against one baseline: for a regression, what broke it."""
        last = self.last
        same = takewhile(
            lambda event: event.verdict == last.verdict and event.against is last.against, reversed(self.events)
        )
        return list(same)[-1]


def read_gates(baselines: Path, policy: Path | None = None) -> tuple[list[Ledger], Policy]:
    """Read the baselines of a folder or a file, with their history, and a policy.

    Args:
        baselines: the folder, or one file.
        policy: its file; by default `gate.toml` next to the baselines.

    Raises:
        UsageError: the policy cannot be read.
        ResultError: a baseline cannot be read, or there are none.
    """
    ledgers = read_ledgers(baselines)
    beside = (baselines if baselines.is_dir() else baselines.parent) / POLICY
    if policy is None and not beside.is_file():
        raise UsageError(f"the policy {beside} does not exist; name one with --policy.")
    return ledgers, read_policy(policy or beside)


def gate_histories(ledgers: Iterable[Ledger], policy: Policy, results: Iterable[StoredResult]) -> list[BaselineHistory]:
    """The history of each baseline.

    Args:
        ledgers, policy: as from `read_gates`.
        results: the site's results.
    """
    known = {item.manifest.result_id: item for item in results}
    metric = next((rule.metric for rule in policy.rule if rule.slice is None), RANKED[0])
    judged = _Judge(policy)
    return [_history(ledger, metric, known, judged) for ledger in ledgers]


def _history(ledger: Ledger, metric: str, known: Mapping[str, StoredResult], judged: _Judge) -> BaselineHistory:
    blessed = {version.baseline.result_id for version in ledger.versions}
    moments: list[Event] = []
    for i, version in enumerate(ledger.versions):
        at = moment(version.baseline.blessed.at) or FIRST_DATE
        # Versions follow the order of version control, whatever the clocks said.
        at = max(at, moments[-1].at) if moments else at
        before = ledger.versions[i - 1].baseline if i else None
        moments.append(Event(at, version, known.get(version.baseline.result_id), before))
    for name, result in sorted(known.items()):
        at = moment(result.manifest) or FIRST_DATE
        earlier = [item.version.baseline for item in moments[: len(ledger.versions)] if item.version and item.at <= at]
        force = earlier[-1] if earlier else None
        if name not in blessed and _question(result.manifest) == _question(force or ledger.versions[0].baseline):
            moments.append(Event(at, None, result, force))
    # Within a second, the baseline comes first: later events are compared with it. Sorting is stable.
    moments.sort(key=lambda item: (item.at, item.version is None))
    shown = moments[-MOST_EVENTS:]
    events = [replace(item, value=_value(item, metric), report=judged(item)) for item in shown]
    return BaselineHistory(ledger, metric, tuple(events), len(moments) - len(shown))


def _question(item: Baseline | Manifest) -> tuple[object, ...]:
    """The method and the question it answers, except for the dataset's content, which may change."""
    data = item.dataset
    return label_of(item.method, data), data.split, data.limit, data.template


def _value(item: Event, metric: str) -> MetricValue | None:
    if item.version is None:
        return item.result.metrics.metrics.get(metric) if item.result else None
    baseline = item.version.baseline
    if metric not in baseline.values:
        return None
    values = baseline.values[metric].array()[:, None]
    units = number_units(np.array(baseline.units, dtype=np.int64))
    return means_and_intervals(Scores((parse_metric(metric),), values), units, baseline.n_gold).get(metric)


class _Judge:
    """The gate under one policy; datasets that it needs are loaded once and never downloaded."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.load = cache(self._load)

    def __call__(self, item: Event) -> GateReport | None:
        baseline, stored = item.against, item.result if item.version is None else item.version.baseline
        if baseline is None or stored is None:
            return None
        side = Side(label=baseline.label)
        try:
            candidate = candidate_of(stored) if isinstance(stored, Baseline) else Candidate.of(stored)
            side = side_of(candidate)
            data = candidate.dataset
            return judge(candidate, baseline, self.policy, lambda at_hand: self.load(data.spec, data.content_hash))
        except BenchError as error:
            return not_judged("not run", [str(error)], side, baseline_side(baseline))

    @staticmethod
    def _load(spec: str, content_hash: str) -> Dataset:
        with config_context(offline=True):
            return load_version(spec, content_hash)


def candidate_of(baseline: Baseline) -> Candidate:
    """A baseline as a candidate: a new baseline is held against the one that it replaces."""
    columns: dict[str, Any] = {
        "query_id": baseline.query_ids,
        "unit": [f"{unit:09}" for unit in baseline.units],
        "n_gold": baseline.n_gold,
    }
    columns |= {name: values.array() for name, values in baseline.values.items()}
    # What both have under the same name.
    shared = {item.name for item in fields(Candidate)} & {"label", *Baseline.model_fields}
    return Candidate(
        **{name: getattr(baseline, name) for name in shared},
        method_hash=baseline.method.hash,
        per_query=pa.table(columns),
        snapshot=baseline.asked,
    )

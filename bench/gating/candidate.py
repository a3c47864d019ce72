"""Candidates of a gate: a stored result, or what `bench.gating.search_function` makes of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.protocol import MAPPED
from bench.gating.baseline import answers_digest, in_order, label_of
from bench.results.across_catalogues import Snapshot, why_not_given
from bench.results.failures import sentences
from bench.results.manifest import DatasetIdentity, Latency, Mark, ScoringCode
from bench.results.scoring_code import without_code
from bench.results.stated import check_values
from bench.results.store import StoredResult


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
        folder: of the stored result, beside whose files `bench stress` writes.
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
    folder: Path | None = None

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
            folder=result.folder,
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

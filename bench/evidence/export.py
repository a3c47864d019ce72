"""The schema of `results.json`, a leaderboard's complete export."""

from __future__ import annotations

from typing import Literal

from bench.results.manifest import Manifest, Metrics
from bench.storage.records import Record


class ExportedMetric(Record):
    """What a metric's name represents."""

    name: str
    definition: str
    higher_is_better: bool
    #: A paper's own variant, by which nothing is ranked.
    reproduction_only: bool


class ExportedBoard(Record):
    """Results that compare: the same data, split, number of queries and protocol.

    Attributes:
        id: unique within the file, and the same for the same data, split, limit and protocol.
        current: whether it is of today's protocol; results of others are kept, and not ranked among today's.
        metric: what `results` is ordered by.
        results: ids, best first, oracles last; the latest answer to each question alone.
    """

    id: str
    dataset: str
    title: str
    content_hash: str
    split: str
    limit: int | None
    protocol: str
    current: bool
    judged: int
    tools: int
    metric: str
    results: list[str]


class ExportedResult(Record):
    """One result.

    Attributes:
        label: `method @ dataset`.
        board: the board that it belongs to.
        latest: false if there is a result of a newer version of its method's code.
        marks: what a reader must know of the row.
        cost_per_query: money, in the currency of the configured prices; 0 without paid calls, null if the price is not
            known.
        page: where the site shows it, relative to this file; null if not given.
        manifest, metrics: as stored (schemas `manifest` and `metrics`).
    """

    result_id: str
    label: str
    board: str
    latest: bool
    marks: list[str]
    cost_per_query: float | None
    page: str | None
    manifest: Manifest
    metrics: Metrics


class Export(Record):
    """All results of a site, with the boards that they are on."""

    schema_name: Literal["export"] = "export"
    schema_version: Literal[1] = 1
    #: The protocol that today's results follow.
    protocol: str
    metrics: list[ExportedMetric]
    boards: list[ExportedBoard]
    results: list[ExportedResult]

"""`results.json`: the complete export of a site, with a schema (`bench schema export`)."""

from __future__ import annotations

from collections.abc import Sequence

from bench.base.errors import UsageError
from bench.leaderboard.exports.schema import Export, ExportedMetric
from bench.metrics import parse_metric


def describe_metrics(names: Sequence[str]) -> list[ExportedMetric]:
    """What these metrics are; those that this bench does not know are left out."""
    metrics = []
    for name in names:
        try:
            measure = parse_metric(name).measure
        except UsageError:
            continue
        metrics.append(
            ExportedMetric(
                name=name,
                definition=measure.definition,
                higher_is_better=measure.higher_is_better,
                reproduction_only=measure.reproduction_only,
            )
        )
    return metrics


def results_json(export: Export) -> str:
    """The file. `<` is escaped, so that no browser that guesses a type takes a name for markup."""
    return export.model_dump_json(indent=1).replace("<", "\\u003c") + "\n"

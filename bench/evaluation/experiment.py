"""Experiment files: several methods on several datasets.

methods = ["bm25", "dense(similarity=l2)", "tgr(base=dense, graph=manual)"]
datasets = ["starter", "apibank"]
split = "test"          # optional, as are the following
depth = 100
limit = 50
template = "description"  # or a Jinja file
cut = "size"
repeats = 5
metrics = ["ndcg@7"]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from bench.data.template import read_template
from bench.errors import UsageError
from bench.evaluation.plan import CutKind, EvaluatedSplit, Plan
from bench.metrics.measure import DEFAULT_DEPTH
from bench.results.manifest import MOST_REPEATS
from bench.specs.spec import parse
from bench.storage.records import StrictRecord, read_toml


class Experiment(StrictRecord):
    """Every method on every dataset, with the same settings."""

    methods: list[str] = Field(min_length=1)
    datasets: list[str] = Field(min_length=1)
    split: EvaluatedSplit | None = None
    limit: int | None = Field(None, ge=1)
    depth: int = Field(DEFAULT_DEPTH, ge=1)
    template: Annotated[str, AfterValidator(read_template)] | None = None
    cut: CutKind = "none"
    cut_at: float | None = None
    repeats: int = Field(1, ge=1, le=MOST_REPEATS)
    metrics: list[str] = []

    def plans(self) -> list[Plan]:
        """One plan for each pair, dataset by dataset."""
        return [
            Plan(
                parse(dataset),
                parse(method),
                split=self.split,
                limit=self.limit,
                depth=self.depth,
                template=self.template,
                cut=self.cut,
                cut_at=self.cut_at,
                repeats=self.repeats,
            )
            for dataset in self.datasets
            for method in self.methods
        ]


def read_experiment(path: Path) -> Experiment:
    """An experiment out of a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, or has an unknown key or a value of the wrong type.
    """
    return read_toml(Experiment, path, "the experiment file", UsageError)

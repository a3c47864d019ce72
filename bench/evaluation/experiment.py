"""Experiment files: several methods on several datasets. `bench run FILE` reads them.

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
from typing import Any

from pydantic import Field, field_validator

from bench.base.errors import UsageError
from bench.base.keys import refuse
from bench.base.records import StrictRecord, read_toml
from bench.base.spec import parse
from bench.data.template import read_template
from bench.evaluation.plan import Plan
from bench.results.settings import RunSettings


class Experiment(StrictRecord, RunSettings):
    """Every method on every dataset, with the same settings."""

    methods: list[str] = Field(min_length=1)
    datasets: list[str] = Field(min_length=1)
    metrics: list[str] = []

    @field_validator("template", mode="before")
    @classmethod
    def _read_template(cls, given: Any) -> Any:
        """A user may name a Jinja file; the record holds its source."""
        return read_template(given) if isinstance(given, str) else given

    def plans(self) -> list[Plan]:
        """One plan for each pair, dataset by dataset."""
        settings = self.non_defaults()
        return [Plan(parse(dataset), parse(method), **settings) for dataset in self.datasets for method in self.methods]


def read_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, has an unknown key or a value of the wrong type, or contains
            the value of a secret.
    """
    read = read_toml(Experiment, path, "the experiment file", UsageError)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        refuse(f"{path}, line {number},", line)
    return read

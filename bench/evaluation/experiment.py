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
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, Field, create_model

from bench.base.errors import UsageError
from bench.base.keys import refuse
from bench.base.records import StrictRecord, read_toml
from bench.base.spec import parse
from bench.evaluation.plan import Plan
from bench.results.settings import RunSettings, Setting, known_settings


class _Listed(StrictRecord):
    """Every method on every dataset, with the same settings."""

    methods: list[str] = Field(min_length=1)
    datasets: list[str] = Field(min_length=1)
    metrics: list[str] = []

    def plans(self) -> list[Plan]:
        """One plan for each pair, dataset by dataset."""
        settings = {name: getattr(self, name) for name in known_settings()}
        return [Plan(parse(dataset), parse(method), **settings) for dataset in self.datasets for method in self.methods]


def _field(name: str, setting: Setting) -> tuple[Any, Any]:
    """A setting as a field of a record."""
    hint = get_type_hints(RunSettings)[name]
    if setting.read is not None:
        hint = Annotated[str, AfterValidator(setting.read)] | None
    return hint, Field(setting.default, ge=setting.least, le=setting.most, description=setting.help)


_FIELDS: dict[str, Any] = {name: _field(name, setting) for name, setting in known_settings().items()}
Experiment = create_model("Experiment", __base__=_Listed, __doc__=_Listed.__doc__, **_FIELDS)


def read_experiment(path: Path) -> _Listed:
    """An experiment out of a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, has an unknown key or a value of the wrong type, or holds the
            value of a secret.
    """
    read = read_toml(Experiment, path, "the experiment file", UsageError)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        refuse(f"{path}, line {number},", line)
    return read

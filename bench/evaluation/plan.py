"""Plans: one method on one dataset under one protocol. `Runner` runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, GetPydanticSchema
from pydantic_core import core_schema

from bench.base.errors import UsageError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.metrics import Metric
from bench.results.commands import print_command, stored_settings
from bench.results.settings import EvaluatedSplit, Keywords, RunSettings

#: Specs contain specs, which pydantic need not validate: `parse` has checked them.
_ParsedSpec = Annotated[Spec, GetPydanticSchema(lambda kind, _: core_schema.is_instance_schema(kind))]


class Plan(RunSettings):
    """One run: its settings, and the specs of the dataset and the method."""

    dataset: _ParsedSpec
    method: _ParsedSpec

    def __init__(self, dataset: Spec, method: Spec, **settings: Unpack[Keywords]) -> None:
        # Only the settings are fields of the base class.
        BaseModel.__init__(self, dataset=dataset, method=method, **settings)

    def check(self) -> None:
        """Check settings that need no dataset.

        Raises:
            UsageError: the value to cut at does not fit the cut.
        """
        if self.cut_at is not None:
            if self.cut == "none":
                raise UsageError("--cut-at says where to cut; give --cut size, threshold or gap with it.")
            if self.cut != "threshold" and (self.cut_at < 1 or self.cut_at % 1):
                raise UsageError(
                    f"--cut {self.cut} needs a whole number of 1 or more for --cut-at; it is {self.cut_at:g}."
                )

    def normal(self, dataset: Dataset) -> Plan:
        """The same plan without a limit that limits nothing.

        Raises:
            UsageError: there are no queries to ask, or a setting does not fit (`check`).
        """
        self.check()
        available = len(dataset.rows(self.evaluated_split(dataset)))
        if not dataset.queries:
            raise UsageError(
                f"{dataset.spec} is a catalogue without queries; import it again with --queries FILE --replace, "
                f"or add its tools to another dataset: DATASET(distractors={dataset.card.id})."
            )
        if not dataset.tools:
            raise UsageError(
                f"{dataset.spec} is a set of queries without tools; add them to another dataset: "
                f"DATASET(no_tool={dataset.card.id})."
            )
        if not available:
            split = self.evaluated_split(dataset)
            raise UsageError(f"{dataset.spec} has no {split} queries; choose another --split.")
        return self.model_copy(update={"limit": None}) if self.limit is not None and self.limit >= available else self

    def command(self, metrics: Sequence[Metric] = ()) -> str:
        """The command that reproduces exactly this result, with further metrics."""
        return print_command(stored_settings(str(self.method), str(self.dataset), self, metrics))

    def evaluated_split(self, dataset: Dataset) -> EvaluatedSplit:
        """The split of this plan on a dataset."""
        return self.split or dataset.card.split

    def tool_text(self, dataset: Dataset) -> Template:
        """The template of this plan on a dataset."""
        return self.template or dataset.card.template

    def rows(self, dataset: Dataset) -> NDArray[np.int64]:
        """The queries that are evaluated."""
        rows = dataset.rows(self.evaluated_split(dataset))
        if self.limit is not None and self.limit < len(rows):
            rows = rows[np.linspace(0, len(rows) - 1, self.limit).round().astype(np.int64)]
        return rows

    def resolve(self, dataset: Dataset) -> RunSettings:
        """The settings of a plan that is normal on a dataset, with the dataset's split and template by name."""
        named = {"split": self.evaluated_split(dataset), "template": self.tool_text(dataset)}
        return RunSettings(**self.non_defaults() | named)

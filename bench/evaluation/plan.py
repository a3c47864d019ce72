"""Plans: one method on one dataset under one protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.protocol import MOST_REPEATS
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.metrics import Metric
from bench.results.commands import print_command, stored_settings
from bench.results.ids import Conditions
from bench.results.settings import EvaluatedSplit, RunSettings


@dataclass(frozen=True)
class Plan(RunSettings):
    """One run: its settings, and the specs of the dataset and the method."""

    dataset: Spec
    method: Spec

    def check(self) -> None:
        """Check what needs no dataset.

        Raises:
            UsageError: the number of repeats is not from 1 to `MOST_REPEATS`, or the value to cut at does not fit the
                cut.
        """
        if not 1 <= self.repeats <= MOST_REPEATS:
            raise UsageError(f"{self.repeats} repeats are asked for; choose from 1 to {MOST_REPEATS}.")
        if self.cut_at is not None:
            if self.cut == "none":
                raise UsageError("--cut-at says where to cut; give --cut size, threshold or gap with it.")
            counted = self.cut != "threshold"
            if not math.isfinite(self.cut_at) or (counted and (self.cut_at < 1 or self.cut_at % 1)):
                what = "a whole number of 1 or more" if counted else "a finite number"
                raise UsageError(f"--cut {self.cut} needs {what} for --cut-at; {self.cut_at:g} is none.")

    def normal(self, dataset: Dataset) -> Plan:
        """The same plan without a limit that limits nothing.

        Raises:
            UsageError: there are no queries to ask, or a setting fits none of them (`check`).
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
        return replace(self, limit=None) if self.limit is not None and self.limit >= available else self

    def command(self, metrics: Sequence[Metric] = ()) -> str:
        """The command that makes this result and no other, with further metrics."""
        return print_command(stored_settings(str(self.method), str(self.dataset), self, metrics))

    def evaluated_split(self, dataset: Dataset) -> EvaluatedSplit:
        """The split of this plan on a dataset."""
        return self.split or dataset.card.split

    def tool_text(self, dataset: Dataset) -> Template:
        """The template of this plan on a dataset."""
        return self.template or dataset.card.template

    def rows(self, dataset: Dataset) -> NDArray[np.int64]:
        """The queries asked."""
        rows = dataset.rows(self.evaluated_split(dataset))
        if self.limit is not None and self.limit < len(rows):
            rows = rows[np.linspace(0, len(rows) - 1, self.limit).round().astype(np.int64)]
        return rows

    def conditions(self, dataset: Dataset) -> Conditions:
        """What a method is asked on a dataset by a plan that is normal there."""
        return Conditions(
            content_hash=dataset.content_hash,
            split=self.evaluated_split(dataset),
            limit=self.limit,
            depth=self.depth,
            template=self.tool_text(dataset),
            cut=self.cut,
            cut_at=self.cut_at,
            repeats=self.repeats,
        )

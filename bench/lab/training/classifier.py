"""`bench train classifier`: does a query need tools of one parent or of several?

ToolRerank's classifier (section 3.3), from the number of parents that the gold of train queries has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.parents import parent_codes
from bench.data.template import Template
from bench.lab.training.sequence_classifier import SequenceSettings, SequenceTrainer

if TYPE_CHECKING:
    import torch


class ClassifierTrainer(SequenceTrainer):
    """Learns from the train queries, by cross-entropy."""

    class Parameters(SequenceSettings):
        most_tokens: int = Field(64, ge=8, description="maximum number of tokens per query, in training and in use")

    parameters: Parameters
    kind = "classifier"
    labels = ("single", "multi")
    measure = "accuracy on the validation queries"

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        parents = parent_codes(dataset.tools)
        self._queries, self._several = _examples(dataset, parents, train)
        self._validation, self._wanted = _examples(dataset, parents, validation)
        if len(np.unique(self._several)) < 2:
            which = "several parents" if self._several.all() else "one parent"
            raise UsageError(f"all train queries of {dataset.spec} take {which}: there is nothing to classify.")
        self.load()

    def __len__(self) -> int:
        return len(self._queries)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        logits = self.logits([self._queries[i] for i in examples])
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(self._several[examples]).to(logits.device))

    def validate(self) -> float:
        return float((self.classify(self._validation).argmax(axis=1) == self._wanted).mean())

    def facts(self) -> dict[str, str | int | float | bool]:
        # The baseline for the accuracy: always predicting the more frequent label.
        share = float(self._wanted.mean())
        return {
            **super().facts(),
            "train_queries_of_one_parent": int((self._several == 0).sum()),
            "majority_accuracy": round(max(share, 1 - share), 4),
        }


def _examples(
    dataset: Dataset, parents: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[list[tuple[str]], NDArray[np.int64]]:
    """The texts of these queries, and 1 for those whose gold has several parents, else 0."""
    several = [len(np.unique(parents[dataset.gold.row(int(row))])) > 1 for row in rows]
    return [(dataset.queries[row].text,) for row in rows], np.array(several, dtype=np.int64)

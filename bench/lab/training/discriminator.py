"""`bench train discriminator`: classifies the dependency between two tools (TGR, section 3.1).

A transformer reads `[CLS] document of a [SEP] document of b` and gives three probabilities: a depends on b, neither, b
depends on a. It is trained in two stages. The first is balanced: every dependency in both orders and as many pairs
without one, by cross-entropy (eq. 1). The second is imbalanced like the later use: the candidate pairs of a library
with annotated edges, by the loss averaged over each category (eq. 2). A fifth of the latter is held out; it selects the
model and the threshold above which a pair counts as an edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.paths import write_text
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.lab.graph.agreement import macro_scores
from bench.lab.training.generated import generated_pairs
from bench.lab.training.pairs import (
    ToolPair,
    annotate_pairs,
    balance,
    encode_edges,
    label_counts,
    pairs_digest,
    split_by_group,
)
from bench.lab.training.pretrained import arithmetic, classifier_and_tokenizer, make_ready, outputs_by_length
from bench.lab.training.sequence_classifier import SequenceSettings, SequenceTrainer
from bench.lab.training.trainer import Examples
from bench.lab.training.weak import weak_pairs
from bench.methods.tgr.candidates import NEAREST, candidate_pairs
from bench.methods.tgr.discriminator import SETTINGS, DiscriminatorSettings, best_threshold, mean_of_orders
from bench.methods.tgr.documents import document
from bench.methods.tgr.edges import LABELS, NEITHER
from bench.models.encoders import EMBEDDED, Encoder
from bench.registry import load_dataset

if TYPE_CHECKING:
    import torch

#: The paper's held-out share of the second stage.
_VALIDATION_SHARE = 0.2
#: Tokens per batch of pairs of similar length, which need little padding. On a CPU a small budget is no slower than a
#: large one.
_BUDGET = 1024

Source = Literal["weak", "edges", "llm"]


class DiscriminatorTrainer(SequenceTrainer):
    """Learns dependencies from pairs of tools; needs no queries."""

    class Parameters(SequenceSettings):
        epochs: int = Field(10, ge=1, description="passes over the pairs, including the first stage")
        pretraining_epochs: int = Field(2, ge=0, description="epochs of the balanced first stage")
        batch_size: int = Field(16, ge=1, description="pairs per step")
        source: Source = Field(
            "weak",
            description="first stage: `weak` labels from the schemas, annotated `edges`, or pairs that a language "
            "model generates from `functions`",
        )
        variants: int = Field(6, ge=0, description="source=weak: renamed copies per labelled pair")
        functions: str = Field(
            "", description="source=llm: a Python file, a folder of them, or JSON lines with the field `code`"
        )
        llm: str = Field("", description="source=llm: name of the language model")
        annotated: str = Field(
            "starter", description="second stage: dataset whose annotated edges are used for training and validation"
        )
        nearest: int = Field(NEAREST, ge=0, description="second stage: candidate pairs per tool by text similarity")
        most_tokens: int = Field(160, ge=8, description="maximum number of tokens per pair, in training and in use")
        dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate; by default that of BERT")

    parameters: Parameters
    kind = "discriminator"
    labels = LABELS
    measure = "macro F1 of the three categories on the validation pairs"
    needs_queries = False

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        chosen = self.parameters
        annotated = dataset if dataset.spec == chosen.annotated else load_dataset(chosen.annotated)
        second, self._validation = self._second_stage(annotated)
        held = {pair.group for pair in self._validation}
        first = self._first_stage(dataset, held) if chosen.pretraining_epochs else []
        self._stages = (first, second)
        used = [*first, *second, *self._validation]
        self._examples = Examples(
            digest=pairs_digest(used),
            tools=frozenset(tool for pair in used for tool in pair.tools),
            validation=f"{len(self._validation)} pairs of {annotated.spec}, "
            f"{sum(pair.label != NEITHER for pair in self._validation)} of them dependencies, not learnt from",
        )
        # Later: generating pairs with a language model may fail, and loading takes time.
        self.model, self._tokenizer = classifier_and_tokenizer(self.base, LABELS, chosen.most_tokens, chosen.seed)
        make_ready(self.model, chosen.dropout)
        both = [*self._validation, *(pair.turn() for pair in self._validation)]
        self._validation_tokens = self._encode_pairs(both)
        self.begin_epoch(0, Path())
        self._chosen: DiscriminatorSettings | None = None

    def _second_stage(self, annotated: Dataset) -> tuple[list[ToolPair], list[ToolPair]]:
        if not annotated.edges:
            raise UsageError(
                f"{annotated.spec} has no annotated edges for the second stage; "
                "name a dataset that has with --set annotated=DATASET."
            )
        random = np.random.default_rng([self.parameters.seed, 2])
        tools = annotated.tools
        vectors = Encoder(EMBEDDED, progress=self.progress).encode([document(tool) for tool in tools])
        candidates = candidate_pairs(tools, vectors, self.parameters.nearest)
        pairs = annotate_pairs(tools, encode_edges(annotated), candidates, random)
        return split_by_group(pairs, _VALIDATION_SHARE, random)

    def _first_stage(self, dataset: Dataset, held: set[str]) -> list[ToolPair]:
        """Balanced pairs from the chosen source; none of a validation group."""
        chosen = self.parameters
        random = np.random.default_rng([chosen.seed, 1])
        unrelated: list[ToolPair] = []
        if chosen.source == "llm":
            dependent = generated_pairs(chosen.functions, chosen.llm, self.progress)
        elif chosen.source == "weak":
            dependent, unrelated = weak_pairs(dataset.tools, chosen.variants, random)
        else:
            every = annotate_pairs(dataset.tools, encode_edges(dataset), np.empty((0, 2), np.int32), random)
            dependent = [pair if pair.label == 0 else pair.turn() for pair in every]
        dependent = [pair for pair in dependent if pair.group not in held]
        unrelated = [pair for pair in unrelated if pair.group not in held]
        if not dependent:
            raise UsageError(
                f"{dataset.spec} gives no pairs for the first stage with source={chosen.source}: choose another "
                "dataset or source, or leave the stage out with --set pretraining_epochs=0."
            )
        return balance(dependent, unrelated, random)

    def _encode_pairs(self, pairs: Sequence[ToolPair]) -> list[dict[str, list[int]]]:
        if not pairs:
            return []
        tokens = self._tokenizer([pair.first for pair in pairs], [pair.second for pair in pairs], truncation=True)
        return [{name: rows[i] for name, rows in tokens.items()} for i in range(len(pairs))]

    def examples(self) -> Examples:
        return self._examples

    def begin_epoch(self, epoch: int, scratch: Path) -> None:
        """Enter the epoch's stage; every second epoch reads the pairs in the other order."""
        self._balanced = epoch < self.parameters.pretraining_epochs
        stage = self._stages[0 if self._balanced else 1]
        self._pairs = [pair.turn() for pair in stage] if epoch % 2 else stage
        self._encoded = self._encode_pairs(self._pairs)
        counts = label_counts(self._pairs)
        # Eq. 2 sums over a category and divides by its size; with this scaling, the mean over all pairs equals that
        # sum.
        self._weights = np.divide(len(stage), counts, out=np.zeros(len(LABELS)), where=counts > 0)

    def __len__(self) -> int:
        return len(self._pairs)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        with arithmetic(self.model, self.parameters.precision):
            logits = self._logits([self._encoded[i] for i in examples])
        labels = torch.tensor([self._pairs[i].label for i in examples], device=logits.device)
        weights = None if self._balanced else torch.tensor(self._weights, dtype=torch.float32, device=logits.device)
        return stage_loss(logits.float(), labels, weights)

    def _logits(self, tokens: Sequence[dict[str, list[int]]]) -> torch.Tensor:
        """(pairs, 3)."""
        device = next(self.model.parameters()).device

        def compute(batch: NDArray[np.int64]) -> torch.Tensor:
            padded = self._tokenizer.pad([tokens[i] for i in batch], return_tensors="pt")
            logits: torch.Tensor = self.model(**padded.to(device)).logits
            return logits

        return outputs_by_length([len(row["input_ids"]) for row in tokens], _BUDGET, compute)

    def validate(self) -> float:
        logits = self._logits(self._validation_tokens)
        probabilities = mean_of_orders(logits.double().cpu().numpy())
        labels = np.array([pair.label for pair in self._validation])
        self._chosen = best_threshold(probabilities, labels)
        return macro_scores(labels, probabilities.argmax(axis=1))[2]

    def save(self, folder: Path) -> None:
        super().save(folder)
        assert self._chosen is not None
        write_text(folder / SETTINGS, self._chosen.model_dump_json(indent=1) + "\n")

    def facts(self) -> dict[str, str | int | float | bool]:
        first, second = (label_counts(stage) for stage in self._stages)
        return {
            "annotated": self.parameters.annotated,
            "first_stage": " + ".join(map(str, first)),
            "second_stage": " + ".join(map(str, second)),
        }


def stage_loss(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """Eq. 1, the mean cross-entropy; with the weights N / N_k of each category k, eq. 2.

    Eq. 2 is the sum over categories of the mean cross-entropy in each: Σ_k (1/N_k) Σ_{i in k} -log ŷ_i. The mean over
    all N pairs of (N / N_{k(i)}) · -log ŷ_i is the same number, and that of a drawn batch is so in expectation.

    Args:
        logits: (pairs, 3).
        labels: (pairs,).
        weights: (3,) or None.
    """
    import torch

    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    return losses.mean() if weights is None else (losses * weights[labels]).mean()

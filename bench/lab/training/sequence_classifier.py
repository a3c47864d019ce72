"""Shared code for fine-tuning transformers to classify texts or text pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.lab.training.pretrained import (
    TransformerSettings,
    arithmetic,
    classifier_and_tokenizer,
    make_ready,
    uses_bfloat16,
)
from bench.lab.training.trainer import Trainer
from bench.models.cache import token_batches

if TYPE_CHECKING:
    import torch

#: Tokens to classify at once without training.
_BUDGET = 4096


class SequenceSettings(TransformerSettings):
    """Settings of every kind that fine-tunes a sequence classifier."""

    learning_rate: float = Field(1e-4, gt=0, description="peak learning rate of AdamW")
    most_tokens: int = Field(
        128,
        ge=8,
        description="maximum number of tokens per input, in training and in use (of a pair, the longer text is cut)",
    )


class SequenceTrainer(Trainer):
    """A transformer with a head of `labels`; a subclass provides the examples and the loss."""

    #: The names of the head's outputs, in order.
    labels: ClassVar[tuple[str, ...]]
    parameters: SequenceSettings

    def load(self) -> None:
        """Read the base and give it a head; called by `prepare`."""
        chosen = self.parameters
        self.model, self._tokenizer = classifier_and_tokenizer(self.base, self.labels, chosen.most_tokens, chosen.seed)
        make_ready(self.model, chosen.dropout)

    def logits(self, inputs: Sequence[tuple[str, ...]]) -> torch.Tensor:
        """(inputs, labels) float32, with gradients if the context has them."""
        tokens = self._tokens(inputs, padding=True, return_tensors="pt")
        with arithmetic(self.model, self.parameters.precision):
            output = self.model(**tokens.to(self.model.device)).logits
        logits: torch.Tensor = output.float()
        return logits

    def classify(self, inputs: Sequence[tuple[str, ...]]) -> NDArray[np.float32]:
        """(inputs, labels) logits for validation, in float32 as in use, in batches of similar length."""
        import torch

        logits = np.empty((len(inputs), len(self.labels)), dtype=np.float32)
        lengths = [len(ids) for ids in self._tokens(inputs)["input_ids"]]
        with torch.inference_mode():
            for batch in token_batches(lengths, _BUDGET):
                tokens = self._tokens([inputs[i] for i in batch], padding=True, return_tensors="pt")
                logits[batch] = self.model(**tokens.to(self.model.device)).logits.float().cpu().numpy()
        return logits

    def _tokens(self, inputs: Sequence[tuple[str, ...]], **options: Any) -> Any:
        columns = [list(column) for column in zip(*inputs, strict=True)]
        return self._tokenizer(*columns, truncation=True, **options)

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(str(folder))
        self._tokenizer.save_pretrained(str(folder))

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"bfloat16": uses_bfloat16(self.model, self.parameters.precision)}

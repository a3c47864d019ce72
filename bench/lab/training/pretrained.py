"""Shared code for fine-tuning pretrained transformers: files, tokens, precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UnavailableError
from bench.base.reading import Reader
from bench.lab.training.trainer import TrainingSettings
from bench.models.cache import token_batches
from bench.models.files import loading, model_folder, quiet_transformers

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "float32", "bfloat16"]


class TransformerSettings(TrainingSettings):
    """Settings of every kind that fine-tunes a transformer."""

    precision: Precision = Field(
        "auto", description="precision of matrix products; auto: bfloat16 if the CPU supports it; weights stay float32"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout rate; 0 trains a third faster")


def transformer_folder(base: str) -> Path:
    """The folder with the transformer of a model: the model's own, or that of its first module.

    Raises:
        UnavailableError: the model does not exist here.
    """
    folder = model_folder(base)
    if (folder / "config.json").is_file():
        return folder
    path = folder / "modules.json"
    reader = Reader(f"the modules of the model {path}", UnavailableError)
    try:
        first = folder / str(reader.parse(reader.read_bytes(path))[0]["path"])
    except (LookupError, TypeError):
        first = folder
    if not (first / "config.json").is_file():
        raise UnavailableError(f"the model {base!r} has no transformer to train (no config.json in {first}).")
    return first


def classifier_and_tokenizer(base: str, labels: Sequence[str], most_tokens: int, seed: int) -> tuple[Any, Any]:
    """A transformer with a new, seeded head of `labels`, and its tokenizer truncating at `most_tokens`.

    A base with a head of as many labels (a cross-encoder) keeps it.

    Raises:
        UnavailableError: the model is missing, or its files cannot be read.
    """
    import torch

    quiet_transformers()
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = transformer_folder(base)
    torch.manual_seed(seed)
    with loading(base, folder):
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder),
            num_labels=len(labels),
            id2label=dict(enumerate(labels)),
            label2id={label: i for i, label in enumerate(labels)},
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    longest = getattr(model.config, "max_position_embeddings", most_tokens)
    # Stored with the model, so that it is used with its training length.
    tokenizer.model_max_length = min(most_tokens, longest)
    return model, tokenizer


def make_ready(model: torch.nn.Module, dropout: float) -> None:
    """Set the dropout of every layer, and choose the fastest attention for training on this processor.

    On a CPU without dropout the plain attention takes two thirds of the time of torch's fused one, whose backward pass
    is slow there (MiniLM, 128 tokens, bfloat16: 1,900 against 1,350 tokens a second and core).
    """
    import torch
    from transformers import PreTrainedModel

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    if not torch.cuda.is_available():
        for module in model.modules():
            if isinstance(module, PreTrainedModel):
                module.set_attn_implementation("eager")
                break


def arithmetic(model: torch.nn.Module, precision: Precision) -> AbstractContextManager[object]:
    """The context for computing a model's outputs during training."""
    import torch

    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=uses_bfloat16(model, precision))


def uses_bfloat16(model: torch.nn.Module, precision: Precision) -> bool:
    """Whether a model's matrix products are computed in bfloat16 on this machine."""
    import torch

    if precision != "auto":
        return precision == "bfloat16"
    if next(model.parameters()).device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    # Without dedicated instructions, a processor computes bfloat16 slower than float32.
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, bool)()) for name in checks)


def outputs_by_length(
    lengths: Sequence[int], budget: int, compute: Callable[[NDArray[np.int64]], torch.Tensor]
) -> torch.Tensor:
    """(texts, ...) outputs in the order of the texts, computed in batches of about one length.

    Args:
        lengths: tokens of each text; at least one text.
        budget: tokens of a batch, padding included.
        compute: the outputs of the texts at these positions.
    """
    import torch

    batches = token_batches(lengths, budget)
    outputs = torch.cat([compute(batch) for batch in batches])
    return outputs[torch.from_numpy(np.argsort(np.concatenate(batches))).to(outputs.device)]

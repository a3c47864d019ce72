"""The interface of a trainable model kind. `train` and `loop` call it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.models.files import folder_revision, model_folder
from bench.models.trainingcard import Kind

if TYPE_CHECKING:
    import torch


class TrainingSettings(ParameterSet):
    """Settings of every training; kinds add their own."""

    epochs: int = Field(1, ge=1, description="passes over the examples")
    batch_size: int = Field(32, ge=1, description="examples per step")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate of AdamW")
    schedule: Literal["linear", "constant"] = Field("linear", description="learning-rate schedule after warm-up")
    warmup: float = Field(0.1, ge=0, le=1, description="proportion of steps with linear warm-up")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay; biases and norms are excluded")
    clip: float = Field(1.0, gt=0, description="gradient clipping: maximum 2-norm")
    evaluate_every: int = Field(
        0, ge=0, description="steps between evaluations on the validation set; 0: once per epoch"
    )
    patience: int = Field(0, ge=0, description="early stopping: evaluations without improvement; 0: never stop early")
    most_steps: int = Field(0, ge=0, description="maximum number of steps; 0: no limit")
    checkpoint_every: int = Field(
        0, ge=0, description="steps between checkpoints; 0: as often as a tenth of the time allows"
    )
    seed: int = Field(0, ge=0, lt=1 << 32, description="random seed for example order, dropout and sampled negatives")


@dataclass(frozen=True)
class Examples:
    """The card's description of examples other than the dataset's train queries.

    Attributes:
        digest: of all training and validation examples; part of the training's identity.
        tools: digests of their tools (`tool_digest`).
        validation: the validation examples, in words.
    """

    digest: str
    tools: frozenset[str]
    validation: str


class Trainer(ABC):
    """One kind of model. `prepare` is called once; the loop then calls the others.

    Args:
        parameters: an instance of `Parameters`.
        base: the initial model: a name, a folder, or the kind's default.
    """

    kind: ClassVar[Kind]
    Parameters: ClassVar[type[TrainingSettings]] = TrainingSettings
    default_base: ClassVar[str] = "minilm"
    #: The name of the value of `validate`, for the card: higher is better.
    measure: ClassVar[str]
    #: False for a kind that learns only from tools: it accepts datasets without train queries, and returns `examples`.
    needs_queries: ClassVar[bool] = True
    #: The `torch.nn.Module` to train; `prepare` sets it.
    model: Any

    def __init__(self, parameters: Any, base: str, progress: Progress = QUIET) -> None:
        self.parameters = parameters
        self.base = base
        self.progress = progress

    @property
    def base_revision(self) -> str:
        """sha256 over the files of the initial model; empty when training from scratch."""
        return folder_revision(model_folder(self.base))

    @abstractmethod
    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        """Load the model and make the examples of these queries (rows of the dataset). Must be deterministic.

        Raises:
            BenchError: the dataset has nothing to learn this from.
        """

    @abstractmethod
    def __len__(self) -> int:
        """The number of examples per epoch."""

    @abstractmethod
    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        """The mean loss of these examples, to be minimised."""

    @abstractmethod
    def validate(self) -> float:
        """The measure on the validation examples; higher is better."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model in the format that methods load."""

    def examples(self) -> Examples | None:
        """The source of the examples, called after `prepare`; None: the given queries."""
        return None

    def revisions(self) -> dict[str, str]:
        """Other models that the examples depend on (role -> revision), called after `prepare`; part of the identity."""
        return {}

    def begin_epoch(self, epoch: int, scratch: Path) -> None:
        """Called before each epoch, and again when a killed training resumes in the middle of one.

        A kind that makes its examples with the model itself stores them in the folder `scratch`, which survives a
            kill: by then the model has changed.
        """
        return

    def facts(self) -> dict[str, str | int | float | bool]:
        """Additional entries of the card."""
        return {}

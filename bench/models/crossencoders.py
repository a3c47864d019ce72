"""Cross-encoders: relevance scores of (query, tool) pairs. Rerankers call them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.records import Record, first_fault
from bench.models.classifiers import SequenceModel
from bench.models.compiled import Backend


class Retriever(Record):
    """The retriever whose scores a cross-encoder corrects, as stored under `retriever` in its `config.json`.

    Attributes:
        revision: of its encoder (`Encoder.revision`).
        weight: of its cosine: a tool's score is `weight * cosine + logit`.
    """

    revision: str
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CrossEncoder:
    """Scores pairs of a query and a tool's text, cached by content.

    Args:
        name: a folder, or the name of a sequence classifier with one output on the hub.
        backend: what computes (see `SequenceModel`).
        progress: receives the progress of long work.
    """

    def __init__(self, name: str, *, backend: Backend = "torch", progress: Progress = QUIET) -> None:
        self.model = SequenceModel(name, backend=backend, progress=progress, unit="pairs")

    @property
    def name(self) -> str:
        """The model's folder or name."""
        return self.model.name

    @cached_property
    def retriever(self) -> Retriever | None:
        """The retriever that it was trained to correct; None if its logits are used alone.

        Raises:
            UnavailableError: the model is missing, or its settings are invalid.
        """
        path = self.model.folder / "config.json"
        try:
            stated = json.loads(path.read_text("utf-8")).get("retriever")
            return None if stated is None else Retriever.model_validate(stated)
        except ValidationError as error:
            raise UnavailableError(
                f"{path} does not say which retriever the model corrects ({first_fault(error)}); train the model again."
            ) from None
        except (OSError, ValueError, AttributeError):
            return None  # `preflight` reports what is wrong with such a file

    def preflight(self) -> None:
        """Report now what would stop the scoring later.

        Raises:
            UsageError: no model is named.
            UnavailableError: the model or the backend's package is missing, or the model is not a cross-encoder.
        """
        name = self.model.name
        if not name:
            raise UsageError(
                "a cross-encoder is required: set reranker=FOLDER; `bench train reranker --dataset NAME "
                "--out FOLDER` trains one."
            )
        self.model.preflight()
        if len(self.model.labels) != 1:
            raise UnavailableError(
                f"{name} is not a cross-encoder: it has {len(self.model.labels)} outputs instead of one; "
                "`bench train reranker` trains one."
            )

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """(pairs,) logits, higher is more relevant; `probability` maps them to (0, 1)."""
        return self.model.logits(pairs)[:, 0]

    def revisions(self) -> dict[str, str]:
        """Name and revision, for the methods that use this."""
        return self.model.revisions()

    def facts(self) -> dict[str, str | int | float | bool]:
        """What readers of the result should know."""
        return {"pairs_scored": self.model.computed, "pairs_from_cache": self.model.from_cache}


def probability(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """The relevance between 0 and 1 that a logit represents: the logistic function."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)), dtype=np.float64)

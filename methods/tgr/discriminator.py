"""The trained dependency classifier: candidate pairs in, edges out.

`bench train discriminator` makes the models. A model folder contains the transformer and `discriminator.json` with
the threshold above which a pair is an edge, chosen on the pairs that the training validated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.records import Record
from bench.data.tables import Tool
from bench.methods.tgr.candidates import NEAREST, Pairs, Within, candidate_pairs
from bench.methods.tgr.documents import document
from bench.methods.tgr.edges import LABELS, NEITHER, Edges
from bench.models.classifiers import SequenceModel
from bench.models.encoders import EMBEDDED, Encoder

SETTINGS = "discriminator.json"


class DiscriminatorSettings(Record):
    """The content of `discriminator.json`.

    Attributes:
        threshold: minimum probability of a dependency for an edge.
        pairs, edges: number of pairs it was chosen on, and number of dependencies among them.
        precision, recall, f1: of the edges at that threshold, on those pairs.
    """

    threshold: float = Field(ge=0, le=1)
    pairs: int = Field(ge=0)
    edges: int = Field(ge=0)
    precision: float
    recall: float
    f1: float


class Discriminator:
    """A trained classifier.

    Args:
        name: its folder.
        progress: receives the progress of long work.
    """

    def __init__(self, name: str, progress: Progress = QUIET) -> None:
        if not name:
            raise UsageError(
                "graph=discriminator needs discriminator=FOLDER; `bench train discriminator --dataset "
                "starter --out FOLDER` trains one."
            )
        self.name = name
        self.progress = progress
        self._model = SequenceModel(name, progress=progress, unit="pairs")
        self._encoder = Encoder(EMBEDDED, progress=progress)

    def revisions(self) -> dict[str, str]:
        """What the edges depend on besides the library: the classifier, and the encoder that proposes pairs."""
        return {self.name: self._model.revision, EMBEDDED: self._encoder.revision}

    @cached_property
    def settings(self) -> DiscriminatorSettings:
        """The result of the training.

        Raises:
            UnavailableError: the folder contains no discriminator.
        """
        try:
            if self._model.labels == LABELS:
                return DiscriminatorSettings.model_validate_json((self._model.folder / SETTINGS).read_bytes())
        except (OSError, ValidationError):
            pass
        raise UnavailableError(
            f"{self.name} does not contain a readable dependency discriminator; `bench train "
            f"discriminator --dataset starter --out {self.name}` trains one."
        )

    def candidates(self, tools: Sequence[Tool], nearest: int = NEAREST, within: Within = "library") -> Pairs:
        """The candidate pairs of a library."""
        vectors = self._encoder.encode([document(tool) for tool in tools])
        return candidate_pairs(tools, vectors, nearest, within)

    def probabilities(self, tools: Sequence[Tool], pairs: Pairs) -> NDArray[np.float64]:
        """(pairs, 3) probabilities of `LABELS`; a is the first tool of each pair and b the second.

        The classifier reads both orders of a pair, and their mean is used, so the order of the two tools does not
        matter.
        """
        texts = [document(tool) for tool in tools]
        there = [(texts[a], texts[b]) for a, b in pairs]
        back = [(texts[b], texts[a]) for a, b in pairs]
        return mean_of_orders(self._model.logits([*there, *back]))

    def edges(self, tools: Sequence[Tool], nearest: int = NEAREST, within: Within = "library") -> Edges:
        """The dependency graph of a library, sorted."""
        pairs = self.candidates(tools, nearest, within)
        return edges_above(pairs, self.probabilities(tools, pairs), self.settings.threshold)


def mean_of_orders(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """(pairs, 3) probabilities from (2 x pairs, 3) logits: those of all pairs, then of the same pairs turned round."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    there, back = np.split(shifted / shifted.sum(axis=1, keepdims=True), 2)
    mean: NDArray[np.float64] = (there + back[:, ::-1]) / 2
    return mean


def edges_above(pairs: Pairs, probabilities: NDArray[np.float64], threshold: float) -> Edges:
    """(edges, 2) [dependent, prerequisite] of the pairs with a dependency at least as probable as the threshold.

    A pair is at most one edge: the more probable one of the two directions.
    """
    kept = probabilities[:, [0, 2]].max(axis=1) >= threshold
    turned = (probabilities[:, 2] > probabilities[:, 0])[kept]
    edges = pairs[kept]
    edges[turned] = edges[turned, ::-1]
    return np.unique(edges, axis=0).astype(np.int32).reshape(-1, 2)


def best_threshold(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> DiscriminatorSettings:
    """The threshold with the best F1 of edges; of several, the highest.

    An edge counts as found only in its true direction.

    Args:
        probabilities: (pairs, 3).
        labels: (pairs,) positions in `LABELS`.
    """
    best = probabilities[:, [0, 2]].max(axis=1)
    predicted = np.where(probabilities[:, 2] > probabilities[:, 0], 2, 0)
    order = np.argsort(-best, kind="stable")
    scores = best[order]
    right = np.cumsum((predicted == labels)[order])
    taken = np.arange(1, len(order) + 1)
    total = int(np.count_nonzero(labels != NEITHER))
    f1 = 2 * right / (taken + total)
    # Pairs with equal scores are taken together.
    f1[:-1][scores[:-1] == scores[1:]] = -1
    at = int(np.argmax(f1))
    # Halfway to the next score, so that last digits of another machine do not matter.
    below = scores[at + 1] if at + 1 < len(scores) else 0.0
    return DiscriminatorSettings(
        threshold=float((scores[at] + below) / 2),
        pairs=len(labels),
        edges=total,
        precision=float(right[at] / taken[at]),
        recall=float(right[at] / total) if total else 0.0,
        f1=float(f1[at]),
    )

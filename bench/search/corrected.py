"""Scores of a cross-encoder combined with those of the method that it reranks. Rerankers use it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.interface.method import Method
from bench.models.crossencoders import CrossEncoder
from bench.search.scoring import EmbeddingMethod, ScoringMethod


class CorrectedScores:
    """`mix * base score + logit` of pairs of a query and a tool.

    Args:
        base: the retriever.
        scorer: the cross-encoder.
        mix: weight of the base's score; None: the weight from training, and 0 for a cross-encoder that was trained
            to score alone.
    """

    def __init__(self, base: Method, scorer: CrossEncoder, mix: float | None = None) -> None:
        self._base = base
        self._scorer = scorer
        self._mix = mix

    @cached_property
    def weight(self) -> float:
        """The weight of the base's score.

        Raises:
            UsageError: the cross-encoder corrects the scores of another retriever, or the base has no scores.
        """
        base, stated = self._base.spec, self._scorer.retriever
        if self._mix is None and stated is not None:
            if not self._is_retriever(stated.revision):
                raise UsageError(
                    f"{self._scorer.name} was trained to correct the cosines of another retriever than base={base} "
                    f"(revision {stated.revision[:12]}…): name that one, as in base=dense(encoder=FOLDER), or train a "
                    "reranker for this one with `bench train reranker --set retriever=FOLDER`."
                )
            return stated.weight
        weight = self._mix or 0.0
        if weight and not isinstance(self._base, ScoringMethod):
            raise UsageError(f"mix={weight} needs the scores of base={base}, which has none; leave mix out.")
        return weight

    def _is_retriever(self, revision: str) -> bool:
        """Whether the base compares vectors of this encoder alone, by cosine."""
        base = self._base
        # After the first word comes the backend, whose vectors differ in the last digits.
        own = {value.split()[0] for part in base.parts for value in part.revisions().values()}
        return isinstance(base, EmbeddingMethod) and base.similarity == "cosine" and own == {revision}

    def score(self, pairs: Sequence[tuple[str, str]], base_scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """(pairs,) scores, higher is more relevant.

        Args:
            pairs: texts of a query and a tool.
            base_scores: (pairs,) scores of the base; only used if the weight is not 0.
        """
        logits = self._scorer.score(pairs)
        return logits + self.weight * base_scores if self.weight else logits

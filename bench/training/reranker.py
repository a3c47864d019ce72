"""`bench train reranker`: a cross-encoder that scores (query, tool) pairs (Nogueira and Cho 2019).

As ToolRerank trains it (section 4.1): positives are the gold of train, hard negatives come from a retriever's results.
The result is a sequence classifier with one output, so that `rerank(reranker=FOLDER)` uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.data.dataset import Dataset
from bench.data.tables import Template
from bench.models.encoders import EMBEDDED, Encoder
from bench.protocol import Ranking
from bench.search.dense import search
from bench.training.mining import drawn, hard_negatives, used_tools
from bench.training.sequence_classifier import SequenceSettings, SequenceTrainer

if TYPE_CHECKING:
    import torch

#: Validation reranks so many retrieved tools of so many queries.
_VALIDATION_DEPTH = 20
_VALIDATION_QUERIES = 100
_CUTOFF = 5


class RerankerTrainer(SequenceTrainer):
    """Learns to tell gold tools from the retriever's other results, by binary cross-entropy."""

    class Parameters(SequenceSettings):
        retriever: str = Field(EMBEDDED, description="retriever that provides hard negatives: `minilm`, a folder, ...")
        most_examples: int = Field(24_000, ge=2, description="maximum number of (query, tool) training pairs")
        positives: int = Field(1, ge=1, description="gold tools per query")
        hard_negatives: int = Field(3, ge=1, description="hard negatives per query: retrieved tools that are not gold")
        mining_depth: int = Field(
            30, ge=1, description="hard negatives are sampled from this many top results of the retriever"
        )

    parameters: Parameters
    kind = "reranker"
    labels = ("relevant",)
    measure = f"recall@{_CUTOFF} of {_VALIDATION_QUERIES} validation queries, reranking {_VALIDATION_DEPTH} tools"

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        chosen = self.parameters
        encoder = Encoder(chosen.retriever, progress=self.progress)
        self._retriever = encoder.revision
        self._texts = [tool.text(template) for tool in dataset.tools]
        tools = encoder.encode(self._texts)
        random = np.random.default_rng([chosen.seed, 2])
        queries = -(-chosen.most_examples // (chosen.positives + chosen.hard_negatives))
        among = used_tools(dataset.gold.take(train), len(tools))
        train = train[np.sort(random.permutation(len(train))[:queries])]
        self._queries = [dataset.queries[row].text for row in train]
        gold = dataset.gold.take(train)
        mined = hard_negatives(encoder.encode(self._queries), tools, gold, chosen.mining_depth, among)
        self._pairs, self._relevant = _pairs(
            drawn(gold.padded()[0], chosen.positives, random), drawn(mined, chosen.hard_negatives, random)
        )
        self._pairs, self._relevant = self._pairs[: chosen.most_examples], self._relevant[: chosen.most_examples]
        if len(validation) > _VALIDATION_QUERIES:
            validation = validation[np.linspace(0, len(validation) - 1, _VALIDATION_QUERIES).round().astype(np.int64)]
        self._validation = [dataset.queries[row].text for row in validation]
        self._validation_gold = dataset.gold.take(validation)
        self._retrieved: Ranking = search(encoder.encode(self._validation), tools, "cosine", _VALIDATION_DEPTH)
        self.load()

    def revisions(self) -> dict[str, str]:
        return {"retriever": self._retriever}

    def __len__(self) -> int:
        return len(self._pairs)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        pairs = [(self._queries[query], self._texts[tool]) for query, tool in self._pairs[examples]]
        logits = self.logits(pairs)[:, 0]
        wanted = torch.from_numpy(self._relevant[examples]).to(logits.device)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    def validate(self) -> float:
        row, column = np.nonzero(self._retrieved.tools >= 0)
        found = self._retrieved.tools[row, column]
        pairs = [(self._validation[i], self._texts[tool]) for i, tool in zip(row, found, strict=True)]
        scores = np.full(self._retrieved.tools.shape, -np.inf)
        scores[row, column] = self.classified(pairs)[:, 0]
        best = np.take_along_axis(self._retrieved.tools, np.argsort(-scores, axis=1, kind="stable"), 1)[:, :_CUTOFF]
        return float(np.mean([np.isin(self._validation_gold.row(i), best[i]).mean() for i in range(len(best))]))

    def facts(self) -> dict[str, str | int | float | bool]:
        retrieved = [
            np.isin(self._validation_gold.row(i), self._retrieved.tools[i, :_CUTOFF]).mean()
            for i in range(len(self._validation))
        ]
        return {
            **super().facts(),
            "retriever": self._retriever,
            "queries": len(self._queries),
            "positives": int(self._relevant.sum()),
            "retriever_recall": round(float(np.mean(retrieved)), 4),
        }


def _pairs(positives: NDArray[np.int32], negatives: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(pairs, 2) rows of query and tool, those of a query together, and (pairs,) 1 for positives, 0 for negatives.

    Args:
        positives, negatives: (queries, any) tool codes, -1 padded.
    """
    tools = np.concatenate([positives, negatives], axis=1)
    relevant = np.arange(tools.shape[1]) < positives.shape[1]
    query, column = np.nonzero(tools >= 0)
    return np.stack([query, tools[query, column]], axis=1).astype(np.int64), relevant[column].astype(np.float32)

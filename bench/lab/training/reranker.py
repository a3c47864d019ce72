"""`bench train reranker`: a cross-encoder that scores (query, tool) pairs (Nogueira and Cho 2019).

As ToolRerank trains it (section 4.1): positives are the gold of train, hard negatives come from a retriever's results.
The result is a sequence classifier with one output, so that `rerank(reranker=FOLDER)` uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Template
from bench.interface import Ranking
from bench.lab.training.mining import draw, hard_negatives, used_tools
from bench.lab.training.retriever import ranking_loss
from bench.lab.training.sequence_classifier import SequenceSettings, SequenceTrainer
from bench.models.encoders import EMBEDDED, Encoder
from bench.search.dense import normalize, search

if TYPE_CHECKING:
    import torch

#: Validation reranks so many retrieved tools of so many queries.
_VALIDATION_DEPTH = 20
_VALIDATION_QUERIES = 100
_CUTOFF = 5
#: The retriever's cosines are divided by it before their margins are taught: what `bench train retriever` trains with.
_TEACHER_TEMPERATURE = 0.05


class RerankerTrainer(SequenceTrainer):
    """Learns to tell gold tools from the retriever's other results.

    An example is a pair, judged by binary cross-entropy, or all pairs of a query, compared with each other: the
    softmax loss over them (`ranking_loss`), which is what a ranking needs, since logits of one query alone are
    compared. Distillation adds the mean squared error between the margins of gold over negatives and the retriever's
    (Margin-MSE, Hofstätter et al. 2020): the reranker begins from the retriever's order and does not unlearn it.
    """

    class Parameters(SequenceSettings):
        loss: Literal["binary", "listwise"] = Field(
            "binary", description="an example is a pair (binary cross-entropy), or all pairs of a query (softmax)"
        )
        distillation: float = Field(
            0.0, ge=0, description="loss=listwise: weight of the margins of the retriever, as targets (Margin-MSE)"
        )
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
        if chosen.distillation and chosen.loss != "listwise":
            raise UsageError("distillation compares the pairs of a query: set loss=listwise too, or distillation=0.")
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
        query_vectors = encoder.encode(self._queries)
        mined = hard_negatives(query_vectors, tools, gold, chosen.mining_depth, among)
        self._pairs, self._relevant = _pairs(
            draw(gold.padded()[0], chosen.positives, random), draw(mined, chosen.hard_negatives, random)
        )
        self._pairs, self._relevant = self._pairs[: chosen.most_examples], self._relevant[: chosen.most_examples]
        left, right = normalize(query_vectors)[self._pairs[:, 0]], normalize(tools)[self._pairs[:, 1]]
        self._taught = ((left * right).sum(axis=1) / _TEACHER_TEMPERATURE).astype(np.float32)
        # Where the pairs of each query begin; they stand together.
        self._lists = np.unique(self._pairs[:, 0], return_index=True)[1]
        if len(validation) > _VALIDATION_QUERIES:
            validation = validation[np.linspace(0, len(validation) - 1, _VALIDATION_QUERIES).round().astype(np.int64)]
        self._validation = [dataset.queries[row].text for row in validation]
        self._validation_gold = dataset.gold.take(validation)
        self._retrieved: Ranking = search(encoder.encode(self._validation), tools, "cosine", _VALIDATION_DEPTH)
        self.load()

    def revisions(self) -> dict[str, str]:
        return {"retriever": self._retriever}

    def __len__(self) -> int:
        return len(self._pairs) if self.parameters.loss == "binary" else len(self._lists)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        if self.parameters.loss == "listwise":
            return self._listwise(examples)
        logits = self._scores(examples)
        wanted = torch.from_numpy(self._relevant[examples]).to(logits.device)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    def _scores(self, pairs: NDArray[np.int64]) -> torch.Tensor:
        """(pairs,) logits of these rows of the pairs."""
        return self.logits([(self._queries[query], self._texts[tool]) for query, tool in self._pairs[pairs]])[:, 0]

    def _listwise(self, lists: NDArray[np.int64]) -> torch.Tensor:
        import torch

        ends = np.append(self._lists[1:], len(self._pairs))
        rows = [np.arange(self._lists[one], ends[one]) for one in lists]
        cells = np.concatenate(rows)
        row = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
        column = np.concatenate([np.arange(len(one)) for one in rows])
        shape = (len(rows), max(map(len, rows)))
        given, relevant = (np.zeros(shape, dtype=np.bool_) for _ in range(2))
        taught = np.zeros(shape, dtype=np.float32)
        given[row, column], relevant[row, column] = True, self._relevant[cells] > 0
        taught[row, column] = self._taught[cells]
        logits = self._scores(cells)
        place = torch.from_numpy(given).to(logits.device)
        # As low as a positive is for `ranking_loss`: an empty cell adds nothing to a sum of exponentials.
        scores = torch.full(shape, -1e4, device=logits.device).masked_scatter(place, logits)
        positive = torch.from_numpy(relevant).to(logits.device)
        loss = ranking_loss(scores, positive)
        if not self.parameters.distillation:
            return loss
        error = margin_error(scores, torch.from_numpy(taught).to(logits.device), positive, place & ~positive)
        return loss + self.parameters.distillation * error

    def validate(self) -> float:
        row, column = np.nonzero(self._retrieved.tools >= 0)
        candidates = self._retrieved.tools[row, column]
        pairs = [(self._validation[i], self._texts[tool]) for i, tool in zip(row, candidates, strict=True)]
        scores = np.full(self._retrieved.tools.shape, -np.inf)
        scores[row, column] = self.classify(pairs)[:, 0]
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


def margin_error(
    scores: torch.Tensor, taught: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
) -> torch.Tensor:
    """The mean over all pairs of a positive and a negative of one query of the squared error of their margin.

    Args:
        scores, taught: (queries, tools) of the model and of its teacher.
        positive, negative: (queries, tools) bool; a cell that is neither is empty.
    """
    margins = scores[:, :, None] - scores[:, None, :] - (taught[:, :, None] - taught[:, None, :])
    pairs = positive[:, :, None] & negative[:, None, :]
    # Without a negative in the whole batch there is nothing to compare.
    return (margins.masked_fill(~pairs, 0.0) ** 2).sum() / pairs.sum().clamp(min=1)


def _pairs(positives: NDArray[np.int32], negatives: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(pairs, 2) rows of query and tool, those of a query together, and (pairs,) 1 for positives, 0 for negatives.

    Args:
        positives, negatives: (queries, any) tool codes, -1 padded.
    """
    tools = np.concatenate([positives, negatives], axis=1)
    relevant = np.arange(tools.shape[1]) < positives.shape[1]
    query, column = np.nonzero(tools >= 0)
    return np.stack([query, tools[query, column]], axis=1).astype(np.int64), relevant[column].astype(np.float32)

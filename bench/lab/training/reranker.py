"""`bench train reranker`: a cross-encoder that corrects its retriever (Nogueira and Cho 2019).

The score of a tool is `weight * cosine + logit`: the retriever's similarity, plus a correction by the cross-encoder,
which reads query and tool together. Training starts with zero logits, that is, with the retriever's ranking (or with
the logits of a cross-encoder as base), and uses the lists that the retriever returns for the train queries. The weight
is learnt on the validation queries and stored in the model's `config.json`, so that `rerank(reranker=FOLDER)` uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from bench.base.errors import UnavailableError
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.template import Template
from bench.interface import Ranking
from bench.lab.training.mining import draw, hard_negatives, keep_in, used_tools
from bench.lab.training.retriever import ranking_loss
from bench.lab.training.sequence_classifier import SequenceSettings, SequenceTrainer
from bench.models.classifiers import SequenceModel
from bench.models.crossencoders import Retriever
from bench.models.encoders import EMBEDDED, Encoder
from bench.search.dense import normalize, search

if TYPE_CHECKING:
    import torch

Numbers = NDArray[np.float64]

#: Validation reranks this many retrieved tools of this many queries.
_VALIDATION_DEPTH = 20
_VALIDATION_QUERIES = 100
_CUTOFF = 5
#: Limits of the weight of a cosine; a retriever trained with temperature 0.05 has 20.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-2, 1e3


class RerankerTrainer(SequenceTrainer):
    """Learns to rank gold tools before the retriever's other results.

    An example is a query with some of its gold tools and some retrieved other tools, compared by the softmax loss
    (`ranking_loss`) of their scores, including the retriever's part: where the retriever is right there is little to
    learn. From the second epoch on the negatives are those that the model itself ranks high.

    Word vectors and the lowest layers are fixed: a step then takes little more than half the time, and words outside
    the train queries keep their positions from the base.
    """

    class Parameters(SequenceSettings):
        batch_size: int = Field(8, ge=1, description="queries per step")
        learning_rate: float = Field(2e-4, gt=0, description="peak learning rate of AdamW")
        most_tokens: int = Field(
            96, ge=8, description="maximum number of tokens of a pair, in training and in use (the longer text is cut)"
        )
        retriever: str = Field(EMBEDDED, description="retriever that is corrected: `minilm`, a folder, ...")
        most_queries: int = Field(0, ge=0, description="maximum number of training queries; 0: no limit")
        positives: int = Field(2, ge=1, description="gold tools per query and epoch")
        hard_negatives: int = Field(4, ge=1, description="retrieved tools that are not gold, per query and epoch")
        mining_depth: int = Field(
            20, ge=1, description="hard negatives are sampled from this many top results of the retriever"
        )
        frozen_layers: int = Field(2, ge=0, description="lowest layers that are not trained")

    parameters: Parameters
    kind = "reranker"
    labels = ("relevant",)
    measure = f"recall@{_CUTOFF} of {_VALIDATION_QUERIES} validation queries, reranking {_VALIDATION_DEPTH} tools"

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        import torch

        chosen = self.parameters
        encoder = Encoder(chosen.retriever, progress=self.progress)
        self._retriever = encoder.revision
        self._texts = [tool.text(template) for tool in dataset.tools]
        tools = encoder.encode(self._texts)
        among = used_tools(dataset.gold.take(train), len(tools))
        if chosen.most_queries and len(train) > chosen.most_queries:
            order = np.random.default_rng([chosen.seed, 3]).permutation(len(train))
            train = train[np.sort(order[: chosen.most_queries])]
        self._queries = [dataset.queries[row].text for row in train]
        self._gold = dataset.gold.take(train)
        queries = encoder.encode(self._queries)
        self._mined = hard_negatives(queries, tools, self._gold, chosen.mining_depth, among)
        self._vectors, self._tool_vectors = normalize(queries), normalize(tools)
        if len(validation) > _VALIDATION_QUERIES:
            validation = validation[np.linspace(0, len(validation) - 1, _VALIDATION_QUERIES).round().astype(np.int64)]
        self._validation = [dataset.queries[row].text for row in validation]
        self._validation_gold = dataset.gold.take(validation)
        self._retrieved: Ranking = search(encoder.encode(self._validation), tools, "cosine", _VALIDATION_DEPTH)
        self._relevant = _relevant(self._retrieved.tools, self._validation_gold)
        self.load()
        heads = [part for part in self.model.modules() if isinstance(part, torch.nn.Linear) and part.out_features == 1]
        self._bias = heads[-1].bias
        logits = np.zeros(self._retrieved.tools.shape)
        if _is_cross_encoder(self.base):
            self.model.eval()
            logits = self._validation_logits()
        else:
            torch.nn.init.zeros_(heads[-1].weight)
            torch.nn.init.zeros_(self._bias)
        #: The weight used in training; validation relearns it for the stored model.
        self._weight = fit_weight(self._cosines(), logits, self._relevant)
        self._freeze()

    def _freeze(self) -> None:
        """Freeze word vectors and the lowest layers of an encoder."""
        transformer = getattr(self.model, self.model.base_model_prefix)
        layers = getattr(getattr(transformer, "encoder", None), "layer", [])
        for part in (transformer.get_input_embeddings(), *layers[: self.parameters.frozen_layers]):
            part.requires_grad_(False)

    def revisions(self) -> dict[str, str]:
        return {"retriever": self._retriever}

    def __len__(self) -> int:
        return len(self._queries)

    def begin_epoch(self, epoch: int, scratch: Path) -> None:
        chosen = self.parameters
        random = np.random.default_rng([chosen.seed, epoch, 2])
        mined = keep_in(scratch / f"negatives-{epoch}.npy", self._hardest) if epoch else self._mined
        self._drawn_positives = draw(self._gold.padded()[0], chosen.positives, random)
        self._drawn_negatives = draw(mined, chosen.hard_negatives, random)

    def _hardest(self) -> NDArray[np.int32]:
        """The half of each query's mined negatives that the model ranks first."""
        import torch

        self.model.eval()
        with self.progress.stage("mine hard negatives"), torch.inference_mode():
            scores = self._scores(np.arange(len(self)), self._mined, learning=False)
        kept = max(self.parameters.hard_negatives, self._mined.shape[1] // 2)
        order = np.argsort(-scores.numpy(), axis=1, kind="stable")[:, :kept]
        return np.take_along_axis(self._mined, order, axis=1)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        positives, negatives = self._drawn_positives[examples], self._drawn_negatives[examples]
        scores = self._scores(examples, np.concatenate([positives, negatives], axis=1))
        positive = np.zeros(scores.shape, dtype=np.bool_)
        positive[:, : positives.shape[1]] = positives >= 0
        return ranking_loss(scores, torch.from_numpy(positive).to(scores.device))

    def _scores(self, queries: NDArray[np.int64], tools: NDArray[np.int32], learning: bool = True) -> torch.Tensor:
        """(queries, tools) scores of these tools of these train queries; -1e4, so ignored, where a tool is -1."""
        import torch

        row, column = np.nonzero(tools >= 0)
        query, tool = queries[row], tools[row, column]
        pairs = [(self._queries[i], self._texts[j]) for i, j in zip(query, tool, strict=True)]
        logits = self.logits(pairs)[:, 0] if learning else torch.from_numpy(self.classify(pairs)[:, 0])
        cosines = np.einsum("ij,ij->i", self._vectors[query], self._tool_vectors[tool])
        known = torch.from_numpy((self._weight * cosines).astype(np.float32)).to(logits.device)
        place = torch.from_numpy(tools >= 0).to(logits.device)
        # As low as positives in `ranking_loss`: an empty cell adds nothing to a sum of exponentials.
        return torch.full(place.shape, -1e4, device=logits.device).masked_scatter(place, known + logits)

    def validate(self) -> float:
        import torch

        logits = self._validation_logits()
        weight = fit_weight(self._cosines(), logits, self._relevant)
        there = self._retrieved.tools >= 0
        scores = np.where(there, weight * self._cosines() + logits, -np.inf)
        # No ranking depends on it; it makes the logistic function of a score the relevance that ToolRerank needs.
        offset = fit_offset(scores[there], self._relevant[there])
        with torch.no_grad():
            self._bias.add_(offset)
        self.model.config.retriever = Retriever(revision=self._retriever, weight=weight).model_dump()
        return self._recall(scores)

    def _validation_logits(self) -> Numbers:
        """For the retrieved tools of the validation queries; 0 if there is none."""
        logits = np.zeros(self._retrieved.tools.shape)
        row, column = np.nonzero(self._retrieved.tools >= 0)
        candidates = self._retrieved.tools[row, column]
        pairs = [(self._validation[i], self._texts[tool]) for i, tool in zip(row, candidates, strict=True)]
        logits[row, column] = self.classify(pairs)[:, 0]
        return logits

    def _cosines(self) -> Numbers:
        """For the retrieved tools of the validation queries; 0 if there is none."""
        assert self._retrieved.scores is not None
        return np.where(self._retrieved.tools >= 0, self._retrieved.scores, 0.0)

    def _recall(self, scores: Numbers) -> float:
        """The mean recall of the retrieved tools in the order of their scores."""
        order = np.argsort(-scores, axis=1, kind="stable")[:, :_CUTOFF]
        found = np.take_along_axis(self._relevant, order, axis=1).sum(axis=1)
        return float((found / self._validation_gold.counts).mean())

    def facts(self) -> dict[str, str | int | float | bool]:
        return {
            **super().facts(),
            "retriever": self._retriever,
            "queries": len(self._queries),
            "retriever_recall": round(self._recall(self._cosines()), 4),
        }


def _is_cross_encoder(base: str) -> bool:
    """Whether a model scores pairs already."""
    try:
        return len(SequenceModel(base).labels) == 1
    except UnavailableError:
        return False


def _relevant(tools: NDArray[np.int32], gold: Gold) -> NDArray[np.bool_]:
    """(queries, tools) whether a tool is gold of its row."""
    return np.stack([np.isin(row, gold.row(i)) for i, row in enumerate(tools)])


def fit_weight(cosines: Numbers, logits: Numbers, relevant: NDArray[np.bool_]) -> float:
    """The weight w that minimises `ranking_loss` of w * cosine + logit.

    Args:
        cosines, logits: (queries, tools).
        relevant: (queries, tools); rows without a relevant tool are ignored.
    """
    import torch

    kept = relevant.any(axis=1)
    if not kept.any():
        return 1.0
    known, added, positive = (torch.from_numpy(part[kept]) for part in (cosines, logits, relevant))

    def loss(exponent: float) -> float:
        return float(ranking_loss(float(np.exp(exponent)) * known + added, positive))

    bounds = (np.log(_LEAST_WEIGHT), np.log(_MOST_WEIGHT))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def fit_offset(scores: Numbers, relevant: NDArray[np.bool_]) -> float:
    """The offset b for which the logistic function of score + b sums to the number of relevant tools.

    Then the mean relevance is right: the maximum-likelihood solution (Platt 1999, with the slope fixed at 1).

    Args:
        scores, relevant: (pairs,).
    """
    wanted = float(np.clip(relevant.sum(), 0.5, len(relevant) - 0.5))
    low, high = -float(scores.max()) - 30, -float(scores.min()) + 30
    return float(brentq(lambda offset: expit(scores + offset).sum() - wanted, low, high))

"""`bench train retriever`: a dual encoder in the style of DPR (Karpukhin et al. 2020).

Query and tool are encoded separately by the same model, and compared by cosine. The result is a sentence-transformers
folder, so `dense(encoder=FOLDER)` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.lab.training.mining import draw, hard_negatives, keep_in, used_tools
from bench.lab.training.pretrained import TransformerSettings, arithmetic, make_ready, outputs_by_length, uses_bfloat16
from bench.lab.training.trainer import Trainer
from bench.models.files import loading, model_folder, quiet_transformers
from bench.search.dense import normalize, search
from bench.search.progressive import progressive_search

if TYPE_CHECKING:
    import torch

#: Validation is one pass over the library and this many queries.
_MOST_VALIDATION = 500
_CUTOFF = 5
#: Tokens to encode at once, with and without a backward pass.
_BUDGET = 4096


class RetrieverTrainer(Trainer):
    """Learns from (query, gold tool) pairs by the multiple-negatives ranking loss.

    Each query of a batch brings `positives` of its gold tools and `hard_negatives`, tools that the model ranked high at
    the beginning of the epoch and that are not gold. Every tool of the batch is a negative for every query, unless it
    is gold for the query: then it is another positive. (`MultipleNegativesRankingLoss` of sentence-transformers takes
    it for a negative, and gold sets overlap in most datasets.)

    With `progressive`, the query brings its positives in a new random order in each epoch, because a gold set has none:
    step i compares the query minus the vectors of the i - 1 previous tools with the tools of the batch. Gold tools not
    yet taken are positives, those taken are left out. (Anantha et al. 2023, "ProTIP: Progressive Tool Retrieval
    Improves Planning", use a contrastive loss over pairs, on plans that have an order.)
    """

    class Parameters(TransformerSettings):
        batch_size: int = Field(64, ge=1, description="queries per step, with in-batch negatives")
        learning_rate: float = Field(2e-4, gt=0, description="peak learning rate of AdamW")
        positives: int = Field(1, ge=1, description="gold tools per query and epoch, sampled again in each epoch")
        hard_negatives: int = Field(1, ge=0, description="hard negatives per query and epoch")
        mining_depth: int = Field(20, ge=1, description="hard negatives are sampled from this many top results")
        temperature: float = Field(
            0.05, gt=0, description="softmax temperature: the cosine similarity is divided by it"
        )
        most_tokens: int = Field(128, ge=8, description="maximum number of tokens per text, in training and in use")
        progressive: bool = Field(
            False,
            description="for protip: learn to find the next tool by the query less the tools before",
        )

    parameters: Parameters
    kind = "retriever"
    measure = "recall@5 of the validation queries over the whole library"

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        quiet_transformers()
        from sentence_transformers import SentenceTransformer

        chosen = self.parameters
        folder = model_folder(self.base)
        with loading(self.base, folder):
            self.model = SentenceTransformer(str(folder), device="cpu")
        longest = min(chosen.most_tokens, self.model.max_seq_length or chosen.most_tokens)
        self.model.max_seq_length = longest
        make_ready(self.model, chosen.dropout)
        if len(validation) > _MOST_VALIDATION:
            validation = validation[np.linspace(0, len(validation) - 1, _MOST_VALIDATION).round().astype(np.int64)]
        self._gold = dataset.gold.take(train)
        self._validation_gold = dataset.gold.take(validation)
        self._tools = self._tokens([tool.text(template) for tool in dataset.tools], longest)
        self._queries = self._tokens([dataset.queries[row].text for row in train], longest)
        self._validation = self._tokens([dataset.queries[row].text for row in validation], longest)

    def _tokens(self, texts: list[str], longest: int) -> list[list[int]]:
        ids: list[list[int]] = self.model.tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
        return ids

    def __len__(self) -> int:
        return len(self._queries)

    def begin_epoch(self, epoch: int, scratch: Path) -> None:
        chosen = self.parameters
        random = np.random.default_rng([chosen.seed, epoch, 2])
        gold, _ = self._gold.padded()
        self._positives = draw(gold, chosen.positives, random)
        tools = [self._positives]
        if chosen.hard_negatives:
            mined = keep_in(scratch / f"negatives-{epoch}.npy", self._mine)
            tools.append(draw(mined, chosen.hard_negatives, random))
        self._drawn = np.concatenate(tools, axis=1)

    def _mine(self) -> NDArray[np.int32]:
        with self.progress.stage("mine hard negatives"), arithmetic(self.model, self.parameters.precision):
            queries, tools = self._vectors(self._queries), self._vectors(self._tools)
        among = used_tools(self._gold, len(tools))
        return hard_negatives(queries, tools, self._gold, self.parameters.mining_depth, among)

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        tools = np.unique(self._drawn[examples])
        tools = tools[tools >= 0]
        positive = torch.from_numpy(np.stack([np.isin(tools, self._gold.row(int(row))) for row in examples]))
        with arithmetic(self.model, self.parameters.precision):
            queries = self._encode_ids([self._queries[row] for row in examples])
            tool_vectors = self._encode_ids([self._tools[tool] for tool in tools])
        normalize = torch.nn.functional.normalize
        query_vectors, compared = normalize(queries.float(), dim=1), normalize(tool_vectors.float(), dim=1)
        positive = positive.to(compared.device)
        if self.parameters.progressive:
            places = torch.from_numpy(np.searchsorted(tools, self._positives[examples])).to(compared.device)
            places[torch.from_numpy(self._positives[examples] < 0).to(places.device)] = -1
            return progressive_loss(query_vectors, compared, positive, places, self.parameters.temperature)
        return ranking_loss(query_vectors @ compared.T / self.parameters.temperature, positive)

    def _encode_ids(self, ids: Sequence[list[int]]) -> torch.Tensor:
        """(texts, dimensions)."""
        device = next(self.model.parameters()).device

        def compute(batch: NDArray[np.int64]) -> torch.Tensor:
            tokens = {"input_ids": [ids[i] for i in batch]}
            padded = self.model.tokenizer.pad(tokens, return_attention_mask=True, return_tensors="pt")
            embedded: torch.Tensor = self.model(dict(padded.to(device)))["sentence_embedding"]
            return embedded

        return outputs_by_length([len(row) for row in ids], _BUDGET, compute)

    def _vectors(self, ids: list[list[int]]) -> NDArray[np.float32]:
        import torch

        self.model.eval()
        with torch.inference_mode():
            vectors: NDArray[np.float32] = self._encode_ids(ids).float().cpu().numpy()
        return vectors

    def validate(self) -> float:
        queries, tools = self._vectors(self._validation), self._vectors(self._tools)
        if self.parameters.progressive:
            first = progressive_search(normalize(queries), normalize(tools), _CUTOFF)[0]
        else:
            first = search(queries, tools, "cosine", _CUTOFF).tools.astype(np.int64)
        recalls = [np.isin(self._validation_gold.row(i), first[i]).mean() for i in range(len(self._validation))]
        return float(np.mean(recalls))

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(str(folder), create_model_card=False)

    def facts(self) -> dict[str, str | int | float | bool]:
        return {
            "pairs": int(self._gold.counts.sum()),
            "tools": len(self._tools),
            "bfloat16": uses_bfloat16(self.model, self.parameters.precision),
        }


def ranking_loss(scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """The multiple-negatives ranking loss (Henderson et al. 2017) for queries with several positives.

    For query i and each positive p of its: -log(exp s_ip / (exp s_ip + Σ over i's negatives n of exp s_in)); other
    positives are in neither sum. The mean over positives, then over queries.

    Args:
        scores: (queries, tools).
        positive: (queries, tools) bool; every row has at least one.
    """
    import torch

    # Not -inf: a query whose gold is every tool of the batch would have a NaN gradient.
    negatives = torch.logsumexp(scores.masked_fill(positive, -1e4), dim=1, keepdim=True)
    losses = torch.nn.functional.softplus(negatives - scores) * positive
    return (losses.sum(dim=1) / positive.sum(dim=1)).mean()


def progressive_loss(
    queries: torch.Tensor, tools: torch.Tensor, positive: torch.Tensor, order: torch.Tensor, temperature: float
) -> torch.Tensor:
    """The mean of `ranking_loss` over steps, for the remainder of the queries at each step.

    Args:
        queries: (queries, dimensions) of length 1.
        tools: (tools, dimensions) of length 1.
        positive: (queries, tools) bool: gold.
        order: (queries, steps) int64, the row in `tools` of the tool taken at each step; -1: no more tools.
    """
    import torch

    left, waiting = queries, positive
    taken = torch.zeros_like(positive)
    losses, weights = [], []
    for step in range(order.shape[1]):
        going = (order[:, step] >= 0) & waiting.any(dim=1)
        if not bool(going.any()):
            break
        scores = (left @ tools.T / temperature).masked_fill(taken, -1e4)
        losses.append(ranking_loss(scores[going], waiting[going]) * going.sum())
        weights.append(going.sum())
        chosen = torch.nn.functional.one_hot(order[:, step].clamp(min=0), tools.shape[0]).bool() & going[:, None]
        left = left - chosen.to(tools.dtype) @ tools
        taken, waiting = taken | chosen, waiting & ~chosen
    return torch.stack(losses).sum() / torch.stack(weights).sum()

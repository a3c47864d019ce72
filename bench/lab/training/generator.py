"""`bench train generator`: a causal language model that writes search queries.

Kachuee et al. 2024, "Improving Tool Retrieval by Leveraging Large Language Models for Query Generation".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, full_spec
from bench.base.paths import write_text
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.data.template import Template
from bench.lab.training.decoder import LEAST_VOCABULARY, small_decoder
from bench.lab.training.drafts import Reward, Searcher, distribution, drafts_in, keep_drafts
from bench.lab.training.lora import FrozenPrecision, add_adapters, check_memory, merged_weights
from bench.lab.training.pretrained import TransformerSettings, arithmetic, make_ready, uses_bfloat16
from bench.lab.training.trainer import Trainer
from bench.methods.query_generation.prompts import Prompt, query_prompt, trained_prompt
from bench.models.causal import PROMPT_KEY, CausalModel, Sampling, causal_revision, load_causal
from bench.models.llm.client import Failure, LanguageModel, Message, Request
from bench.models.llm.replies import text_lines

if TYPE_CHECKING:
    import torch

SCRATCH = "scratch"
_QUERIES = 5
_CUTOFF = 5
#: 0 to 1.7 by 0.2, as in appendix A.1.
TEMPERATURES = tuple(round(0.2 * step, 1) for step in range(9))
_PRETRAINED_RATE, _LORA_RATE, _SCRATCH_RATE = 2e-5, 2e-4, 1e-3
#: Number of drafts to make and store at once.
_BLOCK = 256

Facts = dict[str, str | int | float | bool]


class GeneratorTrainer(Trainer):
    """Learns to write queries: from gold descriptions, or from its own drafts that retrieve best.

    - `stage=sft`: the prompt is the utterance, the answer the descriptions of its gold tools, one per line.
    - `stage=align`: Algorithm 1. At the beginning of each epoch (an iteration) the model writes `drafts` query sets for
      each utterance; a draft's reward is the quality of retrieval with it, and the best drafts are the answers. With
      `drafts_from`, a model behind an endpoint writes the drafts, and this model learns from its best ones.

    The loss covers only the tokens of the answer.
    """

    class Parameters(TransformerSettings):
        stage: Literal["sft", "align"] = Field(
            "sft",
            description="`sft`: supervised fine-tuning on gold descriptions; `align`: training on the best own drafts",
        )
        epochs: int = Field(1, ge=1, description="passes over the examples; stage=align: iterations (5 in the paper)")
        learning_rate: float = Field(
            0.0, ge=0, description="learning rate of AdamW; 0: 2e-5, 2e-4 with LoRA, or 1e-3 for a model from scratch"
        )
        schedule: Literal["linear", "constant"] = Field("constant", description="learning-rate schedule after warm-up")
        warmup: float = Field(0.0, ge=0, le=1, description="proportion of steps with linear warm-up")
        prompt: Literal["auto"] | Prompt = Field(
            "auto",
            description="a prompt of the method query-generation; auto: the prompt of the base model, otherwise plain; "
            "from scratch: utterance",
        )
        lora_rank: int = Field(
            0, ge=0, description="learn adapters of this rank (LoRA) in place of all weights; 0: all weights"
        )
        frozen_precision: FrozenPrecision = Field(
            "float32", description="LoRA: precision of the base's weights; bfloat16 takes half of the memory"
        )
        most_tokens: int = Field(192, ge=8, description="maximum number of tokens in an answer")
        hidden: int = Field(192, ge=8, description="from scratch: hidden size")
        layers: int = Field(4, ge=1, description="from scratch: number of layers")
        heads: int = Field(4, ge=1, description="from scratch: number of attention heads")
        vocabulary: int = Field(2048, ge=LEAST_VOCABULARY, description="from scratch: maximum vocabulary size")
        context: int = Field(512, ge=32, description="from scratch: context length, for prompt and answer together")
        retriever: MethodSpec = Field(Spec("dense"), description="method that searches with the generated queries")
        include_utterance: bool = Field(True, description="search with the utterance, too")
        validation_queries: int = Field(100, ge=1, description="number of queries for validation and calibration")
        calibrate: bool = Field(
            False, description="evaluate the temperatures 0 to 1.7 in steps of 0.2 on validation queries"
        )
        utterances: int = Field(0, ge=0, description="align: utterances sampled per iteration; 0: all")
        drafts_from: str = Field(
            "", description="align: model behind an endpoint that writes the drafts; empty: the model itself"
        )
        drafts: int = Field(24, ge=1, description="align: drafts per utterance (m)")
        temperature: float = Field(1.0, gt=0, le=2, description="align: sampling temperature of drafts")
        top_p: float = Field(
            0.9, gt=0, le=1, description="align: nucleus sampling: cumulative probability of the tokens to sample from"
        )
        top_k: int = Field(
            10, ge=1, le=1000, description="align: number of most likely tokens to sample from; not for drafts_from"
        )
        reward: Reward = Field("mmrr", description="align: `mmrr`, `map`, or `recall` (mean of recall@5 and recall@11)")
        reward_depth: int = Field(100, ge=1, description="align: cut-off of mmrr and map")
        r_min: float = Field(0.05, ge=0, le=1, description="align: minimum reward of a draft")
        p_top: float = Field(100, gt=0, le=100, description="align: percentage of best drafts to keep")
        n_draft: int = Field(1, ge=1, description="align: best drafts per utterance to keep")

    parameters: Parameters
    kind = "generator"
    default_base = SCRATCH
    measure = "recall@5 of validation queries, searched with generated queries"

    def __init__(self, parameters: Parameters, base: str, progress: Progress = QUIET) -> None:
        if not parameters.learning_rate:
            pretrained = _LORA_RATE if parameters.lora_rank else _PRETRAINED_RATE
            rate = _SCRATCH_RATE if base == SCRATCH else pretrained
            parameters = parameters.model_copy(update={"learning_rate": rate})
        if base == SCRATCH and parameters.stage == "align":
            raise UsageError("stage=align starts from a generative model; name one with --base.")
        if parameters.hidden % (2 * parameters.heads):
            raise UsageError(f"hidden={parameters.hidden} is not a multiple of twice heads={parameters.heads}.")
        if base == SCRATCH and parameters.lora_rank:
            raise UsageError("lora_rank is for a model that is there already; name one with --base.")
        if parameters.drafts_from and parameters.stage == "sft":
            raise UsageError("drafts_from is for stage=align: stage=sft learns from gold descriptions.")
        super().__init__(parameters, base, progress)
        self._facts: Facts = {}
        self._writer = LanguageModel(parameters.drafts_from, progress=progress) if parameters.drafts_from else None
        if base != SCRATCH:
            # Before anything large is read or hashed.
            progress.note(check_memory(base, parameters.lora_rank, parameters.frozen_precision))

    @property
    def base_revision(self) -> str:
        return "" if self.base == SCRATCH else causal_revision(self.base)

    def prepare(
        self, dataset: Dataset, template: Template, train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> None:
        chosen = self.parameters
        if self._writer is not None:
            self._writer.preflight()
        texts = [dataset.queries[row].text for row in train]
        targets = [gold_lines([dataset.tools[tool] for tool in dataset.gold.row(int(row))]) for row in train]
        self._causal = self._begin([*texts, *dict.fromkeys(targets)])
        self.model = self._causal.network
        make_ready(self.model, chosen.dropout)
        trained: Prompt = (
            "utterance" if self.base == SCRATCH else trained_prompt(self._causal.trained_prompt) or "plain"
        )
        self._prompt: Prompt = trained if chosen.prompt == "auto" else chosen.prompt
        setattr(self.model.config, PROMPT_KEY, self._prompt)
        self._search = Searcher(chosen.retriever, dataset, template, chosen.include_utterance, self.progress)
        size = min(len(validation), chosen.validation_queries)
        validation = validation[np.linspace(0, len(validation) - 1, size).round().astype(np.int64)]
        self._gold, self._validation_gold = dataset.gold.take(train), dataset.gold.take(validation)
        self._texts, self._validation = texts, [dataset.queries[row].text for row in validation]
        self._prompts, self._validation_prompts = (
            self._prompt_tokens(self._texts),
            self._prompt_tokens(self._validation),
        )
        self._examples = [
            (prompt, self._causal.answer(target, chosen.most_tokens))
            for prompt, target in zip(self._prompts, targets, strict=True)
        ]
        # What drafts depend on; the rest follows from it.
        parts = (full_spec("generator", chosen), self.base_revision, *self.revisions().values())
        self._identity = " ".join(map(str, (*parts, dataset.content_hash, template)))

    def _begin(self, texts: Sequence[str]) -> CausalModel:
        """The initial model."""
        chosen = self.parameters
        if self.base != SCRATCH:
            causal = load_causal(self.base, precision=chosen.frozen_precision if chosen.lora_rank else "float32")
            if chosen.lora_rank:
                add_adapters(causal.network, chosen.lora_rank, chosen.seed)
            return causal
        sizes = chosen.model_dump(include={"hidden", "layers", "heads", "vocabulary", "context", "seed"})
        return small_decoder(texts, **sizes)

    def _prompt_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each utterance's prompt."""

        def write(utterance: str) -> str:
            return query_prompt(self._prompt, utterance, _QUERIES)

        return [self._causal.prompt(write, text, self.parameters.most_tokens) for text in texts]

    def __len__(self) -> int:
        return len(self._examples)

    def revisions(self) -> dict[str, str]:
        writer = {} if self._writer is None else {"drafts": self._writer.identity}
        return {"retriever": self._search.revision, **writer}

    # Alignment --------------------------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, scratch: Path) -> None:
        chosen = self.parameters
        self._calibration = scratch / "calibration.json"
        self._recall_facts(self._calibration, *(scratch / f"rewards-{before}.json" for before in range(epoch)))
        if chosen.stage == "sft":
            return
        size = min(len(self._texts), chosen.utterances or len(self._texts))
        order = np.random.default_rng([chosen.seed, epoch, 3]).permutation(len(self._texts))
        rows = np.sort(order[:size])
        identity = hashlib.sha256(f"{epoch} {self._identity}".encode()).hexdigest()
        with self.progress.stage(f"drafts of iteration {epoch + 1}", size, "utterances") as bar:

            def make(part: Sequence[int]) -> list[list[str]]:
                made = self._drafts(part, epoch)
                bar.advance(len(part))
                return made

            block = max(1, _BLOCK // chosen.drafts)
            drafts = drafts_in(scratch / f"drafts-{epoch}.jsonl", identity, rows.tolist(), make, block)
        flat = [draft.split("\n") if draft else [] for part in drafts for draft in part]
        owner = np.repeat(rows, chosen.drafts)
        utterances = [self._texts[row] for row in owner]
        rewards = self._search.rewards(
            utterances, flat, self._gold.take(owner), chosen.reward, chosen.reward_depth
        ).reshape(size, chosen.drafts)
        kept = keep_drafts(rewards, drafts, chosen.n_draft, chosen.r_min, chosen.p_top)
        if not kept:
            raise UsageError(
                f"no draft of iteration {epoch + 1} has a reward of r_min={chosen.r_min}; begin with a model that was "
                "trained for longer, or lower r_min."
            )
        self._examples = [
            (self._prompts[rows[row]], self._causal.answer(drafts[row][draft], chosen.most_tokens))
            for row, draft in kept
        ]
        facts: Facts = {
            f"reward_{name}_{epoch + 1}": value for name, value in distribution(rewards, chosen.r_min).items()
        }
        facts[f"reward_best_mean_{epoch + 1}"] = round(float(rewards.max(axis=1).mean()), 4)
        facts[f"drafts_made_{epoch + 1}"] = rewards.size
        facts[f"drafts_empty_{epoch + 1}"] = sum(not lines for lines in flat)
        facts[f"drafts_kept_{epoch + 1}"] = len(kept)
        self._remember(scratch / f"rewards-{epoch}.json", facts)
        mean, share = facts[f"reward_mean_{epoch + 1}"], facts[f"reward_at_least_r_min_{epoch + 1}"]
        self.progress.note(f"iteration {epoch + 1}: mean reward {mean}, share above r_min {share}, {len(kept)} kept")

    def _drafts(self, rows: Sequence[int], epoch: int) -> list[list[str]]:
        """The drafts of some utterances: usable lines, one query per line; empty without a reply."""
        chosen = self.parameters
        if self._writer is not None:
            replies = self._asked_drafts(self._writer, rows, epoch)
        else:
            replies = self._own_drafts(rows, epoch)
        lines = ["\n".join(text_lines(reply, _QUERIES)) for reply in replies]
        return [lines[i * chosen.drafts : (i + 1) * chosen.drafts] for i in range(len(rows))]

    def _asked_drafts(self, writer: LanguageModel, rows: Sequence[int], epoch: int) -> list[str]:
        """Replies of the endpoint's model, new ones in each iteration."""
        chosen = self.parameters
        # The utterance alone is only a prompt for models trained on it.
        prompt: Prompt = "plain" if self._prompt == "utterance" else self._prompt
        requests = [
            Request(
                (Message("user", query_prompt(prompt, self._texts[row], _QUERIES)),),
                temperature=chosen.temperature,
                top_p=chosen.top_p,
                max_tokens=chosen.most_tokens,
                sample=epoch * chosen.drafts + draft,
            )
            for row in rows
            for draft in range(chosen.drafts)
        ]
        return ["" if isinstance(reply, Failure) else reply.text for reply in writer.complete(requests)]

    def _own_drafts(self, rows: Sequence[int], epoch: int) -> list[str]:
        chosen = self.parameters
        sampling = Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.most_tokens)
        return self._causal.generate(
            [self._prompts[row] for row in rows for _ in range(chosen.drafts)],
            [(chosen.seed, epoch, row, draft) for row in rows for draft in range(chosen.drafts)],
            sampling,
        )

    def _remember(self, path: Path, facts: Facts) -> None:
        """Store facts where a training resumed after a kill finds them."""
        self._facts |= facts
        write_text(path, json.dumps({"identity": self._identity, "facts": facts}))

    def _recall_facts(self, *paths: Path) -> None:
        for path in paths:
            try:
                record = json.loads(path.read_text("utf-8"))
                if record["identity"] == self._identity:
                    self._facts |= record["facts"]
            except (OSError, ValueError, LookupError, TypeError):
                continue

    # Learning and validation ------------------------------------------------------------------------------------------

    def loss(self, examples: NDArray[np.int64]) -> torch.Tensor:
        import torch

        chosen = [self._examples[i] for i in examples]
        device = next(self.model.parameters()).device
        tokens = {"input_ids": [[*prompt, *answer] for prompt, answer in chosen]}
        pad = self._causal.tokenizer.pad
        given = pad(tokens, padding_side="right", return_attention_mask=True, return_tensors="pt").to(device)
        wanted = torch.full_like(given["input_ids"], -100)
        for i, (prompt, answer) in enumerate(chosen):
            wanted[i, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer, device=device)
        with arithmetic(self.model, self.parameters.precision):
            logits = self.model(**given, use_cache=False).logits
        # The token at position i is predicted at position i - 1.
        learnt = wanted[:, 1:] != -100
        return torch.nn.functional.cross_entropy(logits[:, :-1][learnt].float(), wanted[:, 1:][learnt])

    def validate(self) -> float:
        return self._validate_at(0.0)

    def _validate_at(self, temperature: float) -> float:
        """recall@5 of the validation queries, searched with queries generated at a temperature."""
        chosen = self.parameters
        sampling = Sampling(temperature, chosen.top_p, chosen.top_k, chosen.most_tokens)
        seeds = [(chosen.seed, row) for row in range(len(self._validation))]
        replies = self._causal.generate(self._validation_prompts, seeds, sampling)
        lines = [text_lines(reply, _QUERIES) for reply in replies]
        return self._search.recall(self._validation, lines, self._validation_gold, _CUTOFF)

    def save(self, folder: Path) -> None:
        # Merged into a normal model folder, which needs neither peft nor the base.
        weights = merged_weights(self.model) if self.parameters.lora_rank else None
        self.model.save_pretrained(str(folder), state_dict=weights)
        self._causal.tokenizer.save_pretrained(str(folder))
        if self.parameters.calibrate:
            with self.progress.stage("calibrate the temperature", len(TEMPERATURES), "temperatures") as bar:
                values = {}
                for temperature in TEMPERATURES:
                    values[temperature] = self._validate_at(temperature)
                    bar.advance()
            facts: Facts = {f"recall@5_at_temperature_{t}": round(value, 4) for t, value in values.items()}
            # Of equal ones the lowest.
            facts["best_temperature"] = max(values, key=lambda t: (values[t], -t))
            self._remember(self._calibration, facts)

    def facts(self) -> Facts:
        return {
            "parameters": sum(part.numel() for part in self.model.parameters()),
            "learnt_parameters": sum(part.numel() for part in self.model.parameters() if part.requires_grad),
            "prompt": self._prompt,
            "learning_rate": self.parameters.learning_rate,
            "bfloat16": uses_bfloat16(self.model, self.parameters.precision),
            "validated_on": len(self._validation),
            **self._facts,
        }


def gold_lines(tools: Sequence[Tool]) -> str:
    """The target of supervised fine-tuning: the tools' descriptions (names where there is none), one on each line."""
    lines = [" ".join((tool.description or tool.name).split()) for tool in tools]
    return "\n".join(list(dict.fromkeys(line for line in lines if line))[:_QUERIES])

"""Local causal language models, sampled independently of batching. Methods that generate text call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bench.base.errors import UnavailableError
from bench.models.cache import token_batches
from bench.models.files import folder_revision, loading, model_folder, quiet_transformers

if TYPE_CHECKING:
    import torch

#: Maximum tokens of a prompt, whatever the model could take.
_LONGEST_PROMPT = 1024
_CONTEXT = 2048  # for a model that does not say
#: Maximum tokens, including those to be generated, whose keys and values are in memory at once.
_BUDGET = 16384
#: Key in a model's config.json: the name of its training prompt.
PROMPT_KEY = "query_prompt"


@dataclass(frozen=True)
class Sampling:
    """How to choose the next token.

    Attributes:
        temperature: logits are divided by it; 0 takes the most likely token.
        top_p: keep those of the `top_k` most likely tokens that make up this share of their probability.
        top_k: number of tokens to sample from.
        most_tokens: maximum length of a text.
    """

    temperature: float = 0.0
    top_p: float = 0.9
    top_k: int = 10
    most_tokens: int = 256


class CausalModel:
    """A network and its tokenizer; `name` says where its files are."""

    def __init__(self, network: Any, tokenizer: Any, name: str = "") -> None:
        self.name = name
        self.network = network
        self.tokenizer = tokenizer
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        self.context = int(getattr(network.config, "max_position_embeddings", None) or _CONTEXT)

    def revisions(self) -> dict[str, str]:
        """Name and content hash of its files, for the methods that use this."""
        return {self.name: causal_revision(self.name)}

    @property
    def trained_prompt(self) -> str | None:
        """The name of its training prompt; None for models that do not say."""
        named = getattr(self.network.config, PROMPT_KEY, None)
        return named if isinstance(named, str) else None

    def prompt(self, write: Callable[[str], str], utterance: str, most_tokens: int) -> list[int]:
        """The tokens of a prompt, in the model's chat format if it has one.

        A prompt that leaves no room for `most_tokens` new tokens keeps only the beginning of the utterance.
        """
        room = max(1, min(_LONGEST_PROMPT, self.context - self.room(most_tokens)))
        tokens = self._chat(write(utterance))
        if len(tokens) > room:
            words = self._tokens(utterance)
            kept = words[: max(0, len(words) - (len(tokens) - room))]
            tokens = self._chat(write(self.tokenizer.decode(kept)))[-room:]
        return tokens

    def room(self, most_tokens: int) -> int:
        """Maximum new tokens: at most half of the context."""
        return min(most_tokens, self.context // 2)

    def answer(self, text: str, most_tokens: int) -> list[int]:
        """The tokens of an answer and of its end, cut where generation would stop."""
        return [*self._tokens(text), self.tokenizer.eos_token_id][: self.room(most_tokens)]

    def _chat(self, prompt: str) -> list[int]:
        if not self.tokenizer.chat_template:
            with_start: list[int] = self.tokenizer(prompt + "\n")["input_ids"]
            return with_start
        messages = [{"role": "user", "content": prompt}]
        return self._tokens(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[str]:
        """The text that follows each prompt.

        Each text has its own random numbers (Gumbel noise on the logits, whose maximum is a draw from the softmax), so
        the draw for one prompt does not depend on the others in its batch.

        Args:
            prompts: tokens, none empty.
            seeds: non-negative integers for each prompt.
            sampling: how to choose tokens.
        """
        import torch

        generated = [""] * len(prompts)
        new = self.room(sampling.most_tokens)
        was_training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad():
                for batch in token_batches([len(prompt) + new for prompt in prompts], _BUDGET):
                    texts = self._generate([prompts[i] for i in batch], [seeds[i] for i in batch], sampling, new)
                    for place, text in zip(batch.tolist(), texts, strict=True):
                        generated[place] = text
        finally:
            self.network.train(was_training)
        return generated

    def _generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], sampling: Sampling, new: int
    ) -> list[str]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        device = next(self.network.parameters()).device
        longest = max(len(prompt) for prompt in prompts)
        tokens = torch.full((len(prompts), longest), self.tokenizer.pad_token_id, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for i, prompt in enumerate(prompts):
            tokens[i, longest - len(prompt) :] = torch.tensor(list(prompt), dtype=torch.long)
            mask[i, longest - len(prompt) :] = 1
        processors = LogitsProcessorList()
        if sampling.temperature > 0:
            processors.append(_Sampler(sampling, seeds, longest, new, device))
        settings = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            num_beams=1,
            max_new_tokens=new,
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
            use_cache=True,
        )
        written = self.network.generate(
            input_ids=tokens.to(device),
            attention_mask=mask.to(device),
            logits_processor=processors,
            generation_config=settings,
        )
        texts: list[str] = self.tokenizer.batch_decode(written[:, longest:], skip_special_tokens=True)
        return texts


class _Sampler:
    """Draws each row's next token by its own random numbers, and excludes all others."""

    def __init__(
        self, sampling: Sampling, seeds: Sequence[Sequence[int]], begin: int, new: int, device: torch.device
    ) -> None:
        import torch

        self._sampling = sampling
        self._begin = begin
        noise = [np.random.default_rng(list(seed)).gumbel(size=(new, sampling.top_k)) for seed in seeds]
        self._noise = torch.from_numpy(np.stack(noise).astype(np.float32)).to(device)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        width = min(self._sampling.top_k, scores.shape[1])
        values, tokens = torch.topk(scores.float() / self._sampling.temperature, width)
        shares = torch.softmax(values, dim=1)
        # Keep the first one: nothing comes before it.
        outside = torch.cumsum(shares, dim=1) - shares >= self._sampling.top_p
        noise = self._noise[:, input_ids.shape[1] - self._begin, :width]
        chosen = (values + noise).masked_fill(outside, -torch.inf).argmax(dim=1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens.gather(1, chosen), 0.0)


def causal_revision(name: str) -> str:
    """sha256 over a model's files.

    Raises:
        UnavailableError: there is no such model here.
    """
    return folder_revision(model_folder(name))


def load_causal(name: str, *, precision: Literal["float32", "bfloat16"] | None = None) -> CausalModel:
    """Load a causal model of transformers from a folder or the Hub cache, on the GPU if there is one.

    Args:
        name: folder or name.
        precision: of the weights; None means as stored on a GPU, and float32 elsewhere.

    Raises:
        UnavailableError: the model does not exist here, cannot be read, or its tokenizer has no end of text.
    """
    import torch

    quiet_transformers()
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    folder = model_folder(name)
    cuda = torch.cuda.is_available()
    dtype = precision or ("auto" if cuda else "float32")
    with loading(name, folder, "causal model"):
        network: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    if tokenizer.eos_token_id is None:
        raise UnavailableError(f"the tokenizer of {name!r} has no end of text; choose a model that generates.")
    # Settings that come with the model (such as a repetition penalty) would complete ours.
    network.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    return CausalModel(network.to("cuda" if cuda else "cpu").eval(), tokenizer, name)

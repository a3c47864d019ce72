"""A small decoder and tokeniser, trained from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.models.causal import CausalModel
from bench.models.files import quiet_transformers

_SPECIAL = {"pad_token": "<pad>", "eos_token": "<end>", "bos_token": "<answer>"}
#: The last message, and the token after which the answer begins.
_CHAT = "{{ messages[-1]['content'] }}{{ bos_token }}"
#: Bytes and special tokens: a tokenizer cannot have fewer.
LEAST_VOCABULARY = 256 + len(_SPECIAL)


def small_decoder(
    texts: Sequence[str], *, hidden: int, layers: int, heads: int, vocabulary: int, context: int, seed: int
) -> CausalModel:
    """An untrained Llama-style decoder with tied embeddings, and a byte tokenizer trained on the texts.

    Args:
        texts: used to merge pairs of bytes; any text can be written with the tokens.
        hidden, layers, heads: the network's size; `hidden` is a multiple of twice the heads.
        vocabulary: maximum tokens.
        context: maximum tokens of a prompt and its answer.
    """
    import torch

    quiet_transformers()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(_SPECIAL.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pieces.train_from_iterator(texts, trainer)
    of_pieces: Any = PreTrainedTokenizerFast
    tokenizer = of_pieces(tokenizer_object=pieces, model_max_length=context, **_SPECIAL)
    tokenizer.chat_template = _CHAT
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(seed)
    return CausalModel(LlamaForCausalLM(config), tokenizer)

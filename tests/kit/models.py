"""Untrained models that are small enough to be trained and asked in a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def untrained_bert(
    folder: Path, words: Sequence[str], labels: Sequence[str] = (), *, seed: int = 0, length: int = 48, **config: Any
) -> str:
    """Put a BERT of two small layers into a folder, with a tokenizer that knows these words, and return its name.

    Args:
        folder: is made.
        words: the vocabulary, besides the special tokens.
        labels: names of its outputs; a model without any is an encoder.
        seed: of its weights.
        length: the most tokens that it reads.
        config: more fields of `BertConfig`.
    """
    import torch
    from transformers import (  # type: ignore[attr-defined]  # some names are made when they are asked for
        BertConfig,
        BertForSequenceClassification,
        BertModel,
        BertTokenizerFast,
    )

    known = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    torch.manual_seed(seed)
    if labels:
        config["id2label"] = dict(enumerate(labels))
    made = BertConfig(
        vocab_size=len(known),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=length,
        **config,
    )
    (BertForSequenceClassification if labels else BertModel)(made).save_pretrained(folder)
    vocabulary = {word: code for code, word in enumerate(known)}
    BertTokenizerFast(vocab=vocabulary, model_max_length=length).save_pretrained(folder)
    return str(folder)


def untrained_causal(folder: Path) -> None:
    """Put a GPT-2 of two small layers into a folder, with a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {sign: code for code, sign in enumerate([*signs, "<end>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    torch.manual_seed(7)
    shape = GPT2Config(vocab_size=len(vocabulary), n_positions=2048, n_embd=32, n_layer=2, n_head=2, eos_token_id=256)
    GPT2LMHeadModel(shape).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)

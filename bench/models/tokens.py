"""Counting tokens with the embedded WordPiece tokeniser.

Agents pay for tool descriptions by the token. Every model counts differently; this tokeniser (of
all-MiniLM-L6-v2) is here on every machine, so figures compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.models.encoders import embedded_model, use_cache
from bench.storage.paths import sha256_of
from bench.storage.vectorcache import VectorCache, text_key

_PART = 2000


def count_tokens(texts: Sequence[str]) -> NDArray[np.int64]:
    """(texts,) number of WordPiece tokens, without special ones; cached by content."""
    path = embedded_model() / "tokenizer.json"
    cache = VectorCache(f"tokens {sha256_of(path)}") if use_cache() else None
    keys = [text_key(text) for text in texts]
    found = {key: int(vector[0]) for key, vector in (cache.get(keys) if cache else {}).items()}
    missing = [(key, text) for key, text in dict(zip(keys, texts, strict=True)).items() if key not in found]
    if missing:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        for start in range(0, len(missing), _PART):
            part = missing[start : start + _PART]
            encoded = tokenizer.encode_batch([text for _, text in part], add_special_tokens=False)
            fresh = {key: len(tokens.ids) for (key, _), tokens in zip(part, encoded, strict=True)}
            if cache:
                cache.put({key: np.array([count], dtype=np.float32) for key, count in fresh.items()})
            found.update(fresh)
    return np.array([found[key] for key in keys], dtype=np.int64)

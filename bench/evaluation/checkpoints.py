"""Answered batches on disk, from which an interrupted run resumes. `ask` and `runner` use them.

Each finished batch is written at once, under the result's id. A batch file that a crash cut short does not count: its
queries are asked again.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.paths import replacing, write_text
from bench.data.gold import Gold
from bench.identity.used import Used, times_noted
from bench.interface import Method, Ranking, ToolSets
from bench.metrics.ties import UnseenTies
from bench.remote.answers import AnswerNote
from bench.results.code_versions import method_use, resume_use

#: Lists the files that the code of the method had used for the batches in the same folder.
_USED = "used.json"


@dataclass(frozen=True)
class Batch:
    """The answers to one batch, as stored; `positions` and the keys of `told` refer to the asking order."""

    positions: NDArray[np.int64]
    ranking: Ranking
    beyond: UnseenTies
    sets: ToolSets | None
    seconds: float
    reply_tokens: NDArray[np.int64] | None = None
    told: Mapping[int, AnswerNote] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the batch into the folder of a run."""
        arrays: dict[str, NDArray[Any]] = {
            "positions": self.positions,
            "tools": self.ranking.tools,
            "beyond": self.beyond.counts,
            "gold_starts": self.beyond.gold.starts,
            "gold_tools": self.beyond.gold.tools,
            "gold_grades": self.beyond.gold.grades,
            "seconds": np.array(self.seconds),
        }
        if self.ranking.scores is not None:
            arrays["scores"] = self.ranking.scores
        if self.ranking.failed is not None:
            arrays["failed"] = self.ranking.failed
        if self.reply_tokens is not None:
            arrays["reply_tokens"] = self.reply_tokens
        if self.ranking.notes is not None:
            arrays["notes"] = _pack(self.ranking.notes)
        if self.told:
            arrays["told"] = _pack([(position, *astuple(note)) for position, note in self.told.items()])
        if self.sets is not None:
            arrays["set_starts"], arrays["set_tools"] = self.sets.starts, self.sets.tools
        # Made in memory first: zip archives are written with seeks, and a full disk would corrupt them.
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        with replacing(folder / f"from-{self.positions[0]:08d}.npz") as temporary:
            temporary.write_bytes(buffer.getvalue())

    @staticmethod
    def read(path: Path) -> Batch | None:
        """The stored batch, or None if it is incomplete."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = dict(stored.items())
            gold = Gold(arrays["gold_starts"], arrays["gold_tools"], arrays["gold_grades"])
            sets = ToolSets(arrays["set_starts"], arrays["set_tools"]) if "set_starts" in arrays else None
            batch = Batch(
                arrays["positions"],
                Ranking(
                    arrays["tools"],
                    arrays.get("scores"),
                    arrays.get("failed"),
                    notes=tuple(_unpack(arrays["notes"])) if "notes" in arrays else None,
                ),
                UnseenTies(arrays["beyond"], gold),
                sets,
                float(arrays["seconds"]),
                arrays.get("reply_tokens"),
                {row: AnswerNote(*note) for row, *note in _unpack(arrays["told"])} if "told" in arrays else {},
            )
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
            return None
        return batch if len(batch.ranking) == len(batch.positions) else None


def _pack(value: object) -> NDArray[np.uint8]:
    """As bytes: an array of strings drops trailing null characters, and cannot store half a surrogate pair."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def _unpack(data: NDArray[Any]) -> Any:
    return json.loads(data.tobytes())


def stored_batches(folder: Path, queries: int) -> list[Batch]:
    """The complete batches in a folder that do not overlap."""
    batches: list[Batch] = []
    taken = np.zeros(queries, dtype=np.bool_)
    for path in sorted(folder.glob("from-*.npz")):
        batch = Batch.read(path)
        if (
            batch is None
            or not len(batch.positions)
            or batch.positions.max() >= queries
            or taken[batch.positions].any()
        ):
            continue
        taken[batch.positions] = True
        batches.append(batch)
    return batches


def use_keeper(folder: Path, method: Method) -> Callable[[], None]:
    """A function that records, beside the batches, which files the user's code has used, whenever there are more.

    Batches of an earlier process are discarded if one of its files has changed: batches of different code are not
    mixed.
    """
    path, written = folder / _USED, -1
    with suppress(OSError, ValueError):
        if path.is_file() and not resume_use(method, Used.model_validate_json(path.read_bytes())):
            forget(folder)

    def keep() -> None:
        nonlocal written
        # Edits during the run are reported when it ends.
        with suppress(UsageError):
            if written != times_noted() and (used := method_use(method)) is not None:
                write_text(path, used.model_dump_json())
            written = times_noted()

    return keep


def has_answers(folder: Path) -> bool:
    """Whether any query of the complete batches in a folder got a tool."""
    batches = (Batch.read(path) for path in sorted(folder.glob("**/from-*.npz")))
    return any(batch is not None and bool((batch.ranking.tools >= 0).any()) for batch in batches)


def forget(folder: Path) -> None:
    """Remove the batches of a finished run."""
    shutil.rmtree(folder, ignore_errors=True)

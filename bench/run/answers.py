"""Asking a method, batch by batch: validated answers that survive an interruption.

Each finished batch is written at once, under the result's id, so that the same command continues where it
stopped. A batch file that a crash cut short is no batch: it is asked again.
"""

from __future__ import annotations

import io
import shutil
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.errors import BenchError, MethodError
from bench.metrics.ties import Beyond
from bench.paths import replacing
from bench.progress import Progress
from bench.protocol import Method, Queries, Ranking, RecommendingMethod, ToolSets
from bench.protocol.ranking import Violation, validate, validate_sets


@dataclass(frozen=True)
class Answers:
    """What a method answered to all queries of a run.

    Attributes:
        ranking: validated, in the protocol's order.
        beyond: tools tied with the last returned one that did not fit, and the gold among them.
        sets: recommended sets, or None.
        seconds: time spent in the method, over all batches of this and earlier attempts.
        resumed: whether some batches were answered before this process started.
    """

    ranking: Ranking
    beyond: Beyond
    sets: ToolSets | None
    seconds: float
    resumed: bool


def ask(
    method: Method, dataset: Dataset, rows: NDArray[np.int64], depth: int, folder: Path, progress: Progress
) -> Answers:
    """Rank (and recommend) for all queries, reusing the batches that lie in `folder`.

    Raises:
        MethodError: the method raised, or returned what the protocol does not allow; the sentence names the
            method, the query and the tool. Finished batches stay.
    """
    queries = Queries.of(dataset, rows)
    parts: list[_Batch] = []
    resumed = False
    with progress.stage("rank", len(rows), "queries") as stage:
        for number, start in enumerate(range(0, len(rows), method.batch_size)):
            positions = np.arange(start, min(len(rows), start + method.batch_size))
            path = folder / f"batch-{number:06d}.npz"
            batch = _Batch.read(path, len(positions))
            if batch is None:
                batch = _answer(method, dataset, queries.take(positions), depth)
                batch.write(path)
            else:
                resumed = True
            parts.append(batch)
            stage.advance(len(positions))
    return _joined(parts, resumed)


def forget(folder: Path) -> None:
    """Remove the batches of a finished run."""
    shutil.rmtree(folder, ignore_errors=True)


def _answer(method: Method, dataset: Dataset, queries: Queries, depth: int) -> _Batch:
    library = len(dataset.tools)
    started = time.perf_counter()
    try:
        raw = method.rank(queries, depth)
        recommended = method.recommend(queries) if isinstance(method, RecommendingMethod) else None
        seconds = time.perf_counter() - started
        ranking = validate(raw, len(queries), library, depth)
        sets = None if recommended is None else validate_sets(recommended, len(queries), library)
        if sets is not None and ranking.failed is not None:
            nothing = np.empty(0, dtype=np.int32)
            sets = ToolSets.of([nothing if ranking.failed[i] else sets.row(i) for i in range(len(sets))])
    except Violation as violation:
        raise MethodError(_violation(method, dataset, queries, violation)) from None
    except (BenchError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        first = dataset.queries[int(queries.rows[0])].query_id
        raise MethodError(
            f"method {method.spec} failed on the batch of {len(queries)} queries from {first}: "
            f"{type(error).__name__}: {error}."
        ) from error
    counts = np.zeros(len(queries), dtype=np.int64)
    gold: list[dict[int, int]] = [{} for _ in range(len(queries))]
    if ranking.tied_beyond is not None:
        counts = np.bitwise_count(ranking.tied_beyond).sum(axis=1, dtype=np.int64)
        for i in np.flatnonzero(counts):
            tied = np.unpackbits(ranking.tied_beyond[i], count=library).astype(np.bool_)
            row = int(queries.rows[i])
            start, end = dataset.gold.starts[row : row + 2]
            judged = zip(dataset.gold.tools[start:end], dataset.gold.grades[start:end], strict=True)
            gold[i] = {int(tool): int(grade) for tool, grade in judged if tied[tool]}
    return _Batch(ranking, Beyond(counts, Gold.of(gold)), sets, seconds)


def _violation(method: Method, dataset: Dataset, queries: Queries, violation: Violation) -> str:
    where = ""
    if violation.query is not None:
        where = f" for query {dataset.queries[int(queries.rows[violation.query])].query_id}"
    if violation.tool is not None:
        where += f", tool {dataset.tools[violation.tool].tool_id}"
    return f"method {method.spec} {violation}{where}; the protocol does not allow it (section 3, rule 4)."


@dataclass(frozen=True)
class _Batch:
    """The answers to one batch, as stored."""

    ranking: Ranking
    beyond: Beyond
    sets: ToolSets | None
    seconds: float

    def write(self, path: Path) -> None:
        arrays: dict[str, NDArray[Any]] = {
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
        if self.sets is not None:
            arrays["set_starts"], arrays["set_tools"] = self.sets.starts, self.sets.tools
        # Made in memory first: zip archives are written with seeks, which a full disk turns into nonsense.
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        with replacing(path) as temporary:
            temporary.write_bytes(buffer.getvalue())

    @staticmethod
    def read(path: Path, queries: int) -> _Batch | None:
        """The stored batch, or None where there is none that is whole."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = dict(stored.items())
            gold = Gold(arrays["gold_starts"], arrays["gold_tools"], arrays["gold_grades"])
            sets = ToolSets(arrays["set_starts"], arrays["set_tools"]) if "set_starts" in arrays else None
            batch = _Batch(
                Ranking(arrays["tools"], arrays.get("scores"), arrays.get("failed")),
                Beyond(arrays["beyond"], gold),
                sets,
                float(arrays["seconds"]),
            )
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            return None
        return batch if len(batch.ranking) == queries else None


def _joined(parts: Sequence[_Batch], resumed: bool) -> Answers:
    gold = [part.beyond.gold for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in gold]))])
    beyond = Beyond(
        np.concatenate([part.beyond.counts for part in parts]),
        Gold(starts, np.concatenate([part.tools for part in gold]), np.concatenate([part.grades for part in gold])),
    )
    sets = [part.sets for part in parts if part.sets is not None]
    return Answers(
        Ranking.join([part.ranking for part in parts]),
        beyond,
        ToolSets.join(sets) if len(sets) == len(parts) else None,
        sum(part.seconds for part in parts),
        resumed,
    )

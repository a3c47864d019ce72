"""Querying a method in batches, with validated answers that survive an interruption.

Each finished batch is written at once, under the result's id, so that the same command asks only what is left. A
batch file that a crash cut short is no batch: its queries are asked again.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import MethodError
from bench.base.paths import replacing
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.queryviews import merged
from bench.evaluation.method_errors import method_errors
from bench.interface import Method, Queries, Ranking, RecommendingMethod, ToolSets
from bench.interface.ranking import Violation, validate, validate_sets
from bench.metrics.ties import Beyond
from bench.models.tokens import can_count_tokens, count_tokens


@dataclass(frozen=True)
class Answers:
    """What a method answered to all queries of a run.

    Attributes:
        ranking: validated, in the protocol's order.
        beyond: tools tied with the last returned one that did not fit, and the gold among them.
        sets: recommended sets, or None.
        seconds: time spent in the method, over all batches of this and earlier attempts.
        resumed: whether some batches were answered before this process started.
        reply_tokens: (queries,) tokens of the text that a search outside of bench answered with, -1 where there is
            none; None where a batch came without such texts, or the tokenizer was not installed when it did.
    """

    ranking: Ranking
    beyond: Beyond
    sets: ToolSets | None
    seconds: float = 0.0
    resumed: bool = False
    reply_tokens: NDArray[np.int64] | None = None

    def take(self, positions: NDArray[np.int64]) -> Answers:
        """The answers at these positions, in the order given."""
        ranking, beyond, sets = self.ranking.take(positions), self.beyond, self.sets
        return Answers(
            ranking,
            Beyond(beyond.counts[positions], beyond.gold.take(positions)),
            None if sets is None else ToolSets.of([sets.row(int(position)) for position in positions]),
            self.seconds,
            self.resumed,
            None if self.reply_tokens is None else self.reply_tokens[positions],
        )


def asking_order(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of `rows` in the order in which a method is asked: by the hash of the query's id.

    Upstream often sorts its files by gold, and ids follow the files. In the order of ids a method could guess a
    query's gold from its neighbours'.
    """
    ids = [dataset.queries[row].query_id for row in rows]
    return np.array(sorted(range(len(rows)), key=lambda i: hashlib.sha256(ids[i].encode()).digest()), dtype=np.int64)


def ask(
    method: Method,
    dataset: Dataset,
    rows: NDArray[np.int64],
    depth: int,
    folder: Path | None = None,
    progress: Progress = QUIET,
    stage_name: str = "rank",
) -> Answers:
    """Rank (and recommend) for all queries, save those whose answers lie in `folder`; without one, nothing is kept.

    Returns:
        The answers in the order of `rows`.

    Raises:
        MethodError: the method raised, or returned what the protocol does not allow; the sentence names the
            method, the query and the tool. Finished batches stay.
    """
    order = asking_order(dataset, rows)
    asked = rows[order]
    queries = Queries.of(dataset, asked)
    parts = [] if folder is None else _stored(folder, len(rows))
    done = np.zeros(len(rows), dtype=np.bool_)
    for part in parts:
        done[part.positions] = True
    resumed = bool(done.any())
    left = np.flatnonzero(~done)
    with progress.stage(stage_name, len(rows), "queries") as stage:
        stage.advance(len(rows) - len(left))
        for start in range(0, len(left), method.batch_size):
            positions = left[start : start + method.batch_size]
            batch = _answer(method, dataset, asked[positions], queries.take(positions), positions, depth)
            if folder is not None:
                batch.write(folder / f"from-{positions[0]:08d}.npz")
            parts.append(batch)
            stage.advance(len(positions))
    answers = _joined(parts, resumed)
    place = np.empty(len(rows), dtype=np.int64)
    place[order[np.concatenate([part.positions for part in parts])]] = np.arange(len(rows))
    return answers.take(place)


def forget(folder: Path) -> None:
    """Remove the batches of a finished run."""
    shutil.rmtree(folder, ignore_errors=True)


def _answer(
    method: Method,
    dataset: Dataset,
    rows: NDArray[np.int64],
    queries: Queries,
    positions: NDArray[np.int64],
    depth: int,
) -> _Batch:
    library = len(dataset.tools)
    first = dataset.queries[int(rows[0])].query_id
    started = time.perf_counter()
    owners, queries = _calls(dataset, rows, queries)
    with method_errors(method, f"ranking the batch of {len(rows)} queries from {first}"):
        raw = method.rank(queries, depth)
        recommended = method.recommend(queries) if isinstance(method, RecommendingMethod) else None
        seconds = time.perf_counter() - started
        try:
            ranking = validate(raw, len(queries), library, depth)
            sets = None if recommended is None else validate_sets(recommended, len(queries), library)
        except Violation as violation:
            raise MethodError(_violation(method, dataset, rows[owners], violation)) from None
    if len(queries) > len(rows):
        ranking, sets = _merged(ranking, sets, owners, depth)
    if sets is not None and ranking.failed is not None:
        nothing = np.empty(0, dtype=np.int32)
        sets = ToolSets.of([nothing if ranking.failed[i] else sets.row(i) for i in range(len(sets))])
    counts = np.zeros(len(rows), dtype=np.int64)
    gold: list[dict[int, int]] = [{} for _ in range(len(rows))]
    if ranking.tied_beyond is not None:
        counts = np.bitwise_count(ranking.tied_beyond).sum(axis=1, dtype=np.int64)
        meeting = dataset.gold.take(rows).members()
        for i in np.flatnonzero(counts):
            own = meeting.row(int(i))
            # Bits as `numpy.packbits` has them: the first tool in the highest bit of a byte.
            tied = (ranking.tied_beyond[i, own >> 3] >> (7 - (own & 7))) & 1
            start, end = meeting.starts[i : i + 2]
            judged = zip(own, meeting.grades[start:end], tied, strict=True)
            gold[i] = {int(tool): int(grade) for tool, grade, beyond in judged if beyond}
    # Kept for each query: a bit for each tool would outgrow everything else, and the batch is written without.
    kept = replace(ranking, tied_beyond=None, replies=None)
    return _Batch(positions, kept, Beyond(counts, Gold.of(gold)), sets, seconds, _reply_tokens(ranking))


def _reply_tokens(ranking: Ranking) -> NDArray[np.int64] | None:
    """(queries,) tokens of the replies, -1 where there is none; None for a ranking without, or without a tokenizer."""
    if ranking.replies is None or not can_count_tokens():
        return None
    found = np.full(len(ranking.replies), -1, dtype=np.int64)
    known = [i for i, reply in enumerate(ranking.replies) if reply is not None]
    # Half a surrogate pair, which JSON may hold, has no bytes.
    texts = [(ranking.replies[i] or "").encode("utf-8", "replace").decode() for i in known]
    found[known] = count_tokens(texts)
    return found


def _calls(dataset: Dataset, rows: NDArray[np.int64], queries: Queries) -> tuple[NDArray[np.int64], Queries]:
    """The calls in which queries are asked: the place of each call's query, and the texts."""
    texts = [dataset.queries[row].calls or (text,) for row, text in zip(rows.tolist(), queries.texts, strict=True)]
    owners = np.repeat(np.arange(len(rows)), [len(own) for own in texts])
    if len(owners) == len(rows):
        return owners, queries
    return owners, Queries(tuple(text for own in texts for text in own), queries.rows[owners])


def _merged(
    ranking: Ranking, sets: ToolSets | None, owners: NDArray[np.int64], depth: int
) -> tuple[Ranking, ToolSets | None]:
    """One ranking for each query from those of its calls, by first rank and without scores: scores of two texts do not
    compare. A query fails if one of its calls does, and its set is what any of them recommends.
    """
    ends = np.flatnonzero(np.diff(owners, append=-1)) + 1
    parts = [range(start, end) for start, end in zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)]
    tools = [merged([[tool for tool in ranking.tools[i].tolist() if tool >= 0] for i in part], depth) for part in parts]
    failed = None if ranking.failed is None else [bool(ranking.failed[part].any()) for part in parts]
    if failed is not None:
        tools = [[] if bad else own for own, bad in zip(tools, failed, strict=True)]
    if sets is not None:
        sets = ToolSets.of([np.unique(np.concatenate([sets.row(i) for i in part])) for part in parts])
    replies = None
    if ranking.replies is not None:
        # An agent reads the answers to all of its searches.
        told = [[reply for i in part if (reply := ranking.replies[i]) is not None] for part in parts]
        replies = tuple("\n".join(own) if own else None for own in told)
    return replace(Ranking.of_lists(tools, failed), replies=replies), sets


def _violation(method: Method, dataset: Dataset, rows: NDArray[np.int64], violation: Violation) -> str:
    where = ""
    if violation.query is not None:
        where = f" for query {dataset.queries[int(rows[violation.query])].query_id}"
    if violation.tool is not None:
        where += f", tool {dataset.tools[violation.tool].tool_id}"
    return f"method {method.spec} {violation}{where}; the protocol does not allow it (section 3, rule 4)."


@dataclass(frozen=True)
class _Batch:
    """The answers to one batch, as stored; `positions` are those in the asking order."""

    positions: NDArray[np.int64]
    ranking: Ranking
    beyond: Beyond
    sets: ToolSets | None
    seconds: float
    reply_tokens: NDArray[np.int64] | None = None

    def write(self, path: Path) -> None:
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
        if self.sets is not None:
            arrays["set_starts"], arrays["set_tools"] = self.sets.starts, self.sets.tools
        # Made in memory first: zip archives are written with seeks, which a full disk turns into nonsense.
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        with replacing(path) as temporary:
            temporary.write_bytes(buffer.getvalue())

    @staticmethod
    def read(path: Path) -> _Batch | None:
        """The stored batch, or None where it is not whole."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = dict(stored.items())
            gold = Gold(arrays["gold_starts"], arrays["gold_tools"], arrays["gold_grades"])
            sets = ToolSets(arrays["set_starts"], arrays["set_tools"]) if "set_starts" in arrays else None
            batch = _Batch(
                arrays["positions"],
                Ranking(arrays["tools"], arrays.get("scores"), arrays.get("failed")),
                Beyond(arrays["beyond"], gold),
                sets,
                float(arrays["seconds"]),
                arrays.get("reply_tokens"),
            )
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            return None
        return batch if len(batch.ranking) == len(batch.positions) else None


def _stored(folder: Path, queries: int) -> list[_Batch]:
    """The whole batches in a folder that do not overlap."""
    found: list[_Batch] = []
    taken = np.zeros(queries, dtype=np.bool_)
    for path in sorted(folder.glob("from-*.npz")):
        batch = _Batch.read(path)
        if (
            batch is None
            or not len(batch.positions)
            or batch.positions.max() >= queries
            or taken[batch.positions].any()
        ):
            continue
        taken[batch.positions] = True
        found.append(batch)
    return found


def _joined(parts: Sequence[_Batch], resumed: bool) -> Answers:
    gold = [part.beyond.gold for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in gold]))])
    beyond = Beyond(
        np.concatenate([part.beyond.counts for part in parts]),
        Gold(starts, np.concatenate([part.tools for part in gold]), np.concatenate([part.grades for part in gold])),
    )
    sets = [part.sets for part in parts if part.sets is not None]
    tokens = [part.reply_tokens for part in parts if part.reply_tokens is not None]
    return Answers(
        Ranking.join([part.ranking for part in parts]),
        beyond,
        ToolSets.join(sets) if len(sets) == len(parts) else None,
        sum(part.seconds for part in parts),
        resumed,
        np.concatenate(tokens) if len(tokens) == len(parts) else None,
    )

"""Build jobs, one per board: its page, its result pages and its explorer. `site` runs them.

What has not changed comes from the build cache.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError, UnavailableError
from bench.base.plugins import function
from bench.leaderboard.boards.board import (
    RANKED,
    Board,
    References,
    Rejected,
    Row,
    RowSample,
    assemble,
    family_of,
    is_reference_system,
    make_board,
    place_of,
    sample_rows,
    slug_of,
)
from bench.leaderboard.boards.decisions import Evidence
from bench.leaderboard.boards.nomatch import METRIC as NO_MATCH
from bench.leaderboard.boards.pairs import Pairs, pairs_of
from bench.leaderboard.boards.registered import data_of, describe_method, novelty_masks, state_of_data
from bench.leaderboard.boards.slices import slice_masks
from bench.leaderboard.boards.standings import RankedSystems
from bench.leaderboard.boards.tables import check_values, read_columns
from bench.leaderboard.boards.traits import with_repeated_gold
from bench.leaderboard.buildcache import BuildCache, digest_of, key_of
from bench.leaderboard.exports.downloads import write_download
from bench.leaderboard.pages.compare import write_pairs
from bench.leaderboard.pages.dataset import write_dataset
from bench.leaderboard.pages.explorer import Explorer, write_explorer
from bench.leaderboard.pages.nomatch import no_match_path, write_no_match
from bench.leaderboard.pages.registry import ChoiceBoard, Frame
from bench.leaderboard.pages.rendering import use_frame
from bench.leaderboard.pages.result import write_results
from bench.leaderboard.pages.slices import slices_path, write_slices
from bench.leaderboard.pages.trend import write_trend
from bench.leaderboard.writer import Writer, WrittenFiles, is_path
from bench.results.choices import is_choice
from bench.results.store import PER_QUERY, REPEATS, RUN, StoredResult

#: Use a second process if all results together have at least this many values.
_WORTH_PROCESSES = 300_000
#: Raise this when the format of a board's cache entry changes.
_FORM = 11


@dataclass(frozen=True)
class Job:
    """One board to build.

    Attributes:
        members: comparable results.
        results: their folder.
        out: the site's folder.
        verify: whether to read and check rankings and all columns too.
        offered: ids of the results whose files are offered.
        keep: whether rows keep their per-query values.
        sized: whether the dataset has a page on library size.
        choices: path of the page of choices on the dataset; empty if there is none.
        older: ids of members that were made by older code.
        references: the reference systems.
        evidence: id of a member -> how far its ranking is known to be its method's.
        frame: what all pages of the site share.
        interrupted: whether a build was killed since the last complete build of the site.
    """

    members: tuple[StoredResult, ...]
    results: Path
    out: Path
    verify: bool
    offered: frozenset[str]
    keep: bool
    sized: bool
    choices: str
    older: frozenset[str]
    references: References
    evidence: Mapping[str, Evidence]
    frame: Frame
    interrupted: bool

    @property
    def name(self) -> str:
        """The slug of the board, if one is made."""
        return slug_of(self.members[0]) + ("-choices" if self.of_choices else "")

    @property
    def of_choices(self) -> bool:
        """Whether its results are choices of language models, which retrieval boards leave out."""
        return is_choice(self.members[0])

    @property
    def values(self) -> int:
        """The amount of work: values of all members."""
        return sum(result.manifest.dataset.queries for result in self.members)

    def key(self) -> str:
        """A hash of all inputs of its pages; manifests stand for the tables."""
        families = {family_of(item.manifest.method.spec) for item in self.members}
        digests = [hashlib.sha256(item.manifest.model_dump_json().encode()).hexdigest() for item in self.members]
        return key_of(
            {
                "form": _FORM,
                "members": [
                    [place_of(item.folder, self.results), item.has_run, digest]
                    for item, digest in zip(self.members, digests, strict=True)
                ],
                "how": [self.verify, sorted(self.offered), self.keep, self.sized, self.choices],
                "older": sorted(self.older),
                "evidence": dict(self.evidence),
                "frame": [self.frame.words.model_dump(), sorted(self.frame.files), self.frame.gates],
                "references": [is_reference_system(item, self.references) for item in self.members],
                "data": state_of_data(self.members[0].manifest.dataset.spec),
                "methods": {name: repr(describe_method(name)) for name in sorted(families)},
            }
        )


@dataclass(frozen=True)
class BoardOutput:
    """A finished board and the site files that belong to it.

    Attributes:
        board: None if no result is valid.
        rejected: results that are not shown, with reasons.
        masks: kind of queries -> (judged queries,).
        absent: why the dataset was unavailable, as a sentence; empty if it was available.
        keys, written: the site's files.
        pairs: its pairs of methods; None if they were not tested one by one.
        choices: set instead of `board` if the results are choices.
    """

    board: Board | None
    rejected: list[Rejected]
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    absent: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    written: WrittenFiles = field(default_factory=WrittenFiles)
    pairs: Pairs | None = None
    choices: ChoiceBoard | None = None


def run_jobs(work: Sequence[Job], jobs: int | None) -> list[BoardOutput]:
    """Run the jobs and return their outcomes in order; unchanged boards come from the build cache.

    Args:
        work: the jobs.
        jobs: number of processes; by default one per core if there is enough work.
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        outcomes = {i: done for i, done in enumerate(threads.map(_last_build, work)) if done is not None}
    # Start the largest first, so that none is left to run alone at the end.
    order = sorted((i for i in range(len(work)) if i not in outcomes), key=lambda i: -work[i].values)
    many = sum(work[i].values for i in order) > _WORTH_PROCESSES
    processes = jobs or (min(os.cpu_count() or 1, len(order)) if many else 1)
    if processes < 2 or len(order) < 2:
        outcomes |= {i: _make(work[i]) for i in order}
    else:
        # Spawn, because Arrow's threads do not survive a fork.
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, spawned, _begin_process, initargs=gc.get_threshold()) as pool:
            outcomes |= dict(zip(order, pool.map(_make, [work[i] for i in order]), strict=True))
    return [outcomes[i] for i in range(len(work))]


def _begin_process(*threshold: int) -> None:
    """Limit each process to one thread, so that processes do not compete for cores.

    Args:
        threshold: garbage collection threshold of the parent process.
    """
    import threadpoolctl  # type: ignore[import-untyped]

    threadpoolctl.threadpool_limits(1)
    gc.set_threshold(*threshold)


def choice_reader() -> Callable[[Board], tuple[ChoiceBoard, list[Rejected]]]:
    """The plug-in function that reads choices of language models and reports unreadable results."""
    reader: Callable[[Board], tuple[ChoiceBoard, list[Rejected]]] = function(
        "choice-board", "choices of language models are not shown"
    )
    return reader


def _make_choices(job: Job) -> BoardOutput:
    """Read the choices and write their result pages; their overview page is written once all are known."""
    cache, key = BuildCache(job.out), job.key()
    writer = Writer(job.out, distrusted=_damaged_files(job, key), interrupted=job.interrupted)
    kept = cache.get(job.name, key)
    verify = job.verify and (kept is None or not _are_unchanged(job))
    board, rejected = make_board(job.members, job.results, verify, job.older, job.references, {}, job.evidence)
    if board is None:
        return BoardOutput(None, rejected)
    choices, unread = choice_reader()(board)
    rejected += unread
    # The cache has the pages alone: what the plug-in read is of its own types.
    if not rejected and (keys := _unchanged_files(job, kept)) is not None:
        return BoardOutput(None, [], keys=keys, written=WrittenFiles(unchanged=list(keys)), choices=choices)
    offered = _offer(job, board, rejected, writer)
    write_results(board, {}, (), offered, job.name, writer, choices.path)
    if not rejected:
        cache.put(job.name, key, {"files": _digests(writer.keys, job.out)})
    return BoardOutput(None, rejected, keys=writer.keys, written=writer.done, choices=choices)


def _offer(job: Job, board: Board, rejected: list[Rejected], writer: Writer) -> frozenset[str]:
    """Write the download of a board; return the ids of the results in it."""
    results = [*(row.result for row in board.rows), *(item.result for item in board.superseded)]
    offered = [result for result in results if result.manifest.result_id in job.offered]
    try:
        if offered:
            write_download(job.name, offered, writer)
    except ResultError as error:
        rejected.append(Rejected(board.name, f"the download is omitted: {error}".replace(f"{job.results}/", "")))
        return frozenset()
    return frozenset(result.manifest.result_id for result in offered)


def _make(job: Job) -> BoardOutput:
    use_frame(job.frame)
    if job.of_choices:
        return _make_choices(job)
    key = job.key()
    writer = Writer(job.out, distrusted=_damaged_files(job, key), interrupted=job.interrupted)
    board, rejected = make_board(job.members, job.results, job.verify, job.older, job.references, None, job.evidence)
    if board is None:
        return BoardOutput(None, rejected)
    data = data_of(board.spec, board.content_hash)
    table = read_columns(board.first, PER_QUERY, ["query_id", "n_gold"])
    ids, judged = table["query_id"].to_pylist(), table["n_gold"].to_numpy() > 0
    judged_ids = [name for name, has_gold in zip(ids, judged.tolist(), strict=True) if has_gold]
    masks = {} if data.dataset is None else novelty_masks(data.dataset, ids, judged)
    board = with_repeated_gold(board)
    explorer: Explorer | None = None
    try:
        explorer = write_explorer(board, data, writer)
    except (ResultError, pa.ArrowException) as error:
        reason = f"the query explorer is omitted: {str(error).splitlines()[0]}"
        rejected.append(Rejected(board.name, reason.replace(f"{job.results}/", "")))
    slices = slice_masks(data, judged_ids)
    tools: tuple[Row, ...] = ()
    try:
        tools = function("write-tools", "pages of tools are omitted")(board, data, rejected, writer)
    except UnavailableError as error:
        rejected.append(Rejected(board.name, str(error)))
    unanswered = write_no_match(board, rejected, writer)
    if unanswered is not None and unanswered.standing is not None:
        board.standings[NO_MATCH] = unanswered.standing
    no_match = "" if unanswered is None else no_match_path(board)
    sliced = slices_path(board) if write_slices(board, slices, writer) else ""
    write_dataset(board, data, explorer, tools, judged_ids, job.sized, no_match, sliced, job.choices, rejected, writer)
    pairs = pairs_of(board)
    write_pairs(board, pairs, explorer, writer)
    write_trend(board, writer)
    known = len(rejected)
    offered = _offer(job, board, rejected, writer)
    complete = len(rejected) == known
    write_results(board, slices, {row.id for row in tools}, offered, job.name, writer)
    board = sample_rows(board, masks, job.keep)
    done = BoardOutput(board, rejected, masks, data.why_not, writer.keys, writer.done, pairs)
    if complete:
        BuildCache(job.out).put(job.name, key, _to_keep(done, job.out))
    return done


def _to_keep(done: BoardOutput, out: Path) -> dict[str, Any]:
    """Cache what is slow to compute (tests, samples, masks) and the digests of the written files."""
    board = done.board
    assert board is not None
    return {
        "rejected": done.rejected,
        "sound": [*(row.id for row in board.rows), *(item.id for item in board.superseded)],
        "samples": {row.id: row.samples for row in board.rows},
        "standings": board.standings,
        "masks": done.masks,
        "pairs": done.pairs,
        "absent": done.absent,
        "files": _digests(done.keys, out),
    }


def _digests(keys: Mapping[str, str], out: Path) -> dict[str, list[str]]:
    """Path -> key and digest of the files of a board."""
    return {path: [key, digest_of(out / path)] for path, key in keys.items()}


def _unchanged_files(job: Job, kept: Any) -> dict[str, str] | None:
    """Path -> key of the files of the board's last build; None if one has changed since or the entry is damaged."""
    try:
        files = {str(path): (str(key), str(digest)) for path, (key, digest) in kept["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    if not all(map(is_path, files)) or any(digest_of(job.out / path) != found for path, (_, found) in files.items()):
        return None
    return {path: key for path, (key, _) in files.items()}


def _damaged_files(job: Job, key: str) -> frozenset[str]:
    """Files of this board's last build that have changed since."""
    kept = BuildCache(job.out).get(job.name, key)
    try:
        files = kept["files"].items() if kept else ()
        return frozenset(path for path, (_, digest) in files if is_path(path) and digest_of(job.out / path) != digest)
    except (KeyError, TypeError, ValueError, AttributeError):
        return frozenset()


def _last_build(job: Job) -> BoardOutput | None:
    """The board from the last build; None if results, site, dataset or code have changed."""
    kept = BuildCache(job.out).get(job.name, job.key())
    if kept is None or job.of_choices:
        return None
    try:
        keys = _unchanged_files(job, kept)
        if keys is None or not _are_unchanged(job):
            return None
        board = _restore(job, kept)
        rejected = [Rejected(**item) for item in kept["rejected"]]
        pairs = None if kept["pairs"] is None else Pairs(**kept["pairs"])
        masks, absent = kept["masks"], kept["absent"]
    except (ResultError, pa.ArrowException, KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
    return BoardOutput(board, rejected, masks, absent, keys, WrittenFiles(unchanged=list(keys)), pairs)


def _are_unchanged(job: Job) -> bool:
    """Whether the tables of the results have the digests of their manifests."""
    return all(
        digest_of(item.folder / name) == item.manifest.files.get(name)
        for item in job.members
        for name in (PER_QUERY, *_tables_to_verify(item, job.verify))
    )


def _tables_to_verify(result: StoredResult, runs: bool) -> list[str]:
    """The tables of a result that are read only for verification."""
    return [*([RUN] if runs and result.has_run else []), *([REPEATS] if runs and result.manifest.repeats > 1 else [])]


def _restore(job: Job, kept: dict[str, Any]) -> Board:
    by_id = {item.manifest.result_id: item for item in job.members}
    sound = [by_id[name] for name in kept["sound"]]
    known: list[pa.Table] = []
    values = {
        item.manifest.result_id: check_values(item, RANKED, False, known)[0]
        if job.keep or is_reference_system(item, job.references)
        else None
        for item in sound
    }
    standings = {metric: RankedSystems(**stored) for metric, stored in kept["standings"].items()}
    board = with_repeated_gold(assemble(sound, values, standings, job.older, job.references, job.evidence))
    samples = {
        name: {kind: RowSample(**sample) for kind, sample in kinds.items()} for name, kinds in kept["samples"].items()
    }
    return replace(board, rows=tuple(replace(row, samples=samples[row.id]) for row in board.rows))

"""The leaderboard: a static site made from stored results alone.

It opens from a file, from any web server and under any path; it asks for nothing outside itself, and its tables need
no script. The same results give the same bytes: there is no time on its pages but that of the results.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.errors import ResultError
from bench.leaderboard.datasetpage import slice_masks, write_dataset
from bench.leaderboard.explorer import Explorer, write_explorer
from bench.leaderboard.exports import write_exports
from bench.leaderboard.facts import bundles_seen, data_of, novelty_masks
from bench.leaderboard.homepage import write_home, write_lists
from bench.leaderboard.methodpage import published_by_family, write_methods
from bench.leaderboard.model import RANKED, Board, Mark, Rejected, make_board, read_results, sampled
from bench.leaderboard.names import count
from bench.leaderboard.overall import MOST_VALUES
from bench.leaderboard.pages import static_files
from bench.leaderboard.resultpage import write_results
from bench.leaderboard.staticpages import read_reproduction, write_static
from bench.leaderboard.tables import read_columns
from bench.leaderboard.traits import learns
from bench.leaderboard.writer import Writer, Written
from bench.progress import QUIET, Progress
from bench.run.result import PER_QUERY, RUN, Result
from bench.swap import locked

#: Lines of all rankings together up to which they are written for download, unless somebody says otherwise.
MOST_LINES = 10_000_000
#: Bytes of all rankings together up to which each is read and checked, and not only those that are shown.
_MOST_VERIFIED = 1 << 30
#: Values of all results together from which on the work is worth a second process.
_WORTH_PROCESSES = 300_000


@dataclass(frozen=True)
class Site:
    """What a build made.

    Attributes:
        boards: by dataset.
        rejected: what is not shown, and why.
        files: which were written, left as they were, and removed.
    """

    boards: tuple[Board, ...]
    rejected: tuple[Rejected, ...]
    files: Written

    @property
    def results(self) -> int:
        """How many results stand on boards."""
        return sum(len(board.rows) for board in self.boards)


@dataclass(frozen=True)
class _Job:
    members: tuple[Result, ...]
    results: Path
    out: Path
    verify: bool
    downloads: bool
    keep: bool


@dataclass(frozen=True)
class _Done:
    board: Board | None
    rejected: list[Rejected]
    masks: dict[str, NDArray[np.bool_]]
    keys: dict[str, str]
    written: Written


def build_site(
    results: Path,
    out: Path,
    reproduction: Path | None = None,
    downloads: bool | None = None,
    jobs: int | None = None,
    progress: Progress = QUIET,
    base_url: str | None = None,
) -> Site:
    """Write a site; pages that have not changed are left alone, and those of results that are gone are removed.

    Args:
        results: folder of stored results.
        out: folder of the site; files in it that no build wrote are left alone.
        reproduction: what `bench reproduce` wrote, to be shown beside the results.
        downloads: whether rankings and per-query values are written too; by default up to `MOST_LINES` lines.
        jobs: processes; by default one for each core where there is much to do.
        progress: gets a step for each board.
        base_url: the site's address, if it has one: exports then have full links, and a sitemap.

    Raises:
        UsageError: the report of a reproduction cannot be read, or `base_url` is no address.
        StorageError: the folder cannot be written.
    """
    report = None if reproduction is None else read_reproduction(reproduction)
    with locked(out.absolute().parent / f".{out.absolute().name}.lock", f"building {out}", progress):
        groups, rejected = read_results(results)
        work = _jobs(groups, results, out, downloads)
        writer = Writer(out)
        boards, masks = [], {}
        with progress.stage("build", len(work), "boards") as stage:
            for done in _carried_out(work, jobs):
                rejected += done.rejected
                writer.absorb(done.keys, done.written)
                if done.board is not None:
                    boards.append(done.board)
                    masks[done.board.slug] = done.masks
                stage.advance()
        write_home(boards, masks, writer)
        write_lists(boards, writer)
        write_methods(boards, published_by_family(report), writer)
        every = [row.result for board in boards for row in board.rows]
        every += [result for board in boards for result, _ in board.superseded]
        shown = {result.manifest.result_id for result in every}
        rejected.sort(key=lambda item: (item.where, item.reason))
        write_static(rejected, report, shown, writer)
        for path, content in static_files().items():
            writer.put(path, content)
        links = {name: f"r/{name}.html" for name in sorted(shown)}
        pages = sorted(path for path in writer.keys if path.endswith(".html"))
        write_exports(writer.put, every, links=links, pages=pages, base_url=base_url)
        return Site(tuple(boards), tuple(rejected), writer.finish())


def _jobs(groups: Sequence[Sequence[Result]], results: Path, out: Path, downloads: bool | None) -> list[_Job]:
    every = [result for members in groups for result in members]
    if downloads is None:
        downloads = sum(map(_lines, every)) <= MOST_LINES
    verify = sum(_size(result.folder / RUN) for result in every) <= _MOST_VERIFIED
    keep = sum(result.manifest.dataset.queries for result in every) * len(RANKED) <= MOST_VALUES
    return [_Job(tuple(group), results, out, verify, downloads, keep) for group in groups]


def _lines(result: Result) -> int:
    data = result.manifest.dataset
    return data.queries * min(result.manifest.depth, data.tools)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _carried_out(work: Sequence[_Job], jobs: int | None) -> list[_Done]:
    values = sum(result.manifest.dataset.queries for job in work for result in job.members)
    processes = jobs or (min(os.cpu_count() or 1, len(work)) if values > _WORTH_PROCESSES else 1)
    if processes < 2 or len(work) < 2:
        return [_one(job) for job in work]
    # The largest first, so that none is left to run alone at the end.
    order = sorted(range(len(work)), key=lambda i: -sum(item.manifest.dataset.queries for item in work[i].members))
    # Spawned: Arrow's threads do not survive a fork.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(order, pool.map(_one, [work[i] for i in order]), strict=True))
    return [found[i] for i in range(len(work))]


def _one(job: _Job) -> _Done:
    """All that hangs on one board alone: its page, its results' pages, its explorer."""
    writer = Writer(job.out)
    board, rejected = make_board(job.members, job.results, job.verify)
    if board is None:
        return _Done(None, rejected, {}, {}, Written())
    data = data_of(board.spec, board.content_hash)
    table = read_columns(board.first, PER_QUERY, ["query_id", "n_gold"])
    ids, judged = table["query_id"].to_pylist(), table["n_gold"].to_numpy() > 0
    own = [name for name, has_gold in zip(ids, judged.tolist(), strict=True) if has_gold]
    bundles, masks = None, {}
    if data.dataset is not None:
        masks = novelty_masks(data.dataset, ids, judged)
        if len(data.dataset.rows("train")):
            bundles = bundles_seen(data.dataset, own)
            board = _with_bundles(board, bundles)
    explorer: Explorer | None = None
    try:
        explorer = write_explorer(board, data, writer)
    except (ResultError, pa.ArrowException) as error:
        reason = f"the explorer of its queries is left out: {str(error).splitlines()[0]}"
        rejected.append(Rejected(board.name, reason.replace(f"{job.results}/", "")))
    slices = slice_masks(data, own)
    write_dataset(board, data, explorer, own, bundles, writer)
    write_results(board, slices, job.downloads, writer)
    board = sampled(board, masks, job.keep)
    return _Done(board, rejected, masks, writer.keys, writer.done)


def _with_bundles(board: Board, bundles: tuple[int, int]) -> Board:
    """Mark the methods that learn from past queries where these have the very gold sets that are asked for."""
    if not bundles[0]:
        return board
    share = f"{count(bundles[0])} of the {count(bundles[1])} judged queries"
    mark = Mark("bundles seen", f"{share} have a gold set that stands in the past queries")
    rows = tuple(
        replace(row, marks=(*row.marks, mark)) if learns(row) and not row.oracle else row for row in board.rows
    )
    return replace(board, rows=rows)

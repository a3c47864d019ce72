"""The leaderboard: a static site of stored results. `command` and the Python API build it.

It works from disk, from any web server and under any path. It loads nothing from elsewhere, and its tables need no
script. The same results give the same bytes: the only times on its pages are those of the results.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.base.errors import UnavailableError, UsageError, require
from bench.base.locks import lock
from bench.base.progress import QUIET, Progress
from bench.leaderboard.boardjobs import Job, choice_reader, run_jobs
from bench.leaderboard.boards.board import RANKED, Board, References, Rejected, read_results
from bench.leaderboard.boards.decisions import Decisions, read_decisions
from bench.leaderboard.boards.gates import gate_histories, read_gates
from bench.leaderboard.boards.libraries import base_of, bases
from bench.leaderboard.boards.overall import MOST_VALUES, entry_name, overall_boards
from bench.leaderboard.boards.rankingset import DECLARED, check_references, read_ranking_set, views_of
from bench.leaderboard.boards.registered import NOT_HERE, bring_data
from bench.leaderboard.buildcache import BuildCache
from bench.leaderboard.exports.downloads import has_key
from bench.leaderboard.exports.write import write_exports
from bench.leaderboard.pages.registry import ChoiceBoard, Frame, SiteData, pages
from bench.leaderboard.pages.rendering import render, static_files, use_frame
from bench.leaderboard.writer import Writer, WrittenFiles
from bench.lookup.current import Built, is_of_today
from bench.results.choices import is_choice
from bench.results.store import RUN, StoredResult

#: Folders of a site that hold no pages.
_OTHER_FOLDERS = frozenset({"c", "downloads", "static", "tables"})
#: If all rankings together have at most this many bytes, each is read and checked, not only those shown.
_MOST_VERIFIED = 1 << 30
#: How to get a dataset that is not here.
_BRING = "`bench data fetch DATASET` brings each; BENCH_MIRROR names a mirror of upstream's files."
#: Default limit of bytes of all results offered for download together.
MOST_DOWNLOADED = 100_000_000


@dataclass(frozen=True)
class Site:
    """What a build made.

    Attributes:
        boards: by dataset.
        choices: choices of language models, by dataset.
        rejected: results that are not shown, with reasons.
        incomplete: what the site lacks because data or results were unavailable, as sentences.
        files: files that were written, left unchanged or removed.
        seconds: wall-clock seconds of each stage.
    """

    boards: tuple[Board, ...]
    choices: tuple[ChoiceBoard, ...]
    rejected: tuple[Rejected, ...]
    incomplete: tuple[str, ...]
    files: WrittenFiles
    seconds: Mapping[str, float]

    @property
    def results(self) -> int:
        """Number of results on boards."""
        return sum(len(board.rows) for board in (*self.boards, *(item.board for item in self.choices)))


def build_site(
    results: Path,
    out: Path,
    files: Mapping[str, Path] = MappingProxyType({}),
    downloads: bool | None = None,
    jobs: int | None = None,
    progress: Progress = QUIET,
    ranking_set: Path | None = None,
    baselines: Path | None = None,
    policy: Path | None = None,
) -> Site:
    """Write a site. Unchanged pages are kept, and pages of deleted results are removed.

    Args:
        results: folder of stored results.
        out: folder of the site; files in it that no build wrote are kept.
        files: page's name -> the file that it is made from, such as the report of `bench reproduce`.
        downloads: whether to offer the files of results; by default those of results with at most 10 MB, or a tenth of
            that, and so on, so that all together have at most `MOST_DOWNLOADED` bytes.
        jobs: number of processes; by default one per core if there is enough work.
        progress: advanced by one step per board.
        ranking_set: a TOML file with the datasets to rank on and the reference systems; by default the one that
            comes with bench, which lists no reference systems.
        baselines: a baseline or a folder of baselines: the site then shows their history, with the verdicts of the
            gate.
        policy: the gate's policy; by default `gate.toml` next to the baselines.

    Raises:
        UnavailableError: a package of the extra `leaderboard` is not installed.
        UsageError: a file of a page, the ranking set or the policy cannot be read, a policy has no baselines, or the
            site would be inside the folder of results.
        ResultError: a baseline cannot be read, or a result that is listed as a reference system is gone or altered.
        StorageError: the folder cannot be written.
    """
    require("latex2mathml", "threadpoolctl", what="a leaderboard's site")
    given = {page.name: page.read(files[page.name]) for page in pages() if page.read and page.name in files}
    set_file = ranking_set or DECLARED
    chosen = read_ranking_set(set_file)
    frame = Frame(chosen.site, frozenset(given), baselines is not None)
    use_frame(frame)
    if policy is not None and baselines is None:
        raise UsageError(f"the policy {policy} judges baselines: name them with --baselines.")
    gates = None if baselines is None else read_gates(baselines, policy)
    check_apart(results, out)
    # Resolve links: a link to a site is the same site.
    place = out.resolve()
    stages = _Stages()
    with lock(place.parent / f".{place.name}.lock", f"building {out}", progress):
        stages.begin("read results")
        decisions = read_decisions(results)
        found, rejected = read_results(results, chosen.references, decisions)
        check_references(set_file, chosen, results, [item for group in found for item in group], rejected)
        # Choices of language models are not rankings, so no retrieval board has them.
        groups = [part for group in found if (part := [item for item in group if not is_choice(item)])]
        chosen_groups = [part for group in found if (part := [item for item in group if is_choice(item)])]
        without: tuple[str, ...] = ()
        try:
            if chosen_groups:
                choice_reader()
        except UnavailableError as error:
            chosen_groups, without = [], (str(error),)
        stages.begin("datasets")
        bring_data({members[0].manifest.dataset.spec for members in groups}, progress)
        drawn = bases({members[0].manifest.dataset.spec for members in groups})
        writer = Writer(out)
        writer.begin()
        boards, masks, absent, pairs, choices = [], {}, {}, {}, []
        with progress.stage("build", len(groups) + len(chosen_groups), "boards") as stage:
            stages.begin("choices of language models")
            # First, because the pages of datasets link to the choices on them.
            first = _jobs(
                chosen_groups, results, out, downloads, drawn, chosen.references, decisions, frame, writer.interrupted
            )
            for done in run_jobs(first, jobs):
                rejected += done.rejected
                writer.absorb(done.keys, done.written)
                choices += [] if done.choices is None else [done.choices]
                stage.advance()
            paths = {item.board.spec: item.path for item in reversed(choices)}
            stages.begin("boards")
            work = _jobs(
                groups, results, out, downloads, drawn, chosen.references, decisions, frame, writer.interrupted, paths
            )
            for done in run_jobs(work, jobs):
                rejected += done.rejected
                writer.absorb(done.keys, done.written)
                if done.board is not None:
                    boards.append(done.board)
                    masks[done.board.slug] = done.masks
                    if done.pairs is not None:
                        pairs[done.board.slug] = done.pairs
                    if done.absent:
                        absent[done.board.slug] = done.absent
                stage.advance()
        stages.begin("boards over datasets")
        every = [row.result for board in boards for row in board.rows]
        every += [row.result for item in choices for row in item.board.rows]
        every += [item.result for board in [*boards, *(item.board for item in choices)] for item in board.superseded]
        # Again, because tables have been read by now.
        check_references(set_file, chosen, results, every, rejected)
        shown = {result.manifest.result_id for result in every}
        rejected.sort(key=lambda item: (item.where, item.reason))
        # Use an edited catalogue in its current form.
        at_hand = {board.spec: board.content_hash for board in boards if board.slug not in absent}
        views, unranked = views_of(chosen, boards, at_hand)
        # Those of the public set are no lack of a site that is not public.
        unranked = unranked if chosen.site.public or chosen.views != read_ranking_set().views else []
        cache = BuildCache(out)
        ranked = overall_boards(views, masks, absent, cache)
        histories = [] if gates is None else gate_histories(*gates, every)
        stages.begin("pages")
        content = SiteData(
            boards,
            views,
            ranked,
            unranked,
            absent,
            rejected,
            given,
            shown,
            pairs,
            drawn,
            at_hand,
            histories,
            choices,
            decisions,
            frame,
        )
        for page in pages():
            if not page.when(frame):
                continue
            if page.write is not None:
                page.write(content, writer)
            if page.values is not None and (values := page.values(content)) is not None:
                writer.put(page.path, render(page.name, "", page.path, **values))
        for path, data in static_files().items():
            writer.put(path, data)
        stages.begin("exports")
        write_exports(writer.put, boards, ranked)
        stages.begin("list of files")
        kept = {entry_name(board.view, board.metric, board.kind) for board in ranked if board.standing is not None}
        cache.finish({job.name for job in (*first, *work)} | kept)
        # Results of an earlier catalogue do not lack a dataset: the current one is available and counts.
        counts = {**at_hand, **chosen.content}
        today = {spec for spec, content in at_hand.items() if counts[spec] == content}
        earlier = {board.slug for board in boards if board.spec in today}
        lacking = [(item.name, absent[item.slug]) for item in boards if item.slug in absent.keys() - earlier]
        incomplete = (*without, *unranked, *_lacks(lacking))
        files_done = writer.finish()
        return Site(tuple(boards), tuple(choices), tuple(rejected), incomplete, files_done, stages.end())


def _lacks(boards: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence for each reason why boards lack their dataset, with all of these boards."""
    by_reason = defaultdict[str, list[str]](list)
    for name, reason in boards:
        by_reason[reason].append(name)
    return [
        f"{', '.join(names)}: {reason}" + (f" {_BRING}" if reason == NOT_HERE else "")
        for reason, names in by_reason.items()
    ]


class _Stages:
    """Wall-clock seconds of the stages of a build, one after the other."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._name, self._since = "", 0.0

    def begin(self, name: str) -> None:
        """End the current stage and begin another."""
        self.end()
        self._name, self._since = name, time.perf_counter()

    def end(self) -> dict[str, float]:
        """End the current stage; return the seconds of all."""
        if self._name:
            self._seconds[self._name] = time.perf_counter() - self._since
        self._name = ""
        return self._seconds


def site_folders() -> frozenset[str]:
    """Folders of a site: those of its pages, and those of files that pages read."""
    return _OTHER_FOLDERS | {folder for page in pages() if (folder := page.path.rpartition("/")[0])}


def check_apart(results: Path, out: Path) -> None:
    """Raise `UsageError` if pages would be written among results."""
    source, place = results.resolve(), out.resolve()
    if place.is_relative_to(source):
        raise UsageError(f"the site folder {out} is inside the results folder {results}; choose another --out.")
    if source.is_relative_to(place) and source.relative_to(place).parts[0] in site_folders():
        raise UsageError(
            f"the results folder {results} is inside the page folders of the site {out}; choose another --out."
        )


def _jobs(
    groups: Sequence[Sequence[StoredResult]],
    results: Path,
    out: Path,
    downloads: bool | None,
    drawn: Collection[str],
    references: References,
    decisions: Decisions,
    frame: Frame,
    interrupted: bool,
    choices: Mapping[str, str] = MappingProxyType({}),
) -> list[Job]:
    every = [result for members in groups for result in members]
    verify = sum(_size(result.folder / RUN) for result in every) <= _MOST_VERIFIED
    keep = sum(result.manifest.dataset.queries for result in every) * len(RANKED) <= MOST_VALUES
    most = sys.maxsize if downloads else 0
    sizes = [sum(_size(item.folder / name) for name in item.manifest.files) for item in every]
    if downloads is None:
        most = _most_bytes(sizes)
    small = [item for item, size in zip(every, sizes, strict=True) if size <= most]
    offered = {item.manifest.result_id for item in small if not has_key(item)}
    built: Built = {}
    older = {item.manifest.result_id for item in every if is_of_today(item.manifest, built=built) is False}
    return [
        Job(
            tuple(group),
            results,
            out,
            verify,
            frozenset(item.manifest.result_id for item in group) & offered,
            keep,
            base_of(spec := group[0].manifest.dataset.spec) in drawn,
            choices.get(spec, ""),
            frozenset(item.manifest.result_id for item in group) & older,
            references,
            {item.manifest.result_id: decisions.evidence(item.manifest) for item in group},
            frame,
            interrupted,
        )
        for group in groups
    ]


def _most_bytes(sizes: Sequence[int]) -> int:
    """Maximum bytes of a result with a download. A power of ten, so that a new result seldom changes other pages."""
    bounds = (10**power for power in range(7, -1, -1))
    return next((bound for bound in bounds if sum(size for size in sizes if size <= bound) <= MOST_DOWNLOADED), 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

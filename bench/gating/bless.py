"""Write baselines; nothing else creates or changes one. `bench bless` and `bench.bless` call it."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bench
from bench.base.config import config_context
from bench.base.errors import BenchError, ResultError, UsageError
from bench.base.locks import lock, lock_in_cache
from bench.base.progress import QUIET, Progress
from bench.gating.baseline import Baseline, Blessing, file_name, is_ours, make_baseline, read_baseline, write_baseline
from bench.lookup.unfinished import unfinished_marks
from bench.registry.added import is_added
from bench.registry.versions import load_version
from bench.results.across_catalogues import Snapshot, take_snapshot
from bench.results.failures import sentences
from bench.results.scoring_code import code_of
from bench.results.store import StoredResult
from bench.show.numbers import format_fixed
from bench.show.objects import Displayable
from bench.show.tables import Table, table_of

FIRST = "first blessing"


@dataclass(frozen=True, repr=False)
class Blessed(Displayable):
    """What happened to one result.

    Attributes:
        path: the baseline's file.
        baseline: the current baseline.
        before: the baseline it replaced; None if there was no readable one.
        written: False if the file already has the same evidence and was left unchanged: times and hardware are no
            reason to replace it, unless a reason is given.
    """

    path: Path
    baseline: Baseline
    before: Baseline | None
    written: bool

    def to_dict(self) -> dict[str, Any]:
        """File, means and who blessed it, as in `bench bless --json`."""
        baseline = self.baseline
        return {
            "file": str(self.path),
            "written": self.written,
            "label": baseline.label,
            "result_id": baseline.result_id,
            "means": {name: round(baseline.mean(name), 9) for name in baseline.values},
            "blessed": baseline.blessed.model_dump(),
        }

    def _line(self) -> str:
        state = "the same" if not self.written else "new" if self.before is None else "replaced"
        return f"{self.baseline.label} in {self.path}: {state}"

    def _tables(self) -> list[Table]:
        before = {} if self.before is None else {name: self.before.mean(name) for name in self.before.values}
        rows = [
            [name, format_fixed(before.get(name)), format_fixed(self.baseline.mean(name))]
            for name in self.baseline.values
        ]
        return [table_of(("metric", "before", "now"), rows, self._line())]


def bless(
    results: Sequence[StoredResult],
    out: Path,
    reason: str = "",
    by: str = "",
    metrics: Sequence[str] = (),
    progress: Progress = QUIET,
) -> list[Blessed]:
    """Write a baseline for each result. All are checked before the first is written.

    Only one process at a time blesses into a folder, so that what was checked is what is replaced.

    Args:
        results: stored results.
        out: a file for a single result (a name with the ending `.json`), else a folder.
        reason: why; required to replace a baseline.
        by: who; by default the git user's name, or the login.
        metrics: further metrics.
        progress: told if another process is blessing into the folder.

    Raises:
        UsageError: a baseline would be replaced without a reason, two results have one file, or a result lacks a
            metric or has no answers.
        ResultError: a result cannot be read, or `out` is another kind of file.
        StorageError: a file cannot be written.
    """
    for result in results:
        for name in metrics:
            if name not in result.metrics.metrics:
                raise UsageError(f"{result.label} has no metric {name!r}; `bench run --metric {name}` adds it.")
    moment = datetime.now(UTC).replace(microsecond=0).isoformat()
    blessing = Blessing(by=by or who(), at=moment, reason=reason.strip() or FIRST, bench=bench.__version__)
    as_file = out.suffix == ".json" and not out.is_dir()
    if as_file and len(results) > 1:
        raise UsageError(f"{len(results)} results do not fit in one file, {out}; give a folder.")
    for result in results:
        for mark in unfinished_marks(result):
            progress.note(f"{mark.text}: {mark.why}")
        if failed := result.metrics.n_failed:
            judged = result.manifest.dataset.judged
            told = f"{result.label}: {failed} of {judged} judged queries failed ({'; '.join(sentences(result))})"
            if failed == judged:
                raise UsageError(f"{told}: there is nothing to compare a change with; find the cause and run it again.")
            progress.note(f"{told}; as many may fail in a candidate, unless max_failed in the policy says otherwise")
    with lock(lock_in_cache(out.parent if as_file else out, "bless"), f"blessing into {out}", progress):
        return _bless_locked(results, out, as_file, blessing, reason.strip(), metrics)


def _bless_locked(
    results: Sequence[StoredResult], out: Path, as_file: bool, blessing: Blessing, reason: str, metrics: Sequence[str]
) -> list[Blessed]:
    """The work of `bless`, under its lock."""
    planned: list[Blessed] = []
    for result in results:
        path = out if as_file else out / file_name(result)
        if any(item.path == path for item in planned):
            raise UsageError(f"two results would be written to {path}; bless them one by one, each to its own file.")
        fresh = make_baseline(result, blessing, metrics, _take_snapshot(result))
        before = _standing(path)
        same = before is not None and _evidence(before) == _evidence(fresh)
        if before is not None and reason:
            same = same and _circumstances(before) == _circumstances(fresh)
        if path.exists() and not same and not reason:
            raise UsageError(f"{path} already exists: give a --reason to replace it.")
        kept = before if same and before is not None else fresh
        planned.append(Blessed(path, kept, before, written=not same))
    for item in planned:
        if item.written:
            write_baseline(item.path, item.baseline)
    return planned


def _standing(path: Path) -> Baseline | None:
    """The existing baseline; None if there is none, or an unreadable one.

    Raises:
        ResultError: the file was never a baseline and must not be replaced.
    """
    if not path.exists():
        return None
    try:
        return read_baseline(path)
    except BenchError as error:
        if not is_ours(path):
            raise ResultError(f"{error} The file is not replaced: choose another --out.") from None
        return None


def _take_snapshot(result: StoredResult) -> Snapshot | None:
    """The queries and tools of a result: only a dataset that a user added can change, so others need no record.

    None also if the dataset is unavailable; the baseline can then only be compared with results on the same data.
    """
    data = result.manifest.dataset
    if not is_added(data.spec):
        return None
    try:
        with config_context(offline=True):
            dataset = load_version(data.spec, data.content_hash)
    except BenchError:
        return None
    return take_snapshot(dataset, result.per_query["query_id"].to_pylist())


def _circumstances(baseline: Baseline) -> tuple[object, ...]:
    """What is taken over from the same evidence if a reason is given."""
    return baseline.latency, baseline.hardware, baseline.asked, baseline.gold_ranks


def _evidence(baseline: Baseline) -> dict[str, object]:
    """A baseline without its circumstances: who, when, which run, how fast."""
    evidence = baseline.model_dump(
        exclude={"blessed", "result_id", "latency", "hardware", "sha256", "scoring", "asked", "gold_ranks"}
    )
    # Code with the same numbers is no new evidence; nor is another wording of the same mark.
    evidence["scoring"] = {name: code_of(baseline.scoring, name) for name in baseline.values}
    evidence["method"]["marks"] = [mark.text for mark in baseline.method.marks]
    evidence["method"].pop("learns")
    evidence["method"].pop("alias", None)
    return evidence


def who() -> str:
    """The git user's name, else the login; `unknown` without either."""
    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, timeout=10)
        if done.stdout.strip():
            return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"

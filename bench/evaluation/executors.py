"""Where the cells of a grid run: one after the other in this process, or side by side in separate processes.

A cell is one method on one dataset. A process works on one cell at a time, so that a crash loses one cell only; then it
takes the next. `bench.evaluation.worker` defines the messages between the processes.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bench.base.config import current_session
from bench.base.errors import BenchError, MethodError
from bench.base.paths import storage_errors
from bench.base.progress import Progress, Report, Retelling, Stage
from bench.evaluation.machine import cores
from bench.evaluation.method_errors import check_marks
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.evaluation.worker import RunCell
from bench.interface import Method
from bench.interface.marks import REMOTE
from bench.interface.parts import methods_of, models, needs_llm
from bench.results.store import StoredResult

#: Linear algebra libraries, torch and numba read their number of threads from these once, when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Executor(Protocol):
    """Runs cells whose checks have passed."""

    def run(self, cells: Sequence[RunCell], progress: Progress) -> Generator[Path | BenchError]:
        """The folder of each cell's result, or the error that ended the cell, in the order of the cells.

        A cell that fails does not end the others. When the iterator is closed early, as Ctrl-C does, running cells are
        ended, and finished batches remain.
        """
        ...


def side_by_side(
    runner: Runner, plans: Sequence[Plan], executor: Executor, *, hold_out: int | None = None
) -> Iterator[StoredResult | BenchError]:
    """Check every plan as `Runner.run` does, then run them by an executor.

    The workers read datasets and build methods from their specs, so both must be registered by name.

    Args:
        runner: its settings apply to every cell; the checks load and build with it.
        plans: what runs.
        executor: where it runs.
        hold_out: the seed with which workers hold a dev split out of train, as in `bench.data.devsplit`; None to use
            datasets unchanged.

    Yields:
        A result for each plan, or the error that ended it, in the order of the plans.

    Raises:
        BenchError: the first problem found by the checks; nothing has run then.
    """
    here = current_session()
    checked = runner.check(plans)
    # Existing results need no worker: the runner keeps them, or scores them again.
    kept = [runner.keeps(item) for item in checked]
    cells = [
        RunCell(
            item.plan,
            runner.results.absolute(),
            runner.overwrite,
            tuple(map(str, runner.metrics)),
            here.offline,
            here.cache,
            here.mirror,
            item.provisional,
            item.folder.absolute(),
            needs_llm(item.method),
            _asks(item.method),
            bool(models(item.method)),
            stated_resources(item.method),
            hold_out=hold_out,
        )
        for item, there in zip(checked, kept, strict=True)
        if not there
    ]
    settings = [item.settings for item in checked]
    # From here on, what the checks loaded only takes memory from the workers.
    checked.clear()
    runner.forget()
    with closing(executor.run(cells, runner.progress) if cells else _none()) as outcomes:
        for plan, asked, there in zip(plans, settings, kept, strict=True):
            if there:
                yield from runner.run([plan])
                continue
            outcome = next(outcomes)
            if not isinstance(outcome, BenchError):
                # A cluster node has written it into a folder of its own.
                runner.end(plan, asked)
            yield outcome if isinstance(outcome, BenchError) else StoredResult.read(outcome)


def _none() -> Generator[Path | BenchError]:
    yield from ()


def _asks(method: Method) -> bool:
    # A mark that cannot be made yet ends the run with its error when it is due.
    with suppress(Exception):
        return REMOTE in check_marks(method)
    return False


def stated_resources(method: Method) -> dict[str, float]:
    """What a method and its parts require of a cluster: the maximum of each resource over the parts.

    A class states it as `resources`, by Ray's names: `num_cpus`, `num_gpus`, `memory` in bytes, or a custom resource of
    the cluster's nodes.

    Raises:
        MethodError: a statement is not a mapping of names to numbers.
    """
    most: dict[str, float] = {}
    for part in methods_of(method):
        stated = getattr(part, "resources", {})
        try:
            for name, value in dict(stated).items():
                most[str(name)] = max(most.get(str(name), 0.0), float(value))
        except (TypeError, ValueError):
            raise MethodError(f"method {part.name}: `resources` is not a mapping of names to numbers.") from None
    return most


@dataclass
class Processes:
    """Runs several cells side by side, in processes that share the processor's cores.

    Cells that pay for their answers run one after the other: each process counts its own spending, and all share one
    limit.

    Attributes:
        jobs: cells at a time, at least 1.
    """

    jobs: int
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _idle: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _paying: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self, cells: Sequence[RunCell], progress: Progress) -> Generator[Path | BenchError]:
        """See `Executor.run`."""
        cells = [replace(cell, jobs=self.jobs) for cell in cells]
        with progress.stage("run", len(cells), "cells") as done:
            pool = ThreadPoolExecutor(self.jobs)
            try:
                # Paying cells last: while one waits for another, it would block a worker that could run another cell.
                order = sorted(range(len(cells)), key=lambda number: cells[number].pays)
                futures = {number: pool.submit(self._cell, cells[number], progress, done) for number in order}
                for number in range(len(cells)):
                    yield futures[number].result()
            finally:
                self._stop()
                pool.shutdown(cancel_futures=True)
                for process in self._idle:
                    self._end(process)
                self._idle.clear()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def _cell(self, cell: RunCell, progress: Progress, done: Stage) -> Path | BenchError:
        with ExitStack() as held:
            if cell.pays:
                held.enter_context(self._paying)
            try:
                return self._process(cell, progress)
            except BenchError as error:
                return error
            finally:
                done.advance()

    def _process(self, cell: RunCell, progress: Progress) -> Path | BenchError:
        with self._lock, storage_errors("a process for a cell"):
            if self._stopped:
                return _ended_early(cell, "did not start")
            process = self._idle.pop() if self._idle else self._start_process()
        outcome = None
        try:
            outcome = _follow(process, cell, progress)
        finally:
            if outcome is None:
                code = self._end(process)
            else:
                with self._lock:
                    self._idle.append(process)
        return _ended_early(cell, _manner(code)) if outcome is None else outcome

    def _start_process(self) -> subprocess.Popen[bytes]:
        # -P: the process imports what this one imports, and nothing else from the working folder.
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from bench.evaluation.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(self.jobs),
        )
        self._running.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        with self._lock:
            self._running.discard(process)
        return code


def _follow(process: subprocess.Popen[bytes], cell: RunCell, progress: Progress) -> Path | BenchError | None:
    """Send the cell to its process and show its reports; None if it ends without an outcome."""
    assert process.stdin is not None
    assert process.stdout is not None
    with Retelling(progress, f"{cell.label}: ") as shown:
        try:
            # The pipe stays open: closing it tells the process that nobody waits for it.
            pickle.dump(cell, process.stdin)
            process.stdin.flush()
            while isinstance(message := pickle.load(process.stdout), Report):
                shown.tell(message)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            return None
    outcome: Path | BenchError = message
    return outcome


def _environment(jobs: int) -> dict[str, str]:
    """This process's environment, with its import path and a share of its threads."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, **thread_settings(max(1, cores() // jobs)), "PYTHONPATH": path}


def thread_settings(share: int) -> dict[str, str]:
    """Environment variables that give a process this many threads, or fewer if this process has fewer."""
    given = {name: os.environ.get(name, str(share)) for name in _THREADS}
    # The smaller number applies: a user who allows one thread means one.
    return {name: str(min(int(value), share) if value.isdigit() else share) for name, value in given.items()}


def _manner(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with code {code}"


def _ended_early(cell: RunCell, manner: str) -> MethodError:
    return MethodError(
        f"the process of {cell.label} {manner} before it had a result; the other cells are not affected, and the same "
        "command continues with this one."
    )

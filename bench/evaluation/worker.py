"""One cell of a grid, and the process that runs cells for `bench.evaluation.executors`, which alone starts it.

The process reads a `Cell` from standard input and writes messages to standard output, the last of them the outcome;
then it waits for the next cell. Both ends are the same program on the same machine, so the messages are pickles.
"""

from __future__ import annotations

import itertools
import os
import pickle
import platform
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bench.base.config import config_context
from bench.base.errors import INTERRUPTED, BenchError, MethodError
from bench.base.progress import Progress, Stage
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.metrics import parse_metrics
from bench.registry import build_method, load_dataset


@dataclass(frozen=True)
class Cell:
    """One plan and the settings that it runs under.

    Attributes:
        plan: what runs.
        results: the folder of results.
        overwrite, metrics: as of `Runner`; metrics by their names.
        offline, cache, mirror: as of `Session`.
        identifier: of the result, as found where the cell comes from.
        folder: of the result.
        pays: whether its method calls a language model or another paid service.
        asks: whether its method asks a service of which nothing tells where it is, such as one on this machine.
        models: whether its method has models, such as an encoder.
        resources: what its method asks of a cluster, by Ray's names.
        jobs: how many cells run side by side.
    """

    plan: Plan
    results: Path
    overwrite: Overwrite
    metrics: tuple[str, ...]
    offline: bool
    cache: bool
    mirror: Path | None
    identifier: str
    folder: Path
    pays: bool
    asks: bool
    models: bool
    resources: Mapping[str, float]
    jobs: int = 1

    @property
    def label(self) -> str:
        """`method @ dataset`."""
        return f"{self.plan.method} @ {self.plan.dataset}"


@dataclass(frozen=True)
class Begun:
    """A stage began."""

    number: int
    title: str
    total: int | None
    unit: str


@dataclass(frozen=True)
class Advanced:
    """So many more units of a stage are done."""

    number: int
    amount: int


@dataclass(frozen=True)
class Ended:
    """A stage ended."""

    number: int


@dataclass(frozen=True)
class Noted:
    """A line for the user."""

    text: str


@dataclass(frozen=True)
class Outcome:
    """The folder of the result, or the error that ended the cell."""

    outcome: Path | BenchError


Message = Begun | Advanced | Ended | Noted | Outcome


class _Reports:
    """Progress that is sent to the process that draws it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def send(self, message: Message) -> None:
        with self._lock:
            pickle.dump(message, self._out)
            self._out.flush()

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        number = next(self._numbers)
        self.send(Begun(number, title, total, unit))
        try:
            yield _Bar(self, number)
        finally:
            self.send(Ended(number))

    def note(self, message: str) -> None:
        self.send(Noted(message))


@dataclass(frozen=True)
class _Bar:
    reports: _Reports
    number: int

    def advance(self, amount: int = 1) -> None:
        self.reports.send(Advanced(self.number, amount))


def work(cell: Cell, reports: Progress, datasets: dict[Spec, Dataset]) -> Path | BenchError:
    """Run a cell as `bench run` does, its checks included.

    Args:
        cell: what runs.
        reports: where work reports to.
        datasets: what is at hand; others are loaded and put there.
    """
    with config_context(offline=cell.offline, cache=cell.cache, mirror=cell.mirror):

        def load(spec: Spec) -> Dataset:
            if spec not in datasets:
                datasets[spec] = load_dataset(spec, reports)
            return datasets[spec]

        runner = Runner(
            cell.results,
            load=load,
            build=lambda spec: build_method(spec, progress=reports),
            progress=reports,
            overwrite=cell.overwrite,
            metrics=parse_metrics(cell.metrics),
            jobs=cell.jobs,
        )
        try:
            checked = runner.check([cell.plan])
            if checked[0].identifier != cell.identifier:
                return MethodError(
                    f"{cell.label} would be another result on {platform.node()} than where the command was given: "
                    "their code of bench or of the method differs, or the models it names do; install the same on both."
                )
            (outcome,) = runner.run_checked(checked)
        except BenchError as error:
            return _plain(error)
        except Exception as error:
            return MethodError(f"{cell.label}: an error of bench itself: {type(error).__name__}: {error}.")
    return _plain(outcome) if isinstance(outcome, BenchError) else outcome.folder


def _plain(error: BenchError) -> BenchError:
    """An error of which a pickle can be made: its sentence alone, without what the author's code raised."""
    return type(error)(str(error))


def main() -> None:
    """Run the cells that standard input gives, one after the other, and end with it."""
    # What a method prints is no message.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reports = _Reports(out)
        cells: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        threading.Thread(target=_read_cells, args=(cells,), daemon=True).start()
        datasets: dict[Spec, Dataset] = {}
        try:
            while True:
                cell = cells.get()
                # The next cell is often of the same dataset; others would only take memory.
                datasets = {spec: dataset for spec, dataset in datasets.items() if spec == cell.plan.dataset}
                reports.send(Outcome(work(cell, reports, datasets)))
        except (KeyboardInterrupt, BrokenPipeError):
            os._exit(INTERRUPTED)


def _read_cells(cells: queue.SimpleQueue[Cell]) -> None:
    """Nobody waits for a cell once the input ends, also where the other process was killed."""
    try:
        while True:
            cells.put(pickle.load(sys.stdin.buffer))
    except (EOFError, pickle.UnpicklingError):
        os._exit(INTERRUPTED)

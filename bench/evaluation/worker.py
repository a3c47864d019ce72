"""One cell of a grid, and the process that runs cells. Only `bench.evaluation.executors` starts it.

The process reads a `Cell` from standard input and writes reports of its progress to standard output, then the outcome:
the folder of the result, or the error that ended the cell. Then it waits for the next cell. Both ends are the same
program on the same machine, so messages are pickled.
"""

from __future__ import annotations

import os
import pickle
import platform
import queue
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.base.config import config_context
from bench.base.errors import INTERRUPTED, BenchError, MethodError
from bench.base.progress import Forwarding, Progress, Report
from bench.base.secrets import mask_streams
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.devsplit import hold_out_dev
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.metrics import parse_metrics
from bench.registry import build_method, load_dataset


@dataclass(frozen=True)
class RunCell:
    """One plan and the settings for its run.

    Attributes:
        plan: what runs.
        results: the folder of results.
        overwrite, metrics: as in `Runner`; metrics by name.
        offline, cache, mirror: as in `Session`.
        identifier: the id of the result, as the parent process found it, before a user's code runs.
        folder: the folder of the result.
        pays: whether its method calls a language model or another paid service.
        asks: whether its method calls a service whose machine is unknown, such as one on this machine.
        models: whether its method uses models, such as an encoder.
        resources: what its method requires of a cluster, by Ray's names.
        jobs: number of cells that run side by side.
        hold_out: the seed for holding a dev split out of train; None to use the dataset unchanged.
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
    hold_out: int | None = None

    @property
    def label(self) -> str:
        """`method @ dataset`."""
        return f"{self.plan.method} @ {self.plan.dataset}"


def work(cell: RunCell, reports: Progress, datasets: dict[Spec, Dataset]) -> Path | BenchError:
    """Run a cell as `bench run` does, including its checks.

    Args:
        cell: what runs.
        reports: receives reports of the work.
        datasets: loaded datasets; others are loaded and added.
    """
    with config_context(offline=cell.offline, cache=cell.cache, mirror=cell.mirror):

        def load(spec: Spec) -> Dataset:
            if spec not in datasets:
                loaded = load_dataset(spec, reports)
                datasets[spec] = loaded if cell.hold_out is None else hold_out_dev(loaded, cell.hold_out)[0]
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
            if checked[0].provisional != cell.identifier:
                return MethodError(
                    f"{cell.label} would be another result on {platform.node()} than on the machine of the command: "
                    "the code of bench, the code of the method or its models differ; install the same on both."
                )
            (outcome,) = runner.run_checked(checked)
        except BenchError as error:
            return _plain(error)
        except Exception as error:
            return MethodError(f"{cell.label}: an error of bench itself: {type(error).__name__}: {error}.")
    return _plain(outcome) if isinstance(outcome, BenchError) else outcome.folder


def _plain(error: BenchError) -> BenchError:
    """The error in a form that pickles: only its sentence, without the exception of the author's code."""
    return type(error)(str(error))


def main() -> None:
    """Run the cells from standard input, one after the other, until it ends."""
    # Output that a method prints must not be taken for a report.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        mask_streams()
        lock = threading.Lock()

        def send(message: Report | Path | BenchError) -> None:
            with lock:
                pickle.dump(message, out)
                out.flush()

        progress = Forwarding(send)
        cells: queue.SimpleQueue[RunCell] = queue.SimpleQueue()
        threading.Thread(target=_read_cells, args=(cells,), daemon=True).start()
        datasets: dict[Spec, Dataset] = {}
        try:
            while True:
                cell = cells.get()
                # The next cell is often of the same dataset; keeping others would only take memory.
                datasets = {spec: dataset for spec, dataset in datasets.items() if spec == cell.plan.dataset}
                send(work(cell, progress, datasets))
        except (KeyboardInterrupt, BrokenPipeError):
            os._exit(INTERRUPTED)


def _read_cells(cells: queue.SimpleQueue[RunCell]) -> None:
    """Exit once the input ends: nobody waits for a cell then, even if the other process was killed."""
    try:
        while True:
            cells.put(pickle.load(sys.stdin.buffer))
    except (EOFError, pickle.UnpicklingError):
        os._exit(INTERRUPTED)

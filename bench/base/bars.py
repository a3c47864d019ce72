"""Progress bars of commands, on standard error and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.base.progress import QUIET, Progress, Quiet, Stage
from bench.base.secrets import mask
from bench.base.text import terminal_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class _BarStage:
    def __init__(self, bars: RichProgress, task: TaskID, unit: str) -> None:
        self._bars = bars
        self._task = task
        self._unit = unit
        self._done = 0

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        total = next(task.total for task in self._bars.tasks if task.id == self._task)
        self._bars.update(self._task, completed=self._done, amount=_amount(self._done, total, self._unit))


def _amount(done: int, total: float | None, unit: str) -> str:
    """`3/12 files`, or `1.2 MB` for bytes; empty if the total is unknown."""
    if unit == "B":
        from rich.filesize import decimal

        return decimal(done)
    return "" if total is None else f"{done}/{total:.0f} {unit}"


class Bars:
    """Draws stages with rich; a nested stage is a bar below the outer one."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, markup=False, highlight=False)
        self._live: RichProgress | None = None

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        outer = self._live is None
        if self._live is None:
            self._live = self._start_bars()
        bars = self._live
        task = bars.add_task(terminal_text(title, 200), total=total, amount=_amount(0, total, unit))
        try:
            yield _BarStage(bars, task, unit)
        finally:
            bars.remove_task(task)
            if outer:
                bars.stop()
                self._live = None

    def _start_bars(self) -> RichProgress:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        bars = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        bars.start()
        return bars

    def note(self, message: str) -> None:
        self._console.print(terminal_text(mask(message)), style="yellow")


class Notes(Quiet):
    """Prints notes, without bars."""

    def note(self, message: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"{mask(message)}\n")


def progress(quiet: bool = False) -> Progress:
    """Bars on a terminal, only notes elsewhere, nothing if quiet."""
    if quiet:
        return QUIET
    return Bars() if sys.stderr is not None and sys.stderr.isatty() else Notes()

"""Progress bars on standard error; nothing is drawn when it is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.progress import QUIET, Progress, Stage


class _BarStage:
    def __init__(self, bars: object, task: object) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)  # type: ignore[attr-defined]


class Bars:
    """Draws stages with rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._live: object | None = None

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        outer = self._live is None
        if outer:
            bars = RichProgress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            bars.start()
            self._live = bars
        else:
            assert isinstance(self._live, RichProgress)
            bars = self._live
        task = bars.add_task(f"{title} ({unit})" if unit and total is not None else title, total=total)
        try:
            yield _BarStage(bars, task)
        finally:
            bars.remove_task(task)
            if outer:
                bars.stop()
                self._live = None

    def note(self, message: str) -> None:
        self._console.print(message, style="yellow", highlight=False)


class Notes:
    """No bars, but notes."""

    stage = staticmethod(QUIET.stage)

    def note(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")


def progress(quiet: bool = False) -> Progress:
    """Bars on a terminal, notes alone elsewhere, nothing when quiet."""
    if quiet:
        return QUIET
    return Bars() if sys.stderr.isatty() else Notes()

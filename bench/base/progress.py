"""The interface to which long work reports its progress.

The command line draws it, tests read it, and everything else gets `QUIET`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol


class Stage(Protocol):
    """One bar; `advance(n)` adds n completed units."""

    def advance(self, amount: int = 1) -> None: ...


class Progress(Protocol):
    """Receives reports of work. `total` None means unknown; `unit` is `B` for bytes, else a noun."""

    def stage(self, title: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Stage]: ...

    def note(self, message: str) -> None:
        """A line for the user, with or without bars."""
        ...


class _QuietStage:
    def advance(self, amount: int = 1) -> None:
        pass


class Quiet:
    """Reports nothing."""

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        yield _QuietStage()

    def note(self, message: str) -> None:
        pass


QUIET = Quiet()


@dataclass(frozen=True)
class Report:
    """One call of `Progress`, to send elsewhere.

    Attributes:
        verb: a stage begins, advances or ends; or a line for the user.
        stage: the number of the stage.
        text: the title of a new stage, or the line.
        amount: the total of a new stage, or the units by which a stage advances.
        unit: the unit of a new stage.
    """

    verb: Literal["begin", "advance", "end", "note"]
    stage: int = 0
    text: str = ""
    amount: int | None = None
    unit: str = ""


class Forwarding:
    """Sends all reports elsewhere: to another process, or to a list.

    Args:
        send: receives a report, from several threads if the work uses them.
    """

    def __init__(self, send: Callable[[Report], object]) -> None:
        self._send = send
        self._numbers = itertools.count()

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        number = next(self._numbers)
        self._send(Report("begin", number, title, total, unit))
        try:
            yield _ForwardedStage(self._send, number)
        finally:
            self._send(Report("end", number))

    def note(self, message: str) -> None:
        self._send(Report("note", text=message))


@dataclass(frozen=True)
class _ForwardedStage:
    send: Callable[[Report], object]
    number: int

    def advance(self, amount: int = 1) -> None:
        self.send(Report("advance", self.number, amount=amount))


class Retelling:
    """The receiving end of `Forwarding`; the end of the block ends all open stages.

    Args:
        progress: receives the reports.
        prefix: prefix of the title of each stage.
    """

    def __init__(self, progress: Progress, prefix: str = "") -> None:
        self._progress = progress
        self._prefix = prefix
        self._open = ExitStack()
        self._stages: dict[int, tuple[ExitStack, Stage]] = {}

    def __enter__(self) -> Retelling:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def tell(self, report: Report) -> None:
        """Pass a report on."""
        if report.verb == "note":
            self._progress.note(report.text)
        elif report.verb == "begin":
            ends = self._open.enter_context(ExitStack())
            stage = self._progress.stage(self._prefix + report.text, report.amount, report.unit)
            self._stages[report.stage] = (ends, ends.enter_context(stage))
        elif report.verb == "advance":
            self._stages[report.stage][1].advance(report.amount or 0)
        else:
            self._stages.pop(report.stage)[0].close()

"""The one small interface that long work reports to.

The command line draws it, tests read it, and everything else gets `QUIET`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Stage(Protocol):
    """One bar: `advance(n)` says that n more units are done."""

    def advance(self, amount: int = 1) -> None: ...


class Progress(Protocol):
    """Where work reports to. `total` None means unknown; `unit` is `B` for bytes, else a noun."""

    def stage(self, title: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Stage]: ...

    def note(self, message: str) -> None:
        """A line that the user should see whether or not bars are drawn."""
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

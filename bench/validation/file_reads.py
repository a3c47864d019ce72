"""What a method reads besides what it is given: files, and variables of the environment.

Whatever changes a ranking belongs to the identity of its result. Files that the code names and that revisions tell are
part of it; what else is read can change numbers unseen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import bench
from bench.base.paths import cache_folder
from bench.identity.sources import INSTALLED, is_own

#: Where the system has its files.
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr/share", "/usr/lib")


@dataclass
class Reads:
    """What is read in a block.

    Attributes:
        elsewhere: folders whose files are no method's own: libraries, the system, caches of bench and of models.
        files: files that were there before, and are not in these.
        variables: names that an author's code has asked for.
        written: files that were written in the block.
    """

    elsewhere: Sequence[Path]
    files: set[Path] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    written: set[Path] = field(default_factory=set)

    def note_file(self, given: object, flags: object) -> None:
        """A file is opened."""
        if not isinstance(given, str | bytes | os.PathLike):
            return
        path = Path(os.fsdecode(given)).absolute()
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            self.written.add(path)
        elif path not in self.written and path.is_file() and not any(map(path.is_relative_to, self.elsewhere)):
            self.files.add(path.resolve())

    def note_variable(self, name: str) -> None:
        """A variable is asked for."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__") in {"os", "collections.abc"}:
            frame = frame.f_back
        top = "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top != "bench" and is_own(top):
            self.variables.add(name)


_active: Reads | None = None


@contextmanager
def watch_reads() -> Iterator[Reads]:
    """Note what is read in the block, by this thread or another."""
    global _active
    _listen()
    kind: Any = type(os.environ)
    usual = kind.__getitem__

    def read_variable(self: Any, name: str) -> str:
        if self is os.environ and isinstance(name, str):
            reads.note_variable(name)
        value: str = usual(self, name)
        return value

    reads = _active = Reads(_elsewhere())
    kind.__getitem__ = read_variable
    try:
        yield reads
    finally:
        kind.__getitem__ = usual
        _active = None


@cache
def _listen() -> None:
    """Once: a hook of Python's cannot be taken out again."""
    sys.addaudithook(_hook)


def _hook(event: str, given: tuple[Any, ...]) -> None:
    # What Python reads to import a module is code, of which all that matters is known otherwise.
    if event != "open" or _active is None:
        return
    if sys._getframe(1).f_globals.get("__name__") != "importlib._bootstrap_external":
        _active.note_file(given[0], given[2])


def _elsewhere() -> list[Path]:
    # A model of the hub is told by its own revision.
    hub = Path(os.path.expanduser(os.environ.get("HF_HOME", "~/.cache/huggingface")))
    # Next to `bench/`, as in a checkout, may lie a method of the author's.
    ours = [Path(place) / name for place in bench.__path__ for name in ("methods", "datasets")]
    return [*INSTALLED, *map(Path, _SYSTEM), cache_folder(), hub, Path(bench.__path__[0]), *ours, Path(sys.prefix)]

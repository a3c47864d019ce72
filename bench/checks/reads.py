"""What a method reads besides what it is given: files, and variables of the environment.

Whatever changes a ranking belongs to the identity of its result. Files that the code names and that revisions tell are
part of it; what else is read can change numbers unseen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import bench
from bench.identity.sources import INSTALLED, is_own
from bench.storage.paths import cache_folder

#: Where files are no method's own: libraries, the system, caches of models and of bench.
_NOBODYS = ("/proc", "/sys", "/dev", "/etc", "/usr/share", "/usr/lib")


@dataclass
class Reads:
    """Files that were there before and are no library's, and variables that an author's code has asked for."""

    files: set[Path] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    _written: set[Path] = field(default_factory=set)

    def note_file(self, given: object, flags: object) -> None:
        """A file is opened."""
        if not isinstance(given, str | bytes | os.PathLike):
            return
        path = Path(os.fsdecode(given)).absolute()
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            self._written.add(path)
        elif path not in self._written and path.is_file() and not _is_nobodys(path):
            self.files.add(path.resolve())

    def note_variable(self, name: str) -> None:
        """A variable is asked for."""
        frame = _caller()
        if frame is not None:
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if top != "bench" and is_own(top):
                self.variables.add(name)


_active: Reads | None = None
_hooked: list[bool] = []


@contextmanager
def watched() -> Iterator[Reads]:
    """Note what is read in the block, by this thread or another."""
    global _active
    if not _hooked:
        # It cannot be taken out again.
        sys.addaudithook(_hook)
        _hooked.append(True)
    kind: Any = type(os.environ)
    usual = kind.__getitem__

    def asked(self: Any, name: str) -> str:
        if self is os.environ and isinstance(name, str):
            found.note_variable(name)
        value: str = usual(self, name)
        return value

    found = _active = Reads()
    kind.__getitem__ = asked
    try:
        yield found
    finally:
        kind.__getitem__ = usual
        _active = None


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if event == "open" and _active is not None and not _is_import():
        _active.note_file(given[0], given[2])


def _is_import() -> bool:
    """Whether Python reads a module: what code is made of is known otherwise."""
    frame: FrameType | None = sys._getframe(2)
    return frame is not None and frame.f_globals.get("__name__") == "importlib._bootstrap_external"


def _caller() -> FrameType | None:
    """Who asked for a variable: the first that is neither `os` nor this."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in {__name__, "os", "collections.abc"}:
        frame = frame.f_back
    return frame


def _is_nobodys(path: Path) -> bool:
    # A model of the hub is told by its own revision.
    hub = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    # Next to `bench/`, as in a checkout, may lie a method of the author's.
    ours = [Path(place) / name for place in bench.__path__ for name in ("methods", "datasets")]
    places = [*INSTALLED, *map(Path, _NOBODYS), cache_folder(), hub, Path(bench.__path__[0]), *ours, Path(sys.prefix)]
    return any(path.is_relative_to(place) for place in places)

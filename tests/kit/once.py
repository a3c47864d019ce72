"""What is made once in a run of the tests, by whichever worker needs it first, and read by all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

#: Gives the folder of a name, filled by a function that is called once in a run: `once("results", make)`.
Once = Callable[[str, Callable[[Path], object]], Path]


def folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of a run share, under pytest's own."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def makes_once(place: Path) -> Once:
    """What makes folders below a place. A folder whose making fails, or is killed, is made anew by who asks next."""

    def once(name: str, make: Callable[[Path], object]) -> Path:
        folder, made = place / name, place / f"{name}.made"
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place / f"{name}.lock"):
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                made.write_text(json.dumps(_files(folder)))
        return folder

    return once


def changed(place: Path) -> list[str]:
    """Files that a test wrote, changed or removed below what is shared, where it should have changed a copy."""
    collected = []
    for made in sorted(place.glob("*.made")):
        before, now = json.loads(made.read_text()), _files(made.with_suffix(""))
        collected += [
            f"{made.stem}/{name}" for name in sorted(before.keys() | now) if before.get(name) != now.get(name)
        ]
    return collected


def _files(folder: Path) -> dict[str, list[int]]:
    """Size and time of every file; what begins with a dot, such as a lock, is not looked at."""
    by_key = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            about = path.stat()
            by_key[str(name)] = [about.st_size, about.st_mtime_ns]
    return by_key

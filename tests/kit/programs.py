"""Programs that are no part of the package: those of this repository as modules for their tests, and Git."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def program(place: str) -> ModuleType:
    """A file of the repository, such as `benchmarks/gate.py`, imported by a name that no other module has."""
    name = place.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while it is executed.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *words: str) -> str:
    """Run a command of Git in a folder, as one author on every machine: its output."""
    author = ("-c", "user.name=A person", "-c", "user.email=person@example.org", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", *author, "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()

"""The fixtures of the tiny dataset, and a copy of the package to edit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kit.tiny import instance, notes, run, runner, tiny

__all__ = ["copied", "instance", "notes", "run", "runner", "tiny"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A source checkout of its own, compiled as far as this one is."""
    folder = tmp_path / "checkout"
    for name in ("bench", "methods"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    (folder / "datasets").mkdir()
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder

"""Programs of this repository that are no part of the package, such as benchmarks, as modules for their tests."""

from __future__ import annotations

import importlib.util
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

"""What tests of grids of cells look at: stored bytes, and processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def files(results: Path) -> dict[str, bytes]:
    """Every table and file of metrics by its place."""
    collected = [path for path in results.glob("*/*/*") if path.name != "manifest.json"]
    return {str(path.relative_to(results)): path.read_bytes() for path in collected}


def manifests(results: Path) -> dict[str, Any]:
    """Every manifest by its place, without what only tells how long the run took and on what."""
    by_key = {}
    for path in results.glob("*/*/manifest.json"):
        manifest = json.loads(path.read_text())
        for name in ("timings", "latency", "peak_memory_mib", "digest"):
            manifest.pop(name, None)
        manifest["environment"].pop("created")
        manifest["environment"]["hardware"].pop("jobs", None)
        by_key[str(path.relative_to(results))] = manifest
    return by_key


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon(holds: Callable[[], Any], seconds: float = 90) -> Any:
    """What becomes true in a while."""
    end = time.monotonic() + seconds
    while not (result := holds()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return result

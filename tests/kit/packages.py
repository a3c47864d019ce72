"""Wheels of the checkout, and an environment in which nothing of bench is installed."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "datasets", "leaderboard", "methods")


def copied(folder: Path) -> Path:
    """A copy of the checkout as git has it: building leaves no trace in it, and takes no trace of earlier builds."""
    left_out = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", ".*cache")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(source: Path, out: Path, *options: str) -> Path:
    """Build packages of a copy, without a network."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", str(out)]
    done = subprocess.run([*command, *options, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return out


def clean_environment(folder: Path) -> dict[str, str]:
    """The variables of a machine with Python and pip, on which nothing was ever done.

    What bench depends on is there already, since a test has no index to install it from; bench itself is not.
    """
    venv.create(folder / "python", with_pip=True)
    (packages,) = (folder / "python" / "lib").glob("python*/site-packages")
    for name in ("home", "work", "dependencies"):
        (folder / name).mkdir()
    for path in (path for place in site.getsitepackages() for path in Path(place).iterdir()):
        # Without what an editable bench left there.
        if not path.name.startswith(("tool_retrieval_bench", "_tool_retrieval_bench")):
            (folder / "dependencies" / path.name).symlink_to(path)
    # The folder of a line is put on the path; .pth files in it are not read.
    (packages / "dependencies.pth").write_text(f"{folder / 'dependencies'}\n")
    return {
        "PATH": f"{folder / 'python' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
    }

"""CONTRIBUTING.md is right: each command that it shows runs or is checked, and each file that it names is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.base.errors import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
#: The first words of what a reader may type.
_PROGRAMS = ("bench", "cd", "git", "make", "pip", "pre-commit", "python", "source", ".ci/run")
#: What stands for NAME, such that the command takes seconds.
_NAMES = {"metrics": "recall", "method": "random", "fetch": "starter", "audit": "starter"}


def shown() -> list[str]:
    """Every command of the file, in its order: lines of blocks without a language, and code in a sentence."""
    blocks = re.findall(r"^```\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    spans = [span for span in re.findall(r"`([^`\n]+)`", prose) if span.split()[0] in _PROGRAMS and span != "source"]
    single = [part.strip() for line in [*lines, *spans] for part in line.split("&&")]
    return list(dict.fromkeys(single))


def test_commands_are_found() -> None:
    found = shown()
    assert {"make test", "source .venv/bin/activate", "pre-commit install", "bench check method NAME"} <= set(found)
    assert {command.split()[0] for command in found} <= set(_PROGRAMS), "a command that no test knows"


@pytest.mark.parametrize("command", shown())
def test_a_command_runs_or_is_there(command: str, bench: Callable[..., object]) -> None:
    program, *arguments = shlex.split(command.replace("<your fork>", "FORK"))
    if program == "make":
        run(["make", "-n", *arguments], ROOT)
        assert arguments, "make alone"
    elif program == "bench" and arguments == ["run"]:
        bench("run", "--help")
    elif program == "bench" and "board/results" in arguments:
        # All of the board takes minutes: one of its results.
        board = ROOT / "board" / "results"
        one = sorted((board / "starter").glob("random-*"))[0]
        shutil.copytree(one, Path("board/results/starter") / one.name)
        bench(*arguments)
    elif program == "bench":
        name = next((_NAMES[word] for word in reversed(arguments) if word in _NAMES), "")
        bench(*(name if word == "NAME" else word for word in arguments))
    elif program == "python" and arguments[:2] == ["-m", "pytest"]:
        run([sys.executable, *arguments, "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0"], ROOT)
    elif program == "python":
        run([sys.executable, *arguments, "--help"], ROOT)
    elif program == ".ci/run":
        assert os.access(ROOT / program, os.X_OK)
        run(["bash", "-n", program], ROOT)
    elif program == "source":
        # The environment may have another place here; that make puts it there is in the Makefile.
        assert f"{Path(arguments[0]).parent}\n" in (ROOT / "Makefile").read_text("utf-8").replace("BIN := ", "")
    elif program == "pre-commit":
        hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
        entries = re.findall(r"entry: (\S+)", hooks)
        assert set(entries) == {".venv/bin/ruff", "make"}
    else:
        assert command in {"git clone <your fork>", "cd <your fork>", "pip install pre-commit"}, "checked by nobody"


def run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "BENCH_OFFLINE": "1", "MAKEFLAGS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def paths() -> list[str]:
    """Code that reads like a place in the repository."""
    spans = re.findall(r"`([^`\s]+)`", re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE))
    return [span for span in dict.fromkeys(spans) if "/" in span or span.endswith((".md", ".toml", ".lock"))]


@pytest.mark.parametrize("path", paths())
def test_a_file_that_is_named_is_there(path: str) -> None:
    if path.startswith("build/"):
        assert re.search(rf"{re.escape(path)}\b", (ROOT / "Makefile").read_text("utf-8"))
    else:
        assert list(ROOT.glob(path.replace("NAME", "*").rstrip("/"))) or list(ROOT.glob(f"*/*/{path}"))


def test_variables_that_are_named_are_read() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    for variable in re.findall(r"`(BENCH_\w+)`", TEXT):
        assert variable in tests, variable


def test_the_optional_library_of_the_example_is_in_an_extra() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    extra = EXTRAS[re.findall(r'require\("(\w+)"', program)[0]]
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    compile(program, "CONTRIBUTING.md", "exec")

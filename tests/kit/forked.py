"""Programs in processes of their own that a test may kill, forked off one that has imported what they need."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["httpx2", "openai", "bench.evaluation.runner", "bench.models.llm"])


class Forked:
    """A program that runs, with the environment of this process and arguments in `sys.argv`."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._streams = Path(tempfile.mkdtemp())
        given = (program, arguments, dict(os.environ), str(self._streams))
        self._process = _CONTEXT.Process(target=_run, args=given, daemon=True)
        self._process.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.exitcode is not None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def wait(self, seconds: float = 60) -> tuple[int, str, str]:
        """Its exit code, output and error output, when it has ended."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"it still runs after {seconds} s"
        out, err = ((self._streams / name).read_text() for name in ("out", "err"))
        return self._process.exitcode, out, err


def _run(program: str, arguments: tuple[str, ...], environment: dict[str, str], streams: str) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{streams}/{name}", os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})

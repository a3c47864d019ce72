"""Runs programs as a new interpreter would, without its start: forked from a process that has loaded libraries alone.

What a program finds is what it would find after `python -c`: nothing of bench imported, a path, a working folder, an
environment, and standard streams of its own. Only numpy and others that take long to load are there already, so this is
nothing for tests of what is imported or how fast.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What is loaded before the first program comes; nothing in it starts a thread.
LIBRARIES = ("numpy", "pyarrow.parquet", "pyarrow.compute", "pydantic", "scipy.sparse", "click", "filelock")
#: A program that takes longer ends by SIGALRM.
SECONDS = 300


class Interpreter:
    """Runs programs, one at a time.

    Args:
        libraries: what is loaded besides `LIBRARIES`.
    """

    def __init__(self, *libraries: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._server = subprocess.Popen(
            [sys.executable, __file__, *libraries],
            env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(
        self,
        program: str,
        *arguments: object,
        folder: Path,
        path: tuple[Path, ...] = (),
        code: int | None = 0,
        text: str = "",
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program.

        Args:
            program: its text.
            arguments: `sys.argv` after `-c`.
            folder: works here, and finds modules here first, as `python -c` does.
            path: finds modules in these folders next.
            code: the exit code that it must have; any if None.
            text: standard input.
            environment: variables beyond those of this process.
        """
        wide: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
        with tempfile.TemporaryDirectory() as streams:
            (Path(streams) / "0").write_text(text)
            request = [program, [str(each) for each in arguments], str(folder), dict(wide), streams]
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            ended = int(self._server.stdout.readline())
            out, err = ((Path(streams) / stream).read_text() for stream in "12")
        assert code is None or ended == code, err
        return subprocess.CompletedProcess(program, ended, out, err)

    def close(self) -> None:
        """End the process that forks."""
        self._server.communicate()


def _serve() -> None:
    """Fork for each request, and answer with the exit code."""
    sys.path.pop(0)
    for name in (*LIBRARIES, *sys.argv[1:]):
        __import__(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run(*json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _run(program: str, arguments: list[str], folder: str, environment: dict[str, str], streams: str) -> None:
    """Be an interpreter that was started for the program."""
    signal.alarm(SECONDS)
    for stream, flags in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)):
        opened = os.open(f"{streams}/{stream}", flags)
        os.dup2(opened, stream)
        os.close(opened)
    # The server has read ahead of this.
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    sys.path[:0] = ["", *filter(None, environment["PYTHONPATH"].split(os.pathsep))]
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    code: Any = 0
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    try:
        exec(compile(program, "<string>", "exec"), vars(main))
    except SystemExit as ended:
        code = ended.code
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    _serve()

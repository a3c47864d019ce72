"""Read an untrusted Parquet file in another process (`reader.py`), one process per file. `tables` calls it.

Starting Python and importing pyarrow takes some ten times as long as reading a table. So, on Linux, one process does
both once and forks a reader for each table. Tables are isolated as well as with a new process each: a reader has its
own memory, limits and files, and exits once it has answered. The forking process sees no byte of a table or of an
answer: it passes on three files and reports how the reader ended. It has a single thread, so no fork inherits a lock
that is never released. Forks of one process share addresses, which crashing many readers could reveal; so if a reader
does not exit normally, its parent is replaced before the next table.

Without such a process (on other systems libraries do not survive a fork; this one ended, or could not fork) each table
gets a process of its own, with the same limits and messages.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("reader.py")))
#: Each thread of a pool would reserve part of the allowed memory, and a forking process must not have threads.
_FEW = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
#: Exit codes of a reader that has read the table and of one that refuses it.
READ, REFUSED = 0, 3
_LONGEST_REFUSAL = 1 << 16


def read_apart(
    data: bytes, rows: int, cells: int, size: int, columns: Sequence[str], seconds: float
) -> tuple[int, bytes, str]:
    """Read a table in another process.

    Args:
        data: untrusted.
        rows, cells, size, columns: as `reader.py` takes them; the table itself may have at most `size` bytes too.
        seconds: time limit.

    Returns:
        How the reader ended (`READ`, `REFUSED`, or another code), an Arrow stream, and why the table is refused.

    Raises:
        TimeoutError: it took longer.
    """
    arguments = [str(rows), str(cells), str(size), *columns]
    if _can_fork() and (outcome := _by_fork(data, arguments, size, seconds)) is not None:
        return outcome
    try:
        done = subprocess.run(
            [*_COMMAND, *arguments], input=data, capture_output=True, timeout=seconds, env={**os.environ, **_FEW}
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def _can_fork() -> bool:
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return False
    import resource

    # The user's own limit on file sizes would apply to the files passed on.
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


class _Forking:
    """The process that forks readers, and the socket to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # In its own process group, together with its readers.
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_FEW},
                start_new_session=True,
            )

    def ask(self, arguments: Sequence[str], files: Sequence[int], seconds: float) -> int | None:
        """How the reader of these files ended; None if the forking process itself has ended.

        Raises:
            TimeoutError: no answer arrived in time.
        """
        self._socket.settimeout(seconds)
        try:
            socket.send_fds(self._socket, [json.dumps(arguments).encode()], files)
            told = self._socket.recv(16)
        except TimeoutError:
            raise
        except OSError:
            return None
        return int(told) if told else None

    def end(self) -> None:
        """End it and the reader that it waits for."""
        self._socket.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


#: By the process that started it: a fork of bench has none yet.
_forking: dict[int, _Forking] = {}
_one_at_a_time = threading.Lock()


def _by_fork(data: bytes, arguments: Sequence[str], size: int, seconds: float) -> tuple[int, bytes, str] | None:
    """What `read_apart` returns, by a forked reader; None if none could be forked."""
    with (
        _one_at_a_time,
        open(os.memfd_create("table"), "w+b") as table,
        open(os.memfd_create("answer"), "w+b") as answer,
        open(os.memfd_create("refusal"), "w+b") as refusal,
    ):
        table.write(data)
        table.flush()
        process = os.getpid()
        code = None
        try:
            if process not in _forking:
                _forking[process] = _Forking()
            code = _forking[process].ask(arguments, [table.fileno(), answer.fileno(), refusal.fileno()], seconds)
        finally:
            if code not in {READ, REFUSED}:
                _end()
        if code is None:
            return None
        length = os.fstat(answer.fileno()).st_size
        if length > size:
            return -1, b"", ""
        # A reader has moved the file positions, which it shares with this process.
        answer.seek(0)
        refusal.seek(0)
        return code, answer.read(length), refusal.read(_LONGEST_REFUSAL).decode("utf-8", "replace")


@atexit.register
def _end() -> None:
    if forking := _forking.pop(os.getpid(), None):
        forking.end()

"""Ask a retriever in a process of its own: one line of JSON to its input, one from its output. Methods call it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from bench.base.errors import UnavailableError, UsageError
from bench.base.secrets import mask
from bench.base.strict_json import RepeatedKey, loads
from bench.base.text import one_line
from bench.remote.answers import KEPT, Unusable, last_words

#: Maximum bytes of a line.
LONGEST = 8 << 20
#: How often one run restarts a process that ended or was stopped.
RESTARTS = 3
#: Seconds from the start of a process to its first answer, in addition to the time of a query.
START = 60.0
#: Seconds within which error output written before an answer arrives after it.
_LAG = 0.05
#: The environment variable with the path of the catalogue.
CATALOGUE = "BENCH_TOOLS"


class ProcessClient:
    """A process, started with the first question and again if it ends; for one thread at a time.

    Args:
        command: split as by a POSIX shell; no shell is started.
        timeout: maximum seconds for one answer.
        catalogue: the file of the library, whose path the process receives in `BENCH_TOOLS`.

    Raises:
        UsageError: the command is empty or has an open quote.
    """

    def __init__(self, command: str, timeout: float, catalogue: Path) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"cannot split the command {one_line(command, 120)!r} ({error}).") from None
        if not self._command:
            raise UsageError('run= needs a command, such as run="node search.js".')
        self._timeout = timeout
        self._environment = {**os.environ, CATALOGUE: str(catalogue)}
        self._running: _Running | None = None
        self._started = 0
        self._asked = 0
        self._last_failure = ""
        self._errors = bytearray()

    def ask(self, question: dict[str, Any]) -> bytes:
        """The answer to one question, as the line that the process wrote.

        Raises:
            Unusable: it took too long, wrote a line that does not answer this question, or ended; the next question
                starts it again.
            UnavailableError: it cannot be started, or was started again too often.
        """
        fresh = self._running is None
        running = self._running or self._start()
        self._asked += 1
        self._errors = running.errors
        if not fresh:
            # Earlier output belongs to another question; drop whole lines, so that no half of a key is left.
            del self._errors[: self._errors.rfind(b"\n") + 1]
        line = json.dumps({"id": self._asked, **question}, ensure_ascii=True).encode() + b"\n"
        try:
            reply = running.exchange(line, self._timeout + (START if fresh else 0.0))
            _check_id(reply, self._asked)
        except Unusable as error:
            # Its next output may belong to this question: only a new process is known to be in step.
            self.close()
            self._last_failure = f"{error}{self.said()}"
            raise Unusable(self._last_failure) from None
        return reply

    @property
    def was_asked(self) -> bool:
        """Whether it was asked a question."""
        return self._asked > 0

    def said(self) -> str:
        """Its error output since the last question, as the end of a sentence."""
        if not self._errors:
            time.sleep(_LAG)
        text = last_words(bytes(self._errors))
        return f"; it said {text!r}" if text else ""

    def close(self) -> None:
        """Stop the process."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _start(self) -> _Running:
        if self._started > RESTARTS:
            raise UnavailableError(
                f"the command {self._command[0]!r} ended or had to be stopped {self._started} times, the last time "
                f"with {self._last_failure}; the answers so far are kept, and the same run goes on with the next query "
                "when it works."
            )
        self._started += 1
        try:
            self._running = _Running(self._command, self._environment)
        except OSError as error:
            raise UnavailableError(f"cannot start the command {self._command[0]!r} ({error.strerror}).") from None
        return self._running


class _Running:
    """A process, and threads that read its output; they do not reference this object, so that it ends with its user."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        # In its own session, so that its children are stopped with it.
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=2)
        self.errors = bytearray()
        gone = threading.Event()
        _in_background(_read_lines, self._process.stdout, self._lines, gone)
        self._hearing = _in_background(_read_errors, self._process.stderr, self.errors)
        self._finalizer = weakref.finalize(self, _end, self._process, gone)

    def exchange(self, line: bytes, seconds: float) -> bytes:
        """Write a line and wait for the next one."""
        # In the background: a process that does not read fills the pipe, and a write would block forever.
        _in_background(_write, self._process.stdin, line)
        try:
            reply = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise Unusable(f"no answer within {seconds:g} seconds") from None
        if not reply:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
            # Its last output may still be arriving; do not wait for a child that keeps the pipe open.
            self._hearing.join(1.0)
            raise Unusable(f"no answer: the process ended with {self._process.returncode}")
        if len(reply) > LONGEST:
            raise Unusable(f"an answer of more than {LONGEST >> 20} MiB")
        return reply

    def stop(self) -> None:
        self._finalizer()


def _in_background(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _write(stream: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.write(line)
        stream.flush()


def _read_lines(stream: IO[bytes], lines: queue.Queue[bytes], gone: threading.Event) -> None:
    """Pass lines on, with an empty one at the end. A process that writes more than requested has to wait."""
    line = b"?"
    while line and not gone.is_set():
        try:
            line = stream.readline(LONGEST + 1)
        except (OSError, ValueError):
            line = b""
        while not gone.is_set():
            with contextlib.suppress(queue.Full):
                lines.put(line, timeout=0.5)
                break


def _read_errors(stream: IO[bytes], last: bytearray) -> None:
    with contextlib.suppress(OSError, ValueError):
        while part := os.read(stream.fileno(), KEPT):
            last += part
            del last[:-KEPT]


def _end(process: subprocess.Popen[bytes], gone: threading.Event) -> None:
    gone.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5.0)


def offer(file: Path, text: str) -> None:
    """Write a file for which `was_read` can tell whether it has been read."""
    file.write_text(text, "utf-8")
    _forget_reading(file)


def was_read(file: Path) -> bool | None:
    """Whether an offered file has been read since; None if the file system does not record it."""
    if file.stat().st_atime > 0:
        return True
    file.read_bytes()
    is_recorded = file.stat().st_atime > 0
    _forget_reading(file)
    return False if is_recorded else None


def _forget_reading(file: Path) -> None:
    # Long ago, so that the first read is recorded even with `relatime`.
    os.utime(file, (0, file.stat().st_mtime))


def _check_id(reply: bytes, question: int) -> None:
    """An answer may name its question, which must then be this one."""
    try:
        value = loads(reply)
    except RepeatedKey:
        return  # which the reader of answers reports
    except (ValueError, RecursionError):
        line = one_line(mask(reply[:KEPT].decode("utf-8", "replace")), 80)
        raise Unusable(f"a line that is not JSON ({line!r})") from None
    if isinstance(value, dict) and "id" in value and value["id"] != question:
        raise Unusable(f"the answer to question {one_line(mask(str(value['id'])), 20)} instead of {question}")

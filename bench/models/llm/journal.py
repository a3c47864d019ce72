"""The journal: each request with its reply as one JSON line, so that nothing is requested or paid for twice.

A line is on disk before its reply is used, and ends with a checksum. An incomplete line at the end, left by a killed
process, is ignored, and the next writer cuts it off. A line in the middle that fails its checksum is damage and is
reported. Two processes may share a journal: lines are appended under a lock, each process reads what the other has
appended, and for a request that both have sent the first answer counts. Clients call it.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.base.errors import DataError, StorageError
from bench.base.locks import lock
from bench.base.paths import storage_errors
from bench.base.records import Sparing
from bench.models.llm.budget import SpendingBudget
from bench.models.llm.messages import ToolCall

Kind = Literal["reply", "refusal", "gave-up", "lost", "embeddings"]
Count = Annotated[int, Field(ge=0)]

#: Prompts and replies are readable by the user only.
_MODE = 0o600
_CHECK = 16  # hexadecimal digits of the checksum
_TAIL = len(',"check":""}') + _CHECK


class JournalMessage(BaseModel):
    """A message of a recorded request."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    role: str
    content: str


class JournalCall(BaseModel):
    """A tool call of a recorded reply."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str
    arguments: str


class JournalRequest(Sparing):
    """A recorded request. `repeat` is the number of the run's repeat, left out if it is the first.

    `tools` are the names of the available tools, `definitions` the sha256 of their definitions.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    messages: list[JournalMessage]
    temperature: float
    top_p: float
    max_tokens: int
    sample: int
    repeat: Annotated[int, Field(ge=1)] = 1
    tools: list[str] = []
    definitions: str = ""
    tool_choice: str = ""
    reply_schema: str = ""
    spared: ClassVar[frozenset[str]] = frozenset({"repeat", "tools", "definitions", "tool_choice", "reply_schema"})


class JournalLine(Sparing):
    """One line of a journal.

    Attributes:
        kind: `reply`; `refusal`, a failure that would recur; `gave-up`, a failure after the last try, which is
            repeated when an endpoint is available; `lost`, possible cost of an interrupted request; `embeddings`, money
            spent on vectors.
        key: of the request (`request_key`); empty for `lost` and `embeddings`.
        endpoint: the endpoint, for information.
        served: the model that answered, according to the endpoint.
        text: the reply, or the reason of a failure.
        calls: the called tools.
        cached_tokens: input tokens that the endpoint read from a cache.
        seconds: duration of the reply.
        estimated: the endpoint counted no tokens, or implausibly; the figures are upper bounds.
        cost: possible cost of all tries; null if no prices were set.
        made: when, in UTC.
        check: the first digits of the sha256 of the line up to here.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[1] = 1
    kind: Kind
    key: str = ""
    model: str
    endpoint: str
    served: str = ""
    request: JournalRequest | None = None
    text: str = ""
    finish: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    calls: list[JournalCall] = []
    cached_tokens: Count = 0
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    estimated: bool = False
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    made: str = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    check: str = ""
    spared: ClassVar[frozenset[str]] = frozenset({"calls", "cached_tokens", "seconds"})


class JournalAnswer(NamedTuple):
    """A line in memory: without the request, whose key is enough."""

    kind: Kind
    text: str
    finish: str
    input_tokens: int
    output_tokens: int
    endpoint: str
    calls: tuple[ToolCall, ...] = ()
    cached_tokens: int = 0
    seconds: float | None = None


class Journal:
    """The answers of one file; safe for several threads and processes.

    Raises (all methods):
        DataError: a line other than the last is damaged, or of another version.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Money reserved by calls in flight. It is here because all users of the file share one limit.
        self.budget = SpendingBudget(lambda: self.paid)
        self._thread = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._answers: dict[str, JournalAnswer] = {}
        self._endpoints: dict[str, set[str]] = {}
        self._paid = 0.0
        self._file: tuple[int, int] | None = None
        self._end = 0
        self._lines = 0

    def find(self, key: str) -> JournalAnswer | None:
        """The answer to a request, if there is one."""
        with self._thread:
            self._refresh()
            return self._answers.get(key)

    def endpoints(self, model: str) -> list[str]:
        """The endpoints of a model's chat answers, sorted; empty if there are none."""
        with self._thread:
            self._refresh()
            return sorted(self._endpoints.get(model, ()))

    @property
    def paid(self) -> float:
        """The sum of the costs of all lines."""
        with self._thread:
            self._refresh()
            return self._paid

    def append(self, line: JournalLine) -> JournalAnswer:
        """Write a line to disk.

        Returns:
            The answer that counts: this line's, or that of another process that was first.
        """
        with self._thread, lock(self.path.with_name(self.path.name + ".lock"), "writing the journal"):
            with storage_errors(str(self.path)):
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), _MODE)
            try:
                self._mend(handle)
                self._refresh()
                self._write(handle, _line_bytes(line))
            finally:
                os.close(handle)
            self._refresh()
            return self._answers[line.key] if line.key else _answer(line)

    def _write(self, handle: int, data: bytes) -> None:
        with storage_errors(str(self.path)):
            end = os.lseek(handle, 0, os.SEEK_END)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(handle, left) :]
                os.fsync(handle)
            except OSError:
                # A full disk may have stored part of it.
                os.ftruncate(handle, end)
                raise

    def _mend(self, handle: int) -> None:
        """Cut off what a killed process left behind the last complete line; we hold the lock, so nothing writes it."""
        with storage_errors(str(self.path)):
            size = os.lseek(handle, 0, os.SEEK_END)
            tail = b""
            while len(tail) < size and b"\n" not in tail:
                length = min(size - len(tail), 1 << 16)
                os.lseek(handle, size - len(tail) - length, os.SEEK_SET)
                tail = os.read(handle, length) + tail
            torn = tail[tail.rfind(b"\n") + 1 :]
            if torn and _read(torn) is not None:
                self._write(handle, b"\n")
            elif torn:
                os.ftruncate(handle, size - len(torn))

    def _refresh(self) -> None:
        """Read what was appended since the last time; everything if the file is another one."""
        try:
            status = os.stat(self.path)
            file = (status.st_dev, status.st_ino)
            if file != self._file or status.st_size < self._end:
                self._forget()
                self._file = file
                # Of an earlier version, or copied; on a read-only disk it is unchanged.
                with suppress(OSError):
                    os.chmod(self.path, _MODE)
            if status.st_size > self._end:
                self._read_on()
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise StorageError(
                f"cannot read the journal {self.path}: {error.strerror}; name another file in BENCH_LLM_JOURNAL."
            ) from None

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._end)
            for raw in file:
                whole = raw.endswith(b"\n")
                line = _read(raw.rstrip(b"\r\n")) if raw.strip() else None
                if line is None and not whole:
                    # Incomplete, or being written just now.
                    return
                if line is None and raw.strip():
                    raise DataError(
                        f"the journal {self.path} is damaged in line {self._lines + 1}; remove that line (its request "
                        "will be asked again) or name another file in BENCH_LLM_JOURNAL."
                    )
                self._end += len(raw)
                self._lines += whole
                if line is not None:
                    self._take(line)

    def _take(self, line: JournalLine) -> None:
        self._paid += line.cost or 0.0
        if line.kind in {"lost", "embeddings"}:
            return
        self._endpoints.setdefault(line.model, set()).add(line.endpoint)
        stands = self._answers.get(line.key)
        if stands is None or stands.kind == "gave-up":
            self._answers[line.key] = _answer(line)


def journal_at(path: Path) -> Journal:
    """The journal of a file, read once per process however many models use it."""
    return _OPEN.setdefault(path.absolute(), Journal(path))


_OPEN: dict[Path, Journal] = {}


def _answer(line: JournalLine) -> JournalAnswer:
    calls = tuple(ToolCall(call.name, call.arguments) for call in line.calls)
    counts = (line.input_tokens, line.output_tokens)
    return JournalAnswer(
        line.kind, line.text, line.finish, *counts, line.endpoint, calls, line.cached_tokens, line.seconds
    )


def _line_bytes(line: JournalLine) -> bytes:
    """The bytes of a line: JSON whose last field is the checksum of everything before it."""
    body = line.model_dump_json(exclude={"check"}).encode()[:-1]
    return body + b',"check":"' + _checksum(body) + b'"}\n'


def _read(raw: bytes) -> JournalLine | None:
    """The line in these bytes (without newline); None if they are incomplete."""
    if raw[-_TAIL:] != b',"check":"' + _checksum(raw[:-_TAIL]) + b'"}':
        return None
    try:
        return JournalLine.model_validate_json(raw)
    except ValidationError:
        return None


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHECK].encode()

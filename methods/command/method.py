"""A retriever in a process of its own, in any language."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.interface import History, Library
from bench.interface.marks import CATALOGUE_NOT_KNOWN
from bench.interface.method import Context
from bench.methods.command.process import ProcessClient, offer, was_read
from bench.remote.asking import Asking, RemoteMethod, RemoteReply, UnknownNames, as_lines, marks_of_remote


class Command(RemoteMethod):
    """Writes a line `{"id": N, "query": TEXT, "limit": DEPTH}` for each query, and reads a line with the tools.

    The process is started once, with the path of the tools (JSON Lines) in the environment variable `BENCH_TOOLS`, and
    restarted if it ends. If it never reads that file, it has its own catalogue, and edited descriptions do not reach
    it: the row is marked. It runs with your rights. Its answer is read like that of the method `http`; if an answer has
    an `id`, it must be that of the question. A query without a usable answer fails and is counted. Ten consecutive
    failures end the run; its finished batches are kept.
    """

    class Parameters(ParameterSet):
        run: str = Field("", description='the command, such as "node search.js"; no shell is involved')
        answer: str = Field("", description="JMESPath of the list of tools in the answer; empty for the usual shapes")
        unknown: UnknownNames = "fail"
        revision: str = Field("", description="version of the program, if you know it")
        timeout: float = Field(30.0, gt=0, le=3600, description="seconds for one answer")

    parameters: Parameters
    _client: ProcessClient | None = None

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._what = f"the command {parameters.run!r}"
        self._asking = Asking(self._what, self._send, said=self._said)

    def revisions(self) -> dict[str, str]:
        return {self.parameters.run: self.parameters.revision} if self.parameters.revision else {}

    def marks(self) -> dict[str, str]:
        if not self.parameters.run:
            return {}
        read = was_read(self._file) if self._client is not None and self._client.was_asked else None
        why = "did not read the file of BENCH_TOOLS and "
        marks = marks_of_remote(self._what, version=self.parameters.revision, given=read is not False, why=why)
        if self._client is not None and read is None:
            marks[CATALOGUE_NOT_KNOWN] = (
                f"it is not known whether {self._what} read the tools of the dataset: this process did not ask it, or "
                "the file system does not record that a file is read"
            )
        return marks

    def preflight(self, library: Library, history: History) -> None:
        if not self.parameters.run:
            raise UsageError('the method command needs a command: command(run="node search.js").')
        super().preflight(library, history)

    def index(self, library: Library) -> None:
        super().index(library)
        # Removed with the method; the process may read it at any time.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-tools-")
        self._file = Path(self._folder.name) / "tools.jsonl"
        offer(self._file, as_lines(library))
        self._client = ProcessClient(self.parameters.run, self.parameters.timeout, self._file)

    def _send(self, text: str, depth: int) -> RemoteReply:
        assert self._client is not None
        return RemoteReply.of(self._client.ask({"query": text, "limit": depth}))

    def _said(self) -> str:
        return "" if self._client is None else self._client.said()

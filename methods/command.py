"""A retriever that runs as a process of its own, in any language."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.interface import History, Library, Method, Queries, Ranking
from bench.interface.method import Context
from bench.remote.answers import AnswerReader
from bench.remote.asking import Asking, RemoteReply, as_lines
from bench.remote.process import ProcessClient


class Command(Method):
    """Writes a line `{"id": N, "query": TEXT, "limit": DEPTH}` for each query, and reads a line with the tools.

    The process is started once, with the path of the tools (JSON Lines) in the environment variable `BENCH_TOOLS`, and
    started again if it ends. It runs with your rights. Its answer is read as that of the method `http`; an answer that
    has an `id` must have that of the question. A query without a usable answer fails and is counted. Ten failures in a
    row end the run; its finished batches are kept.
    """

    class Parameters(ParameterSet):
        run: str = Field("", description='the command, such as "node search.js"; no shell is involved')
        answer: str = Field("", description="JMESPath of the list of tools in the answer; empty for the usual shapes")
        revision: str = Field("", description="version of the program, if you know it")
        timeout: float = Field(30.0, gt=0, le=3600, description="seconds for one answer")

    parameters: Parameters
    #: Of what somebody else runs, nobody here knows that the same question gets the same answer.
    has_chance = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._asking = Asking(f"the command {parameters.run!r}", self._send)

    def revisions(self) -> dict[str, str]:
        return {self.parameters.run: self.parameters.revision} if self.parameters.revision else {}

    def marks(self) -> dict[str, str]:
        if self.parameters.revision or not self.parameters.run:
            return {}
        why = f"asks the command {self.parameters.run!r}, whose version is not known: not reproducible by hash"
        return {"remote": why}

    def facts(self) -> dict[str, str | int | float | bool]:
        return self._asking.facts()

    def preflight(self, library: Library, history: History) -> None:
        if not self.parameters.run:
            raise UsageError('the method command needs a command: command(run="node search.js").')
        AnswerReader(library.tools, self.parameters.answer)

    def index(self, library: Library) -> None:
        self._reader = AnswerReader(library.tools, self.parameters.answer)
        # Removed with the method; the process may read it when it likes.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-tools-")
        file = Path(self._folder.name) / "tools.jsonl"
        file.write_text(as_lines(library), "utf-8")
        self._client = ProcessClient(self.parameters.run, self.parameters.timeout, file)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._asking.rank(queries.texts, depth, self._reader)

    def _send(self, text: str, depth: int) -> RemoteReply:
        return RemoteReply.of(self._client.ask({"query": text, "limit": depth}))

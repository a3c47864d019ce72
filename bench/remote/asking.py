"""What methods with an external retriever share: the catalogue, failures, and when to give up."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from bench.base.config import current_session
from bench.base.errors import MethodError, UnavailableError, UnresolvedError
from bench.base.protocol import UNREAD
from bench.data.tool_names import NameRecord, ToolNames
from bench.interface import History, Library, Method, Queries, Ranking
from bench.interface.marks import OWN_CATALOGUE, REMOTE
from bench.remote.answers import AnswerNote, AnswerReader, RankedAnswer, Unusable
from bench.stats.percentiles import percentiles

#: Consecutive failures after which a run ends: the retriever is down, and every query would fail.
MOST_IN_A_ROW = 10
#: Maximum versions to keep of a retriever that changes during a run, and maximum fields to name.
_MOST_VERSIONS, _MOST_FIELDS = 5, 20

UnknownNames = Annotated[
    Literal["fail", "drop"],
    Field(description="if an answer has a name that the library lacks: `fail` the query, or `drop` the name"),
]


class RemoteReply(NamedTuple):
    """What came back: the JSON to read, and the text that an agent would see, whose tokens it pays for."""

    body: bytes
    shown: str

    @staticmethod
    def of(body: bytes) -> RemoteReply:
        """An answer that an agent sees unchanged."""
        return RemoteReply(body, body.decode("utf-8", "replace"))


@dataclass
class AnswerStatistics:
    """Statistics of the answers to the ranked queries.

    Attributes:
        seconds: time of each answer, from the question to the last byte.
        bytes: total size of the answers.
        elapsed: seconds of the batches, which may have several queries in flight.
        versions: versions of the retriever that answers name.
        names: how names of tools were resolved.
        unread: unknown fields -> number of answers with them.
    """

    seconds: list[float] = field(default_factory=list)
    bytes: int = 0
    elapsed: float = 0.0
    versions: set[str] = field(default_factory=set)
    names: NameRecord = field(default_factory=NameRecord)
    unread: Counter[str] = field(default_factory=Counter)

    def take(self, answer: RankedAnswer | Unusable, names: ToolNames) -> None:
        """Add the names in an answer, and what it contains besides its ranking."""
        if isinstance(answer, Unusable):
            for name, description in answer.note.unknown.items():
                self.names.miss(name, description)
            self.names.known += answer.note.known
            return
        for name, code in zip(answer.names, answer.tools, strict=True):
            self.names.take(name, names.tools[code].tool_id)
        if answer.version and len(self.versions) < _MOST_VERSIONS:
            self.versions.add(answer.version)
        self.unread.update(name for name in answer.unread if name in self.unread or len(self.unread) < _MOST_FIELDS)

    def facts(self) -> dict[str, str | int | float | bool]:
        """What readers of the result should know about the answers."""
        facts: dict[str, str | int | float | bool] = {**self.names.facts()}
        if self.versions:
            facts["service_version"] = ", ".join(sorted(self.versions))
        if self.unread:
            facts[UNREAD] = ", ".join(f"{name} (in {count} answers)" for name, count in self.unread.most_common())
        return facts


class Asking:
    """Asks queries one after another, or several at once, and keeps statistics.

    Args:
        what: the retriever in words, for messages.
        send: (text, depth) -> an answer; raises `Unusable`.
        concurrency: number of queries in flight; `send` must be safe for as many threads.
        said: what the retriever wrote besides the last answer, as the end of a reason.
    """

    def __init__(
        self,
        what: str,
        send: Callable[[str, int], RemoteReply],
        concurrency: int = 1,
        said: Callable[[], str] = str,
    ) -> None:
        self._what, self._send, self._concurrency, self._said = what, send, concurrency, said
        self._counting = threading.Lock()
        self._in_a_row: list[Unusable] = []
        self._ranked = AnswerStatistics()
        self._notes: dict[int, AnswerNote] = {}

    def rank(self, queries: Queries, depth: int, reader: AnswerReader) -> Ranking:
        """The answers to a batch; queries without a usable answer are marked as failed.

        Raises:
            UnavailableError: many consecutive queries have failed.
            UnresolvedError: they have because no name so far could be resolved.
            MethodError: they have because of names that the library lacks, beside known ones.
        """
        # Queries that are repeated to measure latency do not enter the statistics: they are not asked concurrently, and
        # their answers are not scored.
        timed = current_session().timing is not None
        account = AnswerStatistics() if timed else self._ranked
        started = time.perf_counter()

        def one(text: str) -> RankedAnswer | Unusable:
            return self._one(text, depth, reader, account)

        if self._concurrency == 1:
            answers = [one(text) for text in queries.texts]
        else:
            with ThreadPoolExecutor(self._concurrency) as pool:
                answers = list(pool.map(one, queries.texts))
        account.elapsed += time.perf_counter() - started
        for row, item in zip(queries.rows.tolist(), answers, strict=True):
            if not timed and item.note != AnswerNote():
                self._notes[row] = self._notes.get(row, AnswerNote()) | item.note
        usable = [None if isinstance(item, Unusable) else item for item in answers]
        ranking = Ranking.of_answers([None if item is None else (item.tools, item.scores) for item in usable])
        return replace(ranking, replies=tuple(None if item is None else item.shown for item in usable))

    def take_notes(self) -> dict[int, AnswerNote]:
        """What to report about answers since the last call, by query number."""
        notes, self._notes = self._notes, {}
        return notes

    def facts(self) -> dict[str, str | int | float | bool]:
        """Latency and size of answers as measured here, and what else they contained, for this process's queries.

        They cover the rankings. For a run resumed after a crash, they cover the queries asked since.
        """
        account = self._ranked
        facts: dict[str, str | int | float | bool] = {}
        if account.seconds:
            for name, value in zip(("p50", "p95", "p99"), percentiles(account.seconds), strict=True):
                if value is not None:
                    facts[f"answer_{name}_ms"] = round(1000 * value, 2)
            facts["answers_per_second"] = round(len(account.seconds) / max(account.elapsed, 1e-9), 2)
            facts["asked_at_once"] = self._concurrency
            facts["answer_bytes"] = round(account.bytes / len(account.seconds))
        return facts | account.facts()

    def _one(self, text: str, depth: int, reader: AnswerReader, account: AnswerStatistics) -> RankedAnswer | Unusable:
        with self._counting:
            if len(self._in_a_row) >= MOST_IN_A_ROW:
                self._give_up(reader.names)
        started = time.perf_counter()
        outcome: RankedAnswer | Unusable
        try:
            reply = self._send(text, depth)
            try:
                outcome = replace(reader.read(reply.body, depth), shown=reply.shown)
            except Unusable as error:
                outcome = error if error.note.unknown else Unusable(f"{error}{self._said()}")
        except Unusable as error:
            outcome = error
        with self._counting:
            account.take(outcome, reader.names)
            if isinstance(outcome, Unusable):
                self._in_a_row.append(outcome)
            else:
                self._in_a_row.clear()
                account.seconds.append(time.perf_counter() - started)
                account.bytes += len(reply.body)
        return outcome

    def _give_up(self, names: ToolNames) -> None:
        unknown, failures = self._ranked.names.unknown(names), self._in_a_row
        if self._ranked.names.resolves_nothing:
            raise UnresolvedError(f"no name in the answers of {self._what} is a known tool: {unknown}.")
        if all(error.note.unknown for error in failures):
            raise MethodError(
                f"{self._what} answered {len(failures)} queries in a row with unknown names: {unknown}; import the "
                "catalogue that it searches, or give unknown=drop to leave out names that the library lacks, counted."
            )
        raise UnavailableError(
            f"{self._what} failed {len(failures)} queries in a row, the last with {failures[-1]}; finished "
            "batches are kept, and the same command goes on when it works again."
        )


class RemoteMethod(Method):
    """A method with an external retriever; its parameters have `answer` and `unknown`."""

    #: An external system may answer the same question differently.
    has_chance = True

    _asking: Asking
    _reader: AnswerReader

    def facts(self) -> dict[str, str | int | float | bool]:
        return self._asking.facts()

    def preflight(self, library: Library, history: History) -> None:
        self._make_reader(library)

    def index(self, library: Library) -> None:
        self._reader = self._make_reader(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._asking.rank(queries, depth, self._reader)

    def _make_reader(self, library: Library) -> AnswerReader:
        return AnswerReader(library.tools, self.parameters.answer, drop=self.parameters.unknown == "drop")

    def take_notes(self) -> dict[int, AnswerNote]:
        """As in `Asking`."""
        return self._asking.take_notes()


def marks_of_remote(what: str, *, version: str, given: bool = False, why: str = "") -> dict[str, str]:
    """The marks of a method with an external retriever.

    Args:
        what: the retriever in words.
        version: version of the retriever and its catalogue as given by the user; empty if not given.
        given: whether the dataset's tools are sent to it.
        why: words that come before `has its own catalogue`.
    """
    marks = {} if version else {REMOTE: f"calls {what}, for which no version is given: not reproducible by hash"}
    if not given:
        has = f"calls {what}, which {why}has its own catalogue"
        marks[OWN_CATALOGUE] = f"{has}: edited descriptions in the dataset do not reach it"
    return marks


def catalogue(library: Library) -> list[dict[str, Any]]:
    """The tools in code order: id, name, description, category, parent, parameters, and the text to index."""
    return [
        {
            "id": tool.tool_id,
            "name": tool.name,
            "description": tool.description,
            "category": tool.category,
            "parent": tool.parent,
            "parameters": [{**parameter.to_schema(), "required": parameter.required} for parameter in tool.parameters],
            "text": text,
        }
        for tool, text in zip(library.tools, library.texts, strict=True)
    ]


def as_lines(library: Library) -> str:
    """The catalogue as JSON Lines."""
    return "".join(json.dumps(tool, ensure_ascii=True) + "\n" for tool in catalogue(library))

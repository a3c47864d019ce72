"""What methods that ask a retriever outside of bench have in common: the catalogue, failures, a limit to patience."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bench.base.config import current_session
from bench.base.errors import UnavailableError, UnresolvedError
from bench.data.tool_names import NameRecord, ToolNames
from bench.interface import Library, Ranking
from bench.remote.answers import AnswerReader, RankedAnswer, UnknownTool, Unusable
from bench.stats.percentiles import percentiles

#: Failures one after another after which a run ends: the retriever is down, and every query would fail.
MOST_IN_A_ROW = 10
#: Versions that are kept of a retriever that changes while it is asked.
_MOST_VERSIONS = 5


class RemoteReply(NamedTuple):
    """What came back: the JSON to read, and the text that an agent is shown, whose tokens it pays for."""

    body: bytes
    shown: str

    @staticmethod
    def of(body: bytes) -> RemoteReply:
        """An answer that an agent is shown as it is."""
        return RemoteReply(body, body.decode("utf-8", "replace"))


@dataclass
class _Account:
    """What answers took and were, of the queries that were ranked.

    Attributes:
        seconds: of each answer, from the question to the last byte read.
        bytes: of all answers together.
        elapsed: seconds of the batches, in which several queries may be under way at a time.
        failures: reason -> queries.
        versions: of the retriever, as answers name them.
        names: what its names of tools became.
    """

    seconds: list[float] = field(default_factory=list)
    bytes: int = 0
    elapsed: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    versions: set[str] = field(default_factory=set)
    names: NameRecord = field(default_factory=NameRecord)


class Asking:
    """Asks one query after another, or several at once, and keeps account.

    Args:
        what: the retriever in words, for messages.
        send: text and depth -> an answer; raises `Unusable`.
        concurrency: queries asked at once; `send` must be safe for as many threads.
    """

    def __init__(self, what: str, send: Callable[[str, int], RemoteReply], concurrency: int = 1) -> None:
        self._what, self._send, self._concurrency = what, send, concurrency
        self._counting = threading.Lock()
        self._in_a_row = 0
        self._last = ""
        self._ranked = _Account()
        self._library: ToolNames | None = None

    def rank(self, texts: Sequence[str], depth: int, reader: AnswerReader) -> Ranking:
        """The answers to a batch; queries without a usable one are marked as failed.

        Raises:
            UnavailableError: many queries in a row have failed.
            UnresolvedError: they have because no name that was ever answered means a tool.
        """
        self._library = reader.names
        # Queries that are asked again to measure the latency of a single one are no part of the account: they are not
        # asked at once, and what they answer is not scored.
        account = self._ranked if current_session().timing is None else _Account()
        started = time.perf_counter()

        def one(text: str) -> tuple[RankedAnswer, str] | None:
            return self._one(text, depth, reader, account)

        if self._concurrency == 1:
            answers = [one(text) for text in texts]
        else:
            with ThreadPoolExecutor(self._concurrency) as pool:
                answers = list(pool.map(one, texts))
        account.elapsed += time.perf_counter() - started
        ranking = Ranking.of_answers([None if item is None else (item[0].tools, item[0].scores) for item in answers])
        return replace(ranking, replies=tuple(None if item is None else item[1] for item in answers))

    def facts(self) -> dict[str, str | int | float | bool]:
        """How long answers took as seen from here, their size, and what failed, of this process's queries.

        They are those of the rankings. Of a run that goes on after a crash, they are those that were asked since.
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
        if account.versions:
            facts["service_version"] = ", ".join(sorted(account.versions))
        if account.failures:
            facts["failures"] = "; ".join(f"{count} x {reason}" for reason, count in account.failures.most_common(5))
        if self._library is not None:
            facts |= account.names.facts(self._library)
        return facts

    def _one(self, text: str, depth: int, reader: AnswerReader, account: _Account) -> tuple[RankedAnswer, str] | None:
        with self._counting:
            if self._in_a_row >= MOST_IN_A_ROW:
                if self._ranked.names.resolves_nothing:
                    unknown = self._ranked.names.unknown(reader.names)
                    raise UnresolvedError(f"no name in the answers of {self._what} means a tool: {unknown}.")
                raise UnavailableError(
                    f"{self._what} failed {self._in_a_row} queries in a row, the last with {self._last}; finished "
                    "batches are kept, and the same command goes on when it works again."
                )
        started = time.perf_counter()
        try:
            reply = self._send(text, depth)
            answer = reader.read(reply.body, depth)
        except Unusable as error:
            with self._counting:
                account.failures[str(error)] += 1
                if isinstance(error, UnknownTool):
                    for name in error.names:
                        account.names.miss(name)
                self._in_a_row += 1
                self._last = str(error)
            return None
        with self._counting:
            self._in_a_row = 0
            account.seconds.append(time.perf_counter() - started)
            account.bytes += len(reply.body)
            for name, code in zip(answer.names, answer.tools, strict=True):
                account.names.take(name, reader.names.tools[code].tool_id)
            if answer.version and len(account.versions) < _MOST_VERSIONS:
                account.versions.add(answer.version)
        return answer, reply.shown


def catalogue(library: Library) -> list[dict[str, Any]]:
    """The tools in code order: id, name, description, category, parent, parameters, and the text to be indexed."""
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

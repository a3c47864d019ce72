"""What methods that ask a retriever outside of bench have in common: failures counted, and a limit to patience."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench.errors import UnavailableError
from bench.protocol import Ranking
from bench.remote.answers import AnswerReader, Found, Unusable

#: Failures one after another after which a run ends: the retriever is down, and every query would fail.
MOST_IN_A_ROW = 10


class Asking:
    """Asks one query after another, or several at once, and keeps account.

    Args:
        what: the retriever in words, for messages.
        send: text and depth -> the bytes of an answer; raises `Unusable`.
        concurrency: queries asked at once; `send` must be safe for as many threads.
    """

    def __init__(self, what: str, send: Callable[[str, int], bytes], concurrency: int = 1) -> None:
        self._what, self._send, self._concurrency = what, send, concurrency
        self._counting = threading.Lock()
        self._failures: Counter[str] = Counter()
        self._in_a_row = 0
        self._last = ""
        self._seconds: list[float] = []
        self._bytes = 0
        self._elapsed = 0.0

    def rank(self, texts: Sequence[str], depth: int, reader: AnswerReader) -> Ranking:
        """The answers to a batch; queries without a usable one are marked as failed.

        Raises:
            UnavailableError: many queries in a row have failed.
        """
        started = time.perf_counter()

        def one(text: str) -> Found | None:
            return self._one(text, depth, reader)

        if self._concurrency == 1:
            found = [one(text) for text in texts]
        else:
            with ThreadPoolExecutor(self._concurrency) as pool:
                found = list(pool.map(one, texts))
        self._elapsed += time.perf_counter() - started
        return Ranking.of_answers([None if item is None else (item.tools, item.scores) for item in found])

    def facts(self) -> dict[str, str | int | float | bool]:
        """How long answers took as seen from here, their size, and what failed, of this process's queries."""
        if not self._seconds:
            return {}
        p50, p95, p99 = np.percentile(self._seconds, [50, 95, 99])
        facts: dict[str, str | int | float | bool] = {
            "answer_p50_ms": round(1000 * float(p50), 2),
            "answer_p95_ms": round(1000 * float(p95), 2),
            "answer_p99_ms": round(1000 * float(p99), 2),
            "answers_per_second": round(len(self._seconds) / max(self._elapsed, 1e-9), 2),
            "asked_at_once": self._concurrency,
            "answer_bytes": round(self._bytes / len(self._seconds)),
        }
        if self._failures:
            facts["failures"] = "; ".join(f"{count} x {reason}" for reason, count in self._failures.most_common(5))
        return facts

    def _one(self, text: str, depth: int, reader: AnswerReader) -> Found | None:
        with self._counting:
            if self._in_a_row >= MOST_IN_A_ROW:
                raise UnavailableError(
                    f"{self._what} failed {self._in_a_row} queries in a row, the last with {self._last}; finished "
                    "batches are kept, and the same command goes on when it works again."
                )
        started = time.perf_counter()
        try:
            reply = self._send(text, depth)
            found = reader.read(reply, depth)
        except Unusable as error:
            with self._counting:
                self._failures[str(error)] += 1
                self._in_a_row += 1
                self._last = str(error)
            return None
        with self._counting:
            self._in_a_row = 0
            self._seconds.append(time.perf_counter() - started)
            self._bytes += len(reply)
        return found

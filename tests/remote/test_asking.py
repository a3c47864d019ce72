"""What a method knows of the answers of a retriever outside of bench."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from kit.tiny import tiny

from bench.base.config import time_without_cache
from bench.data.dataset import Dataset
from bench.interface import Library, Queries
from bench.remote.answers import AnswerNote, AnswerReader, Unusable
from bench.remote.asking import Asking, RemoteReply

__all__ = ["tiny"]


@pytest.fixture
def reader(tiny: Dataset) -> AnswerReader:
    """Reads answers about the tools of `tiny`."""
    return AnswerReader(Library.of(tiny, "name_description").tools)


def queries(*texts: str) -> Queries:
    return Queries(texts, np.arange(len(texts)))


def answer(text: str, depth: int) -> RemoteReply:
    if text == "wrong":
        raise Unusable("nonsense")
    return RemoteReply(b'["t01"]', f"found for {text}")


def test_every_query_has_its_reply_and_a_failed_one_has_none(reader: AnswerReader) -> None:
    ranking = Asking("it", answer, 3).rank(queries("a", "wrong", "b"), 5, reader)
    assert ranking.replies == ("found for a", None, "found for b")
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [False, True, False]


def test_queries_that_are_timed_on_their_own_are_no_part_of_the_account(reader: AnswerReader) -> None:
    asking = Asking("it", answer, 2)
    asking.rank(queries("a", "b", "wrong"), 5, reader)
    before = asking.facts()
    assert asking.take_notes() == {2: AnswerNote("nonsense")}
    with time_without_cache():
        for text in ("a", "wrong", "b"):
            asking.rank(queries(text), 5, reader)
    assert asking.facts() == before
    assert asking.take_notes() == {}


def test_the_throughput_is_that_of_the_queries_that_are_asked_at_once(reader: AnswerReader) -> None:
    together = threading.Barrier(4, timeout=10)

    def slow(text: str, depth: int) -> RemoteReply:
        together.wait()  # ends only where four are under way
        time.sleep(0.02)
        return answer(text, depth)

    asking = Asking("it", slow, 4)
    asking.rank(queries(*"a" * 40), 5, reader)
    facts = asking.facts()
    assert facts["asked_at_once"] == 4
    # One after another they take at least 0.02 seconds each.
    assert 50 < float(facts["answers_per_second"]) <= 200
    assert float(facts["answer_p50_ms"]) >= 20
    assert "answer_p99_ms" not in facts


def test_p99_needs_a_hundred_answers(reader: AnswerReader) -> None:
    asking = Asking("it", answer)
    asking.rank(queries(*"a" * 99), 5, reader)
    assert "answer_p99_ms" not in asking.facts()
    asking.rank(queries("a"), 5, reader)
    assert float(asking.facts()["answer_p50_ms"]) <= float(asking.facts()["answer_p99_ms"])

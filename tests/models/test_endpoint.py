"""Embeddings of a model behind an endpoint: asked once, cached by content, priced, and never spent on timing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.chatserver import ChatServer, Fault, changed, drop, raw, status
from kit.interpreter import Interpreter

from bench.base.config import time_without_cache
from bench.base.errors import BenchError, UnavailableError, UsageError
from bench.interface.parts import revisions
from bench.models import endpoints as endpoint
from bench.models.encoders import Encoder
from bench.models.llm import LanguageModel, Message, Request
from bench.models.llm.transport import Transport
from bench.models.vectorcache import VectorCache
from bench.registry import build_method

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("own_cache")
NAME = "openai:emb-1"


def letters(text: str) -> list[float]:
    return [float(text.count(letter)) for letter in "aeiost"] + [1.0]


def inputs(server: ChatServer) -> list[str]:
    """All the texts that the endpoint was asked for."""
    return [text for body in server.requests for text in body["input"]]


def test_texts_are_asked_for_once_and_get_the_vectors_of_the_endpoint(chat_server: ChatServer) -> None:
    first = Encoder(NAME)
    vectors = first.encode(["tea", "oat", "tea", "é 工具"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [letters(text) for text in ("tea", "oat", "tea", "é 工具")]
    assert (first.computed, first.from_cache) == (3, 0)
    (body,) = chat_server.requests
    assert (body["model"], body["encoding_format"]) == ("emb-1", "float")
    assert sorted(body["input"]) == ["oat", "tea", "é 工具"]
    assert chat_server.keys == ["Bearer sk-of-the-test"]
    second = Encoder(NAME)
    np.testing.assert_array_equal(second.encode(["oat", "tea", "seat"])[:2], vectors[[1, 0]])
    assert (second.computed, second.from_cache) == (1, 2)
    assert inputs(chat_server)[-1:] == ["seat"]
    assert second.encode([]).shape == (0, 0)


def test_the_vectors_are_put_in_the_order_of_the_texts_whatever_the_order_of_the_reply(chat_server: ChatServer) -> None:
    chat_server.faults.append(changed(lambda body: body["data"].reverse()))
    texts = ["a", "ee", "iii", "oooo"]
    assert Encoder(NAME).encode(texts).tolist() == [letters(text) for text in texts]


def test_many_texts_go_in_batches_that_are_kept_as_they_come(chat_server: ChatServer) -> None:
    texts = [f"text {i}" for i in range(150)]
    chat_server.faults.extend([None, None, status(401)])
    with pytest.raises(UnavailableError, match="refused the key"):
        Encoder(NAME).encode(texts)
    again = Encoder(NAME)
    again.encode(texts)
    assert (again.from_cache, again.computed) == (128, 22)
    assert [len(body["input"]) for body in chat_server.requests] == [64, 64, 22, 22]


def test_long_texts_go_in_smaller_batches(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_MOST_BYTES", 10)
    texts = ["a" * 25, "eee", "eeee", "iii", "oé" * 2, "t"]
    assert Encoder(NAME).encode(texts).tolist() == [letters(text) for text in texts]
    sizes = [[len(text.encode()) for text in body["input"]] for body in chat_server.requests]
    assert sorted(size for row in sizes for size in row) == [1, 3, 3, 4, 6, 25]
    assert all(sum(row) <= 10 or len(row) == 1 for row in sizes)


def test_the_prompt_is_sent_and_is_part_of_the_identity(chat_server: ChatServer) -> None:
    queries, tools = Encoder(NAME, prompt="query: "), Encoder(NAME)
    queries.encode(["tea"])
    tools.encode(["tea"])
    assert inputs(chat_server) == ["query: tea", "tea"]
    assert json.loads(queries.identity) == {"model": "emb-1", "endpoint": chat_server.url, "prompt": "query: "}
    assert tools.revision == f"emb-1 at {chat_server.url}"


def test_another_model_or_endpoint_has_vectors_of_its_own(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = {Encoder(NAME).identity, Encoder("openai:emb-2").identity}
    monkeypatch.setenv("BENCH_EMBEDDING_URL", "http://127.0.0.1:9/v1")
    identities.add(Encoder(NAME).identity)
    assert len({VectorCache(identity).path for identity in identities}) == 3


def test_texts_that_endpoints_refuse_are_sent_in_a_form_they_take(chat_server: ChatServer) -> None:
    # Nothing at all, and half a surrogate pair.
    assert Encoder(NAME).encode(["", "a\ud83d"]).shape == (2, 7)
    assert sorted(inputs(chat_server)) == [" ", "a\ufffd"]


def test_a_method_uses_it_by_its_name(chat_server: ChatServer) -> None:
    method = build_method("dense(encoder=openai:text-embedding-3-small)")
    assert revisions(method) == {
        "openai:text-embedding-3-small": f"text-embedding-3-small at {chat_server.url}",
    }


@pytest.mark.parametrize("way", ["folder", "no model"])
def test_what_it_has_not_is_told(chat_server: ChatServer, way: str) -> None:
    with pytest.raises(UnavailableError, match=r"has no files here|names no model"):
        _ = Encoder(NAME if way == "folder" else "openai:").folder


# Without a network --------------------------------------------------------------------------------------------------

CACHED = """
import sys
from bench.models.encoders import Encoder
print(Encoder("openai:emb-1").encode(["tea", "oat"]).tolist())
assert not {"openai", "torch", "sentence_transformers", "httpx", "httpx2"} & set(sys.modules)
"""


def test_offline_with_every_text_cached_it_works_without_openai(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter, tmp_path: Path
) -> None:
    Encoder(NAME).encode(["oat", "tea"])
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    monkeypatch.delenv("BENCH_LLM_KEY")
    done = interpreter(CACHED, folder=tmp_path, path=(ROOT,))
    assert json.loads(done.stdout) == [letters("tea"), letters("oat")]


def test_offline_a_text_that_is_not_cached_is_told(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Encoder(NAME).encode(["oat"])
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    with pytest.raises(UnavailableError) as raised:
        Encoder(NAME).encode(["oat", "tea", "seat"])
    assert str(raised.value) == (
        f"the cache lacks 2 vectors of emb-1 at {chat_server.url}, and bench is offline "
        "(--offline or BENCH_OFFLINE); go online to ask for them."
    )
    monkeypatch.delenv("BENCH_OFFLINE")
    monkeypatch.delenv("BENCH_LLM_URL")
    with pytest.raises(UnavailableError, match="no endpoint is named"):
        Encoder(NAME).encode(["tea"])
    assert len(chat_server.requests) == 1


# Money --------------------------------------------------------------------------------------------------------------


def test_timing_spends_nothing_and_says_that_vectors_were_cached(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even where the cache of local models is switched off: what was paid for is kept in any case.
    monkeypatch.setenv("BENCH_NO_CACHE", "1")
    encoder = Encoder(NAME)
    encoder.encode(["tea"])
    with time_without_cache() as timing:
        assert encoder.encode(["tea"]).tolist() == [letters("tea")]
        assert timing.cached
        with pytest.raises(UnavailableError, match="timing must not spend money"):
            encoder.encode(["tea", "oat"])
    assert inputs(chat_server) == ["tea"]
    assert (encoder.computed, encoder.from_cache) == (1, 0)


def test_what_is_paid_is_recorded_beside_the_replies_and_one_limit_holds_for_both(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    Encoder(NAME).encode(["no price, no line"])
    assert not journal.exists()
    monkeypatch.setenv("BENCH_EMBEDDING_PRICE", "1000000")
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/1000000")
    Encoder(NAME).encode(["one two", "three"])
    (line,) = map(json.loads, journal.read_text().splitlines())
    assert (line["kind"], line["model"], line["input_tokens"], line["cost"]) == ("embeddings", "emb-1", 3, 3)
    # Texts of 4 bytes, and what a tokeniser may add: 12 at most. 3 are spent.
    monkeypatch.setenv("BENCH_LLM_LIMIT", "14")
    with pytest.raises(UnavailableError, match="may cost up to 12, and 3 of the limit of 14"):
        Encoder(NAME).encode(["four"])
    with pytest.raises(UnavailableError, match="and 3 of the limit of 14"):
        LanguageModel("m").complete([Request((Message("user", "a"),))])
    assert len(chat_server.requests) == 2
    monkeypatch.setenv("BENCH_LLM_LIMIT", "15")
    Encoder(NAME).encode(["four"])


def test_tokens_that_are_not_counted_and_lost_tries_are_paid_for_at_their_most(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_EMBEDDING_PRICE", "1000000")
    chat_server.faults.extend([status(500), drop(), changed(lambda body: body.update(usage={"prompt_tokens": -3}))])
    Encoder(NAME).encode(["four"])
    (line,) = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    assert (line["input_tokens"], line["cost"], line["estimated"]) == (12, 24, True)
    chat_server.fault = raw(b"{")
    with pytest.raises(UnavailableError):
        Encoder(NAME).encode(["five"])
    assert json.loads((tmp_path / "journal.jsonl").read_text().splitlines()[1])["cost"] == 6 * 12


@pytest.mark.parametrize("end", ["limit", "key", "Ctrl-C"])
def test_lost_tries_are_paid_for_however_the_asking_ends(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    # A call of "four" may cost 12.
    monkeypatch.setenv("BENCH_EMBEDDING_PRICE", "1000000")
    chat_server.faults.append(drop())
    if end == "limit":
        monkeypatch.setenv("BENCH_LLM_LIMIT", "23")
    elif end == "key":
        chat_server.faults.append(status(401))
    else:
        whole = Transport._try
        tries = iter([whole])

        def interrupted(self: Transport, send: Any) -> Any:
            try:
                return next(tries)(self, send)
            except StopIteration:
                raise KeyboardInterrupt from None

        monkeypatch.setattr(Transport, "_try", interrupted)
    with pytest.raises(KeyboardInterrupt if end == "Ctrl-C" else UnavailableError):
        Encoder(NAME).encode(["four"])
    (line,) = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    # The try that Ctrl-C broke off was sent, too.
    assert (line["kind"], line["cost"]) == ("embeddings", 24 if end == "Ctrl-C" else 12)


def test_a_limit_without_a_price_of_embeddings_is_told(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "5")
    with pytest.raises(UsageError, match="set BENCH_EMBEDDING_PRICE as well"):
        Encoder(NAME).encode(["tea"])


# Faults -------------------------------------------------------------------------------------------------------------


def row(**fields: Any) -> Fault:
    return changed(lambda body: body["data"][0].update(fields))


FAULTS: dict[str, Fault] = {
    "429": status(429, headers={"Retry-After": "0"}),
    "500": status(500),
    "dropped": drop(),
    "dropped in the middle": drop(after=30),
    "no JSON": raw(b"<html>"),
    "null": raw(b"null"),
    "no data": changed(lambda body: body.pop("data") and None),
    "one too few": changed(lambda body: body["data"].pop() and None),
    "one too many": changed(lambda body: body["data"].append(body["data"][0])),
    "not a row": changed(lambda body: body.update(data=[1, 2])),
    "no index": row(index=None),
    "an index twice": row(index=1),
    "an index that is no number": row(index="0"),
    "an index beyond": row(index=2),
    "a truth value for an index": row(index=False),
    "no vector": row(embedding=None),
    "base64": row(embedding="AACAPw=="),
    "empty vector": row(embedding=[]),
    "a shorter vector": row(embedding=[1.0]),
    "texts in a vector": row(embedding=["1"] * 7),
    "truth values in a vector": row(embedding=[True] * 7),
    "NaN": row(embedding=[float("nan")] * 7),
    "infinity": row(embedding=[float("inf")] * 7),
    "beyond float32": row(embedding=[1e300] * 7),
    "beyond any float": raw(b'{"data": [{"index": 0, "embedding": [1' + b"0" * 400 + b"]}]}"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_reply_that_holds_no_vectors_is_asked_for_again_and_then_ends_the_run(
    chat_server: ChatServer, case: str
) -> None:
    chat_server.faults.extend([FAULTS[case]] * 2)
    assert Encoder(NAME).encode(["tea", "oat"]).tolist() == [letters("tea"), letters("oat")]
    assert len(chat_server.requests) == 3
    chat_server.fault = FAULTS[case]
    with pytest.raises(UnavailableError) as raised:
        Encoder(NAME).encode(["seat", "toast"])
    assert str(raised.value).startswith(f"emb-1 at {chat_server.url} gave no vectors: ")
    assert str(raised.value).endswith("(gave up after 6 tries).")
    chat_server.fault = None
    assert Encoder(NAME).encode(["seat"]).tolist() == [letters("seat")]


def test_an_endpoint_that_does_not_know_the_model_is_told(chat_server: ChatServer) -> None:
    chat_server.faults.append(status(404, "no model emb-1"))
    with pytest.raises(BenchError, match=r"answered 404 \(no model emb-1\); check the model's name, and BENCH_LLM_URL"):
        Encoder(NAME).encode(["tea"])


def test_vectors_of_another_length_in_the_next_batch_are_told(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_MOST_BYTES", 3)
    chat_server.vector = lambda text: [1.0] * len(text)
    with pytest.raises(UnavailableError, match="gave vectors of different lengths"):
        Encoder(NAME).encode(["aaa", "bb"])

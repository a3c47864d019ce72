"""The client when the endpoint misbehaves: what is tried again, what is a failure, what ends the run."""

from __future__ import annotations

import email.utils
import json
import math
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.chatserver import (
    ChatServer,
    Exchange,
    Fault,
    bomb,
    changed,
    drip,
    drip_head,
    drop,
    finish,
    flood,
    hang,
    message,
    raw,
    status,
    usage,
)

from bench.base.errors import BenchError, UnavailableError, UsageError
from bench.base.http import retry_after
from bench.base.text import REPLACEMENT
from bench.models.llm import Failure, LanguageModel, Message, Reply, Request, transport

Ask = Callable[..., Any]
KEY = "sk-of-the-test"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, chat_server: ChatServer) -> list[float]:
    """What the client waits for between tries; it does not really."""
    collected: list[float] = []
    monkeypatch.setattr(transport, "FIRST_WAIT", 1.0)

    def wait(seconds: float, stop: object) -> None:
        if seconds > 0:
            collected.append(seconds)

    monkeypatch.setattr(transport.Transport, "_wait_for", staticmethod(wait))
    return collected


# Tried again --------------------------------------------------------------------------------------------------------

AGAIN: dict[str, tuple[Fault, str]] = {
    "429": (status(429, "slow down"), "the endpoint answered 429: slow down"),
    "429 without a body": (raw(b"", 429), "the endpoint answered 429: no reason given"),
    "408": (status(408), "the endpoint answered 408: of no use"),
    "409": (status(409), "the endpoint answered 409: of no use"),
    "500": (status(500, "oh"), "the endpoint answered 500: oh"),
    "502 of a proxy": (raw(b"<html>Bad\nGateway</html>", 502), "the endpoint answered 502: no reason given"),
    "503": (status(503, "x" * 500), f"the endpoint answered 503: {'x' * 199}…"),
    "529": (status(529), "the endpoint answered 529: of no use"),
    "dropped": (drop(), "the connection broke"),
    "dropped in the middle": (drop(after=20), "the connection broke in the middle of the reply"),
    "no JSON": (raw(b"{'choices': []}"), "the reply is not JSON"),
    "HTML": (raw(b"<html>welcome</html>"), "the reply is not JSON"),
    "nothing": (raw(b""), "the reply is not JSON"),
    "half of it": (raw(b'{"choices": [{"mess'), "the reply is not JSON"),
    "not Unicode": (raw(b'{"choices": "\xff\xfe"}'), "the reply is not JSON"),
    "nested too deep": (raw(b"[" * 100_000), "the reply is not JSON"),
    "a list": (raw(b"[]"), "the reply has no choices"),
    "null": (raw(b"null"), "the reply has no choices"),
    "an error with status 200": (raw(b'{"error": {"message": "overloaded"}}'), "the reply has no choices"),
    "no choices": (changed(lambda body: body.pop("choices") and None), "the reply has no choices"),
    "empty choices": (changed(lambda body: body.update(choices=[])), "the reply has no choices"),
    "choices of another kind": (changed(lambda body: body.update(choices={"0": 1})), "the reply has no choices"),
    "a choice of another kind": (changed(lambda body: body.update(choices=["x"])), "the reply has no message"),
    "no message": (changed(lambda body: body["choices"][0].pop("message") and None), "the reply has no message"),
    "content of another kind": (message(content=[{"type": "text"}]), "the content of the reply is not text"),
}


@pytest.mark.parametrize("case", AGAIN)
def test_what_may_pass_is_tried_again_and_then_the_request_fails(
    chat_server: ChatServer, waits: list[float], ask: Ask, journal: Path, case: str
) -> None:
    fault, reason = AGAIN[case]
    chat_server.faults.extend([fault] * 5)
    assert ask("a").text == "reply to: a"
    assert len(chat_server.requests) == 6
    chat_server.faults.extend([fault] * 6)
    assert ask("b") == Failure(f"{reason} (gave up after 6 tries)")
    assert len(chat_server.requests) == 12
    assert [json.loads(line)["kind"] for line in journal.read_text().splitlines()] == ["reply", "gave-up"]


def test_the_waits_double_with_jitter(chat_server: ChatServer, waits: list[float], ask: Ask) -> None:
    chat_server.faults.extend([status(500)] * 30)
    for i in range(5):
        ask(str(i))
    tries = [waits[i : i + 5] for i in range(0, 25, 5)]
    for row in tries:
        assert all(2.0**i / 2 <= wait <= 2.0**i for i, wait in enumerate(row))
    # Callers that failed together do not come back together.
    assert len({row[0] for row in tries}) == 5


def test_a_wait_is_bounded(
    chat_server: ChatServer, waits: list[float], monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(transport, "TRIES", 12)
    chat_server.faults.extend([status(500)] * 11)
    ask("a")
    assert max(waits) <= 60


@pytest.mark.parametrize("code", [429, 503])
def test_a_wait_that_is_asked_for_is_kept(chat_server: ChatServer, waits: list[float], ask: Ask, code: int) -> None:
    chat_server.faults.append(status(code, headers={"Retry-After": "17"}))
    assert ask("a").text == "reply to: a"
    assert 17 <= waits[0] <= 18


def test_a_wait_until_a_date_is_kept(chat_server: ChatServer, waits: list[float], ask: Ask) -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    chat_server.faults.append(status(429, headers={"Retry-After": date}))
    assert ask("a").text == "reply to: a"
    assert 28 <= waits[0] <= 31


def test_a_wait_that_is_really_waited(chat_server: ChatServer, ask: Ask) -> None:
    chat_server.faults.append(status(429, headers={"Retry-After": "0.4"}))
    started = time.monotonic()
    assert ask("a").text == "reply to: a"
    assert 0.4 <= time.monotonic() - started < 3


def test_others_hold_back_too_when_a_wait_is_asked_for(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "2")
    arrived: list[float] = []
    refused: list[float] = []
    told = threading.Event()

    def refuse(exchange: Exchange) -> None:
        refused.append(time.monotonic())
        status(429, headers={"Retry-After": "1"})(exchange)
        told.set()

    def answer(body: dict[str, Any]) -> str:
        arrived.append(time.monotonic())
        # The call that was under way keeps its place until the other caller has surely read that it shall wait.
        told.wait(10)
        time.sleep(max(0.0, refused[0] + 0.7 - time.monotonic()))
        return "yes"

    chat_server.answer = answer
    chat_server.faults.append(refuse)
    ask(*map(str, range(8)))
    assert len(arrived) == 8
    # One call was under way when the wait was asked for; the others came after it.
    assert sum(moment < refused[0] + 1 for moment in arrived) <= 1


@pytest.mark.parametrize("asked", ["3600", "inf", "1e400"])
def test_an_endpoint_that_asks_for_too_long_a_wait_is_not_waited_for(
    chat_server: ChatServer, waits: list[float], ask: Ask, asked: str
) -> None:
    chat_server.faults.append(status(429, "quota", headers={"Retry-After": asked}))
    shown = "3600" if asked == "3600" else "inf"
    assert ask("a") == Failure(
        f"the endpoint answered 429: quota, which asks for a wait of {shown} s (gave up after 1 try)"
    )
    assert waits == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("0", 0),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("-5", 0),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Thu, 01 Jan 1970 01:16:50 +0100", 10),
        ("Thu, 99 Jan 1970 00:16:50 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, expected: float | None) -> None:
    assert retry_after(header, 1000.0) == expected


@given(st.text())
def test_any_other_retry_after_is_none_or_a_wait(header: str) -> None:
    result = retry_after(header, 1000.0)
    assert result is None or (result >= 0 and not math.isnan(result))


# Time-outs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slow", "name"), [(hang(), "hangs"), (drip(0.05), "drips")], ids=["hangs", "drips"])
def test_a_reply_that_takes_too_long_is_tried_again_even_if_it_never_stops_coming(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, slow: Fault, name: str
) -> None:
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "0.3")
    chat_server.faults.extend([slow, None])
    started = time.monotonic()
    assert ask("a").text == "reply to: a"
    assert 0.3 <= time.monotonic() - started < 3
    monkeypatch.setattr(transport, "TRIES", 2)
    chat_server.faults.extend([slow] * 2)
    assert ask("b") == Failure("no whole reply within 0.3 s (gave up after 2 tries)")


def test_a_slow_reply_within_the_time_is_taken(chat_server: ChatServer, ask: Ask) -> None:
    chat_server.faults.append(drip(0.002))
    assert ask("a").text == "reply to: a"
    assert len(chat_server.requests) == 1


def test_a_reply_without_end_is_cut_off(
    chat_server: ChatServer, waits: list[float], monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(transport, "_LARGEST_BODY", 1 << 20)
    chat_server.faults.extend([raw(b" " * (2 << 20))] * 6)
    assert ask("a") == Failure("the reply is longer than 1 MiB (gave up after 6 tries)")


def test_an_endpoint_that_is_not_there_fails_the_request(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    monkeypatch.setenv("BENCH_LLM_URL", url)
    assert ask("a") == Failure(f"cannot connect to {url} (gave up after 6 tries)")


def test_an_endpoint_that_fails_every_request_ends_the_run(
    chat_server: ChatServer, waits: list[float], monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    # Else an hour without the endpoint would fail every query left, and the result would pass for one.
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    chat_server.fault = status(500, "oh")
    with pytest.raises(UnavailableError) as raised:
        ask(*map(str, range(100)))
    assert str(raised.value) == (
        f"{chat_server.url} has failed 10 requests in a row, the last so: the endpoint answered 500: oh (gave up after "
        "6 tries). What was answered is kept, and the same command continues."
    )
    assert len(set(chat_server.prompts)) in {10, 11}
    # One answer in between, and it is not down.
    chat_server.fault = None
    chat_server.faults.extend([*[status(500)] * 6 * 9, None] * 2)
    answers = ask(*(f"again {i}" for i in range(20)))
    assert sum(isinstance(answer, Failure) for answer in answers) == 18


# Failures that another try would not mend ---------------------------------------------------------------------------

FINAL: dict[str, tuple[Fault, str]] = {
    "refusal": (message(refusal="I can't help", content=None), "the model refused: I can't help"),
    "refusal beside a text": (message(refusal="no\x1b[2J"), f"the model refused: no{REPLACEMENT}[2J"),
    "filtered": (finish("content_filter"), "the endpoint's filter withheld the reply"),
    "no content": (message(content=None), "the reply is empty (finish reason stop)"),
    "empty content": (message(content=""), "the reply is empty (finish reason stop)"),
    "blank content": (message(content=" \n\t"), "the reply is empty (finish reason stop)"),
    "all of it thoughts": (
        changed(lambda body: body["choices"][0].update(finish_reason="length", message={"content": ""})),
        "the reply is empty (finish reason length)",
    ),
    "refused by status": (
        status(400, "policy", code="content_filter"),
        "the endpoint's filter refused the request: policy",
    ),
    "too long": (
        status(400, "at most 9 tokens", code="context_length_exceeded"),
        "the request exceeds the context length of the model: at most 9 tokens",
    ),
    "too long by message": (
        status(400, "This model's maximum context length is 9 tokens."),
        "the request exceeds the context length of the model: This model's maximum context length is 9 tokens",
    ),
}


@pytest.mark.parametrize("case", FINAL)
def test_a_refusal_is_a_failure_at_once_and_the_run_goes_on(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path, case: str
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    fault, reason = FINAL[case]
    chat_server.faults.append(fault)
    failure, reply = ask("a", "b")
    assert failure == Failure(reason)
    assert reply.text == "reply to: b"
    assert len(chat_server.requests) == 2
    assert json.loads(journal.read_text().splitlines()[0])["kind"] == "refusal"


@pytest.mark.parametrize("reason", ["length", "tool_calls", None, 7])
def test_a_text_that_ended_otherwise_is_a_reply_that_says_so(chat_server: ChatServer, ask: Ask, reason: Any) -> None:
    chat_server.faults.append(finish(reason))
    assert ask("a").finish == (reason if isinstance(reason, str) else "unknown")


# What ends the run --------------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[Fault, type[BenchError], str]] = {
    "wrong key": (
        status(401, f"Wrong key: {KEY}."),
        UnavailableError,
        "{url} refused the key with 401 (Wrong key: [the key]); set BENCH_LLM_KEY.",
    ),
    "forbidden": (status(403), UnavailableError, "{url} refused the key with 403 (of no use); set BENCH_LLM_KEY."),
    "unknown model": (
        status(404, "no model m"),
        UsageError,
        "{url} answered 404 (no model m); check the model's name, and BENCH_LLM_URL: most end in /v1.",
    ),
    "bad request": (
        status(400, "temperature is 9"),
        UsageError,
        "{url} refused the request with 400 (temperature is 9).",
    ),
    "unprocessable": (status(422), UsageError, "{url} refused the request with 422 (of no use)."),
    "method": (raw(b"", 405), UsageError, "{url} refused the request with 405 (no reason given)."),
    "no credit": (status(402, "pay"), UnavailableError, "{url} reports that no credit is left (pay)."),
    "no quota": (
        status(429, "pay", code="insufficient_quota"),
        UnavailableError,
        "{url} reports that no credit is left (pay).",
    ),
    "control characters": (
        status(400, "a\x1b[31m\nb"),
        UsageError,
        f"{{url}} refused the request with 400 (a{REPLACEMENT}[31m b).",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_no_request_would_pass_ends_the_run_at_once_with_a_sentence(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, case: str
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    fault, kind, sentence = ENDS[case]
    chat_server.faults.extend([None, fault])
    with pytest.raises(kind) as raised:
        ask(*map(str, range(9)))
    assert str(raised.value) == sentence.format(url=chat_server.url)
    assert chat_server.prompts == ["0", "1"]
    # What was answered before is kept.
    assert ask("0").from_journal


def test_the_wrong_path_is_told(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url.removesuffix("/v1"))
    with pytest.raises(UsageError, match=r"answered 404 .*BENCH_LLM_URL: most end in /v1"):
        ask("a")


def test_replies_under_way_when_the_run_ends_are_kept(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "4")
    chat_server.faults.extend([hang(0.3), hang(0.3), hang(0.3), status(401)])
    with pytest.raises(UnavailableError):
        ask("a", "b", "c", "d", "e", "f")
    assert len(chat_server.requests) == 4
    assert sum(answer.from_journal for answer in ask("a", "b", "c", "d")) == 3


def test_the_key_is_printed_and_recorded_nowhere(
    chat_server: ChatServer, waits: list[float], ask: Ask, journal: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chat_server.faults.extend([status(500, f"for {KEY}")] * 6)
    failure = ask("a")
    chat_server.faults.append(status(400, f"for {KEY}", code="content_filter"))
    refused = ask("b")
    assert "for [the key]" in failure.reason
    assert "for [the key]" in refused.reason
    said = capfd.readouterr()
    assert KEY not in journal.read_text() + said.out + said.err + repr(failure) + repr(refused)


@pytest.mark.parametrize("echo", [KEY, "\\u0073" + KEY[1:]], ids=["plain", "escaped"])
def test_a_reply_that_holds_the_key_is_recorded_without_it(
    chat_server: ChatServer, ask: Ask, journal: Path, echo: str
) -> None:
    good = json.dumps({"role": "assistant", "content": "you sent KEY"}).replace("KEY", echo)
    chat_server.faults.append(raw(b'{"model": "m KEY", "choices": [{"message": MESSAGE, "finish_reason": "stop"}]}'
                                  .replace(b"KEY", echo.encode()).replace(b"MESSAGE", good.encode())))  # fmt: skip
    assert ask("a").text == "you sent [the key]"
    assert KEY not in journal.read_text()


# Bounds of size and time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [200, 400, 401, 500])
def test_a_body_without_an_end_is_not_read_to_its_end(
    chat_server: ChatServer, waits: list[float], monkeypatch: pytest.MonkeyPatch, ask: Ask, code: int
) -> None:
    monkeypatch.setattr(transport, "TRIES", 2)
    monkeypatch.setattr(transport, "_LARGEST_BODY", 1 << 20)
    chat_server.fault = flood(code)
    if code in {400, 401}:
        with pytest.raises(BenchError, match=str(code)):
            ask("a")
    else:
        assert {200: "longer than 1 MiB", 500: "answered 500"}[code] in ask("a").reason
    # What the connection takes in without being read, for each try.
    assert chat_server.flooded < 64 << 20


@pytest.mark.parametrize("code", [200, 400, 500])
def test_what_is_packed_unasked_is_not_unpacked(
    chat_server: ChatServer, waits: list[float], ask: Ask, code: int
) -> None:
    chat_server.fault = bomb(code)
    tracemalloc.start()
    try:
        if code == 400:
            with pytest.raises(UsageError, match="400"):
                ask("a")
        else:
            assert isinstance(ask("a"), Failure)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_head_that_drips_in_is_given_up(
    chat_server: ChatServer, waits: list[float], monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(transport, "TRIES", 1)
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "0.5")
    chat_server.fault = drip_head()
    begun = time.monotonic()
    assert "no whole reply within 0.5 s" in ask("a").reason
    assert time.monotonic() - begun < 5


# Wrong numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counted",
    [
        None,
        "many",
        [],
        {},
        {"prompt_tokens": 5},
        {"prompt_tokens": -5, "completion_tokens": 3},
        {"prompt_tokens": 5, "completion_tokens": -1},
        {"prompt_tokens": 0, "completion_tokens": 3},
        {"prompt_tokens": 5, "completion_tokens": 0},
        {"prompt_tokens": 5.5, "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": "5", "completion_tokens": "3"},
        {"prompt_tokens": 10**30, "completion_tokens": 3},
    ],
    ids=str,
)
def test_where_tokens_are_counted_absurdly_upper_bounds_stand_for_them(
    chat_server: ChatServer, ask: Ask, journal: Path, counted: Any
) -> None:
    chat_server.faults.append(usage(counted))
    reply = ask("abcdé", max_tokens=77)
    # Six bytes, what a template may add, and all the tokens that the reply might have.
    assert (reply.input_tokens, reply.output_tokens, reply.estimated) == (6 + 16 + 64, 77, True)
    assert json.loads(journal.read_text())["estimated"] is True
    assert ask("abcdé", max_tokens=77).estimated, "also from the journal"


def test_hidden_tokens_are_counted_as_the_endpoint_counts_them(chat_server: ChatServer, ask: Ask) -> None:
    chat_server.faults.append(usage({"prompt_tokens": 5, "completion_tokens": 4000, "total_tokens": 1}))
    assert ask("a", max_tokens=100) == Reply("reply to: a", 5, 4000, "stop", from_journal=False)


def test_a_model_that_answers_in_another_form_is_not_blamed_on_us(chat_server: ChatServer) -> None:
    # A mistake of ours is no fault of the endpoint: it is not tried again.
    model = LanguageModel("m")
    with pytest.raises(AttributeError):
        model.complete([Request((Message("user", None),))])  # type: ignore[arg-type]
    assert chat_server.requests == []

"""The client when nothing goes wrong: order, concurrency, the journal before the endpoint, replay, what it counts."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import ChatServer, Fault, finish, hang, message, status
from kit.forked import Forked

from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import Quiet
from bench.models.llm import Failure, LanguageModel, Message, Reply, Request
from bench.models.llm.messages import ToolDefinition, request_key


def of(name: str, value: Any) -> dict[str, Any]:
    """One keyword argument, by its name."""
    return {name: value}


Ask = Callable[..., Any]


def request(prompt: str, **settings: Any) -> Request:
    return Request((Message("user", prompt),), **settings)


class Notes(Quiet):
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stages: list[tuple[str, int | None, str]] = []
        self.advanced = 0

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Notes]:
        self.stages.append((title, total, unit))
        yield self

    def advance(self, amount: int = 1) -> None:
        self.advanced += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_request_is_sent_as_the_protocol_has_it_and_its_reply_is_given(chat_server: ChatServer) -> None:
    requests = Request(
        (Message("system", "Be short."), Message("user", "Hé 工具?"), Message("assistant", "?")), 0.7, 0.9, 50, sample=3
    )
    (reply,) = LanguageModel("m").complete([requests])
    assert reply == Reply("reply to: ?", input_tokens=5, output_tokens=3, finish="stop", from_journal=False)
    assert chat_server.requests == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "Hé 工具?"},
                {"role": "assistant", "content": "?"},
            ],
            "temperature": 0.7,
            "top_p": 0.9,
            "max_tokens": 50,
        }
    ]
    assert chat_server.keys == ["Bearer sk-of-the-test"]


def test_replies_come_in_the_order_of_the_requests_whichever_is_first(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "8")
    # The earlier, the later its answer.
    waits = {f"p{i}": 0.02 * (12 - i) for i in range(12)}

    def answer(body: dict[str, Any]) -> str:
        prompt = body["messages"][-1]["content"]
        time.sleep(waits[prompt])
        return f"to {prompt}"

    chat_server.answer = answer
    assert [reply.text for reply in ask(*waits)] == [f"to p{i}" for i in range(12)]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_calls_are_under_way_than_allowed(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, concurrency: int
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", str(concurrency))
    chat_server.answer = lambda body: time.sleep(0.03) or "yes"
    ask(*map(str, range(9)))
    assert chat_server.most_at_once == concurrency


def test_equal_requests_are_one_call_and_another_sample_or_setting_is_another(
    chat_server: ChatServer, ask: Ask
) -> None:
    assert [reply.text for reply in ask("a", "b", "a")] == ["reply to: a", "reply to: b", "reply to: a"]
    assert sorted(chat_server.prompts) == ["a", "b"]
    for settings in ({"sample": 1}, {"temperature": 1.0}, {"top_p": 0.5}, {"max_tokens": 7}, {"model": "other"}):
        assert not ask("a", **settings).from_journal
        assert ask("a", **settings).from_journal
    assert len(chat_server.requests) == 7


def test_the_key_of_a_request_hangs_on_its_content_alone() -> None:
    one = request("p", temperature=1)
    assert request_key("m", one) == request_key("m", request("p", temperature=1.0))
    others = [
        request_key("other", one),
        request_key("m", replace(one, messages=(Message("system", "p"),))),
        request_key("m", replace(one, messages=(Message("user", "p "),))),
        request_key("m", replace(one, messages=(*one.messages, Message("user", "")))),
        *(request_key("m", replace(one, **of(name, 0.5))) for name in ("temperature", "top_p")),
        *(request_key("m", replace(one, **of(name, 9))) for name in ("max_tokens", "sample")),
    ]
    assert len({*others, request_key("m", one)}) == len(others) + 1
    # A key of today must find today's journals tomorrow.
    assert request_key("m", Request((Message("user", "é"),))) == (
        "b6c7234cc47980e2eaa62a113913710f61befcb0ef82ab151362bda2743920c8"
    )


def test_an_answered_request_is_answered_from_the_journal(chat_server: ChatServer, ask: Ask) -> None:
    first = ask("a")
    again = ask("a")
    assert again == replace(first, from_journal=True)
    assert len(chat_server.requests) == 1


def test_a_reply_may_hold_any_text(chat_server: ChatServer, ask: Ask) -> None:
    said = "ä\u2028b\x85c\r\nd\0e\t\"'\\ 工具 😀 \x1b[31m"
    chat_server.answer = lambda body: said
    assert [ask("a").text, ask("a").text] == [said, said]


def test_half_a_surrogate_pair_is_replaced_on_both_ways(chat_server: ChatServer, ask: Ask) -> None:
    chat_server.answer = lambda body: "x\ud83dy"
    assert ask("a\ude00b").text == "x\ufffdy"
    assert chat_server.prompts == ["a\ufffdb"]
    assert ask("a\ude00b").from_journal


def test_an_endpoint_that_counts_in_completion_tokens_is_asked_in_its_words(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "2")
    no = status(400, "use another", code="unsupported_parameter", param="max_tokens")
    chat_server.fault = lambda exchange: (
        no(exchange) if "max_tokens" in exchange.body else exchange.send(exchange.reply)
    )
    model = LanguageModel("m")
    replies = model.complete([request("a", max_tokens=9), request("b", max_tokens=9)])
    assert [isinstance(reply, Reply) for reply in replies] == [True, True]
    # It is asked so from then on.
    before = len(chat_server.requests)
    model.complete([request("c", max_tokens=9)])
    (body,) = chat_server.requests[before:]
    assert body["max_completion_tokens"] == 9
    # An endpoint that takes neither is told of.
    chat_server.fault = no
    with pytest.raises(UsageError, match=r"takes no limit of a reply's length \(use another\)\."):
        LanguageModel("m").complete([request("d")])


def test_a_temperature_that_a_model_does_not_take_is_left_out(chat_server: ChatServer) -> None:
    no = status(400, "only the default", code="unsupported_value", param="temperature")
    chat_server.fault = lambda exchange: (
        no(exchange) if "temperature" in exchange.body else exchange.send(exchange.reply)
    )
    model = LanguageModel("m")
    for text in "ab":
        (reply,) = model.complete([request(text)])
        assert isinstance(reply, Reply)
        assert reply.text == f"reply to: {text}"
    assert ["temperature" in body for body in chat_server.requests] == [True, False, False]
    chat_server.fault = no
    with pytest.raises(UsageError, match=r"takes no temperature \(only the default\)\."):
        LanguageModel("m").complete([request("c")])


# Replay -------------------------------------------------------------------------------------------------------------

REPLAY = """
import json, socket, sys
from bench.models.llm import LanguageModel, Message, Request

def refuse(*arguments, **more):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
model = LanguageModel("m")
model.preflight()
answers = model.complete([Request((Message("user", f"p{i}"),)) for i in range(6)])
print(json.dumps([vars(answer) for answer in answers]), model.identity)
assert "openai" not in sys.modules
assert "httpx" not in sys.modules and "httpx2" not in sys.modules
"""


@pytest.mark.parametrize("way", ["offline", "no endpoint"])
def test_a_recorded_run_replays_without_a_network_and_without_openai(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path, process: Any, way: str
) -> None:
    # Replies, a refusal, and a request that the endpoint failed to the last try.
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    chat_server.faults.extend([None, message(refusal="no"), *[status(500)] * 6])
    recorded = ask(*(f"p{i}" for i in range(6)))
    assert [type(answer) for answer in recorded] == [Reply, Failure, Failure, Reply, Reply, Reply]
    url = chat_server.url
    chat_server.close()
    monkeypatch.delenv("BENCH_LLM_KEY")
    if way == "offline":
        monkeypatch.setenv("BENCH_OFFLINE", "1")
    else:
        monkeypatch.delenv("BENCH_LLM_URL")
    before = journal.read_bytes()
    # Not even a lock is needed.
    Path(f"{journal}.lock").unlink()
    journal.chmod(0o444)
    running: subprocess.Popen[str] = process(REPLAY)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    expected = [
        vars(replace(answer, from_journal=True) if isinstance(answer, Reply) else answer) for answer in recorded
    ]
    assert out == f"{json.dumps(expected)} m at {url}\n"
    assert journal.read_bytes() == before
    assert not Path(f"{journal}.lock").exists()


def test_offline_a_reply_that_is_not_recorded_is_named(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    ask("a")
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert ask("a").from_journal
    long = "What is the\nweather in " + "a" * 100
    with pytest.raises(UnavailableError) as raised:
        ask("a", long, "c", sample=0)
    assert str(raised.value) == (
        f"the journal {journal} lacks 2 of the replies of m, the first to 'What is the weather in {'a' * 56}…' "
        "(sample 0), and bench is offline (--offline or BENCH_OFFLINE). Go online, or name the recorded journal in "
        "BENCH_LLM_JOURNAL."
    )
    assert len(chat_server.requests) == 1


def test_a_request_that_was_given_up_is_asked_again_when_there_is_an_endpoint(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    chat_server.faults.extend([status(503, "busy")] * 6)
    failure = ask("a")
    assert failure == Failure("the endpoint answered 503: busy (gave up after 6 tries)")
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert ask("a") == failure
    monkeypatch.delenv("BENCH_OFFLINE")
    assert ask("a").text == "reply to: a"
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert ask("a").text == "reply to: a"


@pytest.mark.parametrize(
    ("fault", "reason", "tokens"),
    [
        (message(refusal="I will not\nhelp"), "the model refused: I will not help", (1, 3)),
        *(
            (finish(reason), "the endpoint's filter withheld the reply", (1, 3))
            for reason in ("content_filter", "content-filter: SAFETY", "SAFETY", "guardrail_intervened")
        ),
        *(
            (status(number, said, code=code), f"the endpoint's filter refused the request: {said}", (0, 0))
            for number, said, code in (
                (400, "try another prompt", "content_filter"),
                (400, "flagged as potentially violating our usage policy", "invalid_prompt"),
                (403, "moderation is required and your input was flagged", None),
            )
        ),
    ],
)
def test_what_is_refused_has_its_tokens_and_is_not_asked_again(
    chat_server: ChatServer, ask: Ask, fault: Fault, reason: str, tokens: tuple[int, int]
) -> None:
    chat_server.faults.append(fault)
    for failure in (ask("a"), ask("a")):
        assert failure == Failure(reason)
        assert failure.filtered
        assert (failure.input_tokens, failure.output_tokens) == tokens
    assert len(chat_server.requests) == 1


# Tools that an endpoint does not take ---------------------------------------------------------------------------------

TOOLS = (ToolDefinition("find", "finds", '{"type": "object", "properties": {}}'),)
NO_LIST = "If the endpoint takes no tool calls, ask for a list of names: --form json (in a spec, form=json)."


def without(number: int, body: Any, name: str = "tool_choice") -> Fault:
    """This answer to a request that has a field, and a good one without it."""
    return lambda exchange: exchange.send(body, number) if name in exchange.body else exchange.send(exchange.reply)


@pytest.mark.parametrize(
    "fault",
    [
        without(400, {"error": {"message": "no", "param": "tool_choice", "code": "unsupported_parameter"}}),
        without(400, {"error": "unknown field tool_choice"}),
        without(404, {"error": {"message": "no endpoint supports the provided 'tool_choice' value"}}),
        without(422, {"detail": [{"loc": ["body", "tool_choice"], "msg": "extra fields not permitted"}]}),
        without(500, {"error": {"message": "Unsupported param: tool_choice"}}),
    ],
)
def test_who_takes_no_tool_choice_is_asked_without_it(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    chat_server.fault, chat_server.calls = fault, lambda body: [("find", "{}")]
    notes = Notes()
    asked = [request(text, tools=TOOLS) for text in "abc"]
    replies = LanguageModel("m", progress=notes).complete(asked[:2])
    # Another model of the same process knows it, and the journal has the replies under the keys that they always had.
    replies += LanguageModel("m").complete(asked)
    assert [reply.calls[0].name for reply in replies if isinstance(reply, Reply)] == ["find"] * 5
    assert ["tool_choice" in body for body in chat_server.requests] == [True, False, False, False]
    assert notes.notes == [f"{chat_server.url} takes no tool_choice, and is asked without it. {NO_LIST}"]
    chat_server.fault = status(500)
    again = LanguageModel("m").complete(asked)
    assert [reply.from_journal for reply in again if isinstance(reply, Reply)] == [True] * 3


@pytest.mark.parametrize(
    ("number", "body", "requests"),
    [
        (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice to be set'}, 2),
        (500, {"error": {"message": "tools param requires --jinja flag"}}, 2),
        (400, {"error": {"message": "gemma does not support tools"}}, 1),
    ],
)
def test_who_takes_no_tools_at_all_ends_the_run_with_the_way_on(
    chat_server: ChatServer, number: int, body: Any, requests: int
) -> None:
    chat_server.fault = without(number, body, "tools")
    with pytest.raises(UsageError) as raised:
        LanguageModel("m").complete([request("a", tools=TOOLS)])
    assert str(raised.value).endswith(f"). {NO_LIST}")
    assert len(chat_server.requests) == requests
    # Without tools there is nothing to say of them.
    chat_server.fault = status(400, "a tool of ours is broken")
    with pytest.raises(UsageError, match=r"\(a tool of ours is broken\)\.$"):
        LanguageModel("m").complete([request("a")])


# Preflight and identity ---------------------------------------------------------------------------------------------


def test_without_an_endpoint_and_without_a_recorded_reply_the_preflight_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    end = "Name an endpoint in BENCH_LLM_URL (its key in BENCH_LLM_KEY), or a recorded journal in BENCH_LLM_JOURNAL."
    place = tmp_path / "llm" / "journal.jsonl"
    with pytest.raises(UnavailableError) as raised:
        LanguageModel("m").preflight()
    assert str(raised.value) == (
        "cannot call m: bench is offline (--offline or BENCH_OFFLINE), and the journal "
        f"{place} has no reply from it. {end}"
    )
    monkeypatch.delenv("BENCH_OFFLINE")
    with pytest.raises(UnavailableError, match="no endpoint is named"):
        LanguageModel("m").preflight()
    # A key without an address is nobody's.
    monkeypatch.setenv("BENCH_LLM_KEY", "k")
    with pytest.raises(UnavailableError, match="no endpoint is named"):
        LanguageModel("m").preflight()
    assert not place.parent.exists()


def test_the_preflight_calls_nobody(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    LanguageModel("m").preflight()
    assert chat_server.requests == []
    ask("a")
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    LanguageModel("m").preflight()
    with pytest.raises(UnavailableError, match="has no reply from it"):
        LanguageModel("other").preflight()


def test_the_identity_is_model_and_endpoint_and_survives_a_replay(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    url = chat_server.url
    assert LanguageModel("m").identity == f"m at {url}"
    ask("a")
    monkeypatch.delenv("BENCH_LLM_URL")
    assert LanguageModel("m").identity == f"m at {url}"
    assert LanguageModel("other").identity == "other at no endpoint"
    monkeypatch.delenv("BENCH_LLM_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert LanguageModel("m").identity == "m at https://api.openai.com/v1"


def test_a_journal_of_several_endpoints_keeps_the_identity_where_the_address_is_named(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    ask("a")
    first, second = chat_server.url, chat_server.url.replace("127.0.0.1", "localhost")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("BENCH_LLM_URL", second)
    ask("a", "b")
    # The endpoint that is asked for what the journal lacks; the journal's own are told in a note.
    identity = LanguageModel("m").identity
    assert identity == f"m at {second}"
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert LanguageModel("m").identity == identity
    # Without an address nothing says which of them is meant.
    monkeypatch.delenv("BENCH_LLM_URL")
    assert LanguageModel("m").identity == f"m at {', '.join(sorted([first, second]))}"
    assert all(reply.from_journal for reply in ask("a", "b"))


def test_replies_made_elsewhere_are_used_and_said_once(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    ask("a", "b")
    notes = Notes()
    LanguageModel("m", progress=notes).complete([request("a")])
    assert notes.notes == []
    monkeypatch.setenv("BENCH_LLM_URL", "http://127.0.0.1:9/v1")
    model = LanguageModel("m", progress=notes)
    for _ in range(2):
        replies = [getattr(reply, "text", reply) for reply in model.complete([request("a"), request("b")])]
        assert replies == ["reply to: a", "reply to: b"]
    assert notes.notes == [
        f"replies of m are taken from the journal {journal}, where {chat_server.url} made them, not "
        "http://127.0.0.1:9/v1; name another file in BENCH_LLM_JOURNAL to ask again"
    ]


# What is counted ----------------------------------------------------------------------------------------------------


def test_calls_tokens_failures_and_cost_are_counted_once_for_each_request(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    requests = [request("one two"), request("no"), request("three four five")]
    chat_server.faults.extend([None, message(refusal="no", content=None)])
    model = LanguageModel("m")
    model.complete(requests)
    model.complete(requests)
    # Words in, words out; the refused one was charged for too: 1 in, 3 out.
    expected = {"failures": 1, "input_tokens": 2 + 1 + 3, "output_tokens": 4 + 3 + 5, "estimated": 0}
    assert vars(model.usage) == {"calls": 3, "from_journal": 0, "cost": None, **expected}
    monkeypatch.setenv("BENCH_LLM_PRICE", "2/10")
    again = LanguageModel("m")
    again.complete(requests)
    assert vars(again.usage) == {
        "calls": 0,
        "from_journal": 3,
        "cost": pytest.approx((6 * 2 + 12 * 10) / 1e6),
        **expected,
    }


def test_waiting_is_reported(chat_server: ChatServer) -> None:
    notes = Notes()
    model = LanguageModel("m", progress=notes)
    model.complete([request("a"), request("b")])
    model.complete([request("a"), request("b"), request("c")])
    model.complete([request("a")])
    assert notes.stages == [("ask m", 2, "requests"), ("ask m", 1, "requests")]
    assert notes.advanced == 3


# Ctrl-C -------------------------------------------------------------------------------------------------------------

INTERRUPTED = """
import sys, time
from bench.models.llm import LanguageModel, Message, Request
try:
    LanguageModel("m").complete([Request((Message("user", f"p{i}"),)) for i in range(8)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_at_once_and_loses_nothing_that_was_answered(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    import signal

    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "4")
    # Three are answered; the others hang, much longer than a test may.
    chat_server.faults.extend([None] * 3)
    chat_server.fault = hang()
    running = Forked(INTERRUPTED)
    until = time.monotonic() + 30
    while not (journal.is_file() and journal.read_bytes().count(b"\n") == 3 and len(chat_server.requests) == 7):
        assert time.monotonic() < until
        time.sleep(0.01)
    started = time.monotonic()
    running.signal(signal.SIGINT)
    code, out, err = running.wait()
    assert time.monotonic() - started < 5
    assert (out, code) == ("interrupted\n", 0), err
    chat_server.fault = None
    before = len(chat_server.requests)
    answers = ask(*(f"p{i}" for i in range(8)))
    assert sum(answer.from_journal for answer in answers) == 3
    assert len(chat_server.requests) == before + 5


def test_it_may_be_used_from_several_threads(chat_server: ChatServer) -> None:
    model = LanguageModel("m")
    collected: list[list[Any]] = []
    requests = [request(f"p{i}") for i in range(6)]
    threads = [threading.Thread(target=lambda: collected.append(model.complete(requests))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [[reply.text for reply in replies] for replies in collected] == [[f"reply to: p{i}" for i in range(6)]] * 3

"""Anthropic's and Gemini's own APIs, by their packages, against servers that speak them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import Body, ChatServer, Fault, changed, drop, flood, hang, raw, status
from kit.providerservers import AnthropicServer, GeminiServer

from bench.base.errors import UnavailableError, UsageError
from bench.models.llm import Failure, LanguageModel, Message, Request, transport
from bench.models.llm.messages import ToolCall, ToolDefinition, request_key

Provider = tuple[str, ChatServer]
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
URLS = {"anthropic": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
PACKAGES = {"anthropic": "anthropic", "gemini": "google.genai"}
KEY = "sk-ant-of-the-test"


def installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(params=list(KEYS))
def provider(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, isolated: None
) -> Iterator[Provider]:
    """The name of a provider, and its server."""
    name = request.param
    if not installed(PACKAGES[name]):
        pytest.skip(f"{PACKAGES[name]} is not installed")
    server = AnthropicServer() if name == "anthropic" else GeminiServer()
    monkeypatch.setenv(URLS[name], server.url)
    monkeypatch.setenv(KEYS[name], KEY)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "10")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("BENCH_OFFLINE", raising=False)
    monkeypatch.setattr(transport, "FIRST_WAIT", 0.001)
    yield name, server
    server.close()


def asked(model: LanguageModel, request: Request) -> Any:
    (answer,) = model.complete([request])
    return answer


def ask(provider: Provider, text: str = "hello", **more: Any) -> Any:
    return asked(LanguageModel(f"{provider[0]}:m-1"), Request((Message("user", text),), **more))


TOOLS = (
    ToolDefinition("find_flight", "finds a flight", '{"type": "object", "properties": {"to": {"type": "string"}}}'),
    ToolDefinition("3d_print", "prints", '{"type": "object", "properties": {}}'),
)


# What is sent and read ----------------------------------------------------------------------------------------------


def test_a_reply_is_read_and_replayed_without_the_network(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, server = provider
    model = LanguageModel(f"{name}:m-1")
    model.preflight()
    talk = Request(
        (Message("system", "be brief"), Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    )
    reply = asked(model, talk)
    assert (reply.text, reply.finish, reply.calls, reply.from_journal) == ("reply to: c", "stop", (), False)
    # Anthropic's input tokens are those outside the cache: 10 + 3 written + 2 read. Gemini's output has its thoughts.
    counted = (reply.input_tokens, reply.cached_tokens, reply.output_tokens)
    assert counted == ((15, 2, 7) if name == "anthropic" else (20, 4, 11))
    assert KEY in server.keys[0]
    assert model.identity == f"{name}:m-1 at {server.url}"
    journal = (tmp_path / "journal.jsonl").read_text()
    assert KEY not in journal
    assert f'"model":"{name}:m-1"' in journal
    server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    again = asked(LanguageModel(f"{name}:m-1"), talk)
    assert again.from_journal
    assert (again.text, again.cached_tokens) == (reply.text, reply.cached_tokens)


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
def test_what_anthropic_gets(provider: Provider) -> None:
    server = provider[1]
    ask(provider, tools=TOOLS, reply_schema='{"type": "object"}', max_tokens=99)
    assert server.requests == [
        {
            "model": "m-1",
            "max_tokens": 99,
            "temperature": 0.0,
            "messages": [{"role": "user", "content": "hello"}],
            "tools": [
                {
                    "name": "find_flight",
                    "description": "finds a flight",
                    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
                },
                {"name": "3d_print", "description": "prints", "input_schema": {"type": "object", "properties": {}}},
            ],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        }
    ]


@pytest.mark.parametrize("provider", ["gemini"], indirect=True)
def test_what_gemini_gets(provider: Provider) -> None:
    server = provider[1]
    ask(provider, tools=TOOLS, reply_schema='{"type": "object"}', max_tokens=99)
    (body,) = server.requests
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]
    assert body["generationConfig"] == {
        "temperature": 0.0,
        "maxOutputTokens": 99,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }
    declared = body["tools"][0]["functionDeclarations"]
    # Gemini wants a letter or `_` first.
    assert [tool["name"] for tool in declared] == ["find_flight", "_3d_print"]
    assert {"type": "object", "properties": {"to": {"type": "string"}}} in declared[0].values()


def test_calls_have_the_names_that_the_tools_had(provider: Provider) -> None:
    name, server = provider

    def calls(body: Body) -> list[tuple[str, str]]:
        tools = body["tools"] if name == "anthropic" else body["tools"][0]["functionDeclarations"]
        return [(tool["name"], '{"to": "Rome"}') for tool in tools] + [("no_such", "{}")]

    server.calls = calls
    reply = ask(provider, tools=TOOLS)
    assert reply.calls == (
        ToolCall("find_flight", '{"to": "Rome"}'),
        ToolCall("3d_print", '{"to": "Rome"}'),
        ToolCall("no_such", "{}"),
    )
    assert (reply.text, reply.finish) == ("", "stop")


@pytest.mark.parametrize("provider", ["gemini"], indirect=True)
def test_names_that_become_equal_stay_two(provider: Provider) -> None:
    server = provider[1]
    tools = tuple(ToolDefinition(one, "", '{"type": "object"}') for one in ("3d", "_3d", "__3d"))
    server.calls = lambda body: [(tool["name"], "{}") for tool in body["tools"][0]["functionDeclarations"]]
    assert [call.name for call in ask(provider, tools=tools).calls] == ["3d", "_3d", "__3d"]
    declared = server.requests[0]["tools"][0]["functionDeclarations"]
    assert [tool["name"] for tool in declared] == ["___3d", "_3d", "__3d"]


def cut(name: str) -> Fault:
    def change(body: Body) -> None:
        if name == "anthropic":
            body["stop_reason"] = "max_tokens"
        else:
            body["candidates"][0]["finishReason"] = "MAX_TOKENS"

    return changed(change)


def test_a_reply_cut_short_says_so(provider: Provider) -> None:
    provider[1].faults.append(cut(provider[0]))
    assert ask(provider).finish == "length"


def stopped(reason: str) -> Fault:
    """A good answer of Gemini that ended for another reason."""
    return changed(lambda body: body["candidates"][0].update(finishReason=reason))


CUT: dict[str, list[tuple[Fault, tuple[int, int, int]]]] = {
    "anthropic": [
        (changed(lambda body: body.update(stop_reason="refusal", content=[])), (15, 2, 7)),
        (changed(lambda body: body.update(stop_reason="refusal")), (15, 2, 7)),
        (status(400, "Output blocked by content filtering policy", type="invalid_request_error"), (0, 0, 0)),
    ],
    "gemini": [
        (raw(b'{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}'), (9, 0, 0)),
        *(
            (stopped(reason), (20, 4, 11))
            for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
        ),
    ],
}


def test_a_reply_that_a_filter_cut_fails_the_query_and_has_its_tokens(provider: Provider) -> None:
    name, server = provider
    for number, (fault, tokens) in enumerate(CUT[name]):
        server.faults.append(fault)
        failure = ask(provider, f"text {number}")
        assert isinstance(failure, Failure)
        assert (failure.filtered, failure.estimated) == (True, False)
        assert (failure.input_tokens, failure.cached_tokens, failure.output_tokens) == tokens
        # From the journal, too.
        assert vars(ask(provider, f"text {number}")) == vars(failure)
    assert len(server.requests) == len(CUT[name])


def test_a_part_of_an_unknown_kind_is_named(provider: Provider) -> None:
    name, server = provider
    parts = {"anthropic": {"type": "hologram"}, "gemini": {"hologram": {}, "thoughtSignature": "x"}}

    def add(body: Body) -> None:
        (body["content"] if name == "anthropic" else body["candidates"][0]["content"]["parts"]).append(parts[name])

    server.faults.append(changed(add))
    failure = ask(provider)
    assert failure == Failure("the reply has a part of a kind that bench does not know (hologram)")
    assert failure.output_tokens > 0


def test_who_refuses_tools_is_told_of_lists(provider: Provider) -> None:
    provider[1].fault = status(400, "Function calling is not enabled for this model")
    with pytest.raises(UsageError, match=r"not enabled for this model\)\. .* ask for a list of names: --form json"):
        ask(provider, tools=TOOLS)
    assert len(provider[1].requests) == 1


@pytest.mark.parametrize("number", [-3, 10**12, True, "7", None, 1.5])
def test_absurd_counts_of_tokens_become_upper_bounds(provider: Provider, number: Any) -> None:
    name, server = provider

    def change(body: Body) -> None:
        if name == "anthropic":
            body["usage"]["input_tokens"] = number
        else:
            body["usageMetadata"]["promptTokenCount"] = number

    server.faults.append(changed(change))
    reply = ask(provider, max_tokens=50)
    assert (reply.cached_tokens, reply.output_tokens, reply.estimated) == (0, 50, True)
    assert 0 < reply.input_tokens < 1000


# What goes wrong ----------------------------------------------------------------------------------------------------


def test_429_is_tried_again_after_the_time_that_it_asks_for(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, server = provider
    waited: list[float] = []
    monkeypatch.setattr(
        transport.Transport,
        "_wait_for",
        staticmethod(lambda seconds, stop: waited.append(seconds) if seconds else None),
    )
    if name == "anthropic":
        server.faults += [status(429, "slow down", {"retry-after": "7"}, type="rate_limit_error")]
    else:
        detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
        server.faults += [status(429, "slow down", status="RESOURCE_EXHAUSTED", details=[detail])]
    assert ask(provider).text == "reply to: hello"
    assert len(server.requests) == 2
    assert any(seconds >= 7 for seconds in waited)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (status(503, "busy"), "the endpoint answered 503: busy"),
        (status(529, "overloaded"), "the endpoint answered 529: overloaded"),
        (raw(b"<html>", 502), "the endpoint answered 502"),
        (drop(), "the connection broke"),
        (drop(after=20), "the connection broke in the middle of the reply"),
        (raw(b"{"), "the reply is not JSON"),
        (raw(b"[]"), "the reply "),
        (raw(b"null"), "the reply "),
        (raw(b'{"content": "text", "candidates": "text"}'), "the reply has no c"),
        (raw(b'{"content": [1], "candidates": [1]}'), "the reply has no c"),
        (
            raw(b'{"content": [{"type": "text", "text": 5}], "candidates": [{"content": {"parts": [{"text": 5}]}}]}'),
            "the content of the reply is not text",
        ),
        (
            raw(b'{"content": [{"type": "tool_use"}], "candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}'),
            "a tool call of the reply has no name",
        ),
        (raw(b'{"candidates": [{"content": {"parts": 7}}], "content": null}'), "the reply has no "),
    ],
)
def test_trouble_is_tried_again_and_then_fails_the_query(provider: Provider, fault: Fault, said: str) -> None:
    server = provider[1]
    server.fault = fault
    answer = ask(provider)
    assert isinstance(answer, Failure)
    assert said.removesuffix("c") in answer.reason
    assert answer.reason.endswith("(gave up after 6 tries)")
    assert len(server.requests) == 6


def test_bodies_of_errors_are_no_reason_to_fall(provider: Provider) -> None:
    for body in (b"[" * 60_000, b"\xff\xfe", b"[1, 2]", b'"text"', b'{"error": "text"}', b'{"error": {"details": 5}}'):
        provider[1].faults.append(raw(body, 500))
    assert isinstance(ask(provider), Failure)
    assert len(provider[1].requests) == 6


def test_a_server_that_hangs_is_not_waited_for(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "0.3")
    monkeypatch.setattr(transport, "TRIES", 2)
    provider[1].fault = hang()
    assert ask(provider) == Failure("no whole reply within 0.3 s (gave up after 2 tries)")


@pytest.mark.parametrize("code", [200, 500])
def test_a_flood_is_not_read(provider: Provider, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LARGEST_BODY", 1 << 20)
    monkeypatch.setattr(transport, "TRIES", 1)
    provider[1].fault = flood(code)
    said = "the reply is longer than 1 MiB" if code == 200 else "the endpoint answered 500"
    assert said in ask(provider).reason
    assert provider[1].flooded < 64 << 20


@pytest.mark.parametrize("code", [401, 403])
def test_a_wrong_key_ends_the_run_with_the_name_of_its_variable(provider: Provider, code: int) -> None:
    name, server = provider
    server.fault = status(code, f"invalid x-api-key {KEY}", type="authentication_error")
    with pytest.raises(UnavailableError) as raised:
        ask(provider)
    assert str(raised.value) == (
        f"{server.url} refused the key with {code} (invalid x-api-key [the key]); set {KEYS[name]}."
    )
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (status(404, "model: m-1"), UsageError, "answered 404 (model: m-1); check the model's name, and "),
        (status(400, "bad field"), UsageError, "refused the request with 400 (bad field)."),
        (status(402, "pay"), UnavailableError, "reports that no credit is left (pay)."),
    ],
)
def test_what_no_other_request_would_pass_ends_the_run(
    provider: Provider, fault: Fault, error: type[Exception], said: str
) -> None:
    provider[1].fault = fault
    with pytest.raises(error, match=r"\.$") as raised:
        ask(provider)
    assert said in str(raised.value)
    assert len(provider[1].requests) == 1


OWN: dict[str, list[tuple[Fault, type[Exception] | None, str]]] = {
    "anthropic": [
        (
            status(400, "Your credit balance is too low to access the API.", type="invalid_request_error"),
            UnavailableError,
            "no credit is left",
        ),
        (status(400, "prompt is too long: 9 tokens > 8 maximum"), None, "exceeds the context length"),
        (status(413, "too many bytes", type="request_too_large"), None, "exceeds the context length"),
    ],
    "gemini": [
        (
            status(400, "API key not valid.", status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]),
            UnavailableError,
            "refused the key with 400 (API key not valid); set GEMINI_API_KEY.",
        ),
        (status(400, "The input token count (9) exceeds the maximum (8)."), None, "exceeds the context length"),
    ],
}


def test_what_a_provider_says_in_its_own_words(provider: Provider) -> None:
    name, server = provider
    for fault, error, said in OWN[name]:
        server.fault = fault
        if error is None:
            assert said in ask(provider, said).reason
        else:
            with pytest.raises(error) as raised:
                ask(provider, said)
            assert said in str(raised.value)


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
def test_a_temperature_that_a_model_does_not_take_is_left_out(provider: Provider) -> None:
    server = provider[1]
    no = status(400, "`temperature` is deprecated for this model.", type="invalid_request_error")
    server.faults += [no]
    model = LanguageModel("anthropic:m-1")
    for text in "ab":
        assert asked(model, Request((Message("user", text),))).text == f"reply to: {text}"
    assert ["temperature" in body for body in server.requests] == [True, False, False]
    server.fault = no
    with pytest.raises(UsageError, match="takes no temperature"):
        model.complete([Request((Message("user", "c"),))])


# Names and settings -------------------------------------------------------------------------------------------------


def test_without_a_key_a_sentence_says_so(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    name, server = provider
    monkeypatch.delenv(KEYS[name])
    monkeypatch.delenv(URLS[name])
    with pytest.raises(UnavailableError) as raised:
        LanguageModel(f"{name}:m-1").preflight()
    assert f"cannot call {name}:m-1: {KEYS[name]} is not set" in str(raised.value)
    assert str(raised.value).endswith(f"Set {KEYS[name]}, or name a recorded journal in BENCH_LLM_JOURNAL.")
    assert server.requests == []


def test_prices_and_the_limit_hold(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/1000000")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "3")
    with pytest.raises(UnavailableError, match="of the limit of 3 is spent"):
        ask(provider)
    assert provider[1].requests == []


def test_the_environment_of_the_package_changes_nothing(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-secret")
    monkeypatch.setenv("GOOGLE_API_KEY", "another-secret")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    assert ask(provider).text == "reply to: hello"
    assert KEY in provider[1].keys[0]


@pytest.mark.parametrize("name", KEYS)
def test_a_name_without_a_model_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"write {name}:MODEL"):
        LanguageModel(f"{name}:")


def test_keys_of_requests_to_other_endpoints_are_as_they_were() -> None:
    # From journals of before there were other providers.
    tools = (ToolDefinition("t", "d", "{}"),)
    assert request_key("m", Request((Message("user", "a"),), tools=tools)) == (
        "026d05cc1e25557b4fb061dcb47cd7ea8f5b25f74183bd505447f7c2665c1a73"
    )
    assert request_key("m", Request((Message("user", "a"),))) == (
        "4c4447fe9f0b13ff4ff069883fb06cea86e68c4d51a6dc7bf9a4d9674af692ea"
    )

"""Requests, replies and failures of language models."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.show.numbers import money

Role = Literal["system", "user", "assistant"]

#: Part of every key: a change of what a key is made of must not find old answers.
_KEY_VERSION = 1


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True)
class ToolDefinition:
    """A tool that a model may call.

    Attributes:
        name: as the provider allows it: 1 to 64 letters, digits, `_` and `-`.
        description: what it does.
        parameters: a JSON Schema of its arguments, as JSON.
    """

    name: str
    description: str
    parameters: str


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asks for; neither the name nor the arguments (JSON, as a rule) are checked."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Request:
    """One request for one reply.

    Attributes:
        messages: the conversation, oldest message first.
        temperature, top_p, max_tokens: as the chat-completions protocol has them.
        sample: which draw of the same prompt this is. It is not sent; it lets one prompt have several replies.
        tools: what the model may call, in the provider's own form.
        reply_schema: a JSON Schema, as JSON, that the text of the reply has to follow; empty for none.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    sample: int = 0
    tools: tuple[ToolDefinition, ...] = ()
    reply_schema: str = ""


@dataclass(frozen=True)
class Reply:
    """What the model said.

    Attributes:
        text: the content of the reply; blank only beside calls.
        input_tokens, output_tokens: as the endpoint counted them; upper bounds where its count is missing or absurd.
        finish: why the model stopped: `stop`, or `length` for a reply cut short at `max_tokens`.
        from_journal: True when no call was made for it.
        calls: the tools that it calls, in its order.
        cached_tokens: how many of the input tokens the endpoint had read before, by its own count.
        seconds: from sending the request that was answered to the end of the reply; None in journals that lack it.
        estimated: the endpoint counted no tokens, or absurdly; the counts are upper bounds.
    """

    text: str
    input_tokens: int
    output_tokens: int
    finish: str
    from_journal: bool
    calls: tuple[ToolCall, ...] = ()
    # How it was served is no part of what was said: two replies may be equal without it.
    cached_tokens: int = field(default=0, compare=False)
    seconds: float | None = field(default=None, compare=False)
    estimated: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Failure:
    """No reply: the model refused, or the endpoint failed to the last try. The query fails and the run goes on.

    Attributes:
        reason: why, in words.
        filtered: the model refused, or a content filter withheld or cut the reply.
        input_tokens, output_tokens, cached_tokens, estimated: what it took all the same, as of `Reply`; 0 if unknown.
    """

    reason: str
    filtered: bool = field(default=False, compare=False)
    input_tokens: int = field(default=0, compare=False)
    output_tokens: int = field(default=0, compare=False)
    cached_tokens: int = field(default=0, compare=False)
    estimated: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Usage:
    """What a `LanguageModel` was asked; a request counts once, however often it is made.

    Attributes:
        calls: requests put to the endpoint.
        from_journal: requests answered from the journal.
        failures: requests without a reply, of both kinds.
        input_tokens, output_tokens: of all the replies, those from the journal too.
        cost: of these tokens at today's prices; None without prices.
        estimated: requests whose tokens are upper bounds, since the endpoint did not count them.
    """

    calls: int
    from_journal: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated: int

    def __str__(self) -> str:
        paid = "" if self.cost is None else f", cost {money(self.cost)}"
        about = f" ({self.estimated} replies without counts of tokens: upper bounds)" if self.estimated else ""
        return f"{self.calls} calls, {self.from_journal} replies from the journal{paid}{about}"

    def to_dict(self) -> dict[str, Any]:
        """What was paid for, for JSON."""
        return {name: getattr(self, name) for name in ("calls", "from_journal", "cost", "estimated")}


def clean_text(text: str) -> str:
    """The text as UTF-8 can hold it: halves of surrogate pairs are joined, or replaced where the other is missing."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def describe_request(request: Request) -> dict[str, Any]:
    """The request as the journal records it: every text is valid Unicode.

    Of tools it has the names and the sha256 of their definitions, which may be longer than all else together.
    """
    described: dict[str, Any] = {
        "messages": [{"role": message.role, "content": clean_text(message.content)} for message in request.messages],
        "temperature": float(request.temperature),
        "top_p": float(request.top_p),
        "max_tokens": request.max_tokens,
        "sample": request.sample,
    }
    if request.tools:
        definitions = json.dumps([vars(tool) for tool in request.tools], sort_keys=True)
        described["tools"] = [tool.name for tool in request.tools]
        described["definitions"] = hashlib.sha256(definitions.encode()).hexdigest()
        described["tool_choice"] = "auto"
    if request.reply_schema:
        described["reply_schema"] = request.reply_schema
    return described


def request_key(model: str, request: Request, repeat: int = 1) -> str:
    """sha256 of all that makes a request what it is: model, messages, settings, sample, and the repeat of the run.

    Not the endpoint: a journal answers on a machine that has none, and a local server may change its port. Nor the
    first repeat: what a run without repeats was answered answers it, too.
    """
    content = {"version": _KEY_VERSION, "model": model, **describe_request(request)}
    if repeat > 1:
        content["repeat"] = repeat
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

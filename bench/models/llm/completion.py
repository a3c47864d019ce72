"""The chat-completions protocol: requests, maximum cost, and parsing of responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bench.base.text import one_line
from bench.models.llm.messages import Request, clean_text, describe_request
from bench.models.llm.transport import Malformed

#: Tokens that a model's template may put around a message, and before the first.
_PER_MESSAGE = 16
_PER_REQUEST = 64
_MOST_TOKENS = 10**9


@dataclass(frozen=True)
class Completion:
    """What came of a request: a reply, or a failure.

    Attributes:
        text: the content, or the reason of the failure.
        estimated: the endpoint counted no tokens, or absurdly.
        served: the model that the endpoint says has answered.
    """

    kind: Literal["reply", "refusal", "gave-up"]
    text: str
    finish: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    served: str = ""


def payload(model: str, request: Request, length_name: str) -> dict[str, Any]:
    """The arguments of `chat.completions.create`; `length_name` is what the endpoint calls `max_tokens`."""
    sent = describe_request(request)
    del sent["sample"]
    sent[length_name] = sent.pop("max_tokens")
    if sent["top_p"] == 1.0:
        # The protocol's default; some models refuse to be told.
        del sent["top_p"]
    return {"model": model, **sent}


def input_bound(request: Request) -> int:
    """The most tokens that the messages can be: every tokeniser in use takes at least a byte for a token."""
    sizes = (len(message["content"].encode()) + _PER_MESSAGE for message in describe_request(request)["messages"])
    return sum(sizes) + _PER_REQUEST


def read_completion(body: Any, request: Request) -> Completion:
    """Read a reply.

    Raises:
        Malformed: it is not what the protocol has.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise Malformed("the reply has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise Malformed("the reply has no message")
    content, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if not isinstance(content, str | None):
        raise Malformed("the content of the reply is not text")
    text = clean_text(content or "")
    finish = clean_text(finish) if isinstance(finish, str) else "unknown"
    reason = ""
    if isinstance(refusal, str) and refusal.strip():
        reason = f"the model refused: {one_line(refusal, 200)}"
    elif finish == "content_filter":
        reason = "the endpoint's filter withheld the reply"
    elif not text.strip():
        reason = f"the reply is empty (finish reason {finish})"
    input_tokens, output_tokens, estimated = _tokens(body.get("usage"), request, text)
    served = body.get("model")
    return Completion(
        kind="refusal" if reason else "reply",
        text=reason or text,
        finish=finish,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        estimated=estimated,
        served=clean_text(served)[:200] if isinstance(served, str) else "",
    )


def _tokens(usage: Any, request: Request, text: str) -> tuple[int, int, bool]:
    """Tokens in and out as the endpoint counted them; upper bounds where its count cannot be true."""
    counted = usage if isinstance(usage, dict) else {}
    given, made = counted.get("prompt_tokens"), counted.get("completion_tokens")
    # A truth value is an int to Python. No prompt is nothing; a short text may have hidden reasoning before it.
    if type(given) is int and type(made) is int and 0 < given <= _MOST_TOKENS and bool(text) <= made <= _MOST_TOKENS:
        return given, made, False
    return input_bound(request), request.max_tokens, True

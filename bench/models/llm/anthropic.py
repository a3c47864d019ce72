"""Anthropic's own API, through its package: `anthropic:MODEL`.

No part of a prompt is marked for its cache: to write it costs more than to read a prompt afresh, and tools in an order
of their own for each request are not read again.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any

from bench.models.llm.completion import ChatTransport, Completion, read_completion
from bench.models.llm.messages import Request, clean_text, describe_request
from bench.models.llm.settings import EndpointSettings, provider_settings
from bench.models.llm.transport import Malformed

#: Why it stopped, as chat completions say it (https://platform.claude.com/docs/en/api/messages).
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicTransport(ChatTransport):
    """The messages API (https://platform.claude.com/docs/en/api/messages)."""

    package = "anthropic"
    url_ends = ""

    @staticmethod
    def settings() -> EndpointSettings:
        """Settings from `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`."""
        return provider_settings("ANTHROPIC_BASE_URL", "https://api.anthropic.com", "ANTHROPIC_API_KEY")

    def _connect(self, key: str, http: Any) -> Any:
        import anthropic

        url, seconds = self._settings.url, self._settings.timeout
        return anthropic.Anthropic(api_key=key, base_url=url, http_client=http, max_retries=0, timeout=seconds)

    def _kinds(self) -> tuple[type[Exception], type[Exception], type[Exception]]:
        import anthropic

        return anthropic.APIStatusError, anthropic.APIConnectionError, anthropic.AnthropicError

    def _told(self, error: Any) -> dict[str, Any]:
        body = error.body if isinstance(error.body, dict) else {}
        told: Any = body.get("error") if isinstance(body.get("error"), dict) else body
        said, code, parameter = str(told.get("message") or ""), str(told.get("type")), ""
        if "credit balance" in said:
            code = "insufficient_quota"
        elif code == "request_too_large":
            code = "context_length_exceeded"
        elif "`temperature`" in said:
            # Models from Opus 4.7 take none.
            code, parameter = "unsupported_parameter", "temperature"
        return {"message": said, "code": code, "param": parameter}

    def _begin(
        self, client: Any, model: str, request: Request, unsupported: AbstractSet[str]
    ) -> AbstractContextManager[Any]:
        response: AbstractContextManager[Any] = client.messages.with_streaming_response.create(
            **_payload(model, request, unsupported)
        )
        return response

    def _read(self, body: Any, request: Request) -> Completion:
        return read_completion(_as_chat(body), request)


def _payload(model: str, request: Request, unsupported: AbstractSet[str]) -> dict[str, Any]:
    messages = describe_request(request)["messages"]
    sent: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": [message for message in messages if message["role"] != "system"],
    }
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    if system:
        sent["system"] = system
    if "temperature" not in unsupported:
        # It takes one of the two only, and versions of the package that know newer models only have neither.
        chosen = {"temperature": min(1.0, request.temperature)} if request.top_p == 1.0 else {"top_p": request.top_p}
        sent["extra_body"] = chosen
    if request.tools:
        sent["tools"] = [
            {
                "name": tool.name,
                "description": clean_text(tool.description),
                "input_schema": json.loads(tool.parameters),
            }
            for tool in request.tools
        ]
    if request.reply_schema:
        sent["output_config"] = {"format": {"type": "json_schema", "schema": json.loads(request.reply_schema)}}
    return sent


def _as_chat(body: Any) -> dict[str, Any]:
    """A reply as chat completions have it; raises `Malformed` where it cannot be turned into one."""
    blocks = body.get("content") if isinstance(body, dict) else None
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise Malformed("the reply has no content")
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed("the content of the reply is not text")
    calls = [
        {"function": {"name": block.get("name"), "arguments": json.dumps(block.get("input"))}}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    reason = body.get("stop_reason")
    usage: Any = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    # `input_tokens` are those that were neither read from the cache nor written to it.
    read = usage.get("cache_read_input_tokens") or 0
    given = [usage.get("input_tokens"), usage.get("cache_creation_input_tokens") or 0, read]
    counted = all(type(number) is int and number >= 0 for number in given)
    return {
        "model": body.get("model"),
        "choices": [
            {
                "message": {"content": "".join(texts), "tool_calls": calls or None},
                "finish_reason": _FINISH.get(reason, reason) if isinstance(reason, str) else None,
            }
        ],
        "usage": {
            "prompt_tokens": sum(given) if counted else None,
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": read},
        },
    }

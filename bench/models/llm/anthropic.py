"""Anthropic's own API, through its package: `anthropic:MODEL`.

No part of a prompt is marked for its cache: writing to the cache costs more than reading a prompt again, and tools
whose order differs per request are not read again.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any

from bench.models.llm.completion import ChatTransport, ReplyParts, declare_tools, split_system, total
from bench.models.llm.messages import Request
from bench.models.llm.settings import EndpointSettings, provider_settings
from bench.models.llm.transport import Malformed

#: Kinds of blocks in a reply; thoughts are not part of the text.
_BLOCKS = {"text", "tool_use", "thinking", "redacted_thinking"}


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
            # Models from Opus 4.7 on accept none.
            code, parameter = "unsupported_parameter", "temperature"
        return {"message": said, "code": code, "param": parameter}

    def _begin(
        self, client: Any, model: str, request: Request, unsupported: AbstractSet[str]
    ) -> AbstractContextManager[Any]:
        response: AbstractContextManager[Any] = client.messages.with_streaming_response.create(
            **_payload(model, request, unsupported)
        )
        return response

    def _read(self, body: Any, request: Request) -> ReplyParts:
        blocks = body.get("content") if isinstance(body, dict) else None
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise Malformed("the reply has no content")
        called = [block for block in blocks if block.get("type") == "tool_use"]
        usage: Any = body.get("usage") if isinstance(body.get("usage"), dict) else {}
        # `input_tokens` were neither read from the cache nor written to it.
        read = usage.get("cache_read_input_tokens") or 0
        return ReplyParts(
            served=body.get("model"),
            finish=body.get("stop_reason"),
            texts=[block.get("text") for block in blocks if block.get("type") == "text"],
            calls=[(block.get("name"), json.dumps(block.get("input"))) for block in called],
            given=total([usage.get("input_tokens"), usage.get("cache_creation_input_tokens") or 0, read]),
            made=usage.get("output_tokens"),
            cached=read,
            unknown=[str(block.get("type")) for block in blocks if block.get("type") not in _BLOCKS],
        )


def _payload(model: str, request: Request, unsupported: AbstractSet[str]) -> dict[str, Any]:
    system, messages = split_system(request)
    sent: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "messages": messages}
    if system:
        sent["system"] = system
    if "temperature" not in unsupported:
        # It accepts only one of the two, and package versions that only know newer models have neither.
        chosen = {"temperature": min(1.0, request.temperature)} if request.top_p == 1.0 else {"top_p": request.top_p}
        sent["extra_body"] = chosen
    if request.tools:
        sent["tools"] = declare_tools(request, "input_schema")
    if request.reply_schema:
        sent["output_config"] = {"format": {"type": "json_schema", "schema": json.loads(request.reply_schema)}}
    return sent

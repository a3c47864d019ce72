"""Gemini's own API, through Google's package: `gemini:MODEL`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from bench.models.llm.completion import FILTERED, ChatTransport, ReplyParts, declare_tools, split_system, total
from bench.models.llm.messages import Request
from bench.models.llm.settings import EndpointSettings, provider_settings
from bench.models.llm.transport import Malformed

#: Flags of a part, besides its content.
_ABOUT = {"thought", "thoughtSignature", "partMetadata"}


class GeminiTransport(ChatTransport):
    """`models.generateContent` (https://ai.google.dev/api/generate-content)."""

    package = "google.genai"
    url_ends = ""

    @staticmethod
    def settings() -> EndpointSettings:
        """Settings from `GEMINI_API_KEY` and `GOOGLE_GEMINI_BASE_URL`."""
        url = "https://generativelanguage.googleapis.com"
        return provider_settings("GOOGLE_GEMINI_BASE_URL", url, "GEMINI_API_KEY")

    def _connect(self, key: str, http: Any) -> Any:
        from google import genai

        options = genai.types.HttpOptions(base_url=self._settings.url, httpx_client=http)
        # Otherwise the environment may select another of Google's services.
        return genai.Client(vertexai=False, api_key=key, http_options=options)

    def _kinds(self) -> tuple[type[Exception], type[Exception], type[Exception]]:
        import httpx2
        from google.genai import errors

        # Connection errors are httpx2's; the package has its own for everything it refuses.
        return errors.APIError, httpx2.HTTPError, ValueError

    def _told(self, error: Any) -> dict[str, Any]:
        body = error.details if isinstance(error.details, dict) else {}
        told: Any = body.get("error") if isinstance(body.get("error"), dict) else body
        details = told.get("details")
        details = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
        wrong_key = any(one.get("reason") == "API_KEY_INVALID" for one in details)
        waits = [one["retryDelay"] for one in details if isinstance(one.get("retryDelay"), str)]
        return {
            "message": told.get("message"),
            "code": "invalid_api_key" if wrong_key else told.get("status"),
            "wait": waits[0].removesuffix("s") if waits else None,
        }

    def _begin(
        self, client: Any, model: str, request: Request, unsupported: AbstractSet[str]
    ) -> AbstractContextManager[Any]:
        return _streamed(client, _payload(model, request))

    def _read(self, body: Any, request: Request) -> ReplyParts:
        if not isinstance(body, dict):
            raise Malformed("the reply is no object")
        candidates, feedback = body.get("candidates"), body.get("promptFeedback")
        if not candidates and isinstance(feedback, dict) and feedback.get("blockReason"):
            candidates = [{"finishReason": FILTERED}]
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        if not isinstance(candidate, dict):
            raise Malformed("the reply has no candidates")
        content = candidate.get("content")
        # A candidate without content gives the reason.
        parts = content.get("parts", []) if isinstance(content, dict) else [] if content is None else None
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise Malformed("the content of the reply has no parts")
        called = [part["functionCall"] for part in parts if "functionCall" in part]
        if not all(isinstance(call, dict) for call in called):
            raise Malformed("a tool call of the reply is no object")
        original = {sent: name for name, sent in _names(request).items()}
        names = [original.get(str(call.get("name")), call.get("name")) for call in called]
        unknown = [", ".join(part.keys() - _ABOUT) for part in parts if not part.keys() & {"text", "functionCall"}]
        usage: Any = body.get("usageMetadata") if isinstance(body.get("usageMetadata"), dict) else {}
        return ReplyParts(
            served=body.get("modelVersion"),
            finish=candidate.get("finishReason"),
            texts=[part["text"] for part in parts if "text" in part and not part.get("thought")],
            calls=[(name, json.dumps(call.get("args") or {})) for name, call in zip(names, called, strict=True)],
            given=usage.get("promptTokenCount"),
            # Thoughts are charged as output but not counted in the candidate's tokens.
            made=total([usage.get("candidatesTokenCount") or 0, usage.get("thoughtsTokenCount") or 0]),
            cached=usage.get("cachedContentTokenCount") or 0,
            unknown=list(filter(None, unknown)),
        )


@contextmanager
def _streamed(client: Any, sent: dict[str, Any]) -> Iterator[io.BytesIO]:
    try:
        response = client.models.generate_content(**sent)
    except (UnicodeDecodeError, RecursionError):
        # The package parses the bodies of errors.
        raise Malformed("the reply is not JSON") from None
    yield io.BytesIO(response.sdk_http_response.body.encode())


def _payload(model: str, request: Request) -> dict[str, Any]:
    system, messages = split_system(request)
    config: dict[str, Any] = {
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "automatic_function_calling": {"disable": True},
        # As sent: the package would parse known fields into its own classes and fail on the rest.
        "should_return_http_response": True,
    }
    if request.top_p != 1.0:
        config["top_p"] = request.top_p
    if system:
        config["system_instruction"] = system
    if request.tools:
        names, declared = _names(request), declare_tools(request, "parameters_json_schema")
        config["tools"] = [{"function_declarations": [{**tool, "name": names[tool["name"]]} for tool in declared]}]
    if request.reply_schema:
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = json.loads(request.reply_schema)
    contents = [
        {
            "role": "model" if message["role"] == "assistant" else "user",
            "parts": [{"text": message["content"]}],
        }
        for message in messages
    ]
    return {"model": model, "contents": contents, "config": config}


def _names(request: Request) -> dict[str, str]:
    """Names of tools -> as sent: Gemini wants a letter or `_` first, so others get `_` in front."""
    taken = {tool.name for tool in request.tools}
    sent = {}
    for name in sorted(taken):
        legal = name
        while not (legal[:1].isalpha() or legal[:1] == "_") or (legal != name and legal in taken):
            legal = f"_{legal}"
        taken.add(legal)
        sent[name] = legal
    return sent

"""Servers on loopback that speak the APIs of Anthropic and of Gemini, and misbehave as `chatserver.py` does."""

from __future__ import annotations

import json

from kit.chatserver import Body, ChatServer


class AnthropicServer(ChatServer):
    """`POST /v1/messages`. Two of the prompt's tokens were read from the cache, and three written to it."""

    base = ""
    paths = "/v1/messages"

    def __init__(self) -> None:
        super().__init__()
        self.answer = lambda body: f"reply to: {body['messages'][-1]['content']}"

    def reply(self, body: Body) -> Body:
        content: list[Body] = [{"type": "thinking", "thinking": "hm", "signature": ""}]
        calls = self.calls(body)
        if not calls:
            content.append({"type": "text", "text": self.answer(body)})
        for i, (name, arguments) in enumerate(calls):
            content.append({"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": json.loads(arguments)})
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": f"{body['model']}-served",
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 2,
                "output_tokens": 7,
            },
        }


class GeminiServer(ChatServer):
    """`POST /v1beta/models/NAME:generateContent`. Four tokens were read from a cache, five are thoughts."""

    base = ""
    paths = r"/v1\w*/models/[\w.-]+:generateContent"
    key_header = "x-goog-api-key"

    def __init__(self) -> None:
        super().__init__()
        self.answer = lambda body: f"reply to: {body['contents'][-1]['parts'][0]['text']}"

    def reply(self, body: Body) -> Body:
        calls = self.calls(body)
        parts: list[Body] = [{"text": "hm", "thought": True}]
        parts += [{"functionCall": {"name": name, "args": json.loads(arguments)}} for name, arguments in calls]
        if not calls:
            parts.append({"text": self.answer(body)})
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 20,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 6,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 31,
            },
            "modelVersion": "gemini-served",
        }

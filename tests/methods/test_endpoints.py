"""Methods that ask a language model keep the protocol, whatever it replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kit.chatserver import ChatServer
from kit.validation import assert_conforms

from bench.data.dataset import Dataset


@pytest.mark.parametrize(
    ("spec", "replies"),
    [
        ("mcp-zero(llm=some-model)", ["", "server: post\ntool: posts letters", "nothing"]),
        ("re-invoke(llm=some-model)", ["", "Sure:", "- posts letters\n- moves money", "- a letter"]),
        ("tool-de(llm=some-model, base=bm25)", ['{"tags": ["letter"], "when_to_use": "to write"}']),
        ("regex(llm=some-model)", ["", "(?i)letter\n(broken", "- posts\n- mon.y", ".*"]),
        (
            "query-generation(llm=some-model, base=bm25)",
            ["", "Sure, here you are:", "- posts letters\n- moves money", "draws roads"],
        ),
    ],
)
def test_an_endpoint_keeps_the_protocol(
    spec: str, replies: list[str], make: Callable[..., Dataset], chat_server: ChatServer
) -> None:
    # Another reply for every prompt, often unusable, and the same each time.
    chat_server.answer = lambda body: replies[sum(body["messages"][-1]["content"].encode()) % len(replies)]
    data = make({"mail": "posts letters", "pay": "moves money"}, [("read", ["mail"], "dev")], test="write a letter")
    assert_conforms(spec, data)

"""Tool-DE: what is added to the texts, by rules and by a model whose replies are good and bad."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries, returned

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import Library, Method
from bench.interface.parts import needs_llm
from bench.registry import build_method

Make = Callable[..., Dataset]

TOOLS = (
    Tool("a", "getUserToken", "Signs in", parent="Accounts", category="Office", parameters=(Parameter("user_name"),)),
    Tool("b", "pay", "Moves money", parent="Bank"),
    Tool("c", "draw", "Roads", parent="Maps"),
)


def indexed(spec: str) -> Any:
    texts = tuple(tool.text("name_description") for tool in TOOLS)
    method = build_method(spec)
    method.index(Library(TOOLS, texts, "name_description", np.empty((0, 2), dtype=np.int32)))
    return method


def ranked(method: Method, text: str) -> list[int]:
    return returned(method.rank(make_queries(text), 3))


def test_rules_add_the_words_of_names() -> None:
    method = indexed("tool-de(base=bm25)")
    assert method._library.texts[0] == "getUserToken: Signs in\ntags: get, user, token, accounts, office, name"
    assert method._library.tools[0].description == "Signs in\ntags: get, user, token, accounts, office, name"
    # Neither `token` nor `bank` is a word of a text as it was.
    assert ranked(indexed("bm25"), "token bank") == []
    assert ranked(method, "token bank") == [1, 0]
    assert method.marks() == {"rules": "uses rules instead of a language model (llm=rules)"}
    assert check_facts(method)["tools_expanded"] == 3


def test_a_model_adds_fields(chat_server: ChatServer) -> None:
    def answer(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        if "Roads" in prompt:
            return ""
        if "money" in prompt:
            return '{"when_to_use": 3, "tags": "rent"}'
        fields = {"when_to_use": " to  log\nin", "function_description": "x" * 3000, "tags": ["login", 4, "session"]}
        return f"Sure:\n```json\n{json.dumps(fields)}\n```"

    chat_server.answer = answer
    method = indexed("tool-de(base=bm25, llm=some-model)")
    lines = method._library.texts[0].split("\n")
    assert lines[0] == "getUserToken: Signs in"
    assert lines[1] == "function description: " + "x" * 1000
    assert lines[2:] == ["when to use: to log in", "tags: login, session"]
    # What is out of form adds nothing, and nor does a missing reply.
    assert method._library.texts[1:] == ("pay: Moves money", "draw: Roads")
    assert check_facts(method)["tools_as_they_are"] == 2
    assert ranked(method, "session") == [0]
    assert needs_llm(method)
    # Requests are asked side by side, so prompts arrive in any order.
    assert sum("Parameters: user_name" in prompt for prompt in chat_server.prompts) == 1
    chosen = indexed("tool-de(base=bm25, llm=some-model, fields=[tags])")
    assert chosen._library.texts[0] == "getUserToken: Signs in\ntags: login, session"


def test_methods_that_read_fields_see_them() -> None:
    assert ranked(indexed("tool-de(base=regex)"), "session office") == [0]


def test_what_it_refuses() -> None:
    with pytest.raises(UsageError, match="at least one field"):
        build_method("tool-de(fields=[])")
    with pytest.raises(UsageError, match="rules write tags alone"):
        build_method("tool-de(fields=[when_to_use])")

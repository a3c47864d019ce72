"""What calls cost: cached tokens at their own price, and the most that a call can cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import ChatServer, usage

from bench.base.errors import UnavailableError
from bench.models.llm import LanguageModel, Message, Request


def test_cached_tokens_at_their_price(
    chat_server: ChatServer, ask: Callable[..., Any], journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 400}}
    chat_server.fault = usage(counted)
    monkeypatch.setenv("BENCH_LLM_PRICE", "2/0.5/10")
    model = LanguageModel("m")
    model.complete([Request((Message("user", "a"),))])
    # (600 x 2 + 400 x 0.5 + 10 x 10) / 10^6
    assert model.usage.cost == pytest.approx(1500e-6)
    assert json.loads(journal.read_text())["cost"] == pytest.approx(1500e-6)
    # Two prices mean what they always meant.
    monkeypatch.setenv("BENCH_LLM_PRICE", "2/10")
    model = LanguageModel("m")
    model.complete([Request((Message("user", "b"),))])
    assert model.usage.cost == pytest.approx(2100e-6)


def test_what_is_held_is_the_dearest_that_a_call_can_be(
    chat_server: ChatServer, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No prompt is known to be cached before it is sent.
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/0/0")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "20")
    with pytest.raises(UnavailableError, match="of the limit of 20 is spent"):
        ask("a")
    assert chat_server.requests == []

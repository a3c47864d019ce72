"""The dated table of prices, the price of cached tokens, and what a limit counts with."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from kit.chatserver import ChatServer

from bench.base.errors import UsageError
from bench.choices.prices import listed_price, price_table
from bench.models.llm import LanguageModel, Message, Request
from bench.models.llm.settings import Price, chat_settings

ROW = """
[[prices]]
model = "m-*"
input = 3.0
cached = 0.3
output = 15.0
currency = "EUR"
date = 2026-11-01
source = "a letter"
"""


def test_the_packaged_table_is_dated_and_whole() -> None:
    rows = price_table().prices
    assert rows
    for row in rows:
        assert datetime.date(2026, 1, 1) < row.date < datetime.date(2027, 1, 1)
        assert row.source
        assert row.cached is not None
        # What makes a cache of use.
        assert row.cached < row.input < row.output
        assert row.cache_write is None or row.input < row.cache_write


def test_who_serves_a_model_is_no_part_of_its_price() -> None:
    table = price_table()
    row = table.of("claude-sonnet-5-5-20261001")
    assert row is not None
    assert table.of("anthropic:claude-sonnet-5-5-20261001") is row
    assert vars(row.price) == pytest.approx(vars(Price(2e-6, 10e-6, 0.1e-6, 2.5e-6)))
    assert table.of("local:claude-sonnet-5-5.gguf") is None


def test_another_table_stands_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(ROW + ROW.replace("3.0", "9.0"))
    monkeypatch.setenv("BENCH_LLM_PRICES", str(path))
    assert listed_price("m-1").input == 3.0
    with pytest.raises(UsageError, match=r"has no model claude-sonnet-5-5 \(it has m-\*, m-\*\)"):
        listed_price("claude-sonnet-5-5")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices = 3", "prices"),
        ("x", "it is not TOML"),
        (ROW.replace("3.0", "-3.0"), "prices.0.input"),
        (ROW.replace("3.0", "inf"), "prices.0.input"),
        (ROW.replace("3.0", '"3"'), "prices.0.input"),
        (ROW.replace('source = "a letter"', ""), "prices.0.source"),
        (ROW + "more = 1", "prices.0.more"),
    ],
)
def test_a_damaged_table_is_refused(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    monkeypatch.setenv("BENCH_LLM_PRICES", str(path))
    with pytest.raises(UsageError) as raised:
        price_table()
    assert str(path) in str(raised.value)
    assert said in str(raised.value)


def test_a_missing_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICES", "no/such.toml")
    with pytest.raises(UsageError, match=r"no/such\.toml"):
        price_table()


def test_no_limit_counts_with_the_table(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_LIMIT", "3")
    assert price_table().of("gpt-5.4-mini") is not None
    with pytest.raises(UsageError, match=r"BENCH_LLM_LIMIT or --budget\) needs prices"):
        LanguageModel("gpt-5.4-mini").complete([Request((Message("user", "a"),))])
    monkeypatch.delenv("BENCH_LLM_LIMIT")
    assert chat_settings().price is None
    model = LanguageModel("gpt-5.4-mini")
    model.complete([Request((Message("user", "a"),))])
    assert model.usage.cost is None

"""Settings out of the environment: which variable wins, and what no variable may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.base.errors import UsageError
from bench.models.llm import LanguageModel, Message, Request
from bench.models.llm.settings import OPENAI_URL, EndpointSettings, Price, chat_settings, embedding_settings


def test_without_any_variable_the_defaults_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    assert chat_settings() == EndpointSettings(
        url=OPENAI_URL,
        key="",
        url_name="BENCH_LLM_URL",
        key_name="BENCH_LLM_KEY",
        named=False,
        journal=tmp_path / "llm" / "journal.jsonl",
        price=None,
        limit=None,
        concurrency=4,
        timeout=120.0,
    )


def test_every_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "BENCH_LLM_URL": " HTTPS://example.org:8443/api/v1/ ",
        "BENCH_LLM_KEY": " k-1 \n",
        "BENCH_LLM_JOURNAL": "~/j.jsonl",
        "BENCH_LLM_PRICE": " 0.15/0.6 ",
        "BENCH_LLM_LIMIT": "2.5",
        "BENCH_LLM_CONCURRENCY": "7",
        "BENCH_LLM_TIMEOUT": "3.5",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = chat_settings()
    assert (result.url, result.key, result.named) == (
        "https://example.org:8443/api/v1",
        "k-1",
        True,
    )
    assert (result.journal, result.limit) == (Path.home() / "j.jsonl", 2.5)
    assert (result.concurrency, result.timeout) == (7, 3.5)
    assert result.price is not None
    assert result.price.of(1_000_000, 2_000_000) == pytest.approx(1.35)


@pytest.mark.parametrize(
    ("variables", "url", "key"),
    [
        ({"OPENAI_BASE_URL": "http://b/v1", "OPENAI_API_KEY": "o"}, "http://b/v1", "o"),
        ({"BENCH_LLM_URL": "http://a/v1", "OPENAI_BASE_URL": "http://b/v1"}, "http://a/v1", ""),
        ({"BENCH_LLM_URL": "http://a/v1", "BENCH_LLM_KEY": "k", "OPENAI_API_KEY": "o"}, "http://a/v1", "k"),
        ({"BENCH_LLM_URL": "", "OPENAI_API_KEY": "o"}, OPENAI_URL, "o"),
        # Set and empty: this endpoint gets no key.
        ({"BENCH_LLM_URL": "http://a/v1", "BENCH_LLM_KEY": "", "OPENAI_API_KEY": "o"}, "http://a/v1", ""),
    ],
)
def test_our_variables_come_before_openais(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, key: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = chat_settings()
    assert (result.url, result.key, result.named) == (url, key, True)


def test_embeddings_have_an_endpoint_key_and_price_of_their_own_or_share_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not embedding_settings().named
    monkeypatch.setenv("BENCH_LLM_URL", "http://a/v1")
    monkeypatch.setenv("BENCH_LLM_KEY", "k")
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/2")
    result = embedding_settings()
    assert (result.url, result.key, result.price) == ("http://a/v1", "k", None)
    monkeypatch.setenv("BENCH_EMBEDDING_URL", "http://e/v1")
    monkeypatch.setenv("BENCH_EMBEDDING_KEY", "e")
    monkeypatch.setenv("BENCH_EMBEDDING_PRICE", "0.02")
    result = embedding_settings()
    assert (result.url, result.key, result.key_name, result.price) == (
        "http://e/v1",
        "e",
        "BENCH_EMBEDDING_KEY",
        Price(2e-8, 0),
    )
    assert chat_settings().url == "http://a/v1"


WRONG = {
    "BENCH_LLM_URL": [
        *(
            "localhost:8000",
            "ftp://a/v1",
            "http://",
            "http:///v1",
            "http://a:port/v1",
            "http://a:99999/v1",
            "x",
            "http://[/v1",
        ),
        *("http://user:secret@a/v1", "http://secret@a/v1", "http://a/v1?key=secret", "http://a/v1#secret"),
    ],
    "BENCH_LLM_KEY": ["two secrets", "se\ncret", "sécret", "secret\u2019", "secret\x00"[:-1] + "\x7f"],
    "BENCH_LLM_LIMIT": ["much", "-1", "nan", "inf", "1,5"],
    "BENCH_LLM_PRICE": ["1", "1/2/3/4", "1//3", "a/b", "-1/2", "nan/1", "1/inf", "/", "1/"],
    "BENCH_LLM_CONCURRENCY": ["0", "-2", "1.5", "many"],
    "BENCH_LLM_TIMEOUT": ["0", "-1", "soon", "nan", "inf"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_variable_that_cannot_be_meant_is_told_by_its_name_and_without_secrets(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as raised:
        LanguageModel("m").preflight()
    said = str(raised.value)
    assert said.startswith(name)
    assert said.endswith(".")
    assert "cret" not in said


@pytest.mark.parametrize("value", ["1/2", "-1", "free"])
def test_a_wrong_price_of_embeddings_is_told(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BENCH_EMBEDDING_PRICE", value)
    with pytest.raises(UsageError, match=f"^BENCH_EMBEDDING_PRICE is '{value}', but must be a price"):
        embedding_settings()


def test_a_limit_without_prices_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_LIMIT", "5")
    with pytest.raises(UsageError) as raised:
        LanguageModel("m").complete([Request((Message("user", "a"),))])
    assert str(raised.value) == (
        "a spending limit (BENCH_LLM_LIMIT or --budget) needs prices to count with: set BENCH_LLM_PRICE as well."
    )


def test_making_a_model_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Methods are built to be listed, too.
    monkeypatch.setenv("BENCH_LLM_URL", "nonsense")
    assert LanguageModel("m").model == "m"


def test_the_key_is_not_in_the_representation_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_KEY", "sk-secret")
    assert "secret" not in repr(chat_settings())

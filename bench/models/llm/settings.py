"""Endpoint settings from environment variables. Clients read them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from bench.base.config import current_session
from bench.base.errors import UsageError
from bench.base.paths import cache_folder
from bench.base.secrets import keep

N = TypeVar("N", int, float)

#: OpenAI's own service; the default if no URL is set.
OPENAI_URL = "https://api.openai.com/v1"

#: Why no endpoint is called.
OFFLINE = "bench is offline (--offline or BENCH_OFFLINE)"

_OPENAI_KEY = "OPENAI_API_KEY"
_PER = 1_000_000  # prices are per million tokens


@dataclass(frozen=True)
class Price:
    """Price of a token, in any currency; limits and costs are in the same.

    Attributes:
        input, output: per token of each kind.
        cached: per input token read from a cache; None if unknown, then it counts as any other.
        written: per input token written to a cache; None likewise.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None

    def of(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
        """The price of a call; cached tokens are part of the input."""
        if self.cached is None:
            return self.input * input_tokens + self.output * output_tokens
        plain = self.input * (input_tokens - cached_tokens)
        return plain + self.cached * cached_tokens + self.output * output_tokens


@dataclass(frozen=True)
class EndpointSettings:
    """An endpoint, and how to use it.

    Attributes:
        url: its address, without a trailing slash.
        key: its secret; empty for none. Never printed, never recorded.
        url_name, key_name: the environment variables to correct if it refuses.
        named: whether the user set the endpoint, by a URL or by OpenAI's own key.
        journal: the file of requests and replies.
        price: None if the user set none.
        limit: maximum cost recorded in the journal; None for no limit.
        concurrency: maximum calls in flight.
        timeout: seconds for one call, to the end of the reply.
    """

    url: str
    key: str = field(repr=False)
    url_name: str
    key_name: str
    named: bool
    journal: Path
    price: Price | None
    limit: float | None
    concurrency: int
    timeout: float


def chat_settings() -> EndpointSettings:
    """Settings of the endpoint for chat completions.

    Raises:
        UsageError: an environment variable has an invalid value.
    """
    urls, keys = ("BENCH_LLM_URL", "OPENAI_BASE_URL"), ("BENCH_LLM_KEY", _OPENAI_KEY)
    return _settings(urls, keys, "BENCH_LLM_PRICE", _chat_price)


def provider_settings(url_name: str, url: str, key_name: str) -> EndpointSettings:
    """Settings of a provider's own API; raises `UsageError` as `chat_settings` does.

    Args:
        url_name, key_name: the variables that its package reads.
        url: the API's address if `url_name` is not set.
    """
    return _settings((url_name,), (key_name,), "BENCH_LLM_PRICE", _chat_price, own=(url, key_name))


def embedding_settings() -> EndpointSettings:
    """Settings of the endpoint for embeddings; raises `UsageError` as `chat_settings` does."""
    urls = ("BENCH_EMBEDDING_URL", "BENCH_LLM_URL", "OPENAI_BASE_URL")
    keys = ("BENCH_EMBEDDING_KEY", "BENCH_LLM_KEY", _OPENAI_KEY)
    return _settings(urls, keys, "BENCH_EMBEDDING_PRICE", _single)


def _settings(
    url_names: tuple[str, ...],
    key_names: tuple[str, ...],
    price_name: str,
    read_price: Callable[[str], Price],
    own: tuple[str, str] = (OPENAI_URL, _OPENAI_KEY),
) -> EndpointSettings:
    own_url, own_key = own
    url_name, url = next(((name, os.environ[name]) for name in url_names if os.environ.get(name)), ("", own_url))
    # Set but empty means no key: a user's own endpoint need not receive the OpenAI key.
    key_name = next((name for name in key_names if name in os.environ), own_key)
    key = os.environ.get(key_name, "").strip()
    if not all("!" <= sign <= "~" for sign in key):
        raise UsageError(
            f"{key_name} contains a character that is invalid in a key (a space, a line end, an accent); set it again."
        )
    keep(key)
    limit = current_session().budget
    if limit is None:
        limit = _number("BENCH_LLM_LIMIT", float, "an amount of money such as 2.50")
    prices = os.environ.get(price_name, "").strip()
    if limit is not None and not prices:
        raise UsageError(
            f"a spending limit (BENCH_LLM_LIMIT or --budget) needs prices to count with: set {price_name} as well."
        )
    journal = os.environ.get("BENCH_LLM_JOURNAL")
    return EndpointSettings(
        url=_check_url(url_name, url),
        key=key,
        url_name=url_name or url_names[0],
        # Never suggest putting another provider's key into OpenAI's variable.
        key_name=key_names[0] if key_name == own_key and (url_name or not key) else key_name,
        named=bool(url_name) or (key_name == own_key and bool(key)),
        journal=Path(journal).expanduser() if journal else cache_folder() / "llm" / "journal.jsonl",
        price=read_price(prices) if prices else None,
        limit=limit,
        concurrency=_number("BENCH_LLM_CONCURRENCY", int, "a whole number from 1", least=1) or 4,
        timeout=_number("BENCH_LLM_TIMEOUT", float, "seconds such as 60", least=0.01) or 120.0,
    )


def _check_url(name: str, url: str) -> str:
    example = "give one such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{name} is not an http or https URL; {example}.")
    # They would be recorded with every reply, and some contain the key.
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{name} must not contain a user, password, query or fragment; {example}, and the key in BENCH_LLM_KEY."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _number(name: str, kind: Callable[[str], N], expected: str, least: float = 0) -> N | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        number = kind(text)
    except ValueError:
        number = None
    if number is None or not math.isfinite(number) or number < least:
        raise UsageError(f"{name} is {text!r}, but must be {expected}.")
    return number


def _chat_price(text: str) -> Price:
    parts = text.split("/")
    if len(parts) not in {2, 3}:
        expected = "prices per million tokens, input/output or input/cached/output, such as 0.15/0.60"
        raise _bad_price("BENCH_LLM_PRICE", text, expected)
    given, *cached, made = (_amount("BENCH_LLM_PRICE", part) for part in parts)
    return Price(given, made, *cached)


def _single(text: str) -> Price:
    return Price(_amount("BENCH_EMBEDDING_PRICE", text), 0.0)


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise _bad_price(name, text, "a price per million tokens, such as 0.15")
    return amount / _PER


def _bad_price(name: str, text: str, expected: str) -> UsageError:
    return UsageError(f"{name} is {text!r}, but must be {expected}.")

"""A dated table of model prices, to report what tokens would cost; spending limits do not use it."""

from __future__ import annotations

import datetime
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bench.base.errors import UsageError
from bench.base.records import StrictRecord, read_toml
from bench.models.llm.settings import Price

Amount = Annotated[float, Field(ge=0)]

_PER = 1_000_000
_PACKAGED = Path(__file__).with_name("prices.toml")
#: Prefixes of model names: the provider is not part of the price.
_PROVIDERS = ("anthropic:", "gemini:")


class ModelPrice(StrictRecord):
    """One row of the table.

    Attributes:
        model: a pattern for model names, as for files: `claude-haiku-4-5*`.
        input, cached, cache_write, output: per million tokens; null as in `Price`.
        currency: of these prices.
        date: date of the source.
        source: in words.
    """

    model: str = Field(min_length=1)
    input: Amount
    cached: Amount | None = None
    cache_write: Amount | None = None
    output: Amount
    currency: str = Field(min_length=1)
    date: datetime.date
    source: str = Field(min_length=1)

    @property
    def price(self) -> Price:
        """Prices per token."""
        cached, written = (None if amount is None else amount / _PER for amount in (self.cached, self.cache_write))
        return Price(self.input / _PER, self.output / _PER, cached, written)


class PriceTable(StrictRecord):
    """A table of prices; the first matching row counts."""

    prices: list[ModelPrice]

    def of(self, model: str) -> ModelPrice | None:
        """The row of a model; None if there is none."""
        for provider in _PROVIDERS:
            model = model.removeprefix(provider)
        return next((row for row in self.prices if fnmatchcase(model, row.model)), None)


def price_table() -> PriceTable:
    """The table in `BENCH_LLM_PRICES`, else the packaged one; raises `UsageError` if it is damaged."""
    named = os.environ.get("BENCH_LLM_PRICES", "").strip()
    return read_toml(PriceTable, Path(named).expanduser() if named else _PACKAGED, "the table of prices", UsageError)


def listed_price(model: str) -> ModelPrice:
    """The row of a model named by the user; raises `UsageError` if there is none."""
    table = price_table()
    row = table.of(model)
    if row is None:
        known = ", ".join(item.model for item in table.prices) or "none"
        raise UsageError(
            f"the table of prices has no model {model} (it has {known}); name another, or a table in BENCH_LLM_PRICES."
        )
    return row

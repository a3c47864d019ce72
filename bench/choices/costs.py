"""The cost of choices: per 100 queries, and of a search compared with the whole library in a cached prompt.

The report and the page of choices use it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.choices.outcomes import Replies
from bench.choices.prices import listed_price, price_table
from bench.evaluation.plan import Plan
from bench.models.llm.local import is_file_model
from bench.models.llm.settings import Price, chat_settings
from bench.results.store import StoredResult

#: The assumed share of requests whose prompt is in the cache, for reports.
HIT_SHARE = 0.9
#: Tokens of a reply in an estimate.
_REPLY = 40


@dataclass(frozen=True)
class Priced:
    """Prices and their source."""

    price: Price
    told: dict[str, str]

    def __str__(self) -> str:
        return ", ".join(self.told.values())


def priced_model(model: str, named: str | None = None) -> Priced | None:
    """The prices of the named model, else those of the environment, else of the model's own row in the table.

    Args:
        model: the language model that chooses.
        named: a model in the table of prices (`bench.choices.prices`).

    Returns:
        None for a model without a known price.

    Raises:
        UsageError: the table has no such model, or is damaged.
    """
    own = None if is_file_model(model) else chat_settings().price
    if named is None and own is not None:
        return Priced(own, {"source": "BENCH_LLM_PRICE"})
    row = price_table().of(model) if named is None else listed_price(named)
    if row is None:
        return None
    told = {"model": row.model, "currency": row.currency, "date": str(row.date), "source": row.source}
    return Priced(row.price, told)


def estimate(sources: Sequence[StoredResult], plans: Sequence[Plan], price: Priced | None) -> str:
    """An upper bound of what will be asked: calls, tokens of the definitions, and their cost if prices are known."""
    known = {source.manifest.dataset.spec: source for source in sources}
    calls = tokens = 0.0
    for plan in plans:
        source = known[str(plan.dataset)]
        data, arguments = source.manifest.dataset, dict(plan.method.arguments)
        queries = min(plan.limit or data.queries, data.queries) * plan.repeats
        # Lists in a prompt have no schemas.
        counted = "definitions_top_5" if arguments["form"] == "calls" else "top_5"
        each = source.metrics.tokens.get(counted, 0.0) / min(5, data.tools)
        shown = 1 if arguments["base"] == "oracle" else arguments["shown"] or data.tools
        calls += queries
        tokens += queries * each * min(float(str(shown)), data.tools)
    cost = "" if price is None else f", about {price.price.of(tokens, calls * _REPLY):.2g} by {price}"
    return f"at most {calls:,.0f} calls, with about {tokens:,.0f} tokens of tools{cost}; what the journal has is free"


def cost_of_100(tokens: tuple[float, float, float], price: Price) -> float:
    """The price of 100 queries.

    Args:
        tokens: mean input, cached and output tokens per query, as in `Summary.tokens`.
        price: per token.
    """
    given, cached, made = tokens
    return 100 * price.of(given, made, cached)


def tokens_per_byte(choices: Iterable[Replies], sizes: Mapping[str, int]) -> float | None:
    """Input tokens per byte of the definitions in a model's prompts, as counted by the model's endpoint.

    Prompts for one request differ only in their tools: this is the slope of input tokens over bytes within requests
    (least squares with an intercept per request).

    Args:
        choices: choices of one model, in one form, on one dataset.
        sizes: tool id -> bytes of its definition.

    Returns:
        None if no request was put to the model with definitions of several sizes.
    """
    prompts = defaultdict(list)
    for replies in choices:
        for query, note in zip(replies.queries, replies.notes, strict=True):
            if note is not None and note.input_tokens:
                prompts[query].append((sum(sizes[tool] for tool in note.shown), note.input_tokens))
    spread = joint = 0.0
    for pairs in prompts.values():
        size, tokens = (np.array(pairs) - np.mean(pairs, axis=0)).T
        spread, joint = spread + float(size @ size), joint + float(size @ tokens)
    return joint / spread if spread > 0 and joint > 0 else None


@dataclass(frozen=True)
class CachedBreakEven:
    """A search that shows k tools in its own prompt, compared with the whole library at the start of every prompt.

    The definitions of the library are the same each time, so a cache can store them: a hit reads them at the price of
    cached input, a miss writes them. They are not cached if that costs more than plain input. The request and the
    instructions come after them, and both variants pay them in full, as they do the output. Left out are the call that
    makes the search, the cost of running it, and the effect of more tools on the model's answers. All tokens come from
    one count.

    Attributes:
        shown: tokens of the definitions that the search shows.
        library: tokens of the definitions of all tools.
        tools: number of all tools.
        rest: tokens of request and instructions.
        output: tokens of the reply.
        price: per token.
        hit_share: share of the requests whose library is in the cache.
    """

    shown: float
    library: float
    tools: int
    rest: float
    output: float
    price: Price
    hit_share: float = HIT_SHARE

    @property
    def _library_token(self) -> float:
        """The cost of a token of the library."""
        price = self.price
        read = price.input if price.cached is None else price.cached
        written = price.input if price.written is None else price.written
        return min(price.input, self.hit_share * read + (1 - self.hit_share) * written)

    @property
    def search_cost(self) -> float:
        """Cost of a query with a search."""
        return self.price.of(self.shown + self.rest, self.output)

    @property
    def library_cost(self) -> float:
        """Cost of a query with the whole library."""
        return self.library * self._library_token + self.price.of(self.rest, self.output)

    @property
    def from_tools(self) -> int | None:
        """The smallest number of tools of the library's mean size for which a search is cheaper.

        tokens(shown) p(input) < n tokens(one tool) p(library). None if the library costs nothing at any size.
        """
        one = self.library / self.tools * self._library_token if self.tools else 0.0
        if one <= 0:
            return None
        # Round a hair below a whole number up to it: prices are decimal.
        return math.floor(round(self.shown * self.price.input / one, 9)) + 1

    def to_dict(self) -> dict[str, Any]:
        """Costs of 100 queries, for JSON."""
        return {
            "hit_share": self.hit_share,
            "search_cost_of_100": 100 * self.search_cost,
            "library_cost_of_100": 100 * self.library_cost,
            "search_cheaper_from_tools": self.from_tools,
        }

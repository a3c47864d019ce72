"""What choices cost in money: for 100 queries, and of a search against the whole library in a cached prompt."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.models.llm.settings import Price
from bench.results.choices import Choices

#: The share of requests whose prompt is found in the cache, where a reader is told of one.
HIT_SHARE = 0.9


def cost_of_100(tokens: tuple[float, float, float], price: Price) -> float:
    """The price of 100 queries.

    Args:
        tokens: mean input, cached and output tokens of one, as `Choices.mean_tokens` gives them.
        price: for a token.
    """
    given, cached, made = tokens
    return 100 * price.of(given, made, cached)


def tokens_per_byte(replies: Iterable[Choices], sizes: Mapping[str, int]) -> float | None:
    """Input tokens for each byte of the definitions in a model's prompts, as the model's endpoint counts them.

    Prompts for one request differ in their tools alone: this is the slope of input tokens on bytes within requests
    (least squares with an intercept for each request).

    Args:
        replies: choices of one model, asked in one form, on one dataset.
        sizes: tool id -> bytes of its definition.

    Returns:
        None where no request was put to the model with definitions of several sizes.
    """
    prompts = defaultdict(list)
    for choices in replies:
        for query, note in zip(choices.queries, choices.notes, strict=True):
            if note is not None and note.input_tokens:
                prompts[query].append((sum(sizes[tool] for tool in note.shown), note.input_tokens))
    spread = joint = 0.0
    for pairs in prompts.values():
        size, tokens = (np.array(pairs) - np.mean(pairs, axis=0)).T
        spread, joint = spread + float(size @ size), joint + float(size @ tokens)
    return joint / spread if spread > 0 and joint > 0 else None


@dataclass(frozen=True)
class CachedBreakEven:
    """A search that shows k tools in a prompt of its own, against the whole library at the head of every prompt.

    The definitions of the library are the same each time, so that a cache can hold them: a hit reads them at the price
    of cached input, a miss writes them. They are not cached where that costs more than plain input. The request and the
    instructions come after them, and are paid in full by both, as is the output. Left out are the call that makes the
    search, what it costs to run it, and that a model answers differently in front of more tools. All tokens are those
    of one count.

    Attributes:
        shown: tokens of the definitions that the search shows.
        library: tokens of the definitions of all tools.
        tools: number of all tools.
        rest: tokens of request and instructions.
        output: tokens of the reply.
        price: for a token.
        hit_share: share of the requests whose library is found in the cache.
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
        """What a token of the library costs."""
        price = self.price
        read = price.input if price.cached is None else price.cached
        written = price.input if price.written is None else price.written
        return min(price.input, self.hit_share * read + (1 - self.hit_share) * written)

    @property
    def search_cost(self) -> float:
        """Of one query with a search."""
        return self.price.of(self.shown + self.rest, self.output)

    @property
    def library_cost(self) -> float:
        """Of one query with the whole library."""
        return self.library * self._library_token + self.price.of(self.rest, self.output)

    @property
    def from_tools(self) -> int | None:
        """The least number of tools of the library's mean size with which a search is cheaper.

        tokens(shown) p(input) < n tokens(one tool) p(library). None where the library costs nothing at any size.
        """
        one = self.library / self.tools * self._library_token if self.tools else 0.0
        if one <= 0:
            return None
        # A hair below a whole number is that number: prices are decimal.
        return math.floor(round(self.shown * self.price.input / one, 9)) + 1

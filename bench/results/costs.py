"""The cost of a method, as far as its result records it: in money, and in tokens against giving a model all tools."""

from __future__ import annotations

from dataclasses import dataclass

from bench.results.manifest import Manifest, Metrics
from bench.show.numbers import count, format_fixed


def money_per_query(manifest: Manifest) -> float | None:
    """The price of one query's calls, in the currency of the configured prices.

    0 for a method that pays for no calls. None where the price is not known: of a run file, of a model without prices
    or asked by a part of the run alone, of embeddings from an endpoint, which the cache keeps and nobody counts.
    """
    from bench.models.endpoints import PREFIX  # few readers of costs ask for money

    method = manifest.method
    if method.run_file is not None or any(name.startswith(PREFIX) for name in method.revisions):
        return None
    if manifest.model_use is not None:
        # Repeats are for error bars: who uses the method asks once.
        cost, queries = manifest.model_use.cost, manifest.dataset.queries * manifest.repeats
        return None if cost is None or cost < 0 or queries < 1 else cost / queries
    return None if method.needs_llm else 0.0


@dataclass(frozen=True)
class BreakEven:
    """Searching for tools against giving a model all of them, in tokens that stand in its context.

    All tools are there from the first request of a conversation on. Each search adds the text of its answer and the
    definitions of the tools that it finds, and they stay. Tools are counted as the API of a model takes them, by the
    template `full`. Left out is what depends on the model and its host: cached prompts, which make the unchanging
    definitions of all tools cheaper, the further request of each search, and the definition of the search tool.

    Attributes:
        all_tools: definitions of the whole library.
        search: one search, with the definitions of the first five tools.
        answer: the part of `search` that is the text of its answer; None where no search outside of bench sent one.
        depth: how many tools that answer was to list.
        recall: what the first five tools find of the gold, where it is measured; all tools have recall 1.
    """

    all_tools: float
    search: float
    answer: float | None
    depth: int
    recall: float | None

    @property
    def searches(self) -> int:
        """The first search of a conversation with which searching takes more tokens than all tools do."""
        return int(self.all_tools // self.search) + 1

    @property
    def sentence(self) -> str:
        """It for a reader, without a full stop."""
        parts = "the top 5" if self.answer is None else f"an answer of up to {self.depth} tools, and the top 5"
        search = f"a search adds {count(self.search)} ({parts})"
        if self.recall is not None:
            search += f" at recall@5 {format_fixed(self.recall)}"
        return (
            f"the definitions of all tools take {count(self.all_tools)} tokens, {search}; from search "
            f"{count(self.searches)} of a conversation on, all tools are cheaper, prompt caching aside"
        )


def break_even(manifest: Manifest, metrics: Metrics) -> BreakEven | None:
    """What the token counts of a result say; None where it has none, and where no search found anything."""
    counts = metrics.tokens
    if not {"definitions", "definitions_top_5"} <= counts.keys():
        return None
    answer, recall = counts.get("answer"), metrics.metrics.get("recall@5")
    search = counts["definitions_top_5"] + (answer or 0.0)
    if search <= 0:
        return None
    return BreakEven(counts["definitions"], search, answer, manifest.depth, None if recall is None else recall.mean)

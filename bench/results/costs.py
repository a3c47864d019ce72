"""The recorded cost of a method: in money, and in tokens compared with giving a model all tools. Reports show it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.results.manifest import Manifest, Metrics
from bench.show.numbers import count, format_fixed


def money_per_query(manifest: Manifest) -> float | None:
    """The price of one query's calls, in the currency of the configured prices.

    0 for a method without paid calls. None if the price is unknown: for run files, for models without prices or counted
    in only a part of the run, and for embeddings from an endpoint, which are cached and not counted.
    """
    from bench.models.endpoints import PREFIX  # most callers do not need the price

    method = manifest.method
    if method.run_file is not None or any(name.startswith(PREFIX) for name in method.revisions):
        return None
    if manifest.model_use is not None:
        # Repeats are for error bars: a user of the method asks once.
        cost, queries = manifest.model_use.cost, manifest.dataset.queries * manifest.repeats
        return None if cost is None or cost < 0 or queries < 1 else cost / queries
    return None if method.needs_llm else 0.0


@dataclass(frozen=True)
class BreakEven:
    """Searching for tools against giving a model all of them, in tokens of its context.

    Without search, all tools are in the context from the first request on. Each search adds the text of its answer and
    the definitions of the tools that it finds, which stay. Tools are counted in the form of a model's API, by the
    template `full`. The comparison leaves out what depends on the model and its host: prompt caching, which makes the
    unchanging definitions of all tools cheaper, the extra request of each search, and the definition of the search
    tool.

    Attributes:
        all_tools: definitions of the whole library.
        search: one search, with the definitions of the first five tools.
        answer: the part of `search` that is the text of its answer; None if no external search sent one.
        depth: number of tools that the answer was to list.
        recall: recall of the first five tools, if measured; all tools have recall 1.
    """

    all_tools: float
    search: float
    answer: float | None
    depth: int
    recall: float | None

    @property
    def searches(self) -> int:
        """The number of searches in a conversation from which searching takes more tokens than all tools."""
        return int(self.all_tools // self.search) + 1

    @property
    def sentence(self) -> str:
        """A sentence about it, without the period."""
        parts = "the top 5" if self.answer is None else f"an answer of up to {self.depth} tools, and the top 5"
        search = f"a search adds {count(self.search)} ({parts})"
        if self.recall is not None:
            search += f" at recall@5 {format_fixed(self.recall)}"
        return (
            f"the definitions of all tools take {count(self.all_tools)} tokens, {search}; from search "
            f"{count(self.searches)} of a conversation on, all tools are cheaper, prompt caching aside"
        )


def break_even(manifest: Manifest, metrics: Metrics) -> BreakEven | None:
    """The comparison by the token counts of a result; None if it has none, or if no search found anything."""
    counts = metrics.tokens
    if not {"definitions", "definitions_top_5"} <= counts.keys():
        return None
    answer, recall = counts.get("answer"), metrics.metrics.get("recall@5")
    search = counts["definitions_top_5"] + (answer or 0.0)
    if search <= 0:
        return None
    return BreakEven(counts["definitions"], search, answer, manifest.depth, None if recall is None else recall.mean)

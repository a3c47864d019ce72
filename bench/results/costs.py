"""The cost of a method in money, as far as its result records it."""

from __future__ import annotations

from bench.models.endpoints import PREFIX
from bench.results.manifest import Manifest


def money_per_query(manifest: Manifest) -> float | None:
    """The price of one query's calls, in the currency of the configured prices.

    0 for a method that pays for no calls. None where the price is not known: of a run file, of a model without prices
    or asked by a part of the run alone, of embeddings from an endpoint, which the cache keeps and nobody counts.
    """
    method = manifest.method
    if method.run_file is not None or any(name.startswith(PREFIX) for name in method.revisions):
        return None
    if manifest.model_use is not None:
        # Repeats are for error bars: who uses the method asks once.
        cost, queries = manifest.model_use.cost, manifest.dataset.queries * manifest.repeats
        return None if cost is None or cost < 0 or queries < 1 else cost / queries
    return None if method.needs_llm else 0.0

"""A library and queries made of texts, and what a method returned for them, for tests of one method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.data.tables import Tool
from bench.interface import Library, Queries, Ranking

#: The edges of a library without any.
NO_EDGES = np.empty((0, 2), dtype=np.int32)


def make_library(tools: Sequence[Tool | str], texts: Sequence[str] | None = None) -> Library:
    """A library without edges: of tools by their descriptions or by other texts, or of texts alone."""
    made = [tool if isinstance(tool, Tool) else Tool(f"t{code:03}", "name", tool) for code, tool in enumerate(tools)]
    shown = [tool.description for tool in made] if texts is None else texts
    return Library(tuple(made), tuple(shown), "description", NO_EDGES)


def make_queries(*texts: str) -> Queries:
    """Queries of these texts."""
    return Queries(texts, np.arange(len(texts)))


def returned(ranking: Ranking, row: int = 0) -> list[int]:
    """Codes of the tools returned for a query, best first."""
    return [int(code) for code in ranking.tools[row] if code >= 0]


def scores_by_code(ranking: Ranking, row: int = 0) -> dict[int, float]:
    """Code -> score of these tools, best first."""
    assert ranking.scores is not None
    pairs = zip(ranking.tools[row].tolist(), ranking.scores[row].tolist(), strict=True)
    return {code: score for code, score in pairs if code >= 0}

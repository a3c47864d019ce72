"""The past bundle whose tools are most similar to the query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.data.tables import Tool
from bench.errors import UsageError
from bench.protocol import Context, History, Library, Method, Queries, Ranking, ScoringMethod, ToolSets
from bench.search.topk import top_k
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec


class NearestBundle(Method):
    """Retrieves past bundles as documents (PTR's bundle acquisition): the joined `name: description` of their tools.

    The recommended set is the top bundle. In the ranking, the score of a tool is that of its best bundle.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(
            Spec("dense"), description="method that retrieves the bundles; it must score all of them"
        )

    parameters: Parameters
    needs_history = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, ScoringMethod) or base.needs_history:
            raise UsageError(f"nearest-bundle cannot use base={parameters.base}: it must score tools by text only.")
        self._base = base

    def revisions(self) -> dict[str, str]:
        return self._base.revisions()

    def preflight(self, library: Library, history: History) -> None:
        self._base.preflight(library, history)

    def fit(self, history: History) -> None:
        rows = {tuple(history.gold.row(i).tolist()) for i in range(len(history))} - {()}
        self._bundles = [np.array(row, dtype=np.int32) for row in sorted(rows)]

    def index(self, library: Library) -> None:
        self._tools = len(library)
        documents = ["\n".join(library.tools[tool].text("name_description") for tool in row) for row in self._bundles]
        width = len(str(len(documents)))
        rows = tuple(Tool(f"{i:0{width}}", "", document) for i, document in enumerate(documents))
        self._base.index(Library(rows, tuple(documents), "description", np.empty((0, 2), dtype=np.int32)))

    def _bundle_scores(self, queries: Queries) -> NDArray[np.float64]:
        assert isinstance(self._base, ScoringMethod)
        return self._base.score(queries)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        bundles = self._bundle_scores(queries)
        scores = np.full((len(queries), self._tools), -np.inf)
        for column, bundle in enumerate(self._bundles):
            scores[:, bundle] = np.maximum(scores[:, bundle], bundles[:, column, None])
        return top_k(scores, depth)

    def recommend(self, queries: Queries) -> ToolSets:
        best = top_k(self._bundle_scores(queries), 1).tools[:, 0]
        return ToolSets.of([self._bundles[int(bundle)] for bundle in best])

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"past_bundles": len(self._bundles), **self._base.facts()}

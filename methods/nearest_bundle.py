"""The past bundle whose tools are most similar to the query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.data.tables import Tool
from bench.interface import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.interface.explanation import Case, Explanation, Reason
from bench.interface.parts import needs_history
from bench.search.scoring import ScoringMethod
from bench.search.topk import top_k


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
        if not isinstance(base, ScoringMethod) or needs_history(base):
            raise UsageError(f"nearest-bundle cannot use base={parameters.base}: it must score tools by text only.")
        self._base = base

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
        return {"past_bundles": len(self._bundles)}

    def explain(self, case: Case) -> Explanation:
        """The past bundle that contains the tool and whose text is most similar to the query."""
        scores = self._bundle_scores(case.query)[0]
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[np.lexsort((np.arange(len(scores)), -scores))] = np.arange(1, len(scores) + 1)
        reasons = {}
        for tool in case.tools:
            holding = [i for i, bundle in enumerate(self._bundles) if tool in bundle]
            if not holding:
                because = "it is in no past bundle" if tool in case.gold else ""
                reasons[tool] = Reason(None, (), (None,), "in no past bundle", because)
                continue
            best = max(holding, key=lambda i: (scores[i], -i))
            bundle = self._bundles[best].tolist()
            because = ""
            if tool in case.rivals:
                others = len(bundle) - 1
                beside = f", with {others} other tool{'s' * (others != 1)}" if others else ""
                because = f"the best past bundle that holds it is number {ranks[best]} of {len(scores)}{beside}"
            names = ", ".join(case.id_of(other) for other in bundle)
            reasons[tool] = Reason(float(scores[best]), (), (int(ranks[best]),), names, because)
        return Explanation("the best past bundle that holds it", ("bundle",), reasons)

"""Progressive retrieval: each found tool is subtracted from the query before the next search.

Anantha, Bandyopadhyay, Kashi, Mahinder, Hill & Chappidi 2023, "ProTIP: Progressive Tool Retrieval Improves Planning".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt, number
from bench.search.dense import normalize
from bench.search.progressive import progressive_search
from bench.search.scoring import EmbeddingMethod

#: Characters of a tool's text in a reason.
_MOST_TEXT = 200


class ProTip(Method):
    """Step i takes the tool nearest to q - weight · (t₁ + … + tᵢ₋₁), of those not yet taken; q and t have length 1.

    ProTIP compares by Euclidean distance. Tools' vectors have length 1, so the nearest by distance has the greatest dot
    product with the remaining query. Of equals, the tool that is first in the library is taken. After `steps` steps the
    other tools follow in the order of `base`; with `weight=0` all tools have that order. The order has no scores,
    because the comparison for a tool depends on the earlier tools.

    The paper tunes the encoder such that the remainder, with weight 1, is close to the next tool's vector; so does
    `bench train retriever --set progressive=true`. The method itself learns nothing: the vectors are those of `base`.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method that compares vectors by cosine")
        steps: int = Field(10, ge=1, description="number of tools to search for one after another")
        weight: float = Field(1.0, ge=0, description="how much of each tool's vector is subtracted; the paper's is 1")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, EmbeddingMethod) or base.similarity != "cosine":
            raise UsageError(f"protip cannot use base={parameters.base}: it needs vectors that are compared by cosine.")
        self._base = base

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._base.index(library)
        self._tools = normalize(self._base.tool_vectors())

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = self._base.rank(queries, self._size)
        taken = self._steps(queries)[0]
        rows = []
        for ranked, steps in zip(ranking.tools, taken.tolist(), strict=True):
            first = set(steps)
            rest = [tool for tool in ranked.tolist() if tool >= 0 and tool not in first]
            rows.append((steps + rest)[:depth])
        failed = np.zeros(len(queries), dtype=np.bool_) if ranking.failed is None else ranking.failed
        return Ranking.of_lists(rows, failed.tolist())

    def _steps(self, queries: Queries) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(queries, steps) the tool of each step, and its dot product with the remaining query."""
        query_vectors = normalize(self._base.query_vectors(queries))
        return progressive_search(query_vectors, self._tools, self.parameters.steps, self.parameters.weight)

    def explain(self, case: Case) -> Explanation:
        """The step that takes a tool, and its similarity to the remaining query then."""
        answer = case.answer(self._base)
        taken, products = self._steps(case.query)
        steps = {int(tool): step + 1 for step, tool in enumerate(taken[0])}
        near = dict(zip(taken[0].tolist(), products[0].tolist(), strict=True))
        reasons = {}
        for tool in case.tools:
            because = ""
            if tool in case.gold and tool in steps:
                because = f"step {steps[tool]} takes it"
            elif tool in case.gold:
                because = f"none of the {len(steps)} steps takes it; {answer.label} rank "
                because += str(answer.positions[tool].rank or "-")
            cells = (steps.get(tool), near.get(tool), answer.positions[tool].rank)
            reasons[tool] = Reason(None, (), cells, excerpt(case.library.texts[tool], _MOST_TEXT), because)
        ranked = self.rank(case.query, self._size).tools[0].tolist()
        note = f"Each step subtracts {number(self.parameters.weight)} times the vector of its tool from the query."
        return Explanation(
            "how its text begins",
            ("step", "nearness to what is left", f"{self._base.name} rank"),
            reasons,
            order=case.in_order(ranked),
            notes=(note,),
            bases=(answer,),
        )

"""Graph RAG-Tool Fusion: the tools that a search finds, each followed by its dependencies.

Lumer et al. 2025, "Graph RAG-Tool Fusion".
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason
from bench.methods.tgr.sources import GraphSource

#: The dataset's edges if it has any, else those of the rules.
AUTO = "auto"


class GraphRagToolFusion(Method):
    """Inserts after each of the first `initial` tools of `base` the tools that it depends on, depth first.

    A tool is followed by its first prerequisite, that one's prerequisites, and so on, then by its second one; each tool
    occurs once, where it is reached first. The prerequisites of a tool are in the order of `base`. After the
    dependencies of the last initial tool, the other tools follow in the order of `base`, so that a ranking has full
    depth; the evaluation cuts at the paper's limit. A base that reranks stands for the paper's reranker. The order has
    no scores.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method that finds the initial tools")
        initial: int = Field(5, ge=1, description="number of tools whose dependencies are followed (top k)")
        graph: str = Field(
            AUTO,
            description="`auto` (the dataset's annotated edges, or rules where it has none), `manual`, `rules`, or a "
            "TSV file of edges",
        )

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        graph = "rules" if parameters.graph == AUTO else parameters.graph
        if graph == "discriminator":
            raise UsageError(
                "graph-rag-tool-fusion follows annotated edges, rules or a file; "
                "write the discriminator's edges to a file with `bench graph --out`."
            )
        self._graph = self.include(GraphSource(graph, progress=context.progress))

    def preflight(self, library: Library, history: History) -> None:
        self._graph.check(library)

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._base.index(library)
        annotated = self.parameters.graph == AUTO and len(library.edges) > 0
        self._source = "manual" if annotated else self._graph.graph
        edges = library.edges if annotated else self._graph.edges(library)
        self._edges = len(edges)
        self._needs: dict[int, set[int]] = {}
        for dependent, prerequisite in edges.tolist():
            self._needs.setdefault(dependent, set()).add(prerequisite)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = self._base.rank(queries, self._size)
        rows = [list(self._ordered(row[row >= 0].tolist()))[:depth] for row in ranking.tools]
        failed = np.zeros(len(queries), dtype=np.bool_) if ranking.failed is None else ranking.failed
        return Ranking.of_lists(rows, failed.tolist())

    def _ordered(self, ranked: list[int]) -> dict[int, int | None]:
        """The tools in order, each with the tool that it is a dependency of; None for those of the base.

        Args:
            ranked: the base's ranking.
        """
        place = {tool: rank for rank, tool in enumerate(ranked)}
        brought_by: dict[int, int | None] = {}
        for tool in ranked[: self.parameters.initial]:
            # A stack instead of recursion: a chain of dependencies may be as long as the library.
            pending: list[tuple[int, int | None]] = [(tool, None)]
            while pending:
                reached, by = pending.pop()
                if reached in brought_by:
                    continue
                brought_by[reached] = by
                needs = sorted(self._needs.get(reached, ()), key=lambda code: (place.get(code, self._size), code))
                pending.extend((code, reached) for code in reversed(needs))
        for tool in ranked:
            brought_by.setdefault(tool, None)
        return brought_by

    def facts(self) -> dict[str, str | int | float | bool]:
        return {"graph": self._source, "edges": self._edges}

    def explain(self, case: Case) -> Explanation:
        """The tool that a tool is a dependency of, and the rank by the base."""
        answer = case.answer(self._base)
        ranked = self._base.rank(case.query, self._size).tools[0]
        brought_by = self._ordered(ranked[ranked >= 0].tolist())
        initial = set(ranked[ranked >= 0][: self.parameters.initial].tolist())
        reasons = {}
        for tool in case.tools:
            by, rank = brought_by.get(tool), answer.positions[tool].rank
            note = "" if by is None else f"needed by {case.id_of(by)}"
            if tool in initial and by is None:
                note = "initial tool"
            because = ""
            if tool in case.gold:
                because = f"{answer.label} rank {rank or '-'}, {note or 'no initial tool depends on it'}"
                rival = case.rivals.get(tool)
                if rival is not None:
                    bringer = brought_by[rival]
                    because += f"; {case.id_of(rival)}: {answer.label} rank {answer.positions[rival].rank or '-'}"
                    because += "" if bringer is None else f", needed by {case.id_of(bringer)}"
            reasons[tool] = Reason(None, (), (rank,), note, because)
        shown = set(case.tools)
        order = [tool for tool in brought_by if tool in shown]
        return Explanation(
            "what brought it",
            ("base rank",),
            reasons,
            order=(*order, *(tool for tool in case.tools if tool not in brought_by)),
            notes=(f"Graph: {self._source}, {self._edges} edges.",),
            bases=(answer,),
        )

"""Ranks servers first, then the tools within them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason
from bench.interface.parts import needs_history
from bench.search.servers import servers_of


class ServerFirst(Method):
    """Ranks the servers (the tools' parents), then the tools within, as hosts of many MCP servers do.

    `base` ranks the tools, and a second instance of it ranks the servers. With `servers=text`, a server is one text:
    its name and those of its tools with their descriptions. With `servers=best`, a server has the rank of its best
    tool. The first `tools` tools of the best server come first, then those of the next, and so on; further tools follow
    in the order of `base`. A tool without a parent is its own server. Only tools that `base` returns are returned, and
    servers that it does not return come last, by their best tool.

    The order has no scores, because a tool may score higher than one above it.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("bm25-fields"), description="method that ranks the tools, and the servers")
        servers: Literal["text", "best"] = Field("text", description="a server is one text, or its best tool")
        tools: int = Field(5, ge=1, description="number of tools of a server before the next one")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        by_text = parameters.servers == "text"
        if by_text and needs_history(self._base):
            raise UsageError(
                f"server-first cannot rank the texts of servers by {parameters.base}, which learns from past queries; "
                "set servers=best."
            )
        self._of_servers = context.build(parameters.base) if by_text else None

    def fit(self, history: History) -> None:
        # Gold names tools: only the method that ranks tools can learn from it.
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._base.index(library)
        self._server, servers = servers_of(library)
        if self._of_servers is not None:
            self._of_servers.index(servers)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = self._base.rank(queries, self._size)
        places = self._places(queries)
        rows = [
            self._ordered(row[row >= 0].astype(np.int64), place)[:depth].tolist()
            for row, place in zip(ranking.tools, places, strict=True)
        ]
        failed = np.zeros(len(queries), dtype=np.bool_) if ranking.failed is None else ranking.failed
        return Ranking.of_lists(rows, failed.tolist())

    def _places(self, queries: Queries) -> NDArray[np.int64]:
        """(queries, servers) rank of each server by its text, from 0; the number of servers if it is not ranked."""
        servers = int(self._server.max(initial=-1)) + 1
        places = np.full((len(queries), servers), servers, dtype=np.int64)
        if self._of_servers is not None:
            ranked = self._of_servers.rank(queries, servers).tools
            row, column = np.nonzero(ranked >= 0)
            places[row, ranked[row, column]] = column
        return places

    def _ordered(self, tools: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tools grouped by the order of their servers, within a server in the order of the base.

        Args:
            tools: codes, best first.
            places: (servers,) rank of each server.
        """
        server = self._server[tools]
        _, first, inverse = np.unique(server, return_index=True, return_inverse=True)
        best = first[inverse]
        # The number of tools of the same server above a tool.
        by_server = np.argsort(server, kind="stable")
        above = np.empty(len(tools), dtype=np.int64)
        counts = np.bincount(inverse, minlength=len(first))
        above[by_server] = np.arange(len(tools)) - np.repeat(np.cumsum(counts) - counts, counts)
        further = above >= self.parameters.tools
        keys = (np.arange(len(tools)), np.where(further, 0, best), np.where(further, 0, places[server]), further)
        order: NDArray[np.int64] = tools[np.lexsort(keys)]
        return order

    def explain(self, case: Case) -> Explanation:
        """The rank of a tool's server, and the tool's rank by the base."""
        answer = case.answer(self._base)
        everything = self._base.rank(case.query, self._size).tools[0]
        returned = everything[everything >= 0].astype(np.int64)
        order = self._ordered(returned, self._places(case.query)[0]).tolist()
        servers = list(dict.fromkeys(self._server[order].tolist()))
        place = {server: number + 1 for number, server in enumerate(servers)}
        reasons = {}
        for tool in case.tools:
            server_place, rank = place.get(int(self._server[tool])), answer.positions[tool].rank
            because = ""
            if tool in case.gold:
                because = (
                    f"its server is number {server_place or '-'}, and {answer.label} has the tool at rank {rank or '-'}"
                )
                rival = case.rivals.get(tool)
                if rival is not None:
                    because += f"; the server of {case.id_of(rival)} is number {place[int(self._server[rival])]}"
            reasons[tool] = Reason(None, (), (server_place, rank), case.library.tools[tool].parent, because)
        return Explanation(
            "its server",
            ("server's place", "base rank"),
            reasons,
            order=case.in_order(order),
            bases=(answer,),
        )

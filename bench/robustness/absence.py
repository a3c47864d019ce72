"""Absence: the right tools of a request are hidden from it, so nothing is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from bench.data.alternatives import alternatives
from bench.data.duplicates import near_duplicates
from bench.data.tables import Query, Tool
from bench.robustness.perturbation import Changed, perturbation


@perturbation("absence", invariant="no tool that is left is right", source="requests beyond a library, as MassTool's")
def hidden_gold(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Each request without its gold tools, their alternatives, near-duplicates and partners, in scope and gold.

    Alternatives are those of the gold and of `bench.data.alternatives`, near-duplicates those of
    `bench.data.duplicates`. Partners are tools that are gold together with one of a query's gold tools in another
    query: they may do a part of the work. A query keeps all of its tools if they are the whole library.
    """
    codes = {tool.tool_id: code for code, tool in enumerate(tools)}
    wanted = {tool for query in queries for tool in query.meeting}
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for code, others in alternatives(tools, [codes[tool] for tool in wanted]).items():
        alike[tools[code].tool_id].update(tools[other].tool_id for other in others)
    for copy, originals in near_duplicates(tools, [tools[codes[tool]] for tool in sorted(wanted)]).items():
        for original in originals:
            alike[original].add(copy)
    for query in queries:
        for tool in query.gold:
            alike[tool].update(query.meeting)

    @cache
    def show(scope: tuple[str, ...], hidden: frozenset[str]) -> tuple[str, ...]:
        # Requests without the same tools share one tuple: it is as long as the library.
        return tuple(tool for tool in (scope or codes) if tool not in hidden)

    def without(query: Query) -> Query:
        left = show(query.scope, frozenset(tool for gold in query.meeting for tool in (gold, *alike[gold])))
        if not query.gold or not left:
            return query
        return replace(query, gold={}, any_of={}, forbidden=(), scope=left)

    return [without(query) for query in queries], tools

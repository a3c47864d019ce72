"""Why query generation ranked as it did: the rank of a tool for each generated query, and for the utterance."""

from __future__ import annotations

from collections.abc import Sequence

from bench.interface import Case, Explanation, Reason
from bench.interface.explanation import excerpt
from bench.methods.query_generation.interleaving import Interleaving, interleaved

Ranks = tuple[int | None, ...]


def explain_queries(
    case: Case, searched: Sequence[str], lists: Sequence[Sequence[int]], base: str, interleaving: Interleaving
) -> Explanation:
    """Which query finds a tool, and at what rank.

    Args:
        case: the query and the displayed tools.
        searched: the search texts, in the order of their rankings.
        lists: the ranking of the whole library by each of them.
        base: the name of the method that searched.
        interleaving: how the rankings are taken in turn.
    """
    names = [f"q{i + 1}" if text != case.text else "whole" for i, text in enumerate(searched)]
    places = [{tool: rank for rank, tool in enumerate(tools, start=1)} for tools in lists]
    ranks = {tool: tuple(by_tool.get(tool) for by_tool in places) for tool in case.tools}
    reasons = {}
    for tool, tool_ranks in ranks.items():
        rival, best = case.rivals.get(tool), _best(tool_ranks, names)
        because = ""
        if rival is not None:
            other = _best(ranks[rival], names)
            where = "by none" if other is None else f"at {other[0]} by {other[1]}"
            mine = "no query finds it" if best is None else f"its best rank is {best[0]}, by {best[1]}"
            because = f"{mine}; {case.id_of(rival)} is found {where}"
        note = "found by none" if best is None else f"best by {best[1]}"
        reasons[tool] = Reason(None, (), tool_ranks, note, because)
    place = {tool: i for i, tool in enumerate(interleaved(lists, len(case.library), interleaving))}
    order = tuple(sorted(case.tools, key=lambda tool: place.get(tool, len(place))))
    quoted = [f'{name}: "{excerpt(text, 90)}".' for name, text in zip(names, searched, strict=True) if name != "whole"]
    notes = (f"Columns: the rank by {base} for each query; the rankings are taken in turn.", *quoted)
    return Explanation("which query finds it first", tuple(names), reasons, order, notes)


def _best(ranks: Ranks, names: Sequence[str]) -> tuple[int, str] | None:
    """The best rank and the name of the first query with it; None if no query finds the tool."""
    return min(
        ((rank, name) for rank, name in zip(ranks, names, strict=True) if rank is not None),
        key=lambda pair: pair[0],
        default=None,
    )

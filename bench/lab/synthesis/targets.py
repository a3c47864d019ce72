"""Targets of written queries: single tools, confusable pairs, chains, and no tool. `command` draws them.

Targets are drawn in the order of hashes of seed and tool ids, so they depend only on these, not on a random generator,
whose stream may change with a new version. With more queries of a kind, the first ones stay the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bench.base.errors import UsageError
from bench.data.derive import order_hash
from bench.data.parents import families
from bench.interface import Library
from bench.lab.synthesis.neighbours import Neighbours
from bench.methods.tgr.edges import Edges

Kind = Literal["single", "pair", "chain", "no-tool"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Default number of queries of each kind.
_MOST: Mapping[Kind, int] = {"single": 100, "pair": 50, "chain": 50, "no-tool": 20}
#: One query without a tool is written per this many tools.
_TOOLS_PER_NO_TOOL = 5
#: Number of neighbours that a request without a tool must avoid, the tool itself included.
_AROUND = 8


@dataclass(frozen=True)
class Target:
    """The target of one query; tools are codes of the library.

    Attributes:
        query_id: `pair-0007`: the kind, and its number within the kind from 1.
        gold: the tools that answer it, in the order of their use; empty for `no-tool`.
        rivals: tools shown to the writer that do not answer it: the other tool of a pair, or the tools around which
            a request without a tool is written.
        group: queries of one group are dependent.
        sample: number of earlier queries of the kind for the same tools.
    """

    query_id: str
    kind: Kind
    gold: tuple[int, ...]
    rivals: tuple[int, ...]
    group: str
    sample: int


def draw_targets(
    library: Library, neighbours: Neighbours, edges: Edges, numbers: Mapping[Kind, int | None], seed: int
) -> list[Target]:
    """The targets of all kinds, mixed evenly, so that a run that ends early has some of each.

    Args:
        library: the tools, with their annotated dependencies.
        neighbours: finds similar tools.
        edges: derived dependencies, for a library without annotated ones.
        numbers: queries of each kind; None, or no entry, for a number that suits the library.
        seed: another seed draws other tools.

    Raises:
        UsageError: queries of an impossible kind are requested.
    """
    ids = [tool.tool_id for tool in library.tools]
    pairs = neighbours.pairs
    group = dict(enumerate(ids)) | {tool: f"{ids[a]} + {ids[b]}" for a, b in pairs for tool in (a, b)}
    drawn = sorted(range(len(ids)), key=lambda tool: order_hash(f"{seed}:single:{ids[tool]}"))
    around = sorted(range(len(ids)), key=lambda tool: order_hash(f"{seed}:no-tool:{ids[tool]}"))
    near = [row[: _AROUND - 1] for row in neighbours.of_tools]
    # (gold, rivals, group) of each kind, in the order in which they are taken.
    by_kind: dict[Kind, list[tuple[tuple[int, ...], tuple[int, ...], str]]] = {
        "single": [((tool,), (), group[tool]) for tool in drawn],
        "pair": [((one,), (other,), group[one]) for a, b in pairs for one, other in ((a, b), (b, a))],
        "chain": [(chain, (), " + ".join(ids[tool] for tool in chain)) for chain in _chains(library, edges, seed)],
        "no-tool": [((), (tool, *near[tool]), group[tool]) for tool in around],
    }
    placed = [
        ((number + 0.5) / count, place, Target(f"{kind}-{number + 1:04}", kind, *by_kind[kind][rest], sample))
        for place, kind in enumerate(KINDS)
        if (count := _count(kind, len(by_kind[kind]), numbers.get(kind), len(ids)))
        for number in range(count)
        for sample, rest in [divmod(number, len(by_kind[kind]))]
    ]
    return [target for _, _, target in sorted(placed, key=lambda item: item[:2])]


_LACKING: Mapping[Kind, str] = {
    "pair": "no two of its tools are each other's nearest neighbours",
    "chain": "it has neither dependencies between tools nor a server with two tools",
}


def _count(kind: Kind, possible: int, requested: int | None, tools: int) -> int:
    """The number of queries of a kind, given `possible` different targets."""
    if requested is None:
        usual = -(-tools // _TOOLS_PER_NO_TOOL) if kind == "no-tool" else possible
        return min(usual, _MOST[kind])
    if requested and not possible:
        raise UsageError(f"the library allows no {kind} queries: {_LACKING[kind]}; leave them out.")
    return requested


# Chains -------------------------------------------------------------------------------------------------------------


def _chains(library: Library, derived: Edges, seed: int) -> list[tuple[int, ...]]:
    """Chains of two or three tools, first used first: along dependencies, else of one server."""
    edges = library.edges if len(library.edges) else derived
    ids = [tool.tool_id for tool in library.tools]
    if len(edges):
        return _along([(int(before), int(after)) for after, before in edges], ids, seed)
    chains: list[tuple[int, ...]] = []
    # If no tool names a server, all belong to one.
    named = any(tool.parent for tool in library.tools)
    for members in families(library.tools) if named else [range(len(ids))]:
        order = sorted(members, key=lambda tool: order_hash(f"{seed}:chain:{ids[tool]}"))
        while len(order) > 1:
            size = 3 if len(chains) % 2 and len(order) > 2 else 2
            chains.append(tuple(order[:size]))
            order = order[size:]
    return sorted(chains, key=lambda chain: order_hash(f"{seed}:chain:{[ids[tool] for tool in chain]}"))


def _along(edges: Sequence[tuple[int, int]], ids: Sequence[str], seed: int) -> list[tuple[int, ...]]:
    """A chain for each (prerequisite, dependent); every other one goes on to a third tool where there is one."""
    order = sorted(edges, key=lambda edge: order_hash(f"{seed}:chain:{ids[edge[0]]}:{ids[edge[1]]}"))
    following: defaultdict[int, list[int]] = defaultdict(list)
    leading: defaultdict[int, list[int]] = defaultdict(list)
    for before, after in order:
        following[before].append(after)
        leading[after].append(before)
    chains: dict[tuple[int, ...], None] = {}
    for number, (before, after) in enumerate(order):
        chain: tuple[int, ...] = (before, after)
        if number % 2:
            later = [tool for tool in following[after] if tool not in chain]
            earlier = [tool for tool in leading[before] if tool not in chain]
            chain = (*chain, later[0]) if later else (earlier[0], *chain) if earlier else chain
        chains[chain] = None
    return list(chains)

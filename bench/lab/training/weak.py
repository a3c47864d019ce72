"""Weak dependency labels from the schemas of a library.

A tool a is assumed to depend on b if a requires a handle (an id, a token, a key, ...) that b's response yields, b
neither requires nor accepts it, and both have the same parent, where equal names mean the same. The names agree in one
of three ways:

qualified  both have the handle by a name of two words or more: `order_id` and `order_id`;
entity     a requires `order_id`, b yields a bare `id`, and b's name speaks of orders;
bare       both have a bare `id`, and the names of a and b share a word for its kind.

The labels are weak because a response may yield an id of something else, and a tool without a known response yields
nothing. They never come from queries or from annotated edges.

A classifier should learn that names must agree, not which names there are. So a labelled pair also occurs in variants
with another name for the handle in both documents; a variant with the new name in only one document is a pair without a
dependency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.data.parents import families
from bench.data.tables import Tool
from bench.lab.training.pairs import ToolPair, group_of
from bench.methods.tgr.documents import document
from bench.methods.tgr.edges import NEITHER
from bench.methods.tgr.rules import handle_of, name_words
from bench.models.trainingcard import tool_digest

#: Words of tool names that say nothing about what a tool is about.
_GENERAL = frozenset(
    "a about all an and api by code data detail details fetch find for from get id in info key list lookup multiple "
    "new of on query random read search set show single specific the to v1 v2 v3 with".split()
)


@dataclass(frozen=True)
class WeakEdge:
    """`dependent` requires handles that `prerequisite` yields: (as required, as yielded), names as words."""

    dependent: int
    prerequisite: int
    handles: tuple[tuple[str, str], ...]


def weak_edges(tools: Sequence[Tool]) -> list[WeakEdge]:
    """Every weak label of a library, sorted by the tools' codes."""
    labels: defaultdict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for members in families(tools):
        topics = {code: _topics(tools[code]) for code in members}
        yields = {code: {handle_of(name) for name in tools[code].return_names()} - {None} for code in members}
        takes = {code: {"_".join(name_words(p.name)) for p in tools[code].parameters} for code in members}
        for dependent in members:
            for parameter in tools[dependent].parameters:
                wanted = handle_of(parameter.name) if parameter.required else None
                for prerequisite in members:
                    if wanted is None or prerequisite == dependent or wanted in takes[prerequisite]:
                        continue
                    yielded = _agreeing(wanted, yields[prerequisite], topics[dependent], topics[prerequisite])
                    if yielded is not None:
                        labels[dependent, prerequisite][_with_spaces(wanted)] = _with_spaces(yielded)
    return [WeakEdge(*pair, tuple(sorted(labels[pair].items()))) for pair in sorted(labels)]


def _agreeing(wanted: str, yields: set[str | None], dependent: set[str], prerequisite: set[str]) -> str | None:
    """The handle of the response that matches the required one, if any."""
    words = wanted.split("_")
    if len(words) > 1:
        if wanted in yields:
            return wanted
        return words[-1] if words[-1] in yields and _stem(words[-2]) in prerequisite else None
    return wanted if wanted in yields and dependent & prerequisite else None


def _topics(tool: Tool) -> set[str]:
    return {_stem(word) for word in name_words(tool.name) if word not in _GENERAL and not word.isdigit()}


def _stem(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")


def _with_spaces(handle: str) -> str:
    return handle.replace("_", " ")


def weak_pairs(
    tools: Sequence[Tool], variants: int, random: np.random.Generator
) -> tuple[list[ToolPair], list[ToolPair]]:
    """Pairs with a dependency (the first tool needs the second), and pairs without one that look similar.

    The latter are variants with another name in one document, and tools of one parent with known schemas of which
    neither yields what the other requires.

    `variants` are the renamed copies of each labelled pair, in addition to the pair itself.
    """
    edges = weak_edges(tools)
    names = sorted({wanted for edge in edges for wanted, _ in edge.handles} | _qualified_handles(tools))
    dependent: list[ToolPair] = []
    broken: list[ToolPair] = []
    for edge in edges:
        a, b = tools[edge.dependent], tools[edge.prerequisite]
        group, digests = group_of(a), (tool_digest(a), tool_digest(b))
        dependent.append(ToolPair(document(a), document(b), 0, group, digests))
        for _ in range(variants):
            size = 2 * len(edge.handles)
            drawn = [names[i] for i in random.permutation(len(names))[:size]]
            if len(drawn) < size:
                break
            wanted = {old: new for (old, _), new in zip(edge.handles, drawn, strict=False)}
            same = {old: new for (_, old), new in zip(edge.handles, drawn, strict=False)}
            other = {old: new for (_, old), new in zip(edge.handles, drawn[len(edge.handles) :], strict=True)}
            dependent.append(ToolPair(document(a, wanted), document(b, same), 0, group, digests))
            broken.append(ToolPair(document(a, wanted), document(b, other), NEITHER, group, digests))
    siblings = _siblings(tools, {(edge.dependent, edge.prerequisite) for edge in edges})
    chosen = random.permutation(len(siblings))[: max(1, len(edges)) * (variants + 1)]
    for i in sorted(chosen.tolist()):
        a, b = (tools[code] for code in siblings[i])
        broken.append(ToolPair(document(a), document(b), NEITHER, group_of(a), (tool_digest(a), tool_digest(b))))
    return dependent, broken


def _qualified_handles(tools: Sequence[Tool]) -> set[str]:
    handles = {handle_of(p.name) for tool in tools for p in tool.parameters}
    return {_with_spaces(handle) for handle in handles if handle is not None and "_" in handle}


def _siblings(tools: Sequence[Tool], edges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Tools of one parent with known responses between which no handle can flow, under any name."""
    pairs = []
    for family in families(tools):
        members = [code for code in family if tools[code].return_names()]
        for i, a in enumerate(members):
            for b in members[i + 1 :]:
                flows = _may_flow(tools[a], tools[b]) or _may_flow(tools[b], tools[a])
                if not flows and (a, b) not in edges and (b, a) not in edges:
                    pairs.append((a, b))
    return pairs


def _may_flow(dependent: Tool, prerequisite: Tool) -> bool:
    """Whether a required name, or its last word, occurs in the response."""
    yields = {name_words(name) for name in prerequisite.return_names()}
    last = {words[-1] for words in yields if words}
    required = {name_words(p.name) for p in dependent.parameters if p.required}
    return any(words and (words in yields or words[-1] in last) for words in required)

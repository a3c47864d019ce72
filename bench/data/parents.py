"""The parent of a tool: one definition for slices, graphs, methods and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool

Parent = tuple[str, ...]


def parent_of(tool: Tool) -> Parent:
    """What identifies a parent: two categories may have parents of the same name.

    A tool without a parent has one of its own, so that missing names do not make tools related.
    """
    return (tool.category, tool.parent) if tool.parent else (tool.tool_id,)


def parent_codes(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """(tools,) a number for each tool's parent; equal numbers mean the same parent."""
    codes: dict[Parent, int] = {}
    return np.array([codes.setdefault(parent_of(tool), len(codes)) for tool in tools], dtype=np.int64)


def families(tools: Sequence[Tool]) -> list[list[int]]:
    """Codes of the tools of each parent, ordered by the parents' first tools; codes ascend within a parent."""
    codes: defaultdict[Parent, list[int]] = defaultdict(list)
    for code, tool in enumerate(tools):
        codes[parent_of(tool)].append(code)
    return list(codes.values())

"""The parent of a tool: one definition for slices, graphs, methods and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool

Parent = tuple[str, ...]


def parent_of(tool: Tool) -> Parent:
    """What tells parents apart: two categories may have parents of the same name.

    A tool that names no parent has one to itself, so that tools are not kin for want of a name.
    """
    return (tool.category, tool.parent) if tool.parent else (tool.tool_id,)


def parent_codes(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """(tools,) a number for each tool's parent; equal numbers, same parent."""
    codes: dict[Parent, int] = {}
    return np.array([codes.setdefault(parent_of(tool), len(codes)) for tool in tools], dtype=np.int64)


def families(tools: Sequence[Tool]) -> list[list[int]]:
    """Codes of the tools of each parent, in the order of the parents' first tools; each family ascends."""
    codes: defaultdict[Parent, list[int]] = defaultdict(list)
    for code, tool in enumerate(tools):
        codes[parent_of(tool)].append(code)
    return list(codes.values())

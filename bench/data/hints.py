"""What tools may do to the world, as the hints of their MCP annotations say."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool

#: The least share of tools with hints in a library of which anything is said.
LEAST_ANNOTATED = 0.5


def destructive_tools(tools: Sequence[Tool]) -> NDArray[np.bool_] | None:
    """Which tools of a library may destroy something.

    A tool that is read-only destroys nothing; any other may, unless its `destructiveHint` is false. These are the
    defaults of MCP's `ToolAnnotations` (protocol version 2025-03-26 and later), by which a tool without annotations may
    destroy, too. A hint that is no JSON boolean is none.

    Returns:
        (tools,) whether it may; None if less than half of the tools have either hint, because then the absence of
        annotations would be counted.
    """
    hints = [_hints(tool) for tool in tools]
    if not hints or sum(hint != (None, None) for hint in hints) < LEAST_ANNOTATED * len(hints):
        return None
    return np.array([read_only is not True and destructive is not False for read_only, destructive in hints])


def _hints(tool: Tool) -> tuple[bool | None, bool | None]:
    """`readOnlyHint` and `destructiveHint`."""
    about = json.loads(tool.annotations) if tool.annotations else {}
    given = [about.get(name) if isinstance(about, dict) else None for name in ("readOnlyHint", "destructiveHint")]
    read_only, destructive = (hint if isinstance(hint, bool) else None for hint in given)
    return read_only, destructive

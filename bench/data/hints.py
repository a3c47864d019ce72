"""What tools may do to the world, according to their MCP annotations. Metrics of destructive tools use it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool

#: Minimum share of tools with hints for a statement about a library.
LEAST_ANNOTATED = 0.5


def destructive_tools(tools: Sequence[Tool]) -> NDArray[np.bool_] | None:
    """Find the tools of a library that may destroy something.

    A read-only tool destroys nothing; any other may, unless its `destructiveHint` is false. These are the defaults of
    MCP's `ToolAnnotations` (protocol version 2025-03-26 and later), by which a tool without annotations may destroy
    too. A hint that is not a JSON boolean is ignored.

    Returns:
        (tools,) whether it may; None if less than half of the tools have either hint, because the result would mostly
        count missing annotations.
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

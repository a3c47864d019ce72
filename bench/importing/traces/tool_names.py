"""The tools of a catalogue by the names that clients give them in calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from bench.data.tables import Tool
from bench.importing.queries import ToolNames

#: What clients put between the server and the name: `mcp__github__search`, `github_search`, `github.search`.
_BETWEEN = ("__", "_", "-", ".", ":")


class CalledNames:
    """What a tool may be called in a log: as in a file of queries, or with its server in front as clients write it."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._names = ToolNames(tools)
        self._without_server = {tool.tool_id for tool in tools if tool.tool_id == tool.name}
        self._written: defaultdict[str, set[str]] = defaultdict(set)
        for tool in tools:
            for server in {tool.category or tool.parent, tool.parent, tool.tool_id.removesuffix(f"/{tool.name}")}:
                # Names of functions have no other signs, so clients replace them.
                for group in {server, re.sub(r"[^A-Za-z0-9_-]", "_", server)} - {""}:
                    for written in (f"{group}{sign}{tool.name}" for sign in _BETWEEN):
                        self._written[written].add(tool.tool_id)
                    self._written[f"mcp__{group}__{tool.name}"].add(tool.tool_id)

    def find(self, called: str) -> str | None:
        """The id of the tool that was called; None if the catalogue has none, or several by this name."""
        match = self._names.find(called, near=False)
        if isinstance(match, str):
            return match
        if len(self._written.get(called, ())) == 1:
            return next(iter(self._written[called]))
        # Where the catalogue does not say whose a tool is, the log may.
        alone = called.rpartition("/")[2]
        return alone if alone in self._without_server else None

    def near(self, called: str) -> list[str]:
        """Ids of tools that may have been meant."""
        match = self._names.find(called, near=True)
        return [match] if isinstance(match, str) else list(match)

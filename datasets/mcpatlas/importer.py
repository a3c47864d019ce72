"""MCP-Atlas from the user's copy of ScaleAI/MCP-Atlas on the Hugging Face hub, with the tools of its servers.

The hub's one Parquet file has a row for each task: TASK (its id), PROMPT, ENABLED_TOOLS (the JSON of a list, of names
or of tools), TRAJECTORY (the JSON of a list of messages, whose `tool_calls` have `function.name`) and GTFA_CLAIMS,
which is not read. The tools that the trajectory calls are gold.

Names alone are no library. The definitions of the tools come from ENABLED_TOOLS if it has them, and from `tools.json`
beside the Parquet file: the answer of the repository's agent environment to list-tools, or any other form that
`bench data import` reads.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.tables import Query, Tables, Tool
from bench.importing.reading import check_json
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.importing.tools.forms import NoCatalogueError, tools_of
from bench.importing.tools.tool import DocumentTool

TOOLS = "tools.json"
_COLUMNS = ("TASK", "PROMPT", "ENABLED_TOOLS", "TRAJECTORY")


def read(folder: Path) -> dict[str, Tables]:
    """The tasks, and all tools that are defined.

    Raises:
        DataError: there is not one Parquet file, it is malformed, or a tool that is called is not defined.
    """
    tools: dict[str, Tool] = {}
    if (folder / TOOLS).is_file():
        for tool in read_catalogue([Source(folder / TOOLS)]).tools:
            tools.setdefault(tool.name, _own(tool))
    tasks: list[tuple[Query, str]] = []
    for where, row in _rows(folder):
        for tool in _defined(_json(row["ENABLED_TOOLS"], where), where):
            tools.setdefault(tool.name, _own(tool))
        task, prompt = row["TASK"], row["PROMPT"]
        if not isinstance(task, str) or not isinstance(prompt, str):
            raise DataError(f"{where} has no TASK or no PROMPT.")
        called = _called(_json(row["TRAJECTORY"], where))
        tasks.append((Query(task, prompt, dict.fromkeys(called, 1)), where))
    unknown = {name: where for query, where in tasks for name in query.gold if name not in tools}
    if unknown:
        name, where = next(iter(unknown.items()))
        raise DataError(
            f"{where}: the tool {one_line(name, 60)!r} is called and nowhere defined ({len(unknown)} such tools in "
            f"all): put the definitions of the servers' tools into {folder / TOOLS}."
        )
    return {"mcp-atlas": Tables(list(tools.values()), [query for query, _ in tasks])}


def _own(tool: Tool) -> Tool:
    """The tool under its name, by which tasks call it."""
    return replace(tool, tool_id=tool.name, parent=tool.parent or tool.name)


def _defined(value: Any, where: str) -> list[Tool]:
    """The tools of a list that has more of them than names."""
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return []
    try:
        return [item.tool for item in tools_of(value) if isinstance(item, DocumentTool)]
    except NoCatalogueError as error:
        raise DataError(f"{where}: ENABLED_TOOLS has objects that are no tools: {error}.") from None


def _called(value: Any) -> list[str]:
    """The names of the tools that a trajectory calls, each once, in order."""
    names: dict[str, None] = {}
    for message in value if isinstance(value, list) else ():
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            if isinstance(name, str) and name.strip():
                names[name] = None
    return list(names)


def _json(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return check_json(json.loads(value), where)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: ENABLED_TOOLS or TRAJECTORY is not JSON.") from None


def _rows(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    from bench.data.parquet import parquet_rows

    paths = sorted(folder.glob("*.parquet"))
    if len(paths) != 1:
        raise DataError(
            f"{folder} has {len(paths)} Parquet files, where the hub has one; see `bench data info mcp-atlas`."
        )
    label = paths[0].name
    rows = parquet_rows(paths[0], _COLUMNS, label)
    return [(f"{label}, row {number}", row) for number, row in enumerate(rows)]

"""The servers of a library: its tools grouped by parent, and a text for each server. Methods call it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.data.tables import Tool
from bench.interface.views import Library


def servers_of(library: Library) -> tuple[NDArray[np.int64], Library]:
    """The server of each tool, and a library in which each server is one tool.

    A tool without a parent is its own server. The text of a server is its name, with the names and descriptions of its
    tools.

    Returns:
        (tools,) number of each tool's server, in the order of their first tools; the servers by their numbers.
    """
    numbers: dict[str, int] = {}
    server = np.zeros(len(library), dtype=np.int64)
    members: list[list[Tool]] = []
    for code, tool in enumerate(library.tools):
        # No parent's name begins with a null character.
        number = numbers.setdefault(tool.parent or f"\0{tool.tool_id}", len(numbers))
        server[code] = number
        if number == len(members):
            members.append([])
        members[number].append(tool)
    rows = []
    for number, tools in enumerate(members):
        said = "\n".join(tool.text("name_description") for tool in tools)
        rows.append(Tool(f"{number:08}", tools[0].parent or tools[0].name, said, category=tools[0].category))
    texts = tuple(tool.text("name_description") for tool in rows)
    return server, Library(tuple(rows), texts, "name_description", np.empty((0, 2), dtype=np.int32))

"""LiveMCPBench: the tools of real MCP servers as they answered, and tasks whose annotators list the tools they used.

The lists have names without servers. Where several servers have a tool of that name, any of these tools meets the
requirement.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables
from bench.importing.tools.catalogue import Source, read_catalogue

LIBRARY = "tools/LiveMCPTool/tools.json"
TASKS = "annotated_data/all_annotations.json"

_NAMED = re.compile(r"\d+\. +(\S+)")


class _Server(BaseModel):
    """What the catalogue's reader does not look at: upstream's category of a server. `tools` has one key, its name."""

    category: str
    tools: dict[str, Any]


class _Annotation(BaseModel):
    tools: str = Field(alias="Tools")


class _Task(BaseModel):
    task_id: str = Field(min_length=1)
    question: str = Field(alias="Question", min_length=1)
    category: str
    annotation: _Annotation = Field(alias="Annotator Metadata")


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The tools as `server/name`, and the tasks by upstream's ids.

    Gold names that no server has are in `unknown_gold`; a task that names nothing else is left out.

    Raises:
        DataError: a file is not in upstream's format.
    """
    category = {name: server.category for server in files.read_as(list[_Server], LIBRARY) for name in server.tools}
    read = read_catalogue([Source(files.path(LIBRARY))])
    tools = [replace(tool, category=category.get(tool.parent, "")) for tool in read.tools]
    named: defaultdict[str, list[str]] = defaultdict(list)
    for tool in tools:
        named[tool.name].append(tool.tool_id)
    queries: list[Query] = []
    unknown: list[tuple[str, str]] = []
    left_out: list[str] = []
    for number, task in enumerate(files.read_as(list[_Task], TASKS)):
        names = _names(task, f"{TASKS}, record {number}")
        unknown += [(task.task_id, name) for name in names if name not in named]
        requirements = [named[name] for name in names if name in named]
        if not requirements:
            left_out.append(task.task_id)
            continue
        queries.append(
            Query(
                query_id=task.task_id,
                text=task.question,
                gold={first: 1 for first, *_ in requirements},
                any_of={first: tuple(others) for first, *others in requirements if others},
                slices={"task": task.category},
            )
        )
    return Tables(tools, queries, unknown_gold=unknown, left_out=left_out, remarks=read.remarks)


def _names(task: _Task, where: str) -> list[str]:
    """The tools of a numbered list, one a line, each once."""
    names: dict[str, None] = {}
    for line in task.annotation.tools.split("\n"):
        match = _NAMED.fullmatch(line.strip())
        if match is None:
            raise DataError(f"{where}: a line of `Tools` is no number with the name of a tool.")
        names[match[1]] = None
    return list(names)

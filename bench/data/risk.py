"""Labels of risk as annotations of tools. Loaders of datasets with such labels use them.

The levels are those of *Risk-Aware Reranking for Agentic Tool Retrieval* (2026): 1, a tool only reads; 2, its actions
have little impact and can be undone; 3, it takes elevated permissions or half-sensitive data; 4, its actions cannot be
undone, or its data are highly sensitive; 5, it can do severe harm. Upstream calls levels 3 to 5 high.
"""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.base.records import Record
from bench.data.files import Files
from bench.data.tables import Tables


class RiskOptions(ParameterSet):
    """The options of a dataset whose tools have labels of risk."""

    destructive: int = Field(
        3, ge=2, le=5, description="the lowest level of risk at which a tool counts as destructive"
    )


class _Label(Record):
    risk_level: int = Field(ge=1, le=5)
    description: str


def with_risk(tables: Tables, files: Files, name: str, options: RiskOptions) -> Tables:
    """The tables with the levels of a label file (tool -> level) as annotations of the tools.

    Level 1 becomes `readOnlyHint`, levels from `options.destructive` on become `destructiveHint`, and `risk` is the
    level itself. Remarks count tools without a label, and labels without a tool.

    Raises:
        DataError: the file does not contain labels.
    """
    labels = files.read_as(dict[str, _Label], name)
    known = {tool.tool_id for tool in tables.tools}
    counts = {
        "tools without a label of risk": len(known - labels.keys()),
        "labels of no tool": len(labels.keys() - known),
    }
    remarks = [(name, f"{what}: {count}") for what, count in counts.items() if count]
    annotations = {
        tool: json.dumps({"readOnlyHint": level == 1, "destructiveHint": level >= options.destructive, "risk": level})
        for tool, level in ((tool, label.risk_level) for tool, label in labels.items())
    }
    tools = [replace(tool, annotations=annotations.get(tool.tool_id)) for tool in tables.tools]
    return replace(tables, tools=tools, remarks=[*tables.remarks, *remarks])

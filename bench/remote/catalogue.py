"""The library as a retriever outside of bench gets it: one JSON object per tool."""

from __future__ import annotations

import json
from typing import Any

from bench.interface import Library


def catalogue(library: Library) -> list[dict[str, Any]]:
    """The tools in code order: id, name, description, category, parent, parameters, and the text to be indexed."""
    return [
        {
            "id": tool.tool_id,
            "name": tool.name,
            "description": tool.description,
            "category": tool.category,
            "parent": tool.parent,
            "parameters": [{**parameter.to_schema(), "required": parameter.required} for parameter in tool.parameters],
            "text": text,
        }
        for tool, text in zip(library.tools, library.texts, strict=True)
    ]


def as_lines(library: Library) -> str:
    """The catalogue as JSON Lines."""
    return "".join(json.dumps(tool, ensure_ascii=True) + "\n" for tool in catalogue(library))

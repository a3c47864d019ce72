"""Build a tool from the values of a document, and check them. The readers of all forms call it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.base.text import one_line
from bench.data.dataset import NOT_IN_IDS
from bench.data.tables import Tool
from bench.importing.tools.schemas import parameters_of

#: Maximum characters of a name. The forms allow 64 or 128.
MOST_NAME = 256
#: Maximum characters of a schema as JSON.
MOST_SCHEMA = 4 << 20

Steps = tuple[object, ...]


@dataclass(frozen=True)
class DocumentTool:
    """A tool in its document.

    Attributes:
        tool: the tool; for now, its id is its name.
        steps: its JSON pointer.
        server: its server according to the document; empty if none.
        unread: its fields that are not read.
    """

    tool: Tool
    steps: Steps
    server: str = ""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A part of a document that is not imported.

    Attributes:
        steps: its JSON pointer.
        reason: why, without a full stop.
    """

    steps: Steps
    reason: str


def read_tool(
    name: Any,
    description: Any,
    *,
    title: Any = None,
    schema: Any = None,
    returns: Any = None,
    annotations: Any = None,
    deprecated: bool = False,
    place: Steps,
    server: str = "",
    parent: str = "",
) -> DocumentTool | Skipped:
    """A tool, or the reason why there is none.

    An invalid input schema is kept: the audit counts it.

    Args:
        name, description, title, schema, returns, annotations: values of the document, of any type.
        deprecated: whether the document says so.
        place: the JSON pointer of the tool.
        server: its server according to the document; empty if none.
        parent: a group within the server, such as a tag; empty if none.
    """
    if not isinstance(name, str) or not name.strip():
        fault = "the tool has no name" if name is None or name == "" else f"the name is {_kind(name)}"
        about = f"; its description is {one_line(description, 60)!r}" if isinstance(description, str) else ""
        return Skipped(place, fault + about)
    if fault := name_fault(name):
        return Skipped(place, f"the name {fault}")
    if not isinstance(description, str | None):
        return Skipped(place, f"the description of {one_line(name, 60)} is {_kind(description)}")
    texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in (schema, returns)]
    if any(text is not None and len(text) > MOST_SCHEMA for text in texts):
        return Skipped(place, f"a schema of {one_line(name, 60)} is longer than {MOST_SCHEMA} characters")
    given = annotations if isinstance(annotations, dict) else {}
    title = title if isinstance(title, str) else given.get("title")
    tool = Tool(
        name,
        name,
        description or "",
        parent=parent if not name_fault(parent or "x") else "",
        parameters=parameters_of(schema),
        returns=texts[1],
        title=title if isinstance(title, str) else "",
        annotations=json.dumps(given, ensure_ascii=False) if given else None,
        input_schema=texts[0],
        deprecated=deprecated,
    )
    return DocumentTool(tool, place, server)


def canonical(tool: Tool) -> Tool:
    """The tool with its parameters and the keys of its schemas sorted by name, because their order means nothing."""
    texts = {key: getattr(tool, key) for key in ("input_schema", "returns", "annotations")}
    schemas: dict[str, Any] = {
        key: json.dumps(json.loads(text), sort_keys=True) for key, text in texts.items() if text is not None
    }
    parameters = sorted(tool.parameters, key=lambda parameter: parameter.name)
    return replace(tool, parameters=tuple(parameters), **schemas)


def as_listed(tool: Tool) -> dict[str, Any]:
    """An imported tool as an MCP server lists it; importing it again gives the same tool."""
    about = {"inputSchema": tool.input_schema, "outputSchema": tool.returns, "annotations": tool.annotations}
    schemas = {key: json.loads(text) for key, text in about.items() if text is not None}
    has_title = tool.title or "title" in schemas.get("annotations", {})
    title = {"title": tool.title} if has_title else {}
    deprecated = {"deprecated": True} if tool.deprecated else {}
    return {"name": tool.name, **title, "description": tool.description, **schemas, **deprecated}


def annotations_of(*holders: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a tool from the objects that describe it: `annotations`, and MCP's hints elsewhere.

    Some projects have the hints beside the name or under `metadata` or `_meta`, and some use Python names
    (`read_only_hint`). The first value of each counts.
    """
    annotations: dict[str, Any] = {}
    for holder in holders:
        given = holder.get("annotations")
        about = [holder.get(key) for key in ("metadata", "_meta")]
        about += [each.get("annotations") for each in about if isinstance(each, Mapping)]
        for source in (given, holder, *about):
            for key, value in source.items() if isinstance(source, Mapping) else ():
                key = HINTS.get(key, key)
                if source is given or (key in HINTS.values() and isinstance(value, bool)):
                    annotations.setdefault(key, value)
    return annotations


#: The hints of MCP's `ToolAnnotations`, by their own names and in Python's spelling.
HINTS = {
    written: hint
    for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    for written in (hint, re.sub("([A-Z])", lambda match: f"_{match[0].lower()}", hint))
}


def name_fault(name: str) -> str:
    """Why the name of a tool or a server is invalid, as the end of a sentence; empty if it is valid."""
    if len(name) > MOST_NAME:
        return f"{one_line(name, 40)!r} is longer than {MOST_NAME} characters"
    if any(unicodedata.category(sign) in NOT_IN_IDS for sign in name):
        return f"{one_line(name, 60)!r} contains control characters"
    return "" if name.strip() else "is empty"


def _kind(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "bool": "a truth value", "str": "blank"}
    return names.get(type(value).__name__, "a number")

"""Tools of Python programs: objects of LangChain, LlamaIndex, pydantic-ai and the MCP SDK, told apart by attributes.

None of these packages is imported. JSON data is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.base.errors import UsageError
from bench.importing.tools.tool import annotations_of


def as_json(value: Any) -> Any:
    """A list of tools, one tool, or JSON data, as JSON data in a form that `bench.importing.tools.forms` reads.

    Raises:
        UsageError: an object is no tool of a known package, or does not tell its schema.
    """
    if isinstance(value, Mapping):  # JSON data, or lists of tools by their server
        return {key: as_json(each) if isinstance(each, list | tuple) else each for key, each in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [as_json(each) for each in value]
    listed = getattr(value, "tools", None)
    if isinstance(listed, Sequence) and not isinstance(listed, str):  # the MCP SDK's ListToolsResult
        return {"tools": [as_json(each) for each in listed]}
    try:
        return _tool(value)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"the tool {_name_of(value)} does not tell its schema ({type(error).__name__}: {error})."
        ) from error


def _tool(value: Any) -> dict[str, Any]:
    definition = getattr(value, "tool_def", None)
    if definition is not None:  # pydantic-ai: Tool.tool_def is a ToolDefinition
        value = definition
    if hasattr(value, "parameters_json_schema"):
        return _mcp(value, value.parameters_json_schema)
    metadata: Any = getattr(value, "metadata", None)
    if hasattr(metadata, "get_parameters_dict"):  # LlamaIndex: BaseTool.metadata is a ToolMetadata
        named = metadata.get_name() if hasattr(metadata, "get_name") else metadata.name
        return {"name": named, "description": metadata.description, "inputSchema": metadata.get_parameters_dict()}
    if hasattr(value, "inputSchema") or hasattr(
        value, "input_schema"
    ):  # mcp.types.Tool, by the names of version 1 or 2
        dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
    if hasattr(value, "args_schema"):  # LangChain: BaseTool; `tool_call_schema` leaves out what the program injects
        schema = getattr(value, "tool_call_schema", None)
        return _mcp(value, schema if schema is not None else value.args_schema)
    raise UsageError(
        f"{_name_of(value)} is no tool of LangChain, LlamaIndex, pydantic-ai or the MCP SDK; pass JSON data: an object "
        "with name, description and inputSchema."
    )


def _mcp(value: Any, schema: Any) -> dict[str, Any]:
    # LangChain's adapter and pydantic-ai keep the annotations of an MCP server's tool under `metadata`.
    annotations = annotations_of({"metadata": getattr(value, "metadata", None)})
    tool = {"name": value.name, "description": value.description, "inputSchema": _schema(schema)}
    return {**tool, "annotations": annotations} if annotations else tool


def _schema(schema: Any) -> Any:
    """JSON Schema out of itself or of a pydantic model, of version 2 or 1."""
    if schema is None or isinstance(schema, Mapping):
        return schema
    if hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    return schema.schema()


def _name_of(value: Any) -> str:
    name = getattr(value, "name", None)
    return repr(name) if isinstance(name, str) else f"an object of the type {type(value).__name__}"

"""Convert tool objects of LangChain, LlamaIndex, pydantic-ai and the MCP SDK, recognised by attributes, to JSON data.

None of these packages is imported; JSON data is unchanged. The Python API calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.base.errors import UsageError
from bench.importing.tools.tool import annotations_of


def as_json(value: Any) -> Any:
    """A list of tools, a tool or JSON data as JSON data in a form that `bench.importing.tools.forms` reads.

    Raises:
        UsageError: an object is not a tool of a known package, or does not state its schema.
    """
    if isinstance(value, Mapping):  # JSON data, or lists of tools by server
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
            f"the tool {_name_of(value)} does not state its schema ({type(error).__name__}: {error})."
        ) from error


#: Attributes with the schema: of pydantic-ai, and of LangChain, whose `tool_call_schema` omits injected arguments.
_SCHEMAS = ("parameters_json_schema", "tool_call_schema", "args_schema")


def _tool(value: Any) -> dict[str, Any]:
    value = getattr(value, "tool_def", None) or value  # pydantic-ai: Tool.tool_def is a ToolDefinition
    metadata: Any = getattr(value, "metadata", None)
    if hasattr(metadata, "get_parameters_dict"):  # LlamaIndex: BaseTool.metadata is a ToolMetadata
        named = metadata.get_name() if hasattr(metadata, "get_name") else metadata.name
        return {"name": named, "description": metadata.description, "inputSchema": metadata.get_parameters_dict()}
    if hasattr(value, "inputSchema") or hasattr(value, "input_schema"):  # mcp.types.Tool, of version 1 or 2
        dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
    if not any(hasattr(value, key) for key in _SCHEMAS):
        raise UsageError(
            f"{_name_of(value)} is not a tool of LangChain, LlamaIndex, pydantic-ai or the MCP SDK; pass JSON data: an "
            "object with name, description and inputSchema."
        )
    schema = next((each for key in _SCHEMAS if (each := getattr(value, key, None)) is not None), None)
    if schema is not None and not isinstance(schema, Mapping):  # a model of pydantic 2 or 1
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    # LangChain's adapter and pydantic-ai store the annotations of an MCP tool in `metadata`.
    annotations = annotations_of({"metadata": metadata})
    tool = {"name": value.name, "description": value.description, "inputSchema": schema}
    return {**tool, "annotations": annotations} if annotations else tool


def _name_of(value: Any) -> str:
    name = getattr(value, "name", None)
    return repr(name) if isinstance(name, str) else f"an object of the type {type(value).__name__}"

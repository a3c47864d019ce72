"""The normalised rows that loaders return, and the templates of tool text.

A loader turns upstream's files into `Tables`; `bench.data.dataset.Dataset.build` checks, sorts and encodes them. Rows
are used only at I/O boundaries; all other code uses integer codes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.data.template import MOST_TEXT, Template, _compile_template, template_name

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

EdgeReason = Literal["result", "verification"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of a tool. `default` is upstream's value as JSON text, None if there is none."""

    name: str
    type: str = ""
    description: str = ""
    required: bool = True
    default: str | None = None

    def to_schema(self) -> dict[str, Any]:
        """A parameter as ToolBench writes it: name, type, description, and default if there is one."""
        schema: dict[str, Any] = {"name": self.name, "type": self.type, "description": self.description}
        if self.default is not None:
            schema["default"] = json.loads(self.default)
        return schema


@dataclass(frozen=True, slots=True)
class Tool:
    """One retrievable tool and its place in the hierarchy category > parent > tool.

    `returns` is the response schema as JSON text (None if unknown). `source` is the tool's text in the upstream corpus,
    if it has one.

    Tools of an imported catalogue also have a `title`, `annotations` (an object, as JSON text), the whole
    `input_schema` (JSON Schema, as JSON text; `parameters` are its top-level properties), and the mark `deprecated`.
    The response schema of such a tool is JSON Schema too.
    """

    tool_id: str
    name: str
    description: str
    category: str = ""
    parent: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: str | None = None
    source: str | None = None
    title: str = ""
    annotations: str | None = None
    input_schema: str | None = None
    deprecated: bool = False

    def text(self, template: Template) -> str:
        """The text that methods index, by rule 6 of the protocol.

        Raises:
            UsageError: a Jinja template fails on this tool, or makes too long a text.
        """
        if template in TOOL_TEXTS:
            return TOOL_TEXTS[template](self)
        return render_tool(template, self)

    def schema(self) -> Any:
        """The input schema; for a tool without one, a schema of its parameters."""
        if self.input_schema is not None:
            return json.loads(self.input_schema)
        properties = {
            p.name: {key: value for key, value in p.to_schema().items() if key != "name" and value != ""}
            for p in self.parameters
        }
        required = [p.name for p in self.parameters if p.required]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def return_names(self) -> tuple[str, ...]:
        """Every field name in the response schema, at any depth, in order of first appearance."""
        if self.returns is None:
            return ()
        if self.input_schema is not None:
            return tuple(property_names(json.loads(self.returns)))
        return tuple(dict.fromkeys(_field_names(json.loads(self.returns))))


# The named templates of tool text (protocol, rule 6) ------------------------------------------------------------------


def describe(tool: Tool) -> str:
    """The description alone."""
    return tool.description


def name_and_describe(tool: Tool) -> str:
    """`name: description`."""
    return f"{tool.name}: {tool.description}"


def with_parameters(tool: Tool) -> str:
    """Name and description, then the parameters with their descriptions."""
    inputs = [f"{p.name}: {p.description}" if p.description else p.name for p in tool.parameters]
    return name_and_describe(tool) + (f", parameters: {'; '.join(inputs)}" if inputs else "")


def as_definition(tool: Tool) -> str:
    """A function definition as APIs of models take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema()}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def as_toolbench(tool: Tool) -> str:
    """A tool as ToolBench's retriever writes it: `json.dumps` with its defaults; a missing schema is ""."""
    required = [p.to_schema() for p in tool.parameters if p.required]
    optional = [p.to_schema() for p in tool.parameters if not p.required]
    returns = json.loads(tool.returns) if tool.returns is not None else ""
    return (
        f"{tool.category}, {tool.parent}, {tool.name}, {tool.description}, "
        f"required_params: {json.dumps(required)}, optional_params: {json.dumps(optional)}, "
        f"return_schema: {json.dumps(returns)}"
    )


def as_upstream(tool: Tool) -> str:
    """The tool's text in the upstream corpus, if it has one."""
    return tool.source if tool.source is not None else name_and_describe(tool)


#: Name -> the text of a tool. A result's identity includes the code of its own template, not this table.
TOOL_TEXTS: Mapping[Template, Callable[[Tool], str]] = {
    "description": describe,
    "name_description": name_and_describe,
    "name_parameters": with_parameters,
    "full": as_definition,
    "toolbench": as_toolbench,
    "source": as_upstream,
}


#: JSON Schema keywords whose values are schemas: by name, in a list, single.
SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_VALUES = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})


def render_tool(template: Template, tool: Tool) -> str:
    """The text of a tool by a Jinja template.

    The template sees `id`, `name`, `title`, `description`, `category`, `parent`, `parameters` (each with name, type,
    description, required, default), `schema` (the input schema), `returns` (the response schema, or none),
    `annotations` (an object) and `deprecated`.

    Raises:
        UsageError: the template is not Jinja, uses an unknown name, fails, or makes too long a text.
    """
    compiled = _compile_template(template)
    values = {
        "id": tool.tool_id,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "category": tool.category,
        "parent": tool.parent,
        "parameters": tool.parameters,
        "schema": tool.schema(),
        "returns": None if tool.returns is None else json.loads(tool.returns),
        "annotations": {} if tool.annotations is None else json.loads(tool.annotations),
        "deprecated": tool.deprecated,
    }
    parts: list[str] = []
    left = MOST_TEXT
    try:
        for part in compiled.generate(values):
            left -= len(part)
            if left < 0:
                raise UsageError(
                    f"the template {template_name(template)} makes more than {MOST_TEXT} characters of the tool "
                    f"{tool.tool_id}."
                )
            parts.append(part)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"the template {template_name(template)} fails on the tool {tool.tool_id} ({type(error).__name__}: "
            f"{one_line(str(error), 160)})."
        ) from None
    return "".join(parts)


def property_names(schema: Any) -> list[str]:
    """The names of all properties of a JSON Schema, at any depth, in order of first appearance."""
    names: dict[str, None] = {}
    pending = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, Mapping):
            continue
        inner: list[Any] = []
        for key, value in node.items():
            if key in SCHEMAS_BY_NAME and isinstance(value, Mapping):
                if key == "properties":
                    names.update(dict.fromkeys(value))
                inner.extend(value.values())
            elif key in SCHEMA_LISTS and isinstance(value, list):
                inner.extend(value)
            elif key in SCHEMA_VALUES:
                inner.append(value)
        pending.extend(reversed(inner))
    return list(names)


def _field_names(schema: Any) -> list[str]:
    names: list[str] = []
    pending: list[tuple[str | None, Any]] = [(None, schema)]
    while pending:
        name, node = pending.pop()
        if name is not None:
            names.append(name)
        if isinstance(node, Mapping) and not _describes_a_field(node):
            # `_list_length` is a note by StableToolBench about a list, not a field.
            pending.extend((key, value) for key, value in reversed(list(node.items())) if key != "_list_length")
        elif isinstance(node, Sequence) and not isinstance(node, str):
            pending.extend((None, item) for item in reversed(node))
    return names


#: How StableToolBench writes the type of a field in place of its value.
_TYPE_NAME = re.compile(r"(str|int|float|bool|NoneType|list|dict|empty list|(empty )?list of .*)?")


def _describes_a_field(node: Mapping[str, Any]) -> bool:
    """Whether a mapping describes a field, as in {"type": "str", "description": "The user's token."}.

    A response may itself have fields named `type` and `description`; its schema then gives type names for both.
    """
    return (
        node.keys() >= {"type", "description"}
        and all(isinstance(value, str | bool) for value in node.values())
        and not _TYPE_NAME.fullmatch(str(node["description"]))
    )


@dataclass(frozen=True, slots=True)
class Query:
    """One query with its gold tools (tool_id -> relevance, at least 1) and its slices (name -> value).

    `group` names the origin that several queries share, such as the script of a dialogue or a template; empty for none.
    Queries of one group are dependent (see `bench.data.units`).

    Each entry of `gold` is a requirement. `any_of` gives further tools that meet it (gold tool -> tool_ids). A tool of
    `forbidden` looks right but does harm. `searches` are the texts that a model typed into its tool search for this
    query, `context` the earlier turns of the conversation, oldest first. `origin` says who wrote the query: empty for
    people, `traces` for one taken from logs, `model NAME` for a language model.

    `calls` are the texts of a query with several calls, whose rankings are merged (see `bench.data.queryviews`); empty
    for a query with one text. `scope` names the tools that the request may see, for gateways that show each user only
    some servers; empty for the whole library.
    """

    query_id: str
    text: str
    gold: Mapping[str, int]
    split: Split = "test"
    slices: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    any_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    origin: str = ""
    calls: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()

    @property
    def meeting(self) -> dict[str, int]:
        """tool_id -> relevance of all tools that meet a requirement: gold tools and their alternatives."""
        relevance = dict(self.gold)
        for tool, others in self.any_of.items():
            for other in others:
                relevance[other] = max(self.gold[tool], relevance.get(other, 0))
        return relevance


@dataclass(frozen=True, slots=True)
class Edge:
    """`dependent` needs `prerequisite`: its result, or its verification beforehand."""

    dependent: str
    prerequisite: str
    reason: EdgeReason
    note: str = ""


@dataclass(frozen=True)
class Tables:
    """What a loader returns.

    `unknown_gold` are upstream's (query_id, tool_id) pairs with tools outside the library that the user chose to drop;
    they are kept for the audit. `left_out` are ids of unused queries: no split contains them, or all of their gold was
    dropped. `remarks` are (place in the source, what) pairs of an imported catalogue: skipped tools with reasons, and
    references without a target.
    """

    tools: Sequence[Tool]
    queries: Sequence[Query]
    edges: Sequence[Edge] = ()
    unknown_gold: Sequence[tuple[str, str]] = ()
    left_out: Sequence[str] = ()
    remarks: Sequence[tuple[str, str]] = ()

"""The normalised rows that loaders return, and the templates of tool text.

A loader turns upstream's files into `Tables`; `bench.data.dataset.Dataset.build` checks, sorts and
encodes them. Rows are for the borders; inside, everything is integer codes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

Template = Literal["description", "name_description", "toolbench", "source"]
TEMPLATES: tuple[Template, ...] = ("description", "name_description", "toolbench", "source")

EdgeReason = Literal["result", "verification"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input of a tool. `default` is upstream's value as JSON text, None when it names none."""

    name: str
    type: str = ""
    description: str = ""
    required: bool = True
    default: str | None = None

    def to_schema(self) -> dict[str, Any]:
        """As ToolBench writes a parameter: name, type, description, and default where there is one."""
        schema: dict[str, Any] = {"name": self.name, "type": self.type, "description": self.description}
        if self.default is not None:
            schema["default"] = json.loads(self.default)
        return schema


@dataclass(frozen=True, slots=True)
class Tool:
    """One retrievable tool and its place in the hierarchy category > parent > tool.

    `returns` is the response schema as JSON text (None when unknown). `source` is the text the
    upstream corpus has for this tool, where it has one.
    """

    tool_id: str
    name: str
    description: str
    category: str = ""
    parent: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: str | None = None
    source: str | None = None

    def text(self, template: Template) -> str:
        """The text that methods index, by the protocol's section 4."""
        if template == "description":
            return self.description
        if template == "name_description":
            return f"{self.name}: {self.description}"
        if template == "source":
            return self.source if self.source is not None else self.text("name_description")
        required = [p.to_schema() for p in self.parameters if p.required]
        optional = [p.to_schema() for p in self.parameters if not p.required]
        # ToolBench's retriever serialises with json.dumps defaults; an absent schema is "".
        returns = json.loads(self.returns) if self.returns is not None else ""
        return (
            f"{self.category}, {self.parent}, {self.name}, {self.description}, "
            f"required_params: {json.dumps(required)}, optional_params: {json.dumps(optional)}, "
            f"return_schema: {json.dumps(returns)}"
        )

    def return_names(self) -> tuple[str, ...]:
        """Every field name in the response schema, at any depth, in order of first appearance."""
        if self.returns is None:
            return ()
        return tuple(dict.fromkeys(_field_names(json.loads(self.returns))))


def _field_names(schema: Any) -> list[str]:
    names: list[str] = []
    pending: list[tuple[str | None, Any]] = [(None, schema)]
    while pending:
        name, node = pending.pop()
        if name is not None:
            names.append(name)
        if isinstance(node, Mapping) and not _describes_a_field(node):
            # `_list_length` is StableToolBench's note on a list, not a field.
            pending.extend((key, value) for key, value in reversed(list(node.items())) if key != "_list_length")
        elif isinstance(node, Sequence) and not isinstance(node, str):
            pending.extend((None, item) for item in reversed(node))
    return names


#: How StableToolBench writes the type of a field in place of its value.
_TYPE_NAME = re.compile(r"(str|int|float|bool|NoneType|list|dict|empty list|(empty )?list of .*)?")


def _describes_a_field(node: Mapping[str, Any]) -> bool:
    """Whether a mapping says what a field is, as in {"type": "str", "description": "The user's token."}.

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

    `group` names what the query was made from where several queries were made from it, such as the script of a dialogue
    or a template; empty for none. Queries of one group are dependent (see `bench.data.units`).
    """

    query_id: str
    text: str
    gold: Mapping[str, int]
    split: Split = "test"
    slices: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


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

    `unknown_gold` are (query_id, tool_id) pairs that upstream has, that name tools outside the library, and that
    the user chose to drop; they are kept for the audit. `left_out` are ids of queries that take no part: no split
    claims them, or all of their gold was dropped.
    """

    tools: Sequence[Tool]
    queries: Sequence[Query]
    edges: Sequence[Edge] = ()
    unknown_gold: Sequence[tuple[str, str]] = ()
    left_out: Sequence[str] = ()

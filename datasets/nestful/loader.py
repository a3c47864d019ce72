"""NESTFUL: requests for nested calls, in three parts, each with tools of its own.

A call names its result (`var1`), and later calls take values out of it (`$var1.skyId$`). The calls of a request are its
gold, and each such reference is an edge: the call that takes the value depends on the call that gives it. The last
entry of a request, `var_result`, says what to answer and is no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.base.records import Record
from bench.data.card import Card
from bench.data.derive import SplitOptions, with_splits
from bench.data.files import Files
from bench.data.tables import Edge, Query, Tables, Tool
from bench.importing.tools.schemas import parameters_of

#: Part -> how the names of upstream's files begin.
PARTS = {
    "executable": "data/executable/executable",
    "sgd": "data/non-executable/non-executable-sgd",
    "glaive": "data/non-executable/non-executable-glaive",
}
_RESULT = "var_result"
#: A label and the path of a value in the result that it names. One of upstream's references lacks the first `$`.
_REFERENCE = re.compile(r'\$?\b(var_?\d+)((?:[.\[][^$"]*)?)\$')


class Options(ParameterSet):
    """Which requests, and whose references are edges."""

    part: Literal["all", "executable", "sgd", "glaive"] = Field(
        "all", description="all three parts over one library, or one part over its own tools"
    )
    edges: Literal["all", "held-out"] = Field(
        "all",
        description="references that are edges: those of all requests, also of the one that is asked (all); or those "
        "of one half of the requests, whose gold sets the other half, which is tested, does not have (held-out)",
    )


class _Tool(BaseModel):
    """The parts name the inputs in four ways. How to send a request to the API, and to read its reply, is not read."""

    name: str = Field(min_length=1)
    description: str
    host: str = ""
    path_parameters: dict[str, dict[str, Any]] = {}
    query_parameters: dict[str, dict[str, Any]] = {}
    arguments: dict[str, dict[str, Any]] = {}
    parameters: dict[str, dict[str, Any]] = {}
    output_parameters: dict[str, Any]


class _Call(Record):
    name: str = Field(min_length=1)
    arguments: dict[str, Any]
    label: str = ""


class _Request(Record):
    input: str = Field(min_length=1)
    output: list[_Call] = Field(min_length=1)


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tools by their names, and the requests numbered in the order of their part.

    Gold that names a tool which the part does not have is in `unknown_gold`, and its references are no edges.

    Raises:
        DataError: a file is not in upstream's format.
    """
    tools: dict[str, Tool] = {}
    queries: list[Query] = []
    unknown: list[tuple[str, str]] = []
    references: dict[str, list[Edge]] = {}
    for part in PARTS if options.part == "all" else [options.part]:
        specification, requests = (f"{PARTS[part]}-{kind}.json" for kind in ("spec", "data"))
        for record in files.read_as(list[_Tool], specification):
            tool = _tool(record)
            # Glaive's specification repeats some tools.
            if tools.setdefault(tool.tool_id, tool) != tool:
                raise DataError(f"{specification}: the tool {tool.tool_id} is there twice and differs.")
        for number, request in enumerate(files.read_as(list[_Request], requests)):
            identifier = f"{part}-{number:03}"
            called = dict.fromkeys(call.name for call in request.output if call.name != _RESULT)
            unknown += [(identifier, name) for name in called if name not in tools]
            gold = {name: 1 for name in called if name in tools}
            queries.append(Query(identifier, request.input, gold, slices={"part": part}))
            references[identifier] = [
                edge
                for edge in _references(request.output, f"{requests}, record {number}")
                # A tool that takes its own result needs no other.
                if edge.dependent != edge.prerequisite and {edge.dependent, edge.prerequisite} <= gold.keys()
            ]
    source = "test"
    if options.edges == "held-out":
        source, queries = "train", with_splits(queries, SplitOptions(split="bundle-disjoint", test_share=0.5))
    edges: dict[tuple[str, str], Edge] = {}
    for edge in (edge for query in queries if query.split == source for edge in references[query.query_id]):
        edges.setdefault((edge.dependent, edge.prerequisite), edge)
    return Tables(list(tools.values()), queries, list(edges.values()), unknown)


def _tool(record: _Tool) -> Tool:
    inputs = {**record.path_parameters, **record.query_parameters, **record.arguments, **record.parameters}
    schema = {
        "type": "object",
        # Marks such as `required` are upstream's, and no part of a schema.
        "properties": {
            name: {key: value for key, value in about.items() if not isinstance(value, bool) or key == "default"}
            for name, about in inputs.items()
        },
        # Some parameters have no mark; toollinkos takes such a one for required, too.
        "required": [
            name
            for name, about in inputs.items()
            if about.get("required") is not False and about.get("optional") is not True
        ],
    }
    returns = {"type": "object", "properties": record.output_parameters}
    return Tool(
        tool_id=record.name,
        name=record.name,
        description=record.description,
        # The API's host, or the service of `Buses.FindBus`; else a tool is its own parent.
        parent=record.host or record.name.partition(".")[0],
        parameters=parameters_of(schema),
        returns=json.dumps(returns, ensure_ascii=False),
        input_schema=json.dumps(schema, ensure_ascii=False),
    )


def _references(calls: list[_Call], where: str) -> Iterator[Edge]:
    """An edge for each value that a call takes from an earlier one; the path of the value is its note."""
    given: dict[str, str] = {}
    for call in calls:
        if call.name == _RESULT:
            continue
        for label, path in _REFERENCE.findall(json.dumps(call.arguments, ensure_ascii=False)):
            if label not in given:
                raise DataError(f"{where}: {call.name} takes a value of {label}, which no earlier call gives.")
            yield Edge(call.name, given[label], "result", path.lstrip("."))
        # Upstream gives a few labels twice; the later call counts from there on.
        given[call.label.strip("$")] = call.name

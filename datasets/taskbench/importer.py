"""TaskBench from the user's copy of its files: https://github.com/microsoft/JARVIS, folder taskbench.

Each of its three parts is a folder `data_huggingface`, `data_multimedia` or `data_dailylifeapis` with

- `data.json`: JSON Lines; `id`, `type` (single, chain or dag), `n_tools`, and either `user_request` with `task_nodes`
  (as upstream's format_data.py writes it) or `instruction` with `tool_nodes` (as the data on the hub have it). A node
  names its tool as `task`. Lists may be JSON texts, as on the hub.
- `tool_desc.json`: `nodes` with `id` and `desc`, and `input-type` and `output-type` or `parameters`.
- `graph_desc.json`: `nodes`, and `links` with `source`, `target` and `type`.

A link says that the target can use what the source gives, so the target is the dependent. Its reason is `result`, its
note upstream's type. Links of the type `complete` join every pair of tools (upstream's generate_graph.py writes them
where tools have no types of inputs and outputs): they say nothing, and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.importing.reading import ByteBudget, Document, check_json, parse_documents

#: Card -> upstream's folder.
PARTS = {
    "taskbench-huggingface": "data_huggingface",
    "taskbench-multimedia": "data_multimedia",
    "taskbench-dailylifeapis": "data_dailylifeapis",
}
_FILES = ("data.json", "tool_desc.json", "graph_desc.json")


def read(folder: Path) -> dict[str, Tables]:
    """The tables of the parts that the folder has.

    Raises:
        DataError: there is none, or a file is missing or malformed.
    """
    tables = {card: _part(folder / name) for card, name in PARTS.items() if (folder / name).is_dir()}
    if not tables:
        raise DataError(f"{folder} has none of the folders {', '.join(PARTS.values())}.")
    return tables


def _part(folder: Path) -> Tables:
    for name in _FILES:
        if not (folder / name).is_file():
            raise DataError(f"{folder} has no file {name}; get it as `bench data info taskbench-huggingface` says.")
    budget = ByteBudget()
    data, described, graph = (
        parse_documents(folder / name, f"{folder.name}/{name}", budget.read(folder / name)) for name in _FILES
    )
    nodes = enumerate(_list(_one(described).get("nodes"), described[0].label))
    tools = [_tool(node, f"{described[0].label}, node {number}") for number, node in nodes]
    ids = [tool.tool_id for tool in tools]
    # In data.json of the parts with types, underscores of names are blanks (format_data.py).
    names = {tool_id.replace("_", " "): tool_id for tool_id in ids} | {tool_id: tool_id for tool_id in ids}
    queries = [_query(document, names) for document in data]
    edges: dict[tuple[str, str], Edge] = {}
    for number, link in enumerate(_list(_one(graph).get("links"), graph[0].label)):
        where = f"{graph[0].label}, link {number}"
        if not isinstance(link, dict):
            raise DataError(f"{where} is not an object.")
        kind = str(link.get("type", ""))
        if kind == "complete":
            continue
        source, target = (_known(link.get(end), names, where) for end in ("source", "target"))
        if source != target:
            edges.setdefault((target, source), Edge(target, source, "result", one_line(kind, 100)))
    return Tables(tools, queries, list(edges.values()))


def _tool(node: Any, where: str) -> Tool:
    if not isinstance(node, dict) or not isinstance(node.get("id"), str) or not node["id"].strip():
        raise DataError(f"{where} has no id.")
    parameters = [
        Parameter(item["name"], _word(item.get("type")), _word(item.get("desc")))
        for item in node.get("parameters") or ()
        if isinstance(item, dict) and isinstance(item.get("name"), str) and item["name"]
    ]
    # A tool of the parts with types takes one input of each type, which has no other name.
    parameters += [Parameter(kind, kind) for kind in node.get("input-type") or () if isinstance(kind, str) and kind]
    returns = [kind for kind in node.get("output-type") or () if isinstance(kind, str)]
    return Tool(
        tool_id=node["id"],
        name=node["id"],
        description=_word(node.get("desc")),
        parent=node["id"],
        parameters=tuple({parameter.name: parameter for parameter in parameters}.values()),
        returns=json.dumps(dict.fromkeys(returns, "")) if returns else None,
    )


def _query(document: Document, names: Mapping[str, str]) -> Query:
    row, where = document.value, document.label
    if not isinstance(row, dict):
        raise DataError(f"{where} is not an object.")
    text = row.get("user_request", row.get("instruction"))
    if not isinstance(text, str) or not isinstance(row.get("id"), str | int):
        raise DataError(f"{where} has no id, or neither user_request nor instruction.")
    nodes = _list(row.get("task_nodes", row.get("tool_nodes")), where)
    gold = [_known(node.get("task") if isinstance(node, dict) else None, names, where) for node in nodes]
    slices = {name: one_line(str(row[key]), 40) for name, key in (("type", "type"), ("size", "n_tools")) if key in row}
    return Query(str(row["id"]), text, dict.fromkeys(gold, 1), slices=slices)


def _known(name: Any, names: Mapping[str, str], where: str) -> str:
    if not isinstance(name, str) or name not in names:
        raise DataError(f"{where}: there is no tool {one_line(str(name), 60)!r} in tool_desc.json.")
    return names[name]


def _one(documents: list[Document]) -> dict[str, Any]:
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise DataError(f"{documents[0].label} is not one JSON object.")
    return dict(documents[0].value)


def _list(value: Any, where: str) -> list[Any]:
    """A list, or the JSON text of one."""
    if isinstance(value, str):
        try:
            value = check_json(json.loads(value), where)
        except (ValueError, RecursionError):
            raise DataError(f"{where}: a list is a text that is not JSON.") from None
    if not isinstance(value, list):
        raise DataError(f"{where}: a list of nodes or links is missing.")
    return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""

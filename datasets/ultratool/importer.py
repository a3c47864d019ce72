"""UltraTool from the user's copy of its repository: https://github.com/JoeYing1019/UltraTool, folder data.

`English-dataset/test_set/tool_usage.json` and `Chinese-dataset/test_set/tool_usage.json` are JSON Lines: `question`;
`toolset`, the tools of the question with `name`, `description`, `arguments` and `results` (JSON Schema); `reference`,
the steps with the `tool` that each calls. The library is every tool of every toolset, and the tools of the reference
are gold. Records have no ids: a query's is its line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.tables import Query, Tables, Tool
from bench.importing.reading import ByteBudget, parse_documents
from bench.importing.tools.schemas import parameters_of

#: Card -> upstream's folder.
PARTS = {"ultratool": "English-dataset", "ultratool-zh": "Chinese-dataset"}
FILE = "test_set/tool_usage.json"


def read(folder: Path) -> dict[str, Tables]:
    """The tables of the languages that the folder (or its `data/`) has.

    Raises:
        DataError: there is none, or a file is malformed.
    """
    tables = {}
    for card, name in PARTS.items():
        path = next((path for root in (folder, folder / "data") if (path := root / name / FILE).is_file()), None)
        if path is not None:
            tables[card] = _part(path, f"{name}/{FILE}")
    if not tables:
        raise DataError(f"{folder} has neither English-dataset/{FILE} nor Chinese-dataset/{FILE}.")
    return tables


def _part(path: Path, label: str) -> Tables:
    documents = parse_documents(path, label, ByteBudget().read(path))
    tools: dict[str, Tool] = {}
    rows: list[tuple[str, str, list[str], str]] = []
    for number, document in enumerate(documents):
        row, where = document.value, document.label
        if not isinstance(row, dict) or not isinstance(row.get("question"), str):
            raise DataError(f"{where} has no question.")
        for raw in _objects(row.get("toolset"), "toolset", where):
            tool = _tool(raw, where)
            # Records repeat tools; where they describe one differently, the first one stands.
            tools.setdefault(tool.tool_id, tool)
        steps = _objects(row.get("reference"), "reference", where)
        gold = [step["tool"] for step in steps if isinstance(step.get("tool"), str) and step["tool"].strip()]
        rows.append((f"{number:04}", row["question"].strip(), gold, where))
    for _, _, gold, where in rows:
        if unknown := [name for name in gold if name not in tools]:
            raise DataError(f"{where}: the tool {one_line(unknown[0], 60)!r} is in no toolset.")
    queries = [Query(query_id, text, dict.fromkeys(gold, 1)) for query_id, text, gold, _ in rows]
    return Tables(list(tools.values()), queries)


def _tool(raw: dict[str, Any], where: str) -> Tool:
    name, description = raw.get("name"), raw.get("description")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{where}: a tool of the toolset has no name.")
    arguments, results = raw.get("arguments"), raw.get("results")
    schema = arguments if isinstance(arguments, dict) else None
    return Tool(
        tool_id=name,
        name=name,
        description=description if isinstance(description, str) else "",
        parent=name,
        parameters=parameters_of(schema) if schema else (),
        returns=json.dumps(results, ensure_ascii=False) if isinstance(results, dict) and schema else None,
        input_schema=json.dumps(schema, ensure_ascii=False) if schema else None,
    )


def _objects(value: Any, name: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise DataError(f"{where}: {name} is not a list of objects.")
    return value

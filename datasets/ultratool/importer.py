"""UltraTool from the user's copy of its repository: https://github.com/JoeYing1019/UltraTool, folder data.

`English-dataset/test_set/tool_usage.json` and `Chinese-dataset/test_set/tool_usage.json` are JSON Lines: `question`;
`toolset`, the tools of the question with `name`, `description`, `arguments` and `results` (JSON Schema); `reference`,
the steps with the `tool` that each calls. The library is every tool of every toolset, and the tools of the reference
are gold. Records have no ids: a query's is its line.

With the labels of risk that the card `ultratool-risk` names beside them, the English part is there with labels, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bench.base.errors import DataError
from bench.base.paths import sha256_of
from bench.base.text import one_line
from bench.data.files import Files
from bench.data.risk import RiskOptions, with_risk
from bench.data.tables import Query, Tables, Tool
from bench.importing.tools.schemas import parameters_of

#: Card -> upstream's folder.
PARTS = {"ultratool": "English-dataset", "ultratool-zh": "Chinese-dataset"}
FILE = "test_set/tool_usage.json"
LABELS = "ultratool_risk_labels_resolved.json"
#: Of the labels at the commit that the card names.
SHA256 = "7f6d63e1d435825471fbe693295b65bdb695039be13e33c0fafa9634a523a838"


class _Tool(BaseModel):
    name: str = Field(pattern=r"\S")
    description: Any = None
    arguments: Any = None
    results: Any = None


class _Step(BaseModel):
    tool: Any = None


class _Record(BaseModel):
    question: str
    toolset: list[_Tool]
    reference: list[_Step]


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
    labels = next((path for root in (folder, folder / "data") if (path := root / LABELS).is_file()), None)
    if labels is not None and "ultratool" in tables:
        if sha256_of(labels) != SHA256:
            raise DataError(f"{labels} is not the file that the card of ultratool-risk names; get that one.")
        tables["ultratool-risk"] = with_risk(
            tables["ultratool"], Files({LABELS: labels}, folder), LABELS, RiskOptions()
        )
    return tables


def _part(path: Path, label: str) -> Tables:
    tools: dict[str, Tool] = {}
    queries: list[Query] = []
    records = list(Files({label: path}, path.parent).lines_as(_Record, label))
    for raw in (raw for record, _ in records for raw in record.toolset):
        # Records repeat tools; where they describe one differently, the first one stands.
        tools.setdefault(raw.name, _tool(raw))
    for number, (record, where) in enumerate(records):
        gold = [step.tool for step in record.reference if isinstance(step.tool, str) and step.tool.strip()]
        if unknown := [name for name in gold if name not in tools]:
            raise DataError(f"{where}: the tool {one_line(unknown[0], 60)!r} is in no toolset.")
        queries.append(Query(f"{number:04}", record.question.strip(), dict.fromkeys(gold, 1)))
    return Tables(list(tools.values()), queries)


def _tool(raw: _Tool) -> Tool:
    schema = raw.arguments if isinstance(raw.arguments, dict) else None
    return Tool(
        tool_id=raw.name,
        name=raw.name,
        description=raw.description if isinstance(raw.description, str) else "",
        parent=raw.name,
        parameters=parameters_of(schema) if schema else (),
        returns=json.dumps(raw.results, ensure_ascii=False) if isinstance(raw.results, dict) and schema else None,
        input_schema=json.dumps(schema, ensure_ascii=False) if schema else None,
    )

"""SkillRet from the user's copy of ThakiCloud/SKILLRET on the Hugging Face hub: skills of agents instead of tools.

`data/skills/test.jsonl` has id, name, namespace and description (and the text of the skill, which is not read);
`data/queries/test.jsonl` id and query; `data/qrels/test.jsonl` query_id, skill_id and relevance. The train split has
skills of its own and is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.base.errors import DataError
from bench.base.text import one_line
from bench.data.tables import Query, Tables, Tool
from bench.importing.reading import check_json, open_regular

#: Bytes of one line: a skill with its text. Longer ones are refused.
_LONGEST = 16 << 20


def read(folder: Path) -> dict[str, Tables]:
    """The test split.

    Raises:
        DataError: a file is missing or malformed.
    """
    root = folder / "data" if (folder / "data" / "skills").is_dir() else folder
    tools: dict[str, Tool] = {}
    for where, row in _rows(root, "skills"):
        skill_id, name, namespace = _text(row, "id", where), _text(row, "name", where), row.get("namespace")
        if skill_id in tools:
            raise DataError(f"{where}: the skill {one_line(skill_id, 60)!r} occurs twice.")
        parent = namespace if isinstance(namespace, str) and namespace else skill_id
        tools[skill_id] = Tool(skill_id, name, _text(row, "description", where), parent=parent)
    texts: dict[str, str] = {}
    for where, row in _rows(root, "queries"):
        query_id = _text(row, "id", where)
        if query_id in texts:
            raise DataError(f"{where}: the query {one_line(query_id, 60)!r} occurs twice.")
        texts[query_id] = _text(row, "query", where)
    gold: dict[str, dict[str, int]] = {query_id: {} for query_id in texts}
    for where, row in _rows(root, "qrels"):
        query_id, skill_id, relevance = _text(row, "query_id", where), _text(row, "skill_id", where), row["relevance"]
        if query_id not in texts or skill_id not in tools:
            raise DataError(f"{where} judges a query or a skill that is not there.")
        if not isinstance(relevance, int):
            raise DataError(f"{where}: the relevance {one_line(str(relevance), 40)} is not a whole number.")
        if relevance > 0:
            gold[query_id][skill_id] = max(relevance, gold[query_id].get(skill_id, 0))
    queries = [Query(query_id, text, gold[query_id]) for query_id, text in texts.items()]
    return {"skillret": Tables(list(tools.values()), queries)}


def _rows(root: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = root / kind / "test.jsonl"
    if not path.is_file():
        raise DataError(f"{root} has no file {kind}/test.jsonl; get it as `bench data info skillret` says.")
    with open_regular(path) as file:
        number = 0
        while line := file.readline(_LONGEST + 1):
            number += 1
            where = f"{kind}/test.jsonl, line {number}"
            if len(line) > _LONGEST:
                raise DataError(f"{where} is longer than {_LONGEST >> 20} MiB.")
            if not line.strip():
                continue
            try:
                row = check_json(json.loads(line.decode("utf-8-sig")), where)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} is not JSON ({one_line(str(error), 80)}).") from None
            if not isinstance(row, dict) or (kind == "qrels" and "relevance" not in row):
                raise DataError(f"{where} is not a row of {kind}.")
            yield where, row


def _text(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"{where} has no {name}.")
    return value

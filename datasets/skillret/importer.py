"""SkillRet from the user's copy of ThakiCloud/SKILLRET on the Hugging Face hub: skills of agents instead of tools.

`data/skills/test.jsonl` has id, name, namespace and description (and the text of the skill, which is not read);
`data/queries/test.jsonl` id and query; `data/qrels/test.jsonl` query_id, skill_id and relevance. The train split has
skills of its own and is not read.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from bench.base.errors import DataError
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool

SKILLS, QUERIES, QRELS = (f"{kind}/test.jsonl" for kind in ("skills", "queries", "qrels"))


class _Skill(BaseModel):
    id: str
    name: str
    namespace: str | None = None
    description: str


class _Query(BaseModel):
    id: str
    query: str


class _Judgement(BaseModel):
    query_id: str
    skill_id: str
    relevance: int


def read(folder: Path) -> dict[str, Tables]:
    """The test split.

    Raises:
        DataError: a file is missing or malformed.
    """
    root = folder / "data" if (folder / "data" / "skills").is_dir() else folder
    files = Files({name: root / name for name in (SKILLS, QUERIES, QRELS)}, root)
    if missing := [name for name, path in files.paths.items() if not path.is_file()]:
        raise DataError(f"{root} has no file {missing[0]}; get it as `bench data info skillret` says.")
    tools = [
        Tool(skill.id, skill.name, skill.description, parent=skill.namespace or skill.id)
        for skill, _ in files.lines_as(_Skill, SKILLS)
    ]
    known = {tool.tool_id for tool in tools}
    rows = [row for row, _ in files.lines_as(_Query, QUERIES)]
    gold: dict[str, dict[str, int]] = {row.id: {} for row in rows}
    for judged, where in files.lines_as(_Judgement, QRELS):
        if judged.query_id not in gold or judged.skill_id not in known:
            raise DataError(f"{where} judges a query or a skill that is not there.")
        if judged.relevance > 0:
            of_query = gold[judged.query_id]
            of_query[judged.skill_id] = max(judged.relevance, of_query.get(judged.skill_id, 0))
    return {"skillret": Tables(tools, [Query(row.id, row.query, gold[row.id]) for row in rows])}

"""ToolBench by domain: the paper's rules on a made-up group in upstream's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UnavailableError
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.parents import parent_of
from bench.datasets.toolbench_domains import importer
from bench.registry.adding import add_datasets

PARENTS, LISTED, QUERIES = 80, 3, 2000


def write_group(folder: Path, group: str) -> None:
    """Eighty parents of three APIs; each query needs one or two APIs of one parent, now and then one of the next."""
    apis = [
        {
            "category_name": "All",
            "tool_name": f"Parent {parent}",
            "api_name": f"api {number}",
            # The last parent's are too short, the one before has one that is too long.
            "api_description": "too short"
            if parent == PARENTS - 1
            else "word " * (51 if (parent, number) == (PARENTS - 2, 0) else 9),
        }
        for parent in range(PARENTS)
        for number in range(LISTED)
    ]

    def record(number: int) -> dict[str, Any]:
        parent = number % PARENTS
        first = apis[parent * LISTED + number // PARENTS % LISTED]
        gold = [first, *([apis[(parent + 1) % PARENTS * LISTED]] if number % 7 == 0 else [])]
        # A fourth tool is one too many.
        if number % 100 == 3:
            gold = apis[:4]
        pairs = [[api["tool_name"], api["api_name"]] for api in gold]
        return {"query_id": number, "query": f"request {number}", "api_list": gold, "relevant APIs": pairs}

    for name, numbers in (
        (f"instruction/{group}_query.json", range(QUERIES)),
        (f"test_instruction/{group}_instruction.json", range(50)),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([record(number) for number in numbers]), "utf-8")


@pytest.fixture
def cut(tmp_path: Path) -> Dataset:
    """The dataset made of a few hand-written files."""
    write_group(tmp_path, "G3")
    tables = importer.read(tmp_path)["toolbench-domains"]
    return Dataset.build("toolbench-domains", dataset_entry("toolbench-domains").card, tables)


def test_tools_and_queries_are_those_that_the_paper_keeps(cut: Dataset) -> None:
    # Without the three short ones and the long one.
    assert len(cut.tools) == PARENTS * LISTED - 4
    assert all(5 <= len(tool.description.split()) <= 50 for tool in cut.tools)
    assert all(1 <= len(query.gold) <= 3 for query in cut.queries)


def test_no_parent_is_in_both_domains(cut: Dataset) -> None:
    parents: dict[str, set[tuple[str, ...]]] = {"in": set(), "out": set(), "train": set()}
    tools = {tool.tool_id: tool for tool in cut.tools}
    for query in cut.queries:
        domain = query.slices.get("domain", "train")
        assert (query.split == "train") == (domain == "train")
        assert query.split == "test" or domain != "out"
        parents[domain] |= {parent_of(tools[tool]) for tool in query.gold}
    assert parents["out"]
    assert not parents["out"] & (parents["in"] | parents["train"])
    # A fifth of the parents in use, and what the last set brings.
    assert 0.2 * 79 <= len(parents["out"]) <= 0.2 * 79 + 2


def test_a_tenth_of_the_in_domain_queries_is_tested(cut: Dataset) -> None:
    tested = sum(query.slices.get("domain") == "in" and query.split == "test" for query in cut.queries)
    inside = sum(query.slices.get("domain") != "out" for query in cut.queries)
    assert tested / inside == pytest.approx(0.1, abs=0.03)


def test_another_group_is_not_enough(tmp_path: Path) -> None:
    write_group(tmp_path, "G1")
    assert importer.read(tmp_path) == {}
    with pytest.raises(UnavailableError, match=r"retrieval/G3"):
        list(add_datasets("toolbench-domains", tmp_path))

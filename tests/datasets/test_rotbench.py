"""RoTBench: counts against upstream's files, a list of tools for each request, noise, and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import load_small, loaded, of_upstream

from bench.base.errors import DataError, UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.datasets.rotbench import loader

FOLDER = "Junjie-Ye/RoTBench/637e43ae9a978036774c92bb2ab11a83609e304b"
NOISY = {"slight": 210, "medium": 210, "heavy": 210, "union": 105}


def read(mirror: Path, noise: str) -> list[tuple[Any, list[Any], set[str]]]:
    """Upstream's records, each with the tools that it shows and the names that its answers call."""
    rows = json.loads((mirror / FOLDER / loader.FOLDER / f"{noise}.json").read_text("utf-8"))
    taken = []
    for row in rows:
        system, _, answers = (turn["value"] for turn in row["conversations"])
        shown, _ = json.JSONDecoder().raw_decode(system[system.index("[{") :])
        taken.append((row, shown, {answer.split("Action: ")[1].split("\n")[0] for answer in answers}))
    return taken


clean = of_upstream("rotbench")


@pytest.mark.parametrize("noise", ["clean", *NOISY])
def test_a_view_is_that_of_upstream(clean: Dataset, mirror: Path, noise: str) -> None:
    dataset = loaded(f"rotbench(noise={noise})")
    rows = read(mirror, noise)
    assert len(rows) == len(dataset.queries) == NOISY.get(noise, 105)
    for number, (row, shown, right) in enumerate(rows):
        query = dataset.queries[dataset.query_codes[f"{number % 105:03}" + "p" * (number // 105)]]
        assert row["id"] == f"Turn 1: {query.text}"
        tools = [dataset.tools[dataset.tool_codes[tool]] for tool in query.scope]
        assert [(tool.name, tool.description, tool.schema()) for tool in tools] == [
            (tool["name"], tool["description"], tool["parameters"]) for tool in shown
        ]
        # The tools, and which of them are right, are those of the clean view.
        same = clean.queries[number % 105]
        assert [tool.partition("/")[2] for tool in query.scope] == [tool.partition("/")[2] for tool in same.scope]
        assert {tool.replace("p/", "/") for tool in query.meeting} == set(same.meeting)
        assert {tool.name for tool in tools if tool.tool_id in query.meeting} == right
        assert len(query.gold) == 1
    assert sorted(tool for query in dataset.queries for tool in query.scope) == [tool.tool_id for tool in dataset.tools]
    halves = Counter(query.slices.get("noise") for query in dataset.queries)
    assert halves == ({"names": 105, "parameters": 105} if len(rows) == 210 else {None: 105})


def test_halves_are_noisy_in_names_or_in_parameters(clean: Dataset) -> None:
    plain = {tool.tool_id: tool for tool in clean.tools}
    for noise in ("slight", "medium", "heavy"):
        tools = loaded(f"rotbench(noise={noise})").tools
        second = [(tool, plain[tool.tool_id.replace("p/", "/")]) for tool in tools if re.match(r"\d+p", tool.tool_id)]
        first = [(tool, plain[tool.tool_id]) for tool in tools if tool.tool_id in plain]
        assert (len(first), len(second)) == (892, 892)
        assert all(tool.name == original.name for tool, original in second)
        assert any(tool.parameters != original.parameters for tool, original in second)
        assert all(tool.parameters == original.parameters for tool, original in first)
        assert any(tool.name != original.name for tool, original in first)


@pytest.mark.parametrize("half", loader.HALVES)
def test_a_half_has_the_requests_and_the_right_tools_of_the_clean_view(clean: Dataset, half: str) -> None:
    dataset = loaded(f"rotbench(noise=heavy, half={half})")
    assert [replace(query, slices={}) for query in dataset.queries] == [replace(q, slices={}) for q in clean.queries]
    assert dataset.tool_codes == clean.tool_codes
    assert dataset.tools != clean.tools
    assert {query.slices["noise"] for query in dataset.queries} == {half}


def test_the_known_issues_are_what_the_card_says(clean: Dataset) -> None:
    assert (min(len(q.scope) for q in clean.queries), max(len(q.scope) for q in clean.queries)) == (3, 18)
    assert len({(tool.name, tool.description, tool.parameters) for tool in clean.tools}) == 318
    assert Counter(len(query.meeting) for query in clean.queries) == {1: 84, 2: 13, 3: 5, 7: 3}
    assert clean.queries[80].meeting == {"080/drivers-2": 1}
    right = [{tool.partition("/")[2] for tool in query.meeting} for query in clean.queries]
    assert sum(tools == {"ask_to_user"} for tools in right) == 7
    assert all("finish" not in tools for tools in right)
    assert sum(not tool.description for tool in clean.tools) == 51
    assert {tool.tool_id for tool in clean.tools if tool.tool_id.endswith("-2")} == {
        f"{row}/drivers-2" for row in ("075", "078", "080")
    }
    (heavy,) = [t for t in loaded("rotbench(noise=heavy)").tools if t.tool_id == "000/get_translation_nllb"]
    assert heavy.name == "ask_to_user"


TOOLS = [{"name": name, "description": f"To {name}.", "parameters": {"type": "object"}} for name in ("find", "send")]
SHOWN = "You have access of the following tools:\n{}\n\nLet's Begin!"


def record(tools: object = TOOLS, answer: str = "Thought:\nAction: find\nAction Input: {}", **changed: object) -> Any:
    turns = [
        {"from": "system", "value": SHOWN.format(json.dumps(tools))},
        {"from": "user", "value": "Find Jo.\nBegin!\n"},
        {"from": "assistant", "value": [answer]},
    ]
    return {"id": "Turn 1: Find Jo.", "conversations": turns, "scenario": "PL", **changed}


def small(folder: Path, *noisy: Any) -> Tables:
    """One clean record, the same in the union, and those of the slight view."""
    content = {"clean": [record()], "union": [record()], "slight": noisy}
    contents = {f"{loader.FOLDER}/{name}.json": rows for name, rows in content.items()}
    return load_small(loader, folder, "rotbench", contents, loader.Options(noise="slight"))


def test_a_noisy_record_has_the_ids_of_the_clean_one(tmp_path: Path) -> None:
    noisy = [{**TOOLS[0], "name": "fnid"}, TOOLS[1]]
    tables = small(tmp_path, record(noisy, "\nAction: fnid\nAction Input: {}"), record())
    assert [(tool.tool_id, tool.name) for tool in tables.tools] == [
        *(("000/find", "fnid"), ("000/send", "send")),
        *(("000p/find", "find"), ("000p/send", "send")),
    ]
    assert [(query.query_id, query.gold, query.group) for query in tables.queries] == [
        ("000", {"000/find": 1}, "000"),
        ("000p", {"000p/find": 1}, "000"),
    ]


def test_a_view_without_halves_has_none(mirror: Path) -> None:
    with pytest.raises(UsageError, match="has each request once: leave out half=names"):
        loaded("rotbench(noise=union, half=names)")


@pytest.mark.parametrize(
    ("noisy", "sentence"),
    [
        (record(TOOLS[::-1]), "slight.json, record 0: the request or its tools are not those of the clean record 0"),
        (
            record(answer="\nAction: send\nAction Input: {}"),
            "the answers call other tools than those of the clean record",
        ),
        (record(answer="Action Input: {}"), "record 0, field conversations: there is no action in its text"),
        (record([{"name": "find"}]), "record 0, field conversations: Field required"),
        (record(more=1), "record 0, field more: Extra inputs"),
        (record(conversations=record()["conversations"][:2]), "record 0, field conversations"),
        (record(conversations=record()["conversations"][::-1]), "record 0, field conversations"),
        (
            record(conversations=[{"value": "none"}, *record()["conversations"][1:]]),
            "there is no list of tools in its text",
        ),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, noisy: Any, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        small(tmp_path, noisy)
    assert sentence in str(caught.value)

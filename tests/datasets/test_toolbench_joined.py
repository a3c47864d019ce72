"""ToolBench's six sets joined: sizes and slices, and that its held-out split leaks nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from kit.datasets import built, load_small, loaded, of_upstream

from bench.base.errors import DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entry
from bench.data.files import Files
from bench.data.parents import parent_of
from bench.data.tables import Query, Tables
from bench.datasets.toolbench import loader
from bench.datasets.toolbench.parsing import SETS

HELD_OUT = "toolbench(split=held-out)"
SIX = {name: f"toolbench-{name.lower()}" for name in SETS.values()}


joined = of_upstream("toolbench")
held_out = of_upstream(HELD_OUT)


def parents(dataset: Dataset, queries: Iterable[Query]) -> set[tuple[str, ...]]:
    return {parent_of(dataset.tools[dataset.tool_codes[tool]]) for query in queries for tool in query.gold}


def of(dataset: Dataset, *splits: str, **slices: str) -> list[Query]:
    return [q for q in dataset.queries if q.split in splits and q.slices.items() >= slices.items()]


# Joined --------------------------------------------------------------------------------------------------------------


def test_it_is_the_six_sets_over_their_library(joined: Dataset) -> None:
    assert len(joined.queries) == 765
    for name, card in SIX.items():
        alone = loaded(card)
        assert joined.tools == alone.tools
        mine = {query.query_id: (query.text, query.gold, query.group) for query in of(joined, "test", set=name)}
        assert mine == {query.query_id: (query.text, query.gold, query.group) for query in alone.queries}


def test_queries_are_marked(joined: Dataset) -> None:
    counts = Counter(
        tuple(query.slices[name] for name in ("set", "group", "seen", "tools")) for query in joined.queries
    )
    assert counts == {
        ("I1-Inst", "G1", "yes", "single"): 163,
        ("I1-Tool", "G1", "no", "single"): 158,
        ("I1-Cat", "G1", "no", "single"): 153,
        ("I2-Inst", "G2", "yes", "multi"): 106,
        ("I2-Cat", "G2", "no", "multi"): 124,
        ("I3-Inst", "G3", "yes", "multi"): 61,
    }
    # As upstream says, so it is: requests of G1 take one parent, the others several.
    for query in joined.queries:
        assert (len(parents(joined, [query])) == 1) == (query.slices["tools"] == "single")


def test_units_are_those_of_the_six(joined: Dataset) -> None:
    sets: dict[int, set[str]] = {}
    for query, unit in zip(joined.queries, joined.units.tolist(), strict=True):
        sets.setdefault(unit, set()).add(query.slices["set"])
    assert all(len(names) == 1 for names in sets.values())
    assert Counter(name for names in sets.values() for name in names) == {
        name: len(set(loaded(card).units.tolist())) for name, card in SIX.items()
    }


# Held out -----------------------------------------------------------------------------------------------------------


def test_the_sizes_that_the_card_states(held_out: Dataset) -> None:
    assert [len(of(held_out, split)) for split in ("train", "dev", "test")] == [346, 78, 341]
    tested = of(held_out, "test")
    assert Counter(query.slices["parent"] for query in tested) == {"unseen": 227, "seen": 92, "mixed": 22}
    units = dict(zip((query.query_id for query in held_out.queries), held_out.units.tolist(), strict=True))
    assert [
        len({units[query.query_id] for query in of(held_out, "test", parent=novelty)}) for novelty in ("seen", "unseen")
    ] == [47, 187]
    assert Counter((query.slices["set"], query.slices["parent"]) for query in tested) == {
        ("I1-Inst", "seen"): 3,
        ("I1-Inst", "unseen"): 48,
        ("I2-Inst", "mixed"): 1,
        ("I2-Inst", "unseen"): 37,
        ("I1-Tool", "seen"): 4,
        ("I1-Tool", "unseen"): 38,
        ("I1-Cat", "seen"): 41,
        ("I1-Cat", "unseen"): 54,
        ("I2-Cat", "seen"): 8,
        ("I2-Cat", "mixed"): 21,
        ("I2-Cat", "unseen"): 50,
        ("I3-Inst", "seen"): 36,
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_leaks(mirror: Path, seed: int) -> None:
    dataset = built(f"toolbench(split=held-out, seed={seed})")
    train, dev, test = (of(dataset, split) for split in ("train", "dev", "test"))
    assert min(len(train), len(dev), len(test)) > 60
    # No unit of dependent queries is on two sides: so no gold set, no list of candidates.
    sides: dict[int, set[str]] = {}
    for query, unit in zip(dataset.queries, dataset.units.tolist(), strict=True):
        sides.setdefault(unit, set()).add(query.split)
    assert all(len(splits) == 1 for splits in sides.values())
    for one, other in ((train, test), (train, dev), (dev, test)):
        assert not {query.group for query in one} & {query.group for query in other}
        assert not {query.text for query in one} & {query.text for query in other}
    # What is called unseen is gold for nothing that a method may learn from, and seen is what train has.
    known = parents(dataset, train)
    for query in test:
        mine = parents(dataset, [query])
        if query.slices["parent"] == "unseen":
            assert not mine & (known | parents(dataset, dev))
        elif query.slices["parent"] == "seen":
            assert mine <= known
    # A classifier has both kinds to learn from, and to be judged on.
    for queries in (train, dev):
        assert {query.slices["tools"] for query in queries} == {"single", "multi"}


def test_it_is_the_same_queries_and_other_seeds_hold_out_others(joined: Dataset, held_out: Dataset) -> None:
    assert held_out.tools == joined.tools
    before, after = ({q.query_id: (q.text, q.gold) for q in d.queries} for d in (joined, held_out))
    assert before == after
    other = built("toolbench(split=held-out, seed=1)")
    assert other.content_hash != held_out.content_hash
    with pytest.raises(UsageError, match="split"):
        loaded("toolbench(split=random)")


# Small files of our own making ---------------------------------------------------------------------------------------


def record(query_id: int, *names: str) -> dict[str, object]:
    """A request for the tools `PARENT/NAME`, which are all that its generator was shown."""
    apis: list[dict[str, object]] = [
        {"category_name": "A", "tool_name": parent, "api_name": name, "api_description": ""}
        | {"required_parameters": [], "optional_parameters": []}
        for parent, name in (one.split("/") for one in names)
    ]
    pairs = [one.split("/") for one in names]
    return {"query_id": query_id, "query": f"request {query_id}", "api_list": apis, "relevant APIs": pairs}


def load(folder: Path, records: list[dict[str, object]], options: ParameterSet) -> Tables:
    """All six files: the records in the first, one of a parent of its own in each of the others."""
    contents = {
        f"{loader.FOLDER}/{name}.json": [record(1000 + position, f"own {position}/x")] if position else records
        for position, name in enumerate(SETS)
    }
    return load_small(loader, folder, "toolbench", contents, options)


def test_a_unit_is_tested_only_where_another_keeps_its_parents_seen(tmp_path: Path) -> None:
    # Twenty parents with two units each, and twenty with one; units of two requests for the same list.
    records = [record(10 * i + j, f"pair {i}/{j // 2}") for i in range(20) for j in range(4)]
    records += [record(500 + i, f"lone {i}/x") for i in range(20)]
    tables = load(tmp_path, records, loader.JoinedOptions(split="held-out", seed=3))
    splits: dict[str, dict[str, list[str]]] = {}
    for query in tables.queries:
        (tool,) = query.gold
        splits.setdefault(tool.split("/")[1], {}).setdefault(query.split, []).append(tool)
    tested = {query.query_id: query.slices["parent"] for query in tables.queries if query.split == "test"}
    assert set(tested.values()) == {"seen", "unseen"}
    for parent, sides in splits.items():
        if parent.startswith(("lone", "own")):
            # Alone with its parent: where it is tested, nobody has seen it.
            assert len(sides) == 1
        elif set(sides) == {"test"}:
            assert len(sides["test"]) == 4
        else:
            # Of two units one at the most is tested, and the other is train.
            assert {tool for tools in sides.values() for tool in tools} == {f"A/{parent}/0", f"A/{parent}/1"}
            assert all(len(set(tools)) == 1 or split == "dev" for split, tools in sides.items())
            assert "test" not in sides or set(sides) == {"test", "train"}


def test_where_all_need_one_parent_nothing_is_held_out(tmp_path: Path) -> None:
    paths = {}
    for position, name in enumerate(SETS):
        paths[f"{loader.FOLDER}/{name}.json"] = path = tmp_path / f"{name}.json"
        path.write_text(json.dumps([record(position, "one/x")]), "utf-8")
    with pytest.raises(DataError, match="nothing can be held out"):
        loader.load(Files(paths, tmp_path), loader.JoinedOptions(split="held-out"), dataset_entry("toolbench").card)

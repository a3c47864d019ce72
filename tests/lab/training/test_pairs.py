"""Making training sets of pairs: labels, balance, the split."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bench.data.tables import Tool
from bench.lab.training.pairs import (
    ToolPair,
    annotate_pairs,
    balance,
    group_of,
    label_counts,
    pairs_digest,
    split_by_group,
)
from bench.models.trainingcard import tool_digest


def pair(number: int, label: int = 0, group: str | None = None) -> ToolPair:
    return ToolPair(f"a{number}", f"b{number}", label, group or f"g{number}", (f"a{number}", f"b{number}"))  # type: ignore[arg-type]


def test_turning_a_pair_turns_its_label() -> None:
    assert [pair(1, label).turn().label for label in (0, 1, 2)] == [2, 1, 0]
    assert pair(1).turn().first == "b1"
    assert pair(1).turn().turn() == pair(1)


def test_balanced_pairs_have_as_many_of_each_category() -> None:
    dependent = [pair(i) for i in range(20)]
    unrelated = [pair(100 + i, 1) for i in range(30)]
    made = balance(dependent, unrelated, np.random.default_rng(0))
    assert label_counts(made).tolist() == [20, 20, 20]
    neither = [item for item in made if item.label == 1]
    given = {item.first for item in unrelated}
    assert sum(item.first in given for item in neither) == 10
    broken = [item for item in neither if item.first not in given]
    assert all(item.first[1:] != item.second[1:] for item in broken), "tools of different pairs are put together"
    assert all(item.tools == (item.first, item.second) for item in broken)


def test_a_broken_pair_never_joins_tools_of_one_group() -> None:
    dependent = [pair(i, group="left" if i < 5 else "right") for i in range(10)]
    sides = {f"{side}{i}": i < 5 for i in range(10) for side in "ab"}
    for item in balance(dependent, [], np.random.default_rng(1)):
        if item.label == 1:
            assert sides[item.first] != sides[item.second]
    alone = balance([pair(i, group="one") for i in range(4)], [], np.random.default_rng(1))
    assert label_counts(alone).tolist() == [4, 0, 4], "rather none than a wrong one"


def test_annotated_pairs_are_the_candidates_and_every_edge() -> None:
    tools = [Tool(name, name, f"does {name}") for name in "abcd"]
    # b needs a, c needs d; candidates are a-b and a-c.
    edges = np.array([[1, 0], [2, 3]], dtype=np.int32)
    candidates = np.array([[0, 1], [0, 2]], dtype=np.int32)
    ids = {tool_digest(tool): tool.tool_id for tool in tools}
    by_key = {}
    for item in annotate_pairs(tools, edges, candidates, np.random.default_rng(0)):
        turned = item if item.first < item.second else item.turn()
        first, second = (ids[tool] for tool in turned.tools)
        assert turned.first.startswith(first)
        assert turned.second.startswith(second)
        by_key[first, second] = turned.label
    assert by_key == {("a", "b"): 2, ("a", "c"): 1, ("c", "d"): 0}


def test_both_orders_of_pairs_come_up() -> None:
    tools = [Tool(f"{i:02}", f"n{i}", "x") for i in range(40)]
    edges = np.array([[i, i + 1] for i in range(0, 40, 2)], dtype=np.int32)
    result = annotate_pairs(tools, edges, np.empty((0, 2), np.int32), np.random.default_rng(0))
    assert min(label_counts(result)[[0, 2]]) >= 5


def test_the_split_holds_out_whole_groups_with_a_fifth_of_the_dependencies() -> None:
    pairs = [pair(i, label=i % 3, group=f"g{i // 6}") for i in range(120)]
    train, held = split_by_group(pairs, 0.2, np.random.default_rng(0))
    assert Counter(train + held) == Counter(pairs)
    assert not {item.group for item in train} & {item.group for item in held}
    share = sum(item.label != 1 for item in held) / sum(item.label != 1 for item in pairs)
    assert share == pytest.approx(0.2, abs=0.05)


def test_a_single_group_is_split_by_pairs() -> None:
    train, held = split_by_group([pair(i, group="one") for i in range(10)], 0.2, np.random.default_rng(0))
    assert (len(train), len(held)) == (8, 2)


def test_tools_without_a_parent_are_groups_of_their_own() -> None:
    assert group_of(Tool("a", "x", "")) != group_of(Tool("b", "x", ""))
    assert group_of(Tool("a", "x", "", "c", "p")) == group_of(Tool("b", "y", "", "c", "p"))
    assert group_of(Tool("a", "x", "", "c", "p")) != group_of(Tool("b", "y", "", "d", "p"))


def test_the_digest_follows_texts_and_labels() -> None:
    assert pairs_digest([pair(1)]) == pairs_digest([pair(1)])
    assert len({pairs_digest(pairs) for pairs in ([pair(1)], [pair(2)], [pair(1, 1)], [pair(1), pair(2)], [])}) == 5

"""Gold sets that past queries have, too."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kit.datasets import loaded

from bench.data.dataset import Dataset
from bench.data.novelty import repeated_gold

SETS = st.frozensets(st.integers(0, 4), max_size=3)


def _starter() -> Dataset:
    return loaded("starter")


def test_the_count_is_that_of_a_plain_search_of_every_past_query() -> None:
    dataset = _starter()
    rows = dataset.rows("test")
    by_hand = 0
    for row in rows:
        mine = set(dataset.queries[row].gold)
        past = [set(query.gold) for query in dataset.queries if query.split != "test" and query.gold]
        by_hand += bool(mine) and mine in past
    assert 0 < by_hand < len(rows)
    assert repeated_gold(dataset, rows, rows) == by_hand


def test_the_evaluated_split_is_not_its_own_past() -> None:
    dataset = _starter()
    train = dataset.rows("train")
    some = train[:10]
    assert repeated_gold(dataset, some, train) <= repeated_gold(dataset, some, some)
    dev = [set(query.gold) for query in dataset.queries if query.split == "dev"]
    assert repeated_gold(dataset, some, train) == sum(
        bool(dataset.queries[row].gold) and set(dataset.queries[row].gold) in dev for row in some
    )


@given(st.lists(st.tuples(st.sampled_from(("train", "dev", "test")), SETS), min_size=1, max_size=12))
def test_queries_without_gold_repeat_nothing(made: list[tuple[str, frozenset[int]]]) -> None:
    class Query:
        def __init__(self, gold: frozenset[int]) -> None:
            self.gold = {str(tool): 1 for tool in gold}

    class Stub:
        queries = [Query(gold) for _, gold in made]
        splits = np.array([("train", "dev", "test").index(split) for split, _ in made])

    rows = np.flatnonzero(Stub.splits == 2)
    past = {gold for split, gold in made if split != "test"}
    expected = sum(bool(made[row][1]) and made[row][1] in past for row in rows)
    assert repeated_gold(Stub, rows, rows) == expected  # type: ignore[arg-type]

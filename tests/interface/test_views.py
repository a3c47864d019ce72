"""What a method sees: the library, past queries, texts to answer. Never a test query's gold."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.datasets import make_dataset

from bench.data.dataset import Dataset
from bench.data.tables import SPLITS, Edge, Query, Split, Tool
from bench.data.template import TEMPLATES, Template
from bench.interface.views import History, Library, Queries

checked = settings(deadline=None, derandomize=True)
TOOLS = [
    Tool("t2", "second", "does two", category="c", parent="p", source="the upstream text"),
    Tool("t0", "zeroth", "does none"),
    Tool("t1", "first", "does one"),
]
splits = st.lists(st.sampled_from(SPLITS), min_size=1, max_size=12)


def dataset(split: list[Split]) -> Dataset:
    """Query i asks `text i` and has tool i mod 3 as gold, of relevance i + 1; every fourth has none."""
    queries = [
        Query(f"q{number:02}", f"text {number}", {f"t{number % 3}": number + 1} if number % 4 < 3 else {}, side)
        for number, side in enumerate(split)
    ]
    edges = [Edge("t2", "t0", "result"), Edge("t1", "t0", "verification")]
    return make_dataset(TOOLS, queries[::-1], edges, id="tiny", template="name_description")


@given(splits, st.data())
@checked
def test_history_holds_the_train_and_dev_queries_that_are_not_evaluated(
    split: list[Split], data: st.DataObject
) -> None:
    made = dataset(split)
    evaluated = data.draw(st.lists(st.integers(0, len(split) - 1), unique=True))
    history = History.of(made, Library.of(made, "description"), np.array(evaluated, dtype=np.int64))
    past = [i for i, side in enumerate(split) if side != "test" and i not in evaluated]
    assert history.texts == tuple(f"text {i}" for i in past)
    assert [SPLITS[code] for code in history.split] == [split[i] for i in past]
    assert len(history) == len(history.gold) == len(past)
    for row, i in enumerate(past):
        # Tools sort as t0, t1, t2, so their codes are their numbers.
        assert history.gold.row(row).tolist() == ([i % 3] if i % 4 < 3 else [])


@pytest.mark.parametrize("named", [*SPLITS, "all"])
@given(split=splits)
@checked
def test_history_never_holds_a_query_of_the_evaluated_or_of_the_test_split(named: str, split: list[Split]) -> None:
    made = dataset(split)
    history = History.of(made, Library.of(made, "description"), made.rows(named))
    assert "test" not in {SPLITS[code] for code in history.split}
    assert named not in {SPLITS[code] for code in history.split}
    shown = set(Queries.of(made, made.rows(named)).texts) | {q.text for q in made.queries if q.split == "test"}
    assert not shown & set(history.texts)


@given(splits)
@checked
def test_evaluating_all_queries_leaves_no_history(split: list[Split]) -> None:
    made = dataset(split)
    history = History.of(made, Library.of(made, "description"), made.rows("all"))
    assert (len(history), len(history.gold), history.texts) == (0, 0, ())


def test_making_a_history_does_not_change_the_dataset() -> None:
    made = dataset(["train", "train", "test"])
    History.of(made, Library.of(made, "description"), made.rows("all"))
    assert made.splits.tolist() == [0, 0, 2]
    assert len(History.of(made, Library.of(made, "description"), made.rows("test"))) == 2


def test_history_keeps_relevance() -> None:
    made = dataset(["train", "test", "dev"])
    history = History.of(made, Library.of(made, "description"), made.rows("test"))
    assert history.gold.grades.tolist() == [1, 3]


def test_taking_from_the_history_keeps_texts_gold_and_split_together() -> None:
    made = dataset(["train", "dev", "train", "test"])
    history = History.of(made, Library.of(made, "description"), made.rows("test"))
    taken = history.take(np.array([2, 1]))
    assert taken.texts == ("text 2", "text 1")
    assert [taken.gold.row(row).tolist() for row in range(2)] == [[2], [1]]
    assert taken.split.tolist() == [0, 1]
    assert taken.library is history.library


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_library_holds_tools_texts_and_edges_in_the_order_of_ids(template: Template) -> None:
    library = Library.of(dataset(["test"]), template)
    assert [tool.tool_id for tool in library.tools] == ["t0", "t1", "t2"]
    assert library.texts == tuple(tool.text(template) for tool in library.tools)
    assert library.codes == {"t0": 0, "t1": 1, "t2": 2}
    # Dependent, prerequisite.
    assert library.edges.tolist() == [[1, 0], [2, 0]]
    assert library.edges.dtype == np.int32
    assert (len(library), library.template) == (3, template)


def test_a_library_without_edges_has_a_table_of_none() -> None:
    made = make_dataset(TOOLS, [Query("q", "text", {})], id="tiny", template="name_description")
    assert Library.of(made, "description").edges.shape == (0, 2)


def test_the_library_s_hash_follows_ids_and_texts_alone() -> None:
    one = Library.of(dataset(["test"]), "description")
    assert Library.of(dataset(["train", "dev"]), "description").content_hash == one.content_hash
    assert Library.of(dataset(["test"]), "name_description").content_hash != one.content_hash
    renamed = Library((Tool("x", "zeroth", "does none"), *one.tools[1:]), one.texts, "description", one.edges)
    assert renamed.content_hash != one.content_hash
    # Two texts that join to the same characters.
    shifted = Library(one.tools, ("does nonedoes", " one", one.texts[2]), "description", one.edges)
    assert shifted.content_hash != one.content_hash


def test_queries_show_texts_and_numbers_of_this_run_and_nothing_else() -> None:
    made = dataset(["test", "train", "test"])
    queries = Queries.of(made, made.rows("test"))
    assert queries.texts == ("text 0", "text 2")
    # Not their places in the dataset, which would tell how upstream sorted its files.
    assert queries.rows.tolist() == [0, 1]
    assert len(queries) == 2
    assert set(vars(queries)) == {"texts", "rows", "scope"}
    assert queries.scope is None


@given(splits, st.randoms(use_true_random=False))
@checked
def test_queries_are_numbered_in_the_order_in_which_they_are_asked(split: list[Split], random: Random) -> None:
    made = dataset(split)
    order = list(range(len(split)))
    random.shuffle(order)
    queries = Queries.of(made, np.array(order))
    assert queries.texts == tuple(f"text {i}" for i in order)
    assert queries.rows.tolist() == list(range(len(split)))


def test_a_query_keeps_its_number_in_every_batch() -> None:
    made = dataset(["test", "train", "test", "test"])
    batch = Queries.of(made, made.rows("test")).take(np.array([2, 0]))
    assert batch.texts == ("text 3", "text 0")
    assert batch.rows.tolist() == [2, 0]
    assert batch.take(np.array([1])).rows.tolist() == [0]


def test_a_method_that_changes_its_numbers_does_not_change_those_of_another() -> None:
    made = dataset(["test", "test"])
    rows = made.rows("test")
    Queries.of(made, rows).rows[:] = 7
    assert rows.tolist() == [0, 1]
    assert Queries.of(made, rows).rows.tolist() == [0, 1]

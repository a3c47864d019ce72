"""Weak labels: what counts as a dependency read off the schemas, and which pairs are made of it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from bench.data.tables import Parameter, Tool
from bench.lab.training.weak import weak_edges, weak_pairs
from bench.methods.tgr.edges import NEITHER
from bench.models.trainingcard import tool_digest


def tool(name: str, takes: str = "", gives: str = "", *, may_take: str = "", parent: str = "Shop") -> Tool:
    """A tool whose id is its name; inputs and outputs are names separated by blanks."""
    parameters = [Parameter(word) for word in takes.split()]
    parameters += [Parameter(word, required=False) for word in may_take.split()]
    returns = json.dumps(dict.fromkeys(gives.split(), "str")) if gives else None
    return Tool(name, name, "", "trade", parent, tuple(parameters), returns)


def named(*tools: Tool) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    return [(tools[e.dependent].name, tools[e.prerequisite].name, e.handles) for e in weak_edges(tools)]


@pytest.mark.parametrize(
    ("dependent", "prerequisite", "handles"),
    [
        # By a name of two words, in any style.
        (tool("cancel", "orderId"), tool("search", "text", "order_id status"), (("order id", "order id"),)),
        # By an entity: the response has a bare id of what its tool is about.
        (tool("cancel", "order_id"), tool("list_orders", "", "id status"), (("order id", "id"),)),
        # By a bare id, where both names speak of the same thing.
        (tool("get_order", "id"), tool("list_orders", "", "id status"), (("id", "id"),)),
        # By two handles at once.
        (
            tool("pay", "order_id card_token"),
            tool("open", "", "card_token order_id"),
            (("card token", "card token"), ("order id", "order id")),
        ),
    ],
)
def test_a_required_handle_that_a_response_yields_is_a_dependency(
    dependent: Tool, prerequisite: Tool, handles: tuple[tuple[str, str], ...]
) -> None:
    assert named(dependent, prerequisite) == [(dependent.name, prerequisite.name, handles)]
    assert named(prerequisite, dependent) == [(dependent.name, prerequisite.name, handles)]


@pytest.mark.parametrize(
    ("dependent", "prerequisite"),
    [
        # Another parent's order is another order.
        (tool("cancel", "order_id"), tool("search", "", "order_id", parent="Other")),
        (tool("cancel", "order_id", parent=""), tool("search", "", "order_id", parent="")),
        # It may be left out, or the other tool needs it as well.
        (tool("cancel", may_take="order_id"), tool("search", "", "order_id")),
        (tool("cancel", "order_id"), tool("reprint", "order_id", "order_id")),
        (tool("cancel", "order_id"), tool("search", "", "order_id", may_take="order_id")),
        # No handle: a user says such things.
        (tool("forecast", "city"), tool("search", "", "city")),
        # A bare id of something else, or of nobody knows what.
        (tool("cancel", "order_id"), tool("list_invoices", "", "id")),
        (tool("get_order", "id"), tool("list_invoices", "", "id")),
        # No known response.
        (tool("cancel", "order_id"), tool("search")),
    ],
)
def test_what_proves_nothing_is_no_dependency(dependent: Tool, prerequisite: Tool) -> None:
    assert named(dependent, prerequisite) == []


LIBRARY = [
    tool("cancel_order", "order_id reason", "status"),
    tool("search_orders", "text", "order_id total"),
    tool("rate_driver", "driver_id stars", "thanks", parent="Rides"),
    tool("find_ride", "place", "driver_id", parent="Rides"),
    tool("tip_driver", "driver_id amount", "receipt", parent="Rides"),
]


def listed(title: str, document: str) -> set[str]:
    results = re.search(rf"{title}: ([^.]*)", document)
    return set(results[1].split(", ")) if results else set()


def test_variants_rename_the_handle_in_both_documents_or_break_the_pair() -> None:
    dependent, unrelated = weak_pairs(LIBRARY, 4, np.random.default_rng(0))
    assert len(dependent) == 3 * (1 + 4)
    assert {pair.label for pair in dependent} == {0}
    for pair in dependent:
        assert listed("needs", pair.first) & listed("gives", pair.second), pair
    names = {name for pair in dependent for name in listed("needs", pair.first) & listed("gives", pair.second)}
    assert names == {"order id", "driver id"}, "every handle of the library stands for every other"
    assert {pair.label for pair in unrelated} == {NEITHER}
    for pair in unrelated:
        assert not listed("needs", pair.first) & listed("gives", pair.second), pair
        assert not listed("needs", pair.second) & listed("gives", pair.first), pair


def test_tools_of_one_parent_between_which_nothing_flows_are_pairs_without_a_dependency() -> None:
    _, unrelated = weak_pairs(LIBRARY, 0, np.random.default_rng(0))
    ids = {tool_digest(tool): tool.tool_id for tool in LIBRARY}
    collected = {frozenset(ids[tool] for tool in pair.tools) for pair in unrelated}
    assert collected == {frozenset({"rate_driver", "tip_driver"})}


def test_the_pairs_are_the_same_for_the_same_seed() -> None:
    one, other = (weak_pairs(LIBRARY, 2, np.random.default_rng(5)) for _ in range(2))
    assert one == other


def test_an_empty_library_and_one_without_schemas_give_nothing() -> None:
    assert weak_pairs([], 2, np.random.default_rng(0)) == ([], [])
    assert weak_pairs([Tool("a", "a", "x"), Tool("b", "b", "y")], 2, np.random.default_rng(0)) == ([], [])

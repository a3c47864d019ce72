"""Dependency rules: small libraries with traps, and precision and recall against annotated edges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.datasets import loaded

from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Tool
from bench.methods.tgr.rules import name_words, rule_edges


def tool(
    name: str,
    takes: str = "",
    gives: str = "",
    *,
    may_take: str = "",
    parent: str = "Shop",
    category: str = "trade",
) -> Tool:
    """A tool whose id is its name; inputs and outputs are names separated by blanks."""
    required = [Parameter(word) for word in takes.split()]
    optional = [Parameter(word, required=False) for word in may_take.split()]
    returns = json.dumps(dict.fromkeys(gives.split(), "str")) if gives else None
    return Tool(name, name, "", category, parent, (*required, *optional), returns)


def edges_of(tools: Sequence[Tool], most_producers: int = 3) -> list[tuple[str, str]]:
    """(dependent, prerequisite) names."""
    result = rule_edges(tools, most_producers)
    assert result.dtype == np.int32
    assert result.shape == (len(result), 2)
    pairs = result.tolist()
    assert pairs == sorted(map(list, {tuple(pair) for pair in pairs})), "sorted and distinct"
    return [(tools[a].name, tools[b].name) for a, b in pairs]


# Rule `result` ------------------------------------------------------------------------------------------------------


def test_a_tool_that_requires_a_handle_depends_on_the_tool_that_gives_it_out() -> None:
    tools = [tool("login", "user password", "session_token"), tool("delete", "session_token")]
    assert edges_of(tools) == [("delete", "login")]


@pytest.mark.parametrize(
    ("taken", "given_out"),
    [
        ("orderId", "order_id"),
        ("order-id", "ORDER_ID"),
        ("OrderID", "orderId"),
        ("session.token", "sessionToken"),
        ("trackingNumber", "tracking_number"),
    ],
)
def test_names_agree_in_every_style(taken: str, given_out: str) -> None:
    assert edges_of([tool("make", "", given_out), tool("use", taken)]) == [("use", "make")]


@pytest.mark.parametrize(
    "name",
    [
        # What a user says, not a handle.
        "city", "date", "first_name", "query", "identity", "idea", "valid", "monkey", "tokens_used",
        # Handles that people carry in their heads or on their cards.
        "phone_number", "zip_code", "postalCode", "card_number", "flightNumber", "ip_address", "email_address", "pin",
        "address", "number", "code",
    ],
)  # fmt: skip
def test_what_a_user_states_proves_nothing(name: str) -> None:
    assert edges_of([tool("make", "", name), tool("use", name)]) == []


@pytest.mark.parametrize("name", ["id", "token", "key", "uuid"])
def test_a_bare_handle_of_several_makers_is_looked_for_at_the_same_parent_only(name: str) -> None:
    one = tool("make_one", "", name, parent="One")
    two = tool("make_two", "", name, parent="Two")
    use = tool("use", name, parent="Two")
    assert edges_of([one, two, use]) == [("use", "make_two")]
    # With a single maker there is nothing to mistake it for.
    assert edges_of([one, use]) == [("use", "make_one")]
    # A third vendor's `id` is nobody's here.
    assert edges_of([one, two, tool("use", name, parent="Three")]) == []


def test_a_qualified_handle_is_looked_for_everywhere() -> None:
    tools = [tool("find", "", "flight_id", parent="A"), tool("book", "flight_id", parent="B")]
    assert edges_of(tools) == [("book", "find")]


def test_an_optional_input_makes_no_edge() -> None:
    assert edges_of([tool("make", "", "order_id"), tool("use", may_take="order_id")]) == []


@pytest.mark.parametrize("optional", [False, True])
def test_a_tool_that_takes_a_handle_and_gives_it_back_does_not_give_it_out(optional: bool) -> None:
    echo = tool("echo", "" if optional else "order_id", "order_id", may_take="order_id" if optional else "")
    tools = [echo, tool("make", "", "order_id"), tool("use", "order_id")]
    expected = [("use", "make")] if optional else [("echo", "make"), ("use", "make")]
    assert edges_of(tools) == expected


def test_a_tool_never_depends_on_itself() -> None:
    assert edges_of([tool("next", "cursor", "cursor")]) == []


@pytest.mark.parametrize(("most", "edges"), [(1, 0), (2, 2), (3, 2)])
def test_a_handle_that_many_tools_give_out_tells_nothing(most: int, edges: int) -> None:
    tools = [tool("make_a", "", "order_id"), tool("make_b", "", "order_id"), tool("use", "order_id")]
    assert len(edges_of(tools, most)) == edges
    assert edges_of(tools) == edges_of(tools, 3), "three is the default"


def test_handles_are_found_at_any_depth_of_a_response() -> None:
    deep = Tool("make", "make", "", "c", "p", (), json.dumps({"orders": [{"meta": {"order_id": "str"}}]}))
    assert edges_of([deep, tool("use", "order_id")]) == [("use", "make")]


def test_a_tool_without_a_response_schema_gives_nothing_out() -> None:
    assert edges_of([Tool("make", "make", "gives an order_id"), tool("use", "order_id")]) == []


# Rule `verification` ------------------------------------------------------------------------------------------------


def test_a_change_depends_on_the_check_of_what_it_requires() -> None:
    tools = [tool("verify_password", "password"), tool("delete_account", "password reason")]
    assert edges_of(tools) == [("delete_account", "verify_password")]


@pytest.mark.parametrize("verb", ["verifyX", "ValidateX", "check_x", "confirm x", "authenticate-x", "authorise_x"])
def test_every_verb_of_checking_counts(verb: str) -> None:
    assert edges_of([tool(verb, "x"), tool("send_x", "x y")]) == [("send_x", verb)]


@pytest.mark.parametrize(
    ("checker", "changer"),
    [
        (tool("verify", "password", parent="Other"), tool("delete", "password")),
        (tool("verify", "password", category="other"), tool("delete", "password")),
        (tool("verify", "password", parent=""), tool("delete", "password", parent="")),
        # It checks something that the change does not require, or only may take, or nothing at all.
        (tool("verify", "password email"), tool("delete", "password")),
        (tool("verify", "password"), tool("delete", may_take="password")),
        (tool("verify"), tool("delete", "password")),
        # It only reads.
        (tool("verify", "password"), tool("list_orders", "password")),
        # A check that changes something is a check all the same.
        (tool("verify", "password"), tool("confirm_order", "password")),
        # The verb must come first: an overview of verifications checks nothing.
        (tool("list_verify", "password"), tool("delete", "password")),
        # Words, not beginnings of words.
        (tool("checkout", "password"), tool("delete", "password")),
        (tool("verify", "password"), tool("settings", "password")),
    ],
)
def test_no_verification_is_seen_where_there_is_none(checker: Tool, changer: Tool) -> None:
    assert edges_of([checker, changer]) == []


def test_an_edge_of_both_rules_stands_once() -> None:
    tools = [tool("verify_user", "user", "session_token"), tool("delete_user", "user session_token")]
    assert edges_of(tools) == [("delete_user", "verify_user")]


def test_an_empty_library_has_no_edges() -> None:
    assert rule_edges([]).shape == (0, 2)


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("orderId", ("order", "id")),
        ("order_id", ("order", "id")),
        ("Order ID", ("order", "id")),
        ("GET /v1/orders/{order_id}", ("get", "v1", "orders", "order", "id")),
        ("HTTPServerURL", ("http", "server", "url")),
        ("getURLForID", ("get", "url", "for", "id")),
        ("userIDs", ("user", "ids")),
        ("order_IDs", ("order", "ids")),
        ("v2Token", ("v2", "token")),
        ("__x__", ("x",)),
        ("größe_ändern", ("größe", "ändern")),
        ("订单", ("订单",)),
        ("---", ()),
        ("", ()),
    ],
)
def test_words_of_a_name(name: str, found: tuple[str, ...]) -> None:
    assert name_words(name) == found


@given(st.lists(st.from_regex(r"[a-z]{2,6}", fullmatch=True), min_size=1, max_size=4))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_words_are_the_same_in_every_style(parts: list[str]) -> None:
    camel = parts[0] + "".join(part.title() for part in parts[1:])
    pascal = "".join(part.title() for part in parts)
    styles = [
        "_".join(parts),
        "-".join(parts),
        " ".join(parts),
        "/".join(parts),
        camel,
        pascal,
        "_".join(parts).upper(),
    ]
    assert {name_words(style) for style in styles} == {tuple(parts)}


# Against annotations ------------------------------------------------------------------------------------------------


def precision_and_recall(dataset: Dataset) -> tuple[float, float]:
    collected = {(dataset.tools[a].tool_id, dataset.tools[b].tool_id) for a, b in rule_edges(dataset.tools).tolist()}
    annotated = {(edge.dependent, edge.prerequisite) for edge in dataset.edges}
    return len(collected & annotated) / len(collected), len(collected & annotated) / len(annotated)


def test_the_rules_agree_with_the_annotated_edges_of_starter() -> None:
    precision, recall = precision_and_recall(loaded("starter"))
    assert precision >= 0.9
    assert recall >= 0.45


def test_the_rules_agree_with_the_annotated_edges_of_apibank(mirror: Path) -> None:
    precision, recall = precision_and_recall(loaded("apibank"))
    assert precision >= 0.9
    assert recall >= 0.5


def test_edges_do_not_depend_on_the_order_of_the_library() -> None:
    tools = loaded("starter").tools
    turned = tools[::-1]
    assert {(tools[a].tool_id, tools[b].tool_id) for a, b in rule_edges(tools)} == {
        (turned[a].tool_id, turned[b].tool_id) for a, b in rule_edges(turned)
    }

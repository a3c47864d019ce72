"""Candidate pairs: each sign by hand, and how many true edges they keep."""

from __future__ import annotations

import json

import numpy as np
import pytest
from kit.datasets import loaded

from bench.data.tables import Parameter, Tool
from bench.methods.tgr.candidates import candidate_pairs, parent_pairs, schema_pairs, text_pairs
from bench.methods.tgr.documents import document


def tool(name: str, takes: str = "", gives: str = "", *, parent: str = "", category: str = "c") -> Tool:
    parameters = tuple(Parameter(word) for word in takes.split())
    returns = json.dumps(dict.fromkeys(gives.split(), "str")) if gives else None
    return Tool(name, name, "", category, parent, parameters, returns)


@pytest.mark.parametrize(
    ("taken", "given_out", "expected"),
    [
        ("orderId", "order_id", [[0, 1]]),
        # The last word alone, singular or plural.
        ("guestEmail", "email", [[0, 1]]),
        ("city", "cities", [[0, 1]]),
        ("emailKind", "email", []),
        ("order_id", "ticket", []),
    ],
)
def test_a_required_name_that_is_given_back_makes_a_candidate(
    taken: str, given_out: str, expected: list[list[int]]
) -> None:
    assert schema_pairs([tool("use", taken), tool("make", "", given_out)]).tolist() == expected
    assert schema_pairs([tool("make", "", given_out), tool("use", taken)]).tolist() == expected


def test_an_optional_input_and_a_tool_by_itself_make_none() -> None:
    optional = Tool("use", "use", "", parameters=(Parameter("order_id", required=False),))
    assert schema_pairs([optional, tool("make", "", "order_id")]).tolist() == []
    assert schema_pairs([tool("renew", "order_id", "order_id")]).tolist() == []


def test_a_name_that_many_tools_give_back_makes_none() -> None:
    makers = [tool(f"make{i:02}", "", "name") for i in range(11)]
    assert len(schema_pairs([tool("use", "name"), *makers[:10]])) == 10
    assert len(schema_pairs([tool("use", "name"), *makers])) == 0


def test_tools_of_one_parent_are_candidates_unless_it_is_huge() -> None:
    few = [tool(f"{i:03}", parent="p" if i < 3 else "q") for i in range(4)]
    assert parent_pairs(few).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert len(parent_pairs([tool(f"{i:03}", parent="p") for i in range(31)])) == 0
    assert len(parent_pairs([tool("a"), tool("b")])) == 0, "no parent is no common parent"


def test_the_text_proposes_the_nearest_of_the_category() -> None:
    tools = [tool("a"), tool("b"), tool("c"), tool("d", category="other"), tool("e", category="alone")]
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [1, 0], [1, 0]], dtype=np.float32)
    assert text_pairs(tools, vectors, 1).tolist() == [[0, 1], [1, 2]]
    assert text_pairs(tools, vectors, 9).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert text_pairs(tools, vectors, 0).tolist() == []


def test_within_categories_no_pair_crosses_one() -> None:
    tools = [tool("use", "order_id", category="one"), tool("make", "", "order_id", category="two")]
    vectors = np.eye(2, dtype=np.float32)
    assert candidate_pairs(tools, vectors).tolist() == [[0, 1]]
    assert candidate_pairs(tools, vectors, within="category").tolist() == []


def test_an_empty_library_has_no_candidates() -> None:
    assert candidate_pairs([], np.zeros((0, 4), dtype=np.float32)).shape == (0, 2)


def test_schemas_and_parents_alone_keep_seven_of_eight_edges_of_starter_in_four_percent_of_its_pairs() -> None:
    dataset = loaded("starter")
    codes = dataset.tool_codes
    pairs = {(int(a), int(b)) for a, b in candidate_pairs(dataset.tools, np.zeros((len(codes), 1), np.float32), 0)}
    edges = {tuple(sorted((codes[edge.dependent], codes[edge.prerequisite]))) for edge in dataset.edges}
    assert len(edges & pairs) / len(edges) >= 0.87
    assert len(pairs) <= 0.04 * len(codes) * (len(codes) - 1) / 2


def test_the_number_of_candidates_grows_with_the_tools_and_not_with_their_square() -> None:
    random = np.random.default_rng(0)

    def count(size: int) -> int:
        tools = [tool(f"{i:05}", f"id{i % 50}", f"id{i % 40}", parent=f"p{i // 4}") for i in range(size)]
        return len(candidate_pairs(tools, random.normal(size=(size, 8)).astype(np.float32)))

    assert count(1600) < 5 * count(400)


# Documents ----------------------------------------------------------------------------------------------------------


def test_a_document_names_inputs_outputs_and_purpose() -> None:
    made = Tool(
        "x",
        "cancelOrder",
        "Cancels an order.",
        "Trade",
        "Shop",
        (Parameter("orderId"), Parameter("reason", required=False)),
        json.dumps({"status": "str", "refund_id": "str"}),
    )
    text = "cancel order. needs: order id. may take: reason. gives: refund id, status. Cancels an order."
    assert document(made) == text
    assert "needs: ticket no" in document(made, {"order id": "ticket no"})
    assert document(Tool("x", "", "")) == ""


def test_long_schemas_and_descriptions_are_cut_handles_first() -> None:
    gives = " ".join(f"field{i}" for i in range(50)) + " order_id"
    text = document(Tool("x", "make", "word " * 100, "c", "p", (), json.dumps(dict.fromkeys(gives.split(), "str"))))
    assert "gives: order id, field0" in text
    assert len(text.split()) < 60

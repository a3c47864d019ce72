"""Tool2Vec by hand: means of past queries, of written ones, and the text of a tool that has neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries, scores_by_code
from kit.validation import assert_conforms

from bench.base.errors import UsageError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Method
from bench.interface.parts import needs_history, needs_llm
from bench.registry import build_method

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {"book": "lends novels", "mail": "posts letters", "map": "draws roads"}
PAST = [
    ("write home", ["mail"], "train"),
    ("write to a shop", ["book", "mail"], "dev"),
    ("no tool", [], "train"),
]
VECTORS = {
    "lends novels": (1, 0, 0),
    "posts letters": (0, 1, 0),
    "draws roads": (0, 0, 1),
    "write home": (0.6, 0.8, 0),
    "write to a shop": (0, 0.6, 0.8),
    "where is it": (0.8, 0, 0.6),
    "how far": (0, 0.6, 0.8),
    "asked": (0, 3, 4),
}


def scores(method: Method, text: str = "asked") -> list[float]:
    pairs = scores_by_code(method.rank(make_queries(text), 3))
    return [pairs[code] for code in range(3)]


def test_a_tool_is_the_mean_of_its_queries_or_its_text(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    method = prepared("tool2vec", make(TOOLS, PAST))
    # book: one query, (0, 0.6, 0.8). mail: the mean of two, (0.3, 0.7, 0.4). map: its text. The query is (0, 0.6, 0.8).
    assert scores(method) == pytest.approx([1.0, (0.7 * 0.6 + 0.4 * 0.8) / np.sqrt(0.74), 0.8], rel=1e-6)
    assert check_facts(method) == {"past_queries": 2, "tools_by_past_queries": 2, "tools_by_text": 1}
    dot = prepared("tool2vec(similarity=dot)", make(TOOLS, PAST))
    assert scores(dot) == pytest.approx([5.0, 3 * 0.7 + 4 * 0.4, 4.0], rel=1e-6)


def test_a_model_writes_queries_for_tools_without(
    make: Make, prepared: Prepared, planted: Planted, chat_server: ChatServer
) -> None:
    planted(VECTORS)
    chat_server.answer = lambda body: "Here are the requests:\n1. where is it\n2. how far\n3. where is it"
    method = prepared("tool2vec(llm=some-model, similarity=dot)", make(TOOLS, PAST))
    # map: the mean of (0.8, 0, 0.6) and (0, 0.6, 0.8), a repeated query counted once.
    assert scores(method) == pytest.approx([5.0, 3.7, 3 * 0.3 + 4 * 0.7], rel=1e-6)
    facts = check_facts(method)
    assert (facts["tools_by_written_queries"], facts["tools_by_text"], facts["tools_without_reply"]) == (1, 0, 0)
    (prompt,) = chat_server.prompts
    assert "Tool: name of map\nDescription: draws roads" in prompt
    assert "10 different requests" in prompt


def test_without_past_queries_all_are_written_and_without_a_reply_the_text_stands(
    make: Make, prepared: Prepared, planted: Planted, chat_server: ChatServer
) -> None:
    planted(VECTORS)

    def answer(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        return "" if "letters" in prompt else "Sure:" if "novels" in prompt else "- how far"

    chat_server.answer = answer
    method = prepared("tool2vec(llm=some-model, similarity=dot)", make(TOOLS))
    assert scores(method) == pytest.approx([0.0, 3.0, 5.0], rel=1e-6)
    facts = check_facts(method)
    assert (facts["tools_by_written_queries"], facts["tools_by_text"], facts["tools_without_reply"]) == (1, 2, 1)


def test_it_needs_past_queries_or_a_model(make: Make, tmp_path: object) -> None:
    assert needs_history(build_method("tool2vec"))
    written = build_method("tool2vec(llm=some-model)")
    assert not needs_history(written)
    assert needs_llm(written)
    runner = Runner(tmp_path, load=lambda _: make(TOOLS), build=build_method)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="past queries"):
        list(runner.run([Plan(parse("made"), parse("tool2vec"))]))


def test_written_queries_keep_the_protocol(make: Make, chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: f"- {body['messages'][-1]['content'][-60:-12]}\n- write to somebody"
    data = make({"mail": "posts letters", "pay": "moves money"}, [("read", ["mail"], "dev")], test="write a letter")
    assert_conforms("tool2vec(llm=some-model)", data)

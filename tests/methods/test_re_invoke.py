"""Re-Invoke: the ranking of several views by hand, written queries and intents, replies good and bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from kit.chatserver import Body, ChatServer
from kit.rankings import make_queries

from bench.data.dataset import Dataset
from bench.evaluation.method_errors import check_facts
from bench.interface import Method, Queries
from bench.interface.parts import needs_llm

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {"book": "lends novels", "mail": "posts letters", "map": "draws roads", "pay": "moves money"}
BOOK, MAIL, MAP, PAY = range(4)
VECTORS = {
    "lends novels": (1, 0, 0, 0),
    "posts letters": (0, 1, 0, 0),
    "draws roads": (0, 0, 1, 0),
    "moves money": (0, 0, 0, 1),
    "write home": (0.3, 0.9, 0.1, 0.2),
    "settle the rent": (0.1, 0.6, 0.2, 0.7),
    "hush": (0.5, 0.1, 0.8, 0.2),
    # The text of a tool with a query behind it.
    "draws roads\nhow far is it": (0.9, 0, 0.4, 0),
    "draws roads\nwhere is it": (0, 0, 0, 1),
}


def ranked(method: Method, text: str, depth: int = 4) -> list[int]:
    row: list[int] = method.rank(make_queries(text), depth).tools[0].tolist()
    return row


def test_the_first_of_every_intent_come_first(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted(VECTORS)
    method = prepared("re-invoke", make(TOOLS))
    # write home: mail 0.92, book 0.31, pay 0.21, map 0.10. settle the rent: pay 0.74, mail 0.63, map 0.21, book 0.11.
    # Best ranks: mail 1 (0.92), pay 1 (0.74), book 2, map 3.
    assert ranked(method, "write home and settle the rent") == [MAIL, PAY, BOOK, MAP]
    assert ranked(method, "write home and settle the rent", 2) == [MAIL, PAY]
    assert method.marks() == {"rules": "uses rules instead of a language model (llm=rules)"}
    facts = check_facts(method)
    assert (facts["texts"], facts["tools_by_own_text"], facts["intents"]) == (4, 4, 2)
    assert ranked(prepared("re-invoke(intents=1)", make(TOOLS)), "write home and settle the rent")[:2] == [MAIL, BOOK]


def test_queries_and_intents_are_written(
    make: Make, prepared: Prepared, planted: Planted, chat_server: ChatServer
) -> None:
    planted(VECTORS)

    def answer(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        if "Tool: " in prompt:
            return "1. how far is it\n2. where is it" if "roads" in prompt else "" if "money" in prompt else "Sure:"
        return "" if "unspeakable" in prompt else "Here you are:" if "hush" in prompt else "- settle the rent"

    chat_server.answer = answer
    method = prepared("re-invoke(llm=some-model, queries=2)", make(TOOLS))
    # settle the rent is near the second text of map (0.7, as pay): the lower code first.
    assert ranked(method, "asked") == [MAP, PAY, MAIL, BOOK]
    # A reply without a line: the request is its own intent; map by its first text, 0.79.
    assert ranked(method, "hush") == [MAP, BOOK, PAY, MAIL]
    ranking = method.rank(Queries(("unspeakable",), np.arange(1)), 4)
    assert ranking.failed is not None
    assert ranking.failed.tolist() == [True]
    assert needs_llm(method)
    assert method.marks() == {}
    facts = check_facts(method)
    assert (facts["texts"], facts["tools_by_own_text"], facts["replies_unusable"]) == (5, 3, 1)

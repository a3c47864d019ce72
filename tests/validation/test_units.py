"""The audit of dependence: likeness by hand on a small dataset, and what is proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.base.errors import MethodError
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Split, Tables, Tool
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.registry import build_method
from bench.search.topk import top_k
from bench.validation.units import Dependence, Likeness, audit_units

CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")
#: Twenty ids that are words of letters alone. The last five tools are found by every query (see `Told`).
NAMES = [f"t{chr(ord('a') + i)}" for i in range(20)]
TOOLS = [Tool(name, "", f"number {i}", "c", f"p{i // 2}") for i, name in enumerate(NAMES)]


class Told(Method):
    """Ranks the tools that a query names, and puts the others behind them by id, the last first."""

    batch_size = 3

    def index(self, library: Library) -> None:
        self.ids = [tool.tool_id for tool in library.tools]

    def rank(self, queries: Queries, depth: int) -> Ranking:
        assert len(queries) <= 3
        named = np.array([[float(tool in text.split()) for tool in self.ids] for text in queries.texts])
        return top_k(named + np.linspace(0, 0.5, len(self.ids)), depth)


class OneByOne(Told):
    """Is asked one query at a time."""

    batch_size = 1


class Deaf(Told):
    """Ranks the same tools whatever is asked."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(np.tile(np.linspace(0, 1, len(self.ids)), (len(queries), 1)), depth)


class Broken(Told):
    """Raises."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        raise ValueError("no")


def made(kind: type[Method]) -> Method:
    method = kind(kind.Parameters(), Context(build_method))
    method.name = kind.__name__.lower()
    return method


def make_queries(rows: Sequence[tuple[int, int, str]], split: Split = "test") -> list[Query]:
    """A query for each (tool, whether it is found, group)."""
    return [
        # Words of its own keep a query from being a near-duplicate of another.
        Query(f"{split}{i:03}", f"{split} {'x' * i} {NAMES[tool] * item}", {NAMES[tool]: 1}, split, group=group)
        for i, (tool, item, group) in enumerate(rows)
    ]


def audited(queries: Sequence[Query], *methods: Method, **card: Any) -> Dependence:
    return audit_units(Dataset.build("made", CARD.model_copy(update=card), Tables(TOOLS, queries)), methods)


def test_likeness_is_that_worked_by_hand() -> None:
    # Four gold sets of two queries, all found or none: means 1, 0, 1, 0 and no spread within.
    queries = make_queries(
        [(0, 1, ""), (0, 1, ""), (2, 0, ""), (2, 0, ""), (4, 1, ""), (4, 1, ""), (6, 0, ""), (6, 0, "")]
    )
    findings = audited(queries, made(Told), made(Deaf))
    gold = findings.rules[0]
    assert (gold.name, gold.sizes.queries, gold.sizes.units, gold.sizes.largest) == ("gold", 8, 4, 2)
    # Units' sums are 1 off the mean: (4 / (1 - 2/8)) / 64, over a variance of the mean of 2/7 / 8 = 1/28.
    told = gold.methods["told"]
    assert (told.correlation, told.effect) == (1.0, pytest.approx(28 * 4 / 0.75 / 64))
    # Recall that never varies tells nothing.
    assert gold.methods["deaf"] == Likeness(None, None)
    assert findings.proposed == "gold"
    assert findings.card == gold


def test_every_relation_is_shown_and_the_card_s_rule() -> None:
    queries = make_queries([(0, 1, "s"), (1, 1, "s"), (2, 0, "t"), (2, 1, "t")])
    findings = audited(queries, made(Told), unit=CARD.unit.model_copy(update={"by": ["gold", "parent"]}))
    names = {rule.name: rule.sizes.units for rule in findings.rules}
    assert names["gold"] == 3
    assert names["group"] == 2
    assert names["text"] == 4
    assert names["parent"] == 2
    assert names["gold+parent"] == 2
    assert findings.card.name == "gold+parent"


def test_a_group_that_goes_beyond_gold_is_proposed_too() -> None:
    rows = [(2 * tool, int(tool < 4), f"s{tool // 2}") for tool in range(8) for _ in range(2)]
    findings = audited(make_queries(rows), made(Told))
    assert findings.proposed == "gold+group"
    assert findings.rules[-1].name == "gold+group"
    assert findings.rules[-1].sizes.units == 4


def test_a_query_of_several_calls_is_found_by_any_of_them() -> None:
    alone = make_queries([(0, 1, ""), (0, 1, ""), (2, 0, "")])
    several = [replace(query, text="nothing", calls=("nothing", query.text)) for query in alone]
    one, two = (audited(queries, made(OneByOne)).rules[0].methods for queries in (alone, several))
    assert one == two


@pytest.mark.parametrize("by", ["gold", "group"])
def test_units_whose_queries_differ_are_not_proposed(by: str) -> None:
    rows = [
        (2 * tool if by == "gold" else 2 * tool + item, item, "" if by == "gold" else f"s{tool}")
        for tool in range(7)
        for item in (0, 1)
    ]
    findings = audited(make_queries(rows), made(Told))
    (rule,) = [rule for rule in findings.rules if rule.name == by]
    likeness = rule.methods["told"]
    assert likeness.correlation == pytest.approx(-1)
    assert likeness.effect == pytest.approx(0)
    assert by not in findings.proposed


def test_a_relation_that_links_few_queries_is_not_proposed() -> None:
    queries = [
        *[Query(f"{i:02}", name * (i % 2), {name: 1}) for i, name in enumerate(NAMES)],
        *[Query(f"x{i:02}", "", {name: 1, NAMES[i - 3]: 1}) for i, name in enumerate(NAMES)],
        # One pair in 42 queries.
        *[Query(f"y{i}", "ta tb", {"ta": 1, "tb": 1}) for i in range(2)],
    ]
    findings = audited(queries, made(Told))
    assert (findings.rules[0].name, findings.rules[0].sizes.units) == ("gold", 41)
    assert findings.rules[0].methods["told"].correlation is not None
    assert "gold" not in findings.proposed.split("+")


@pytest.mark.parametrize("rows", [[], [(1, 1, "")]])
def test_without_two_judged_queries_nothing_is_known(rows: list[tuple[int, int, str]]) -> None:
    queries = [*make_queries(rows), *make_queries([(1, 1, ""), (1, 0, "")], "train"), Query("none", "x", {})]
    findings = audited(queries, made(Told))
    assert findings.proposed == "none"
    assert (findings.card.sizes.queries, findings.card.sizes.units) == (len(rows), len(rows))
    assert {likeness for rule in findings.rules for likeness in rule.methods.values()} == {Likeness(None, None)}


def test_only_judged_queries_of_the_default_split_count() -> None:
    test = [(0, 1, ""), (0, 1, ""), (2, 0, ""), (2, 0, "")]
    queries = [*make_queries(test), *make_queries([(0, 0, "")] * 5, "train"), Query("none", "ta", {})]
    assert audited(queries, made(Told)).rules == audited(make_queries(test), made(Told)).rules
    assert audited(queries, made(Told), split="all").card.sizes.queries == 9


def test_a_method_that_fails_is_named() -> None:
    with pytest.raises(MethodError, match="broken"):
        audited(make_queries([(0, 1, ""), (0, 1, "")]), made(Broken))

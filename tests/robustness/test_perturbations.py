"""Perturbations: what each does to small texts, that gold and ids stay, and what a user's function may not do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Parameter, Query, Tool
from bench.robustness.perturbation import Chosen, apply, built_in, choose, edit_tool
from bench.robustness.requests import _translations

TOOLS = [
    Tool("a.find", "find_flights", "Finds flights. It needs a date.", "travel", "a", (Parameter("date", "string"),)),
    Tool("a.book", "book_flight", "Books a flight.", "travel", "a"),
    Tool("b.mail", "send_mail", "Sends a mail.", "office", "b"),
    Tool("c.note", "write_note", "Writes a note.", "office", "c"),
]


def data(*texts: str, gold: str = "a.find") -> Dataset:
    return make_dataset(TOOLS, [Query(f"q{i}", text, {gold: 1}) for i, text in enumerate(texts)])


def perturbed(name: str, dataset: Dataset, seed: int = 0, ask: Any = None) -> Dataset:
    (chosen,) = choose([name])
    return apply(chosen, dataset, np.arange(len(dataset.queries)), seed, ask)[0]


def texts(name: str, *given: str) -> list[str]:
    return [query.text for query in perturbed(name, data(*given)).queries]


def silent(tools: Sequence[Tool], asked: Sequence[str]) -> list[list[str]]:
    """A method that returns nothing."""
    return [[] for _ in asked]


@pytest.mark.parametrize("chosen", choose(), ids=str)
def test_each_keeps_ids_and_gold_of_the_starter_and_draws_the_same_again(chosen: Chosen, starter: Dataset) -> None:
    rows = np.arange(len(starter.queries)) if chosen.perturbation.kind == "growth" else starter.rows("test")
    made, kind = apply(chosen, starter, rows, 0, silent)
    assert [query.query_id for query in made.queries] == [query.query_id for query in starter.queries]
    assert made.content_hash == apply(chosen, starter, rows, 0, silent)[0].content_hash
    assert kind == chosen.perturbation.kind
    for old, new in zip(starter.queries, made.queries, strict=True):
        if kind != "absence":
            assert new.gold == old.gold
        if kind == "request":
            assert bool(new.text.strip()) == bool(old.text.strip())
    if kind == "request":
        assert made.tools == starter.tools
    train = starter.rows("train")[0]
    assert made.queries[train].text == starter.queries[train].text


def test_each_says_what_it_does_claims_and_comes_from() -> None:
    for item in built_in().values():
        assert item.function.__doc__, item.name
        assert item.invariant
        assert item.source
    assert {item.kind for item in built_in().values()} == {"request", "library", "attack", "absence", "growth"}


def test_typing_errors_change_one_letter_of_long_words_only() -> None:
    before = "find cheap flights to the coast at http://x.example/coast or a1b2c3d4"
    (after,) = texts("typing-errors(rate=1.0)", before)
    old, new = before.split(), after.split()
    assert [word for word, other in zip(old, new, strict=True) if word == other] == [
        *("to", "the", "at", "http://x.example/coast", "or", "a1b2c3d4")
    ]
    for word, other in zip(old, new, strict=True):
        assert other[0] == word[0]
        assert abs(len(word) - len(other)) <= 1


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("upper-case", "find it at /root/a.md or a_b or b.txt. Now.", "FIND IT AT /root/a.md OR a_b OR b.txt. NOW."),
        ("keywords", "Could you please find me a flight, but not to Rome?", "find flight not to Rome"),
        ("keywords", "is it?", "is it?"),
        ("synonyms", "Find out. Find it, please book one.", "Find out. Find it, please reserve one."),
        ("synonyms", "The book! Find one.", "The book! Look up one."),
        ("synonyms", "search the web to search for cats", "search the web to look for cats"),
        ("values", "one flight on 4 June 2024 for 1 adult, GPT-4, Formula 1, 00:50", None),
        ("negation", "find flights", "find flights Not by e-mail, please."),
        ("negation", "mail me flights", "mail me flights No need to put it in a spreadsheet."),
    ],
)  # fmt: skip
def test_a_request_is_reworded(name: str, before: str, after: str | None) -> None:
    (made,) = texts(name, before)
    if after is not None:
        assert made == after
        return
    assert re.fullmatch(
        r"one flight on [23] (April|September|November) 202[23] for 1 adult, GPT-4, Formula 1, 00:50", made
    )


def test_a_frame_holds_the_request_as_it_is() -> None:
    for name in ("politeness", "filler"):
        (made,) = texts(name, "find flights")
        assert " find flights " in made


def test_numbers_of_a_request_move_together_and_two_months_stay() -> None:
    (made,) = texts("values", "from 14 to 17 at 500, June until August")
    low, high, price = map(int, re.findall(r"from (\d+) to (\d+) at (\d+)", made)[0])
    assert low - 14 == high - 17 == price - 500 > 0
    assert "June until August" in made


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        ("aged 25 to 30", {-1, -2, -3}),
        ("from 22 until 25", {1, 2, 3}),
        ("from 97 to 102", {1, 2, 3}),
        ("from 1850 to 1950", {-1, -2, -3}),
        ("on the days from 4 to 31", {-1, -2, -3}),
        ("on the days from 2 to 31", {-1}),
        # 2 would become 1, which is there.
        ("for 1 or 2 of us, 30 days", {0}),
    ],
)
def test_ranges_stay_ranges(before: str, steps: set[int]) -> None:
    for seed in range(20):
        (query,) = perturbed("values", data(before), seed).queries
        moved = [int(new) - int(old) for old, new in zip(*_numbers(before, query.text), strict=True) if old != "1"]
        assert len({*moved}) == 1
        assert moved[0] in steps


def _numbers(*texts: str) -> list[list[str]]:
    return [re.findall(r"\d+", text) for text in texts]


def test_minutes_move_together_or_stay() -> None:
    assert texts("values", "from 9:10 to 9:40, then 11:00") == ["from 9:25 to 9:55, then 11:15"]
    assert texts("values", "from 9:30 to 9:50") == ["from 9:30 to 9:50"]


def test_translations_are_of_requests_of_the_starter(starter: Dataset) -> None:
    asked = {query.text for query in starter.queries if query.split == "test"}
    assert len(_translations()) == 30
    assert set(_translations()) <= asked
    assert perturbed("german", data("another request")).queries[0].text == "another request"


def test_descriptions_are_emptied_cut_and_padded() -> None:
    one = data("x")
    assert {tool.description for tool in perturbed("no-descriptions", one).tools} == {""}
    assert perturbed("first-sentences", one).tools[1].description == "Finds flights."
    assert perturbed("no-parameters", one).tools[1].parameters == ()
    assert all(tool.description.endswith("authentication.") for tool in perturbed("boilerplate", one).tools)


@pytest.mark.parametrize(
    ("source", "cut", "renamed"),
    [
        # In words.
        ("find: Says \"hi\". To all. (GET)", "find: Says \"hi\". (GET)", "NEW: Says \"hi\". To all. (GET)"),
        # As values of JSON, whatever else has the same words.
        (
            '{"name": "find", "description": "Says \\"hi\\". To all.", "url": "a/find"}',
            '{"name": "find", "description": "Says \\"hi\\".", "url": "a/find"}',
            '{"name": "NEW", "description": "Says \\"hi\\". To all.", "url": "a/find"}',
        ),
        # A name within a word is another name.
        ("finder, find: text", None, "finder, NEW: text"),
        # Twice, or not at all: it is unknown which words are meant.
        ("find find", None, None),
        ('{"name": "find", "by": "find", "description": "Says hi."}', None, None),
    ],
)  # fmt: skip
def test_upstreams_text_is_edited_in_full_or_left_out(source: str, cut: str | None, renamed: str | None) -> None:
    tool = Tool("a", "find", 'Says "hi". To all.', source=source)
    made = edit_tool(tool, description='Says "hi".')
    assert (made.description, made.source) == ('Says "hi".', cut)
    assert edit_tool(tool, name="NEW").source == renamed
    assert edit_tool(tool, name="find", description=tool.description) == tool


def test_hidden_schemas_are_hidden_in_upstreams_text_too() -> None:
    tools = [replace(tool, source=f"{tool.name} with date") for tool in TOOLS]
    made = perturbed("no-parameters", make_dataset(tools, [Query("q", "x", {"a.find": 1})])).tools
    assert {tool.tool_id for tool in made if tool.source is None} == {"a.find"}


def test_names_are_noisy_by_level() -> None:
    one, old = data("x"), {tool.tool_id: tool.name for tool in TOOLS}
    by_level = {
        level: {tool.tool_id: tool.name for tool in perturbed(f"names(level={level})", one).tools}
        for level in ("slight", "medium", "heavy", "union")
    }
    assert all(new[tool] != old[tool] for new in by_level.values() for tool in old)
    assert sorted(by_level["heavy"].values()) == sorted(old.values())
    assert not set(by_level["medium"].values()) & set(old.values())


def test_a_copy_of_a_gold_tool_is_right_and_attackers_are_not() -> None:
    copied = perturbed("duplicate-servers(share=1.0)", data("x"))
    assert len(copied.tools) == 8
    assert copied.queries[0].meeting.keys() == {"a.find", "copy/a.find"}
    for name in ("stuffing", "praise", "clone", "squatting", "greedy"):
        made = perturbed(f"{name}(share=0.5)", data("x"), ask=silent)
        attackers = [tool for tool in made.tools if tool.tool_id.startswith("attacker/")]
        assert len(attackers) == 2
        assert made.queries[0].meeting.keys() == {"a.find"}


def test_a_greedy_attacker_keeps_what_the_method_ranks_higher() -> None:
    calls = 0

    def longest(tools: Sequence[Tool], asked: Sequence[str]) -> list[list[str]]:
        nonlocal calls
        calls += 1
        return [[tool.tool_id for tool in sorted(tools, key=lambda tool: len(tool.description))] for _ in asked]

    made = perturbed("greedy(share=0.25)", data("x"), ask=longest)
    (attacker,) = [tool for tool in made.tools if tool.tool_id.startswith("attacker/")]
    # The method ranks short descriptions first, so the attacker keeps one word or two.
    assert len(attacker.description) <= min(len(tool.description) for tool in TOOLS)
    assert calls == 3 * 5


def test_greedy_attackers_are_at_most_fifty() -> None:
    asked: list[tuple[int, int]] = []

    def count(tools: Sequence[Tool], texts: Sequence[str]) -> list[list[str]]:
        asked.append((len(tools), len(texts)))
        return [[] for _ in texts]

    many = make_dataset([Tool(f"t{i}", f"do_{i}", f"Does {i}.") for i in range(60)], [Query("q", "x", {"t0": 1})])
    assert len(perturbed("greedy(share=1.0, rounds=1)", many, ask=count).tools) == 60 + 50
    assert asked == [(60 + 50, 2 * 50)] * 5


def test_hidden_gold_hides_alternatives_and_partners() -> None:
    twin = replace(TOOLS[0], tool_id="d.find", parent="d")
    queries = [Query("q0", "x", {"a.find": 1}), Query("q1", "y", {"a.find": 1, "a.book": 1}), Query("q2", "z", {})]
    made = perturbed("hidden-gold", make_dataset([*TOOLS, twin], queries))
    assert [query.gold for query in made.queries] == [{}, {}, {}]
    assert set(made.queries[0].scope) == {"b.mail", "c.note"}
    assert made.queries[2].scope == ()
    assert made.queries[1].scope is made.queries[0].scope


def test_smaller_libraries_are_nested_and_keep_named_tools() -> None:
    one = make_dataset(TOOLS, [Query("q0", "x", {"a.find": 1})])
    sizes = {
        (first, share): {
            tool.tool_id for tool in perturbed(f"smaller-library(first={first}, share={share})", one).tools
        }
        for first in ("random", "siblings", "look-alikes")
        for share in (0.0, 0.4, 0.7, 1.0)
    }
    for first in ("random", "siblings", "look-alikes"):
        parts = [sizes[first, share] for share in (0.0, 0.4, 0.7, 1.0)]
        assert [len(part) for part in parts] == [1, 2, 3, 4]
        assert all(small < large for small, large in pairwise(parts))
    assert sizes["siblings", 0.4] == sizes["look-alikes", 0.4] == {"a.find", "a.book"}


USERS = """
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from pydantic import Field
def shout(queries, tools, seed, *, sign="!"):
    return [replace(query, text=query.text + sign) for query in queries], tools
def loud(queries, tools, seed, *, times: Annotated[int, Field(ge=1)]): return queries, tools
def quiet(queries, tools, seed, *, _seen=(), by: "no.such" = None, to: Path = Path()): return queries, tools
def fewer(queries, tools, seed): return queries[1:], tools
def nothing(queries, tools, seed): return None
def empty(queries, tools, seed): return [], []
def loses(queries, tools, seed): return queries, [tool for tool in tools if tool.tool_id != "a.find"]
def drops(queries, tools, seed): return [replace(query, gold={}) for query in queries], tools
def twice(queries, tools, seed): return queries, [*tools, tools[0]]
def again(queries, tools, seed): return [*queries[:1], *queries[:1]], tools
def strange(queries, tools, seed): return ["q0", "q1"], tools
def raises(queries, tools, seed): raise RuntimeError("out of order")
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with perturbations of a user."""
    (tmp_path / "perturbed_by_me.py").write_text(USERS)
    monkeypatch.syspath_prepend(tmp_path)
    return "perturbed_by_me"


def test_a_function_of_a_user_needs_no_decorator(mine: str) -> None:
    (chosen,) = choose([f'{mine}:shout(sign="?")'])
    made, kind = apply(chosen, data("x"), np.arange(1), 0)
    assert (made.queries[0].text, kind, str(chosen)) == ("x?", "request", f'{mine}:shout(sign="?")')
    assert str(choose([f"{mine}:loud(times=2)"])[0]) == f"{mine}:loud(times=2)"
    assert str(choose([f"{mine}:quiet"])[0]) == f"{mine}:quiet"
    for bad, sentence in (
        ("shout(sign=3)", "'sign' of .*shout is 3: input should be a valid string"),
        ("loud", "'times' of .* is required"),
        ("loud(times=0)", "greater than or equal to 1"),
    ):
        with pytest.raises(UsageError, match=sentence):
            choose([f"{mine}:{bad}"])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fewer", "returns 1 queries for 2; return each query under its id, and no other"),
        ("nothing", "must return queries and tools, and returns something else"),
        ("empty", "must return queries and tools, and returns something else"),
        ("strange", "must return queries and tools, and returns something else"),
        ("loses", "loses 'a.find', a gold tool of query q0; keep the gold"),
        ("drops", "loses 'a.find', a gold tool of query q0; keep the gold"),
        ("twice", "returns the tool 'a.book' twice"),
        ("again", "returns the query 'q0' twice"),
        ("raises", r"failed: RuntimeError: out of order \(perturbed_by_me.py:18\)"),
    ],
)
def test_a_broken_promise_is_one_sentence(mine: str, name: str, sentence: str) -> None:
    (chosen,) = choose([f"{mine}:{name}"])
    with pytest.raises(UsageError, match=sentence) as caught:
        apply(chosen, data("x", "y"), np.arange(2), 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("typos", "there is no perturbation 'typos'"),
        ("clones", r"there is no perturbation 'clones' \(did you mean 'clone'\?\)"),
        ("clone(size=2)", "clone has no parameter 'size'"),
        ("clone(share=x)", "parameter 'share' of perturbation clone is 'x': input should be a valid number"),
        ("clone(share=true)", "parameter 'share' of perturbation clone is true: input should be a valid number"),
        ("clone(share=-1)", "parameter 'share' of perturbation clone is -1: input should be greater than 0"),
        ("clone(share=0)", "greater than 0"),
        ("duplicate-servers(share=3)", "less than or equal to 1"),
        ("typing-errors(rate=5)", "less than or equal to 1"),
        ("typing-errors(rate=true)", "a valid number"),
        ("smaller-library(share=-0.5)", "greater than or equal to 0"),
        ("smaller-library(first=none)", "'random', 'siblings' or 'look-alikes'"),
        ("names(level=loud)", "'slight', 'medium', 'heavy' or 'union'"),
        ("greedy(rounds=0)", "greater than or equal to 1"),
        ("greedy(rounds=11)", "less than or equal to 10"),
        ("greedy(rounds=true)", "a valid integer"),
        ("greedy(ask=1)", "greedy has no parameter 'ask'"),
        ("no_module:f", "cannot be imported: ModuleNotFoundError"),
        ("json:nothing", "the module json has no function 'nothing'"),
    ],
)
def test_an_unknown_name_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        choose([name])
    assert "\n" not in str(caught.value)


def test_a_kind_names_all_of_it_once() -> None:
    names: Callable[[list[str]], list[str]] = lambda given: [str(item) for item in choose(given)]  # noqa: E731
    assert names(["attack", "clone"]) == ["stuffing", "praise", "clone", "squatting", "greedy"]
    assert names(["names"])[1:] == ["names(level=medium)", "names(level=heavy)", "names(level=union)"]
    assert len(names([])) == len({*names([])}) > 25

"""Ceilings: by hand, against every ranking, and against the expected value of a ranking with ties."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Query, Tables, Tool
from bench.metrics import evaluate, parse_metrics
from bench.metrics.ties import UnseenTies, tie_band
from bench.validation import ceilings as module
from bench.validation.ceilings import Ceilings, ceilings

CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")
checked = settings(deadline=None, derandomize=True, max_examples=60)


def made(texts: Sequence[str], queries: Sequence[tuple[str, dict[int, int]]]) -> Dataset:
    """Tools t0, t1, ... with these descriptions, and test queries with a text and gold by the tools' numbers."""
    tools = [Tool(f"t{i:02}", f"name {i}", text) for i, text in enumerate(texts)]
    rows = [
        Query(f"q{i:02}", text, {f"t{tool:02}": grade for tool, grade in gold.items()})
        for i, (text, gold) in enumerate(queries)
    ]
    return Dataset.build("made", CARD, Tables(tools, rows))


def bounds_of(result: Ceilings) -> dict[str, tuple[float, float, float]]:
    return {item.metric: (item.gold, item.tools, item.queries) for item in result.metrics}


def ones(*tools: int) -> dict[int, int]:
    return dict.fromkeys(tools, 1)


def test_a_dataset_without_a_cause_has_ceilings_of_1() -> None:
    result = ceilings(made(["a", "b", "c"], [("x", ones(0)), ("y", ones(1, 2)), ("none", {})]))
    assert set(bounds_of(result)) == {f"{name}@{k}" for name in ("recall", "ndcg", "pass") for k in (5, 10)}
    assert all(value == pytest.approx((1, 1, 1)) for value in bounds_of(result).values())
    assert (result.judged, result.more_gold, result.same_tool_text, result.same_query_text) == (2, 0, 0, 0)


def test_more_gold_than_the_cutoff_by_hand() -> None:
    result = ceilings(made([f"text {i}" for i in range(9)], [("x", ones(*range(8))), ("y", ones(0))]))
    values = bounds_of(result)
    assert values["recall@5"] == pytest.approx(((5 / 8 + 1) / 2,) * 3)
    assert values["pass@5"] == (0.5, 0.5, 0.5)
    # The ideal of ndcg has min(k, n) terms.
    assert values["ndcg@5"] == pytest.approx((1, 1, 1))
    assert values["pass@10"] == (1, 1, 1)
    assert result.more_gold == 1


def test_tools_of_one_text_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CUTOFFS", (1, 2))
    # Two of three tools with one text are gold for y, and one for x; z has a twin of which both are gold.
    data = made(["a", "a", "a", "b", "b"], [("x", ones(0)), ("y", ones(0, 1)), ("z", ones(3, 4))])
    result = ceilings(data)
    values = bounds_of(result)
    assert values["recall@1"] == pytest.approx((2 / 3, (1 / 3 + 1 / 3 + 1 / 2) / 3, (1 / 3 + 1 / 3 + 1 / 2) / 3))
    assert values["recall@2"][1] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    # Both of two drawn from three are the gold ones with the chance 1/3.
    assert values["pass@2"] == pytest.approx((1, (2 / 3 + 1 / 3 + 1) / 3, (2 / 3 + 1 / 3 + 1) / 3))
    assert values["ndcg@1"][1] == pytest.approx((1 / 3 + 2 / 3 + 1) / 3)
    assert result.same_tool_text == 2
    # With the names in the text, all can be told apart.
    assert all(value == (value[0],) * 3 for value in bounds_of(ceilings(data, "name_description")).values())


def test_queries_of_one_text_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CUTOFFS", (1, 2))
    result = ceilings(made(["a", "b", "c"], [("x", ones(0)), ("x", ones(0, 1)), ("x", ones(2)), ("y", ones(2))]))
    values = bounds_of(result)
    # One place: the tool a serves the first and half of the second.
    assert values["recall@1"] == pytest.approx(((1 + 1 / 2 + 1 + 1) / 4,) * 2 + ((1 + 1 / 2 + 1) / 4,))
    # Two: a and c serve two and a half queries. Pass: {a} and {a, b}, or {a} and {c}.
    assert values["recall@2"][2] == pytest.approx((2.5 + 1) / 4)
    assert values["pass@2"] == (1, 1, (2 + 1) / 4)
    assert values["pass@1"][2] == (1 + 1) / 4
    assert result.same_query_text == 3


def test_texts_are_counted_where_gold_has_alternatives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CUTOFFS", (1, 2))
    tools = [Tool(f"t{i}", f"name {i}", text) for i, text in enumerate(["a", "a", "b", "b", "b", "b"])]
    rows = [
        Query("q0", "x", {"t0": 1}, any_of={"t0": ("t1",)}),
        Query("q1", "y", {"t5": 1}, any_of={"t5": ("t4",)}),
        Query("q2", "y", {"t1": 1}),
    ]
    result = ceilings(Dataset.build("made", CARD, Tables(tools, rows)))
    # The text of q0's gold is that of its alternative alone; q1's is that of two more tools, q2's that of t0.
    assert (result.same_tool_text, result.same_query_text) == (2, 2)
    assert all(value == (1, 1, 1) for value in bounds_of(result).values())


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    texts = draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=4))
    gold = st.dictionaries(st.integers(0, len(texts) - 1), st.integers(1, 2), min_size=1, max_size=3)
    queries = draw(st.lists(st.tuples(st.sampled_from("xy"), gold), min_size=1, max_size=3))
    return made(texts, queries)


@given(datasets())
@checked
def test_no_ranking_is_better_and_one_reaches_the_ceiling_of_sums(data: Dataset) -> None:
    names = [f"{name}@{k}" for name in ("recall", "ndcg", "pass") for k in (1, 2)]
    metrics = parse_metrics(names)
    library = len(data.tools)
    texts = [tool.description for tool in data.tools]
    requests = [query.text for query in data.queries]
    # What is drawn at random: which of the tools with one text comes first.
    twins = [order for order in permutations(range(library)) if [texts[tool] for tool in order] == texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CUTOFFS", (1, 2))
        bounds = bounds_of(ceilings(data))
    values: dict[str, list[list[float]]] = {}
    for order in permutations(range(library)):
        renamed = np.array([[twin[tool] for tool in order] for twin in twins], dtype=np.int32)
        for text in set(requests):
            rows = np.array([i for i, row in enumerate(requests) if row == text])
            scores = np.mean(
                [
                    evaluate(np.tile(one, (len(rows), 1)), data.gold.take(rows), metrics).values.sum(axis=0)
                    for one in renamed
                ],
                axis=0,
            )
            values.setdefault(text, []).append(scores.tolist())
    best = np.sum([np.max(item, axis=0) for item in values.values()], axis=0) / len(requests)
    for name, reached in zip(names, best.tolist(), strict=True):
        gold, tools, queries = bounds[name]
        assert gold >= tools - 1e-12 >= queries - 2e-12
        assert reached <= queries + 1e-9, name
        if not name.startswith("pass"):
            assert reached == pytest.approx(queries), name


def test_the_expected_value_of_the_oracle_with_its_texts_tied_is_the_ceiling_of_sums() -> None:
    random = np.random.default_rng(4)
    texts = [f"text {random.integers(12)}" for _ in range(30)]
    queries = [(f"query {i}", ones(*random.permutation(30)[: random.integers(1, 5)].tolist())) for i in range(300)]
    data = made(texts, queries)
    codes = np.unique([tool.description for tool in data.tools], return_inverse=True)[1]
    sizes = np.bincount(codes)
    tools, scores = [], []
    for row in range(len(data.queries)):
        share = np.bincount(codes[data.gold.row(row)], minlength=len(sizes)) / sizes
        # Texts of an equal share are not tied with each other.
        place = np.argsort(np.argsort(share, kind="stable"))[codes]
        order = np.lexsort((np.arange(30), -place))
        tools.append(order)
        scores.append(place[order].astype(np.float64))
    metrics = parse_metrics(["recall@5", "recall@10", "ndcg@5", "ndcg@10"])
    none = UnseenTies.none(len(queries))
    band = tie_band(np.array(tools, dtype=np.int32), np.array(scores), data.gold, none, metrics)
    bounds = bounds_of(ceilings(data))
    for metric, expected in zip(band.metrics, band.expected.tolist(), strict=True):
        # A hundred random orders of each of 300 queries: a standard error below 0.002.
        assert expected == pytest.approx(bounds[str(metric)][1], abs=0.01)
        assert bounds[str(metric)][1] < bounds[str(metric)][0] - 0.02


def test_the_first_ceiling_is_the_value_of_the_gold_itself() -> None:
    random = np.random.default_rng(6)
    queries = [
        (
            f"query {i}",
            {int(tool): int(random.integers(1, 4)) for tool in random.permutation(20)[: random.integers(1, 14)]},
        )
        for i in range(50)
    ]
    data = made([f"text {i}" for i in range(20)], queries)
    best = np.array([sorted(range(20), key=lambda tool: -gold.get(tool, 0)) for _, gold in queries], dtype=np.int32)
    bounds = bounds_of(ceilings(data))
    gold = Gold.of(gold for _, gold in queries)
    for metric in parse_metrics(bounds):
        assert bounds[str(metric)][0] == pytest.approx(evaluate(best, gold, [metric]).values.mean())


def test_many_sets_of_one_query_text_are_bounded_without_trying_all_combinations() -> None:
    count = module._MOST_SETS + 8
    data = made([f"text {i}" for i in range(count)], [("x", ones(i)) for i in range(count)])
    assert bounds_of(ceilings(data))["pass@5"] == (1, 1, 1)
    assert bounds_of(ceilings(data))["recall@5"] == pytest.approx((1, 1, 5 / count))


def test_a_dataset_without_judged_queries_has_no_ceilings() -> None:
    result = ceilings(made(["a"], [("x", {})]))
    assert result.judged == 0
    assert all(math.isnan(value) for item in result.metrics for value in (item.gold, item.tools, item.queries))


def plainly(name: str, k: int, rows: Sequence[Mapping[int, int]], tools: Sequence[int]) -> float:
    """The largest sum of a metric over queries that get one ranking: every formula as the module states it."""
    sizes = Counter(tools)
    texts = [Counter(tools[tool] for tool in row) for row in rows]
    if name == "pass":
        chances: dict[frozenset[int], float] = {}
        for row, per in zip(rows, texts, strict=True):
            best = {0: 1.0}
            for code, m in per.items():
                best = {
                    total + n: max(
                        best[before] * (math.comb(sizes[code] - m, drawn - m) / math.comb(sizes[code], drawn))
                        for before in best
                        for drawn in range(m, sizes[code] + 1)
                        if before + drawn == total + n
                    )
                    for total in best
                    for n in range(m, sizes[code] + 1)
                }
            largest = max((chance for total, chance in best.items() if total <= k), default=0.0)
            chances[frozenset(row)] = chances.get(frozenset(row), 0.0) + largest
        needs = {frozenset(row): per for row, per in zip(rows, texts, strict=True)}
        sums = []
        for count in range(len(chances) + 1):
            for taken in combinations(chances, count):
                joined: Counter[int] = Counter()
                for one in taken:
                    joined |= needs[one]
                if joined.total() <= k:
                    sums.append(math.fsum(chances[one] for one in taken))
        return max(sums)
    discounts = [1 / math.log2(place + 1) for place in range(1, k + 1)] if name == "ndcg" else [1.0] * k
    gains: defaultdict[int, float] = defaultdict(float)
    for row in rows:
        ranked = sorted(row.values(), reverse=True)
        ideal = math.fsum(grade * weight for grade, weight in zip(ranked, discounts, strict=False))
        for tool, grade in row.items():
            gains[tools[tool]] += grade / ideal if name == "ndcg" else 1 / len(row)
    places = sorted((gain / sizes[code] for code, gain in gains.items() for _ in range(sizes[code])), reverse=True)
    return math.fsum(gain * weight for gain, weight in zip(places, discounts, strict=False))


@given(datasets())
@checked
def test_what_is_left_out_where_nothing_is_shared_changes_no_bit(data: Dataset) -> None:
    gold = [{data.tool_codes[tool]: grade for tool, grade in query.gold.items()} for query in data.queries]
    texts = [[tool.description for tool in data.tools].index(tool.description) for tool in data.tools]
    requests = [query.text for query in data.queries]
    values, alone = list(range(len(texts))), list(map(str, range(len(requests))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CUTOFFS", (1, 2, 3))
        bounds = ceilings(data).metrics
    for ceiling in bounds:
        name, k = ceiling.metric.split("@")
        for value, tools, queries in (
            (ceiling.gold, values, alone),
            (ceiling.tools, texts, alone),
            (ceiling.queries, texts, requests),
        ):
            groups = [[row for row, by in zip(gold, queries, strict=True) if by == text] for text in set(queries)]
            expected = math.fsum(plainly(name, int(k), rows, tools) for rows in groups) / len(gold)
            assert value == expected, ceiling

"""What a comparison computes, against the same numbers worked out with scipy or by hand from the stored values."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kit.datasets import make_dataset
from numpy.typing import NDArray

from bench.comparison.compare import ComparisonQuestion, compare_fields
from bench.comparison.comparison import Comparison
from bench.comparison.render import latex
from bench.comparison.report import Correction, MetricReport
from bench.comparison.systems import Field, on_same_queries
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.evaluation.external import score_run_file
from bench.results.store import StoredResult
from bench.stats.power import minimum_detectable_effect
from bench.stats.ranking import p_of_pairs
from bench.stats.units import robust_mean

TOOLS = [f"t{i:02}" for i in range(30)]
#: Smaller is better.
SIZE = "size_diff"
EXTRA = {"none": 0, "few": 2, "many": 4}


def made(name: str, queries: int) -> Dataset:
    """Queries that each want one tool; `half` says in which half of the dataset a query is."""
    tools = [Tool(tool, tool, f"Does {tool}.", "", "") for tool in TOOLS]
    requests = [
        Query(
            f"q{i:02}", f"request {i}", {TOOLS[i % 30]: 1}, "test", {"half": "first" if 2 * i < queries else "second"}
        )
        for i in range(queries)
    ]
    return make_dataset(tools, requests, id=name, template="name_description")


def system(dataset: Dataset, folder: Path, name: str, ranks: Sequence[int], extra: Sequence[int]) -> StoredResult:
    """A system that puts the gold of query i at rank `ranks[i]`, and recommends it with `extra[i]` wrong tools."""
    lines = []
    for query, rank, more in zip(dataset.queries, ranks, extra, strict=True):
        (gold,) = query.gold
        wrong = [tool for tool in TOOLS if tool != gold]
        order = [*wrong[: rank - 1], gold, *wrong[rank - 1 :]]
        lines.append(json.dumps({"query_id": query.query_id, "tools": order, "recommended": [gold, *wrong[:more]]}))
    data = "\n".join(lines).encode()
    return score_run_file(data, f"{name}.jsonl", dataset, folder, name=name, command=f"bench score {name}.jsonl")


def field(dataset: Dataset, folder: Path, names: Sequence[str] = ("few", "none", "many"), seed: int = 0) -> Field:
    """Systems whose recommended sets are too large by EXTRA, and one tool more for some queries."""
    chance = np.random.default_rng(seed)
    count = len(dataset.queries)
    results = [
        system(
            dataset,
            folder,
            name,
            chance.integers(1, 4 + 3 * EXTRA[name], count).tolist(),
            (EXTRA[name] + chance.integers(0, 2, count)).tolist(),
        )
        for name in names
    ]
    return on_same_queries(results)


def report(comparison: Comparison, metric: str, dataset: int = 0) -> MetricReport:
    (result,) = [item for item in comparison.datasets[dataset].metrics if item.metric == metric]
    return result


def values(part: Field, metric: str) -> dict[str, NDArray[np.float64]]:
    table = part.values(metric).values
    return {name: table[:, i] for i, name in enumerate(part.names)}


@pytest.fixture
def small() -> Dataset:
    """Sixty queries."""
    return made("small", 60)


def test_the_number_of_queries_needed_is_that_of_the_sample_standard_deviation(small: Dataset, tmp_path: Path) -> None:
    part = field(small, tmp_path)
    result = report(compare_fields([part], ComparisonQuestion(("mrr@10",)), lambda _: small), "mrr@10")
    checked = 0
    for difference in result.differences:
        d = values(part, "mrr@10")[difference.system] - values(part, "mrr@10")["few"]
        needed = difference.needed
        assert needed is not None
        # The smallest number of units whose detectable effect is no larger than the difference found.
        units = part.values("mrr@10").units
        count = int(units.max()) + 1
        assert 1 < count < len(d)
        sd = float(robust_mean(d[:, None], units)[1][0]) * math.sqrt(count)
        assert minimum_detectable_effect(sd, needed) <= abs(d.mean()) < minimum_detectable_effect(sd, needed - 1)
        assert difference.detectable == pytest.approx(minimum_detectable_effect(sd, count))
        checked += 1
    assert checked == 2


def test_where_less_is_better_the_smallest_mean_is_first_in_order_and_ranks(small: Dataset, tmp_path: Path) -> None:
    part = field(small, tmp_path)
    result = report(compare_fields([part], ComparisonQuestion((SIZE,)), lambda _: small), SIZE)
    assert not result.higher_is_better
    assert [item.system for item in result.standings] == ["none", "few", "many"]
    assert [(item.rank_low, item.rank_high) for item in result.standings] == [(1, 1), (2, 2), (3, 3)]
    wins = {item.system: (item.wins, item.losses) for item in result.differences}
    assert wins["none"][0] > wins["none"][1]
    assert wins["many"][0] < wins["many"][1]
    # A difference keeps the metric's own direction.
    assert {item.system: np.sign(item.difference) for item in result.differences} == {"none": -1, "many": 1}
    assert {item.system: item.verdict for item in result.differences} == {"none": "better", "many": "worse"}


@pytest.mark.parametrize("metric", ["mrr@10", SIZE])
def test_the_best_mean_is_bold_in_either_direction(metric: str, small: Dataset, tmp_path: Path) -> None:
    part = field(small, tmp_path)
    table = latex(compare_fields([part], ComparisonQuestion((metric,)), lambda _: small))
    (line,) = [line for line in table.splitlines() if r"\textbf" in line]
    assert line.startswith(rf"none & \textbf{{{values(part, metric)['none'].mean():.3f}}}")


def test_the_queries_that_gained_are_those_whose_set_got_better(small: Dataset, tmp_path: Path) -> None:
    part = field(small, tmp_path)
    (none, many) = compare_fields([part], ComparisonQuestion((SIZE,), moved=4), lambda _: small).datasets[0].moves
    assert (none.system, many.system) == ("none", "many")
    assert none.gained
    assert all(move.system < move.baseline for move in none.gained)
    assert not none.lost
    assert not many.gained
    changes = [move.system - move.baseline for move in many.lost]
    assert changes == sorted(changes, reverse=True)
    assert len(changes) == 4
    assert changes[0] == (values(part, SIZE)["many"] - values(part, SIZE)["few"]).max()


def test_metrics_are_shared_if_every_result_has_them(small: Dataset, tmp_path: Path) -> None:
    lines = [json.dumps({"query_id": query.query_id, "tools": TOOLS[:3]}) for query in small.queries]
    data = "\n".join(lines).encode()
    orders = score_run_file(data, "orders.jsonl", small, tmp_path, name="orders", command="bench score orders.jsonl")
    sets, more = (system(small, tmp_path, name, [1] * 60, [extra] * 60) for name, extra in (("sets", 0), ("more", 1)))
    for results in ([sets, orders], [orders, sets]):
        assert on_same_queries(results).shared_metrics(["recall@5", SIZE]) == ["recall@5"]
    assert on_same_queries([sets, more]).shared_metrics(["recall@5", SIZE]) == ["recall@5", SIZE]


@pytest.mark.parametrize("correction", ["holm", "benjamini-hochberg", "holm-all"])
def test_everything_that_is_said_of_a_pair_has_one_p_value(
    correction: Correction, small: Dataset, tmp_path: Path
) -> None:
    asked = ComparisonQuestion(("mrr@10", "recall@1", SIZE), correction=correction)
    part = field(small, tmp_path)
    result = compare_fields([part], asked, lambda _: small)
    first, second = np.triu_indices(3, 1)
    tables = [part.values(item.metric) for item in result.datasets[0].metrics]
    alone = [p_of_pairs(table.values, first, second, table.units) for table in tables]
    named = "all 3 pairs, 3 metrics and 1 dataset together" if "all" in correction else "all 3 pairs for each metric"
    assert result.family == named
    for place, metric in enumerate(result.datasets[0].metrics):
        pairs = np.array(metric.pairs)
        if correction == "holm":
            assert pairs[first, second].tolist() == pytest.approx(step_down(alone[place].tolist()))
        if correction == "holm-all":
            every = step_down(np.concatenate(alone).tolist())
            assert pairs[first, second].tolist() == pytest.approx(every[3 * place : 3 * place + 3])
        names = [system.name for system in result.datasets[0].systems]
        ranks = {item.system: (item.rank_low, item.rank_high) for item in metric.standings}
        for item in metric.differences:
            p = pairs[0, names.index(item.system)]
            assert item.corrected == p
            assert (item.verdict != "not decided") == (p < 0.05)
            assert (item.low or 0.0) <= item.difference <= (item.high or 0.0)
            assert ((item.low or 0.0) > 0 or (item.high or 0.0) < 0) == (p < 0.05)
            better, worse = (item.system, names[0]) if item.verdict == "better" else (names[0], item.system)
            if item.verdict != "not decided":
                assert ranks[better][0] < ranks[worse][0]
                assert ranks[better][1] < ranks[worse][1]


def test_slices_are_a_family_of_their_own(small: Dataset, tmp_path: Path) -> None:
    member = field(small, tmp_path)
    slices = (
        compare_fields([member], ComparisonQuestion(("mrr@10",), slices=("half",)), lambda _: small).datasets[0].slices
    )
    assert [(item.value, item.n) for item in slices] == [("first", 30), ("second", 30)]
    every = [item for part in slices for item in part.differences]
    assert [item.corrected for item in every] == pytest.approx(step_down([item.p for item in every]))
    assert any(item.corrected > item.p for item in every)
    assert slices[0].means["none"] == pytest.approx(values(member, "mrr@10")["none"][:12].mean())


def step_down(p: Sequence[float]) -> list[float]:
    """Holm's correction, written out."""
    order = np.argsort(p, kind="stable")
    result, highest = [0.0] * len(p), 0.0
    for place, i in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p) - place) * p[i]))
        result[i] = highest
    return result


@pytest.mark.parametrize("names", [("few", "none"), ("few", "none", "many")])
def test_over_datasets_the_best_has_the_first_rank_in_either_direction(names: tuple[str, ...], tmp_path: Path) -> None:
    datasets = [made("one", 24), made("two", 30), made("three", 26), made("four", 22)]
    fields = [field(dataset, tmp_path / dataset.spec, names, seed=i) for i, dataset in enumerate(datasets)]
    known = {dataset.spec: dataset for dataset in datasets}
    by_metric = {
        item.metric: item for item in compare_fields(fields, ComparisonQuestion(("mrr@10", SIZE)), known.get).macro
    }
    for metric, macro in by_metric.items():
        assert [item.system for item in macro.standings] == (
            ["none", "few", "many"] if len(names) > 2 else ["none", "few"]
        )
        assert [item.rank_low for item in macro.standings] == list(range(1, len(names) + 1))
        assert [item.mean_rank for item in macro.standings] == list(range(1, len(names) + 1))
        means = {name: np.mean([values(row, metric)[name].mean() for row in fields]) for name in names}
        assert {item.system: item.mean for item in macro.standings} == pytest.approx(means)


def test_the_range_of_a_metric_over_datasets_is_that_of_all_of_them(tmp_path: Path) -> None:
    # With one gold tool for a query precision@5 is 0.2 at most, with five it may be 1.
    gold = TOOLS[:5]
    requests = [Query(f"q{i:02}", f"request {i}", dict.fromkeys(gold, 1), "test") for i in range(40)]
    tools = [Tool(tool, tool, f"Does {tool}.", "", "") for tool in TOOLS]
    five = make_dataset(tools, requests, id="five", template="name_description")
    results = []
    for name, order in (("few", TOOLS[5:]), ("none", gold)):
        lines = "\n".join(json.dumps({"query_id": query.query_id, "tools": order}) for query in requests)
        file, folder = f"{name}.jsonl", tmp_path / "five"
        results.append(score_run_file(lines.encode(), file, five, folder, name=name, command=f"bench score {file}"))
    one = made("one", 40)
    fields = [field(one, tmp_path / "one", ("few", "none")), on_same_queries(results)]
    (macro,) = compare_fields(fields, ComparisonQuestion(("precision@5",)), {"one": one, "five": five}.get).macro
    assert macro.best is not None
    (lead,) = macro.best.leads
    assert lead.difference > 0.4

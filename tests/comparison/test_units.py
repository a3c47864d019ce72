"""Comparisons of dependent queries: copies of a query are no evidence, few units decide nothing, sources count once."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.base.errors import ResultError
from bench.comparison import render, tables
from bench.comparison.best import best_sentence
from bench.comparison.compare import ComparisonQuestion, compare_fields
from bench.comparison.comparison import Comparison
from bench.comparison.report import WorseOn
from bench.comparison.systems import Field, on_same_queries
from bench.data.card import Relation, Unit
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.evaluation.external import score_run_file
from bench.show.tables import markdown_text

TOOLS = [Tool(f"t{i:02}", f"t{i:02}", "Does it.", "", "") for i in range(60)]
BY_GOLD: list[Relation] = ["gold"]


def copies(needs: int, times: int, by: list[Relation] = BY_GOLD, name: str = "copies", source: str = "") -> Dataset:
    """So many needs, each asked for so many times in other words."""
    unit = Unit(by=by, reason="made so")
    queries = [
        Query(f"q{need:02}-{time:02}", f"request {need} {time}", {TOOLS[need].tool_id: 1})
        for need in range(needs)
        for time in range(times)
    ]
    return make_dataset(TOOLS, queries, id=name, unit=unit, source=source)


def field(dataset: Dataset, folder: Path, *right: list[int]) -> Field:
    """Systems that answer the needs of a list, each in all its words, and no other."""
    results = []
    for number, needs in enumerate(right):
        lines = []
        for query in dataset.queries:
            (gold,) = query.gold
            answer = gold if TOOLS.index(next(t for t in TOOLS if t.tool_id == gold)) in needs else "t59"
            lines.append(json.dumps({"query_id": query.query_id, "tools": [answer]}))
        name = f"s{number}"
        data = "\n".join(lines).encode()
        results.append(score_run_file(data, f"{name}.jsonl", dataset, folder, name=name, command="x"))
    return on_same_queries(results)


def comparison(*fields: Field, **more: Any) -> Comparison:
    return compare_fields(fields, ComparisonQuestion(("hit@1",), moved=0, **more), lambda _: None)


SOME, MORE = list(range(10)), list(range(17))


def test_copies_of_a_query_are_no_evidence(tmp_path: Path) -> None:
    once = comparison(field(copies(30, 1), tmp_path / "a", SOME, MORE))
    often = comparison(field(copies(30, 12), tmp_path / "b", SOME, MORE))
    alone, repeated = once.datasets[0].metrics[0], often.datasets[0].metrics[0]
    assert (alone.n, alone.units, repeated.n, repeated.units) == (30, 30, 360, 30)
    first, second = alone.differences[0], repeated.differences[0]
    assert first.p == second.p == 2 / 2**7
    assert first.corrected == second.corrected
    assert alone.pairs == repeated.pairs
    assert first.needed == second.needed
    assert second.detectable == pytest.approx(first.detectable)
    assert (second.wins, second.ties, second.losses) == (7 * 12, 23 * 12, 0)
    assert [(s.rank_low, s.rank_high) for s in alone.standings] == [
        (s.rank_low, s.rank_high) for s in repeated.standings
    ]
    data = often.datasets[0]
    assert (data.unit, data.n, data.units, data.effective) == ("gold", 360, 30, 30.0)


def test_fewer_than_thirty_units_decide_nothing_however_many_queries_there_are(tmp_path: Path) -> None:
    none: list[int] = []
    every = list(range(60))
    few = comparison(field(copies(29, 40), tmp_path / "a", none, every))
    (metric,) = few.datasets[0].metrics
    assert (metric.n, metric.units) == (1160, 29)
    assert not metric.differences[0].decided
    assert metric.differences[0].p < 1e-4
    assert tables.dagger(metric.differences[0]) == ""
    assert [(item.rank_low, item.rank_high) for item in metric.standings] == [(1, 2), (1, 2)]
    assert metric.differences[0].corrected == metric.pairs[0][1] == 1
    assert "29 groups of dependent queries are too few for conclusions" in render.markdown(few)
    enough = comparison(field(copies(30, 40), tmp_path / "b", none, every))
    assert tables.dagger(enough.datasets[0].metrics[0].differences[0]) == "‡"
    assert [item.rank_low for item in enough.datasets[0].metrics[0].standings] == [1, 2]
    assert "too few" not in render.markdown(enough)


def test_datasets_of_one_source_count_once(tmp_path: Path) -> None:
    values = field(copies(30, 2, name="own"), tmp_path, SOME, MORE)
    one = field(copies(30, 2, name="one", source="shared"), tmp_path, SOME, SOME)
    two = field(copies(30, 3, name="two", source="shared"), tmp_path, SOME, SOME)
    (macro,) = comparison(values, one, two).macro
    assert (macro.datasets, macro.sources) == (["own", "one", "two"], ["own", "shared", "shared"])
    means = {item.system: item.mean for item in macro.standings}
    assert means == pytest.approx({"s0": 1 / 3, "s1": (17 / 30 + 1 / 3) / 2})


def test_datasets_of_one_source_have_the_same_weight(tmp_path: Path) -> None:
    values = field(copies(30, 1, name="own"), tmp_path, SOME, SOME)
    small = field(copies(30, 2, name="small", source="shared"), tmp_path, list(range(20)), list(range(10)))
    # Three times as many queries, of which s1 answers more: over all queries of the source it would lead.
    large = field(copies(30, 6, name="large", source="shared"), tmp_path, list(range(5)), list(range(12)))
    (macro,) = comparison(values, small, large).macro
    assert [item.system for item in macro.standings] == ["s0", "s1"]
    assert macro.standings[1].mean == pytest.approx((1 / 3 + (10 / 30 + 12 / 30) / 2) / 2)


def over_datasets(folder: Path, *right: tuple[list[int], ...]) -> Comparison:
    """Systems on datasets of sources of their own."""
    return comparison(*(field(copies(30, 2, name=f"d{i}"), folder / str(i), *needs) for i, needs in enumerate(right)))


def test_a_comparison_says_who_is_best_and_which_dataset_says_otherwise(tmp_path: Path) -> None:
    few, many = list(range(5)), list(range(29))
    report = over_datasets(tmp_path, *[(few, many)] * 5, (many, list(range(9))))
    (macro,) = report.macro
    assert macro.best is not None
    assert (macro.best.system, macro.best.sources) == ("s1", 6)
    (lead,) = macro.best.leads
    # 24 of 30 on five datasets, and 20 fewer on the last.
    assert lead.difference == pytest.approx((5 * 24 - 20) / 30 / 6)
    assert macro.best.worse == [WorseOn(dataset="d5", system="s0", p=report.datasets[5].metrics[0].pairs[0][1])]
    assert macro.statement == best_sentence(macro.best)
    assert macro.statement.endswith("but significantly worse than s0 (p <.001) on d5.")
    assert markdown_text(macro.statement) in render.markdown(report)
    assert report.to_dict()["macro"][0]["statement"] == macro.statement
    assert render.FEW_SOURCES not in render.markdown(report)


def test_a_comparison_of_few_datasets_speaks_of_these(tmp_path: Path) -> None:
    few, many = list(range(5)), list(range(29))
    report = over_datasets(tmp_path, (few, many), (few, few))
    (macro,) = report.macro
    assert macro.statement.startswith(
        "Too few sources to speak of other datasets (at least 5 are needed). s1 has the best mean"
    )
    assert macro.best is not None
    assert macro.best.leads[0].verdict == "ahead"
    assert macro.best.worse == []
    assert render.FEW_SOURCES in render.markdown(report)


def test_slices_have_their_own_units(tmp_path: Path) -> None:
    dataset = copies(30, 4)
    result = compare_fields(
        [field(dataset, tmp_path, SOME, MORE)],
        ComparisonQuestion(("hit@1",), slices=("gold",), moved=0),
        lambda _: dataset,
    )
    (part,) = result.datasets[0].slices
    assert (part.n, part.units) == (120, 30)


def test_results_in_other_units_are_refused(tmp_path: Path) -> None:
    dataset = copies(30, 2)
    one, other = field(dataset, tmp_path, SOME, MORE).results
    table = other.per_query
    place = table.schema.get_field_index("unit")
    vars(other)["per_query"] = table.set_column(place, "unit", [["same"] * len(table)])
    vars(other).pop("units", None)
    with pytest.raises(ResultError, match="in other units of independence; `bench rescore`"):
        on_same_queries([one, other])
    data = other.manifest.dataset.model_copy(update={"unit": "none"})
    changed = dataclasses.replace(other, manifest=other.manifest.model_copy(update={"dataset": data}))
    with pytest.raises(ResultError, match=r"the unit of independence differs: gold for .*, none for "):
        on_same_queries([one, changed])


def test_intervals_of_stored_means_are_those_of_units(tmp_path: Path) -> None:
    once = field(copies(60, 1, by=[]), tmp_path / "a", list(range(40)))
    often = field(copies(60, 9), tmp_path / "b", list(range(40)))
    alone = field(copies(60, 9, by=[]), tmp_path / "c", list(range(40)))
    widths = []
    for values in (once, often, alone):
        value = values.results[0].metrics.metrics["hit@1"]
        assert value.low is not None
        assert value.high is not None
        widths.append(value.high - value.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert widths[2] == pytest.approx(widths[0] / 3, rel=0.1)
    assert np.array_equal(often.results[0].units, np.repeat(np.arange(60), 9))

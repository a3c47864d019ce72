"""The risk-coverage curve: by hand, and the area under it is the metric of the stored result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.results import rehash

import bench
from bench.data.dataset import Dataset
from bench.leaderboard.boards.risk_coverage import RiskCoverage, risk_coverage
from bench.results.store import StoredResult

_TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in "abcdefgh"]
_QUERIES = [
    {"id": "q1", "query": "one", "tools": ["a"]},
    {"id": "q2", "query": "two", "tools": ["b"]},
    {"id": "q3", "query": "three", "tools": []},
    {"id": "q4", "query": "four", "tools": ["c"]},
    {"id": "q5", "query": "five", "tools": []},
    {"id": "q6", "query": "six", "tools": ["d"]},
]


@pytest.fixture
def data(isolated: None) -> Dataset:
    """A dataset that is imported from files."""
    return bench.import_tools("mine", _TOOLS, _QUERIES)


def curve(run: dict[str, dict[str, float]], data: Dataset, results: Path) -> tuple[RiskCoverage | None, StoredResult]:
    result = bench.score(run, data, results=results)
    stored = StoredResult.read(result.folder)
    return risk_coverage(stored), stored


def test_by_hand(data: Dataset, tmp_path: Path) -> None:
    # q1 right at 9; q2 wrong at 7; q3 needs nothing and gets something, also at 7; q4 right at 3 behind a wrong tool;
    # nothing is returned for q5, which is right; q6 is not answered at all, a failure.
    run = {"q1": {"a": 9.0}, "q2": {"a": 7.0}, "q3": {"a": 7.0}, "q4": {"h": 3.0, "c": 2.0}, "q5": {}}
    result, stored = curve(run, data, tmp_path)
    assert result is not None
    assert result.threshold.tolist() == [np.inf, 9, 7, 3, -np.inf]
    assert result.answered.tolist() == [1, 2, 4, 5, 6]
    assert result.missed.tolist() == [1, 1, 2, 2, 2]
    assert result.needless.tolist() == [0, 0, 1, 1, 1]
    assert result.risk.tolist() == [1, 1 / 2, 3 / 4, 3 / 5, 1 / 2]
    assert result.area == pytest.approx((1 + 1 / 2 + 2 * 3 / 4 + 3 / 5 + 1 / 2) / 6, abs=1e-15)
    assert result.area == pytest.approx(stored.metrics.metrics["aurc@5"].mean, abs=1e-15)
    assert [result.at(share) for share in (0.1, 1 / 6, 0.2, 0.5, 0.84, 1.0)] == [0, 0, 1, 2, 4, 4]


_scores = st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3)), max_size=8))


def test_the_area_is_the_metric_of_the_result(data: Dataset, tmp_path: Path) -> None:
    @settings(max_examples=20)
    @given(st.lists(_scores, min_size=6, max_size=6))
    def check(answers: list[list[tuple[str, int]] | None]) -> None:
        run = {
            f"q{i}": {tool: float(score) for tool, score in pairs}
            for i, pairs in enumerate(answers, 1)
            if pairs is not None
        }
        if not any(run.values()):
            return  # no file of a run says nothing
        result, stored = curve(run, data, tmp_path)
        assert result is not None
        for k in (1, 5):
            at_k = risk_coverage(stored, k)
            assert at_k is not None
            assert at_k.area == pytest.approx(stored.metrics.metrics[f"aurc@{k}"].mean, abs=1e-12)
        assert result.answered[-1] == result.queries == 6
        assert (np.diff(result.answered) > 0).all()

    check()


def test_there_is_none_without_scores_without_both_kinds_of_queries_or_without_the_ranking(
    data: Dataset, tmp_path: Path
) -> None:
    result = bench.score({"q1": ["a"], "q3": ["b"]}, data, results=tmp_path)
    assert risk_coverage(StoredResult.read(result.folder)) is None
    all_with_gold = bench.import_tools("gold", _TOOLS, [query for query in _QUERIES if query["tools"]])
    assert curve({"q1": {"a": 9.0}}, all_with_gold, tmp_path)[0] is None
    one, stored = curve({"q1": {"a": 9.0}}, data, tmp_path)
    assert one is not None
    (stored.folder / "run.parquet").unlink()
    assert risk_coverage(stored) is None


def test_scores_that_are_texts_cost_a_page_its_curve_and_nothing_else(data: Dataset, tmp_path: Path) -> None:
    page = pytest.importorskip("bench.leaderboard.pages.result")
    _, stored = curve({"q1": {"a": 9.0}, "q3": {"a": 1.0}}, data, tmp_path)
    risk = page._risk(stored)
    assert risk is not None
    assert risk["area"] == pytest.approx(stored.metrics.metrics["aurc@5"].mean)
    table = stored.run
    place = table.column_names.index("score")
    pq.write_table(table.set_column(place, "score", pa.array(["high"] * len(table))), stored.folder / "run.parquet")
    rehash(stored.folder, "run.parquet")
    assert page._risk(StoredResult.read(stored.folder)) is None

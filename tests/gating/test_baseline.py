"""Baselines: what is kept comes back, and what does not fit together is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import ResultError
from bench.cli.schemas import shipped_schema
from bench.gating.baseline import Baseline, Values, read_baseline, rounded_values, write_baseline

NUMBERS = st.one_of(st.floats(-1, 1), st.sampled_from([0.0, 0.5, 1 / 3, 1.0, math.nan]))


@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_values_come_back_as_they_are_kept(numbers: list[float]) -> None:
    values = np.array(numbers)
    kept = Values.of(values)
    np.testing.assert_array_equal(kept.array(), rounded_values(values))
    np.testing.assert_allclose(kept.array(), values, atol=1e-9)
    assert kept.levels == sorted(set(kept.levels))
    again = Values.model_validate_json(kept.model_dump_json())
    np.testing.assert_array_equal(again.array(), kept.array())


@pytest.fixture
def written(tmp_path: Path, make_baseline: Callable[..., Baseline]) -> tuple[Path, Baseline]:
    """A baseline and the file that holds it."""
    path = tmp_path / "b" / "mine.json"
    baseline = make_baseline({"recall@5": [1.0, 0.5, math.nan], "ndcg@5": [1 / 3, 0.0, 1.0]})
    write_baseline(path, baseline)
    return path, baseline


def test_a_baseline_is_read_as_it_was_written_and_follows_its_schema(written: tuple[Path, Baseline]) -> None:
    path, baseline = written
    assert read_baseline(path) == baseline
    jsonschema.validate(json.loads(path.read_text()), shipped_schema("baseline"))
    assert baseline.mean("recall@5") == 0.75
    # Each metric has its line, so that what changes can be seen in a review.
    assert len([line for line in path.read_text().splitlines() if '"levels"' in line]) == 2


def change(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda raw: raw | fields


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (change(schema_version=1), "schema version 1"),
        (change(schema_name="manifest"), "is not a baseline"),
        (lambda raw: [raw], "is not a baseline"),
        (change(query_ids=["q0000", "q0000", "q0002"]), "query_ids must be sorted"),
        (change(query_ids=["q1", "q0", "q2"]), "query_ids must be sorted"),
        (change(query_ids=[], n_gold=[], values={}), "at least one"),
        (change(n_gold=[1]), "n_gold has 1 entries"),
        (change(values={"ndcg@5": {"levels": [0.5], "codes": [0, 0]}}), "2 codes for 3 queries"),
        (change(values={"ndcg@5": {"levels": [0.5], "codes": [0, 1, 0]}}), "code without a level"),
        (change(values={"ndcg@5": {"levels": [0.5], "codes": [0, -2, 0]}}), "does not follow its schema"),
        (change(values={"ndcg@5": {"levels": [math.nan], "codes": [0, 0, 0]}}), "does not follow its schema"),
        (change(scoring={"measures": {}, "intervals": "a", "tokens": "b"}), "which code computed recall@5"),
        (change(units=[0, 2, 1]), "units must have a code"),
        (change(units=[0, 1]), "units must have a code"),
        (change(rankings="0" * 64), "its sha256 does not match"),
        (change(surplus=1), "surplus"),
        (change(n="3"), "does not follow its schema"),
        (lambda raw: {key: raw[key] for key in raw if key != "sha256"}, "sha256"),
        # What fits together, and is not what was blessed.
        (change(values={"recall@5": {"levels": [1.0], "codes": [0, -1, -1]}}), "its sha256 does not match"),
        (change(n_failed=3), "its sha256 does not match"),
        (change(sha256="0" * 64), "its sha256 does not match"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    written: tuple[Path, Baseline], changed: Callable[[dict[str, Any]], Any], said: str
) -> None:
    path, _ = written
    path.write_text(json.dumps(changed(json.loads(path.read_text()))))
    with pytest.raises(ResultError) as caught:
        read_baseline(path)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "null", "[" * 100_000, '{"schema_name": "baseline"}', "\ud800"])
def test_a_damaged_file_is_told_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ResultError, match=r"baseline|schema"):
        read_baseline(path)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="bench bless"):
        read_baseline(tmp_path / "none.json")
    with pytest.raises(ResultError, match="cannot read"):
        read_baseline(tmp_path)


def test_a_file_cut_short_anywhere_is_refused(written: tuple[Path, Baseline]) -> None:
    path, _ = written
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(ResultError):
            read_baseline(path)


@pytest.mark.parametrize("value", [5.0, -0.5])
def test_a_value_that_the_metric_cannot_have_is_refused(
    tmp_path: Path, make_baseline: Callable[..., Baseline], value: float
) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, make_baseline({"recall@5": [1.0, value, math.nan]}))
    with pytest.raises(ResultError, match="has a value of recall@5 that the metric cannot have"):
        read_baseline(path)

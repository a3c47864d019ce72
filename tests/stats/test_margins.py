"""Margins on stored results: a pair has one pair of bounds and one verdict, whoever asks and whichever way round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kit.programs import program

from bench.stats.bounded import SHARE
from bench.stats.noninferiority import enough_units, judge_interval, non_inferiority

RESULTS = Path(__file__).resolve().parents[2] / "board" / "results"
SYSTEMS = ("bm25", "bm25-fields", "dense", "hybrid", "recommended", "rrf", "tfidf", "tgr", "colbert", "server-first")
FAST = ("apibank", "azure-mcp", "restbench-spotify")
REST = pytest.mark.slow("all boards")
BOARDS = [
    pytest.param(folder.name, marks=() if folder.name in FAST else REST)
    for folder in sorted(RESULTS.iterdir())
    if folder.is_dir()
]


@pytest.mark.parametrize("dataset", BOARDS)
def test_no_stored_pair_gets_two_verdicts(dataset: str) -> None:
    stored = [program("benchmarks/units.py").stored_values(RESULTS, dataset, name, "recall@5") for name in SYSTEMS]
    known = [one for one in stored if one is not None]
    values, units = np.column_stack([column for column, _ in known]), known[0][1]
    first, second = np.triu_indices(len(known), 1)
    differences = values[:, first] - values[:, second]
    span = SHARE.of_differences()
    there, back = (non_inferiority(sign * differences, 0.02, units=units, span=span) for sign in (1, -1))
    for one, other in zip(there, back, strict=True):
        assert one.lower is not None
        assert one.upper is not None
        assert other.lower is not None
        assert other.upper is not None
        # The other way round the resamples that correct the ends for bias and skewness are others.
        assert (one.lower, one.upper) == pytest.approx((-other.upper, -other.lower), abs=0.002)
        assert one.lower < one.mean < one.upper
        said = {judge_interval(each.lower, each.upper, 0.02, enough_units(units)) for each in (one, other)}
        assert said == {
            "within"
            if one.verdict == other.verdict == "pass"
            else "beyond"
            if "regression" in {one.verdict, other.verdict}
            else "undecided"
        }

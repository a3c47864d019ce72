"""Numbers of older code compare with today's only where they are known to be the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gating.baseline import read_baseline
from bench.metrics import get_measure
from bench.metrics.ties import LEAST_DRAWS
from bench.results import scoring_code
from bench.results.code_versions import interval_hash, lenient_hash, measure_hash, ties_hash, token_hash
from bench.results.comparability import metric_difference
from bench.results.manifest import Manifest, Metrics, ScoringCode
from bench.results.scoring_code import code_of, current_code, same_scoring

ROOT = Path(__file__).resolve().parents[2]
KEPT = sorted((ROOT / "board" / "results").glob("*/*/manifest.json"))
AGAIN = "run `python benchmarks/samescoring.py`; what it leaves out gives other numbers than before"


def test_today_s_code_is_known_to_give_the_kept_numbers() -> None:
    # It fails when the code of a measure changes: then its older numbers compare no more until they are shown to be
    # the same, or the kept results are scored again.
    known = same_scoring()
    for name, same in known["measures"].items():
        assert set(same.values()) == {measure_hash(get_measure(name))}, f"{name}: {AGAIN}"
    assert set(known["intervals"].values()) <= {interval_hash()}, f"intervals: {AGAIN}"
    assert set(known["tokens"].values()) <= {token_hash()}, f"tokens: {AGAIN}"
    assert set(known["lenient"].values()) <= {lenient_hash()}, f"lenient: {AGAIN}"
    assert set(known["ties"].values()) <= {ties_hash()}, f"tie bands: {AGAIN}"


def test_every_number_of_a_kept_result_and_of_a_baseline_compares_with_today_s() -> None:
    codes: dict[str, set[str]] = {}
    beside = set()
    for path in KEPT:
        scoring = Manifest.model_validate_json(path.read_bytes()).scoring
        beside.add((current_code("intervals", scoring.intervals), current_code("tokens", scoring.tokens)))
        for name in json.loads(path.with_name("metrics.json").read_text("utf-8"))["metrics"]:
            codes.setdefault(name, set()).add(code_of(scoring, name))
    for path in sorted((ROOT / "baselines").glob("*.json")):
        baseline = read_baseline(path)
        for name in baseline.values:
            codes.setdefault(name, set()).add(code_of(baseline.scoring, name))
    assert beside == {(interval_hash(), token_hash())}, AGAIN
    assert codes
    for name, found in codes.items():
        assert found == {measure_hash(get_measure(name.partition("@")[0]))}, f"{name}: {AGAIN}"


def test_the_lenient_means_of_a_kept_result_compare_with_today_s() -> None:
    codes = set()
    for path in KEPT:
        lenient = Metrics.model_validate_json(path.with_name("metrics.json").read_bytes()).lenient
        # Rankings that are too large to be kept were scored where they were made.
        assert lenient is not None or not path.with_name("run.parquet").exists(), path
        codes |= set() if lenient is None else {current_code("lenient", lenient.code)}
    assert codes == {lenient_hash()}, f"lenient: {AGAIN}, or `bench rescore --results board/results`"


def test_the_tie_bands_of_a_kept_result_are_those_of_today_where_its_ranking_is_there() -> None:
    codes = set()
    for path in KEPT:
        metrics = Metrics.model_validate_json(path.with_name("metrics.json").read_bytes())
        # Without the ranking the band stays as it was drawn, and says so.
        assert metrics.ties is not None or not metrics.n_tied or not path.with_name("run.parquet").exists(), path
        if metrics.ties is not None:
            codes.add(current_code("ties", metrics.ties.code))
            assert all(draws >= LEAST_DRAWS for draws in metrics.ties.draws.values()), path
    assert codes == {ties_hash()}, f"tie bands: {AGAIN}, or `bench rescore --results board/results`"


def test_other_code_of_one_measure_leaves_the_others_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"measures": {"recall": {"old": "new"}}}
    monkeypatch.setattr(scoring_code, "same_scoring", lambda: known)
    manifest = Manifest.model_validate_json(KEPT[0].read_bytes())

    def made(**measures: str) -> Manifest:
        return manifest.model_copy(update={"scoring": ScoringCode(measures=measures, intervals="i", tokens="t")})

    today, before = made(recall="new", ndcg="n"), made(recall="old", ndcg="old", map="old")
    assert metric_difference(before, today, "recall@5") is None
    difference = metric_difference(before, today, "ndcg@5")
    assert difference is not None
    assert difference.sentence("one", "the other").startswith(
        "the version of the scoring code of ndcg differs: old for"
    )
    # Nobody can compare what one of them does not have.
    assert metric_difference(before, today, "map@5") is None


def test_what_was_shown_before_stands_where_it_led_to_code_that_is_the_same_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from samescoring import _Shown

    shown = _Shown()
    shown.enter("b", "today", equal=True)
    shown.enter("c", "today", equal=True)
    shown.enter("c", "today", equal=False)
    earlier = {"a": "b", "x": "today", "d": "c", "e": "gone", "c": "b"}
    assert shown.merge_earlier(earlier) == {"a": "today", "b": "today", "x": "today"}
    # "old" gave the numbers of "b", and "b" those of today: so do "old" and what led to it.
    assert shown.merge_earlier({"b": "old", "f": "old"}) == {"b": "today", "f": "today", "old": "today"}

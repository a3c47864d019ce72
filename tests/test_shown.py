"""The numbers that the documents show, on real data and through the public interface; with their reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.base.spec import parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult

pytestmark = pytest.mark.slow("real data")


def run(folder: Path, dataset: str, method: str, **plan: Any) -> StoredResult:
    runner = Runner(folder / "results", load=load_dataset, build=build_method)
    (result,) = runner.run([Plan(parse(dataset), parse(method), **plan)])
    assert isinstance(result, StoredResult)
    assert result.metrics.n_failed == 0
    return result


def mean(result: StoredResult, metric: str) -> float:
    return result.metrics.metrics[metric].mean


def test_dense_finds_most_of_metatool(mirror: Path, tmp_path: Path) -> None:
    result = run(tmp_path, "metatool", "dense")
    assert result.metrics.n == 99
    assert mean(result, "recall@5") == pytest.approx(0.82, abs=0.02)


def test_the_papers_bm25_of_apibank_is_a_matter_of_tokens_and_idf(mirror: Path, tmp_path: Path) -> None:
    okapi, lucene = (run(tmp_path, "apibank", method) for method in ("bm25-okapi", "bm25"))
    assert okapi.metrics.n == lucene.metrics.n == 269
    assert mean(okapi, "recall@5") == pytest.approx(0.36, abs=0.02)
    assert mean(lucene, "recall@5") > 0.60


def test_a_graph_completes_the_tool_sets_of_apibank(mirror: Path, tmp_path: Path) -> None:
    dense, rules, manual = (run(tmp_path, "apibank", m) for m in ("dense", "tgr", "tgr(graph=manual)"))
    assert mean(rules, "pass@10") >= mean(dense, "pass@10") + 0.10
    assert mean(manual, "pass@10") >= mean(dense, "pass@10") + 0.10
    # The better graph does not do worse.
    assert mean(manual, "pass@10") >= mean(rules, "pass@10")


def test_past_queries_answer_most_of_rectools_when_it_is_split_at_random(mirror: Path, tmp_path: Path) -> None:
    # Several queries share a bundle, so a twin is in the history: what a random split leaks.
    result = run(tmp_path, "rectools(split=random)", "nearest-query")
    assert result.metrics.n == 200
    assert mean(result, "tracc") > 0.75
    # The ideal of the retrieved tools alone flatters.
    assert mean(result, "ndcg_ptr@gold") > mean(result, "ndcg@gold")


def test_a_random_bundle_of_rectools_shows_what_the_paper_s_ndcg_is(mirror: Path, tmp_path: Path) -> None:
    result = run(tmp_path, "rectools", "random-bundle")
    assert mean(result, "ndcg_ptr@gold") == pytest.approx(0.25, abs=0.04)
    assert mean(result, "ndcg@gold") == pytest.approx(0.10, abs=0.04)

"""Every metric that trec_eval has, on 200 random runs, compared with trec_eval itself.

trec_eval orders by score and breaks ties by its own rule, so it is given our order as strictly falling scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import pytrec_eval
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.metrics import evaluate, parse_metric
from bench.protocol.ranking import Ranking, ToolSets, validate

RUNS = 200
QUERIES = 4
CUTS = (1, 2, 3, 5, 10, 20, 50, 100, 250)  # 250 is deeper than any ranking here
TREC_NAMES = {"recall": "recall", "precision": "P", "hit": "success", "ndcg": "ndcg_cut", "map": "map_cut"}


@dataclass(frozen=True)
class Run:
    """One random run in our form (ordered by our rule) and in trec_eval's."""

    tools: NDArray[np.int32]
    ties: int
    gold: Gold
    qrels: dict[str, dict[str, int]]
    trec: dict[str, dict[str, float]]

    def values(self, metric: str, sets: ToolSets | None = None) -> NDArray[np.float64]:
        return evaluate(self.tools, self.gold, [parse_metric(metric)], sets).column(metric)

    def reference(self, measure: str, name: str, depth: int | None = None) -> list[float]:
        """trec_eval's values of each query, for the first `depth` tools."""
        trec = {query: dict(list(tools.items())[:depth]) for query, tools in self.trec.items()}
        found = pytrec_eval.RelevanceEvaluator(self.qrels, {measure}).evaluate(trec)
        return [found[str(query)][name] for query in range(QUERIES)]


@cache
def random_run(seed: int) -> Run:
    random = np.random.default_rng(seed)
    library = int(random.integers(1, 130))
    width = min(library, 100) if seed % 5 == 0 else int(random.integers(1, min(library, 100) + 1))
    tools = np.array([random.permutation(library)[:width] for _ in range(QUERIES)], dtype=np.int32)
    # Few levels make many ties; the last query of every third run gets nothing, others stop short.
    scores = random.integers(0, 1 + int(random.choice([2, 10, 10_000])), size=tools.shape).astype(np.float32)
    lengths = np.where(random.random(QUERIES) < 0.5, width, random.integers(0, width + 1, size=QUERIES))
    if seed % 3 == 0:
        lengths[-1] = 0
    tools[np.arange(width) >= lengths[:, None]] = -1
    ordered = validate(Ranking(tools, scores), QUERIES, library, 100)
    assert ordered.scores is not None
    level = ordered.scores[:, 1:] == ordered.scores[:, :-1]
    ties = int((level & (ordered.tools[:, 1:] >= 0)).sum())
    gold = []
    for query in range(QUERIES):
        many = 1 if query == 0 else int(random.integers(1, min(library, 15) + 1))
        grades = random.integers(1, 5, size=many) if seed % 2 else np.ones(many, dtype=np.int64)
        gold.append(dict(zip(random.permutation(library)[:many].tolist(), grades.tolist(), strict=True)))
    return Run(
        ordered.tools,
        ties,
        Gold.of(gold),
        {str(query): {str(tool): grade for tool, grade in row.items()} for query, row in enumerate(gold)},
        {
            str(query): {str(tool): float(width - place) for place, tool in enumerate(row.tolist()) if tool >= 0}
            for query, row in enumerate(ordered.tools)
        },
    )


def all_runs() -> list[Run]:
    return [random_run(seed) for seed in range(RUNS)]


def test_the_runs_hold_every_hard_case() -> None:
    runs = all_runs()
    lengths = np.concatenate([(run.tools >= 0).sum(axis=1) for run in runs])
    widths = np.concatenate([[run.tools.shape[1]] * QUERIES for run in runs])
    counts = np.concatenate([run.gold.counts for run in runs])
    found = np.concatenate([run.values("recall@250") for run in runs])
    assert sum(run.ties > 0 for run in runs) > 100
    assert (lengths == 0).sum() > 50, "empty rankings"
    assert ((lengths > 0) & (lengths < widths)).sum() > 100, "short rankings"
    assert (lengths == 100).any(), "rankings at the full depth"
    assert (counts == 1).sum() > 150, "one gold tool"
    assert (counts > 5).sum() > 150, "many gold tools"
    assert sum(bool((run.gold.grades > 1).any()) for run in runs) > 80, "graded gold"
    assert ((found > 0) & (found < 1)).sum() > 100, "gold that is partly missing"


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("name", TREC_NAMES)
def test_metrics_with_a_cut_off_equal_trec_eval(name: str, k: int) -> None:
    trec = TREC_NAMES[name]
    for run in all_runs():
        np.testing.assert_allclose(
            run.values(f"{name}@{k}"), run.reference(f"{trec}.{k}", f"{trec}_{k}"), rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("k", CUTS)
def test_mrr_equals_recip_rank_of_the_first_k(k: int) -> None:
    for run in all_runs():
        expected = run.reference("recip_rank", "recip_rank", depth=k)
        np.testing.assert_allclose(run.values(f"mrr@{k}"), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("ours", "trec"),
    [("map@100", "map"), ("ndcg@100", "ndcg"), ("mrr@100", "recip_rank"), ("recall@gold", "Rprec")],
)
def test_metrics_without_a_cut_off_equal_trec_eval_s_uncut_ones(ours: str, trec: str) -> None:
    for run in all_runs():
        np.testing.assert_allclose(run.values(ours), run.reference(trec, trec), rtol=0, atol=1e-9)


def test_ndcg_at_gold_equals_ndcg_cut_at_each_query_s_own_number_of_gold_tools() -> None:
    for run in all_runs():
        values = run.values("ndcg@gold")
        for query, n in enumerate(run.gold.counts.tolist()):
            expected = run.reference(f"ndcg_cut.{n}", f"ndcg_cut_{n}")[query]
            assert values[query] == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize(
    ("ours", "trec"), [("set_precision", "set_P"), ("set_recall", "set_recall"), ("set_f1", "set_F")]
)
def test_set_metrics_equal_trec_eval_s(ours: str, trec: str) -> None:
    for run in all_runs():
        sets = ToolSets.of([row[row >= 0] for row in run.tools])
        np.testing.assert_allclose(run.values(ours, sets), run.reference(trec, trec), rtol=0, atol=1e-9)

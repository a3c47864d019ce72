"""Every metric that trec_eval has, on 200 random runs, compared with trec_eval itself.

trec_eval orders by score and breaks ties by its own rule, so it is given our order as strictly falling scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytrec_eval
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.interface.ranking import Ranking, ToolSets, validate
from bench.metrics import evaluate, parse_metric

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
        {f"{seed}/{query}": {str(tool): grade for tool, grade in row.items()} for query, row in enumerate(gold)},
        {
            f"{seed}/{query}": {str(tool): float(width - place) for place, tool in enumerate(row.tolist()) if tool >= 0}
            for query, row in enumerate(ordered.tools)
        },
    )


@cache
def all_runs() -> list[Run]:
    return [random_run(seed) for seed in range(RUNS)]


def ours(*metrics: str, with_sets: bool = False) -> NDArray[np.float64]:
    """(queries of all runs, metrics) our values."""
    chosen = [parse_metric(metric) for metric in metrics]

    def values(run: Run) -> NDArray[np.float64]:
        sets = ToolSets.of([row[row >= 0] for row in run.tools]) if with_sets else None
        return evaluate(run.tools, run.gold, chosen, sets).values

    return np.concatenate([values(run) for run in all_runs()])


def theirs(*measures: str, depth: int | None = None) -> dict[str, NDArray[np.float64]]:
    """trec_eval's name -> its values of the queries of all runs, for the first `depth` tools."""
    qrels = {query: row for run in all_runs() for query, row in run.qrels.items()}
    runs = {query: dict(list(row.items())[:depth]) for run in all_runs() for query, row in run.trec.items()}
    scores = pytrec_eval.RelevanceEvaluator(qrels, set(measures)).evaluate(runs)
    return {name: np.array([scores[query][name] for query in qrels]) for name in scores["0/0"]}


def assert_equal(values: NDArray[np.float64], expected: dict[str, NDArray[np.float64]]) -> None:
    """Our columns are the expected ones, by our names."""
    errors = np.abs(values - np.column_stack(list(expected.values()))).max(axis=0)
    assert {name: error for name, error in zip(expected, errors.tolist(), strict=True) if not error <= 1e-9} == {}


def test_the_runs_hold_every_hard_case() -> None:
    runs = all_runs()
    lengths = np.concatenate([(run.tools >= 0).sum(axis=1) for run in runs])
    widths = np.concatenate([[run.tools.shape[1]] * QUERIES for run in runs])
    counts = np.concatenate([run.gold.counts for run in runs])
    result = ours("recall@250")
    assert sum(run.ties > 0 for run in runs) > 100
    assert (lengths == 0).sum() > 50, "empty rankings"
    assert ((lengths > 0) & (lengths < widths)).sum() > 100, "short rankings"
    assert (lengths == 100).any(), "rankings at the full depth"
    assert (counts == 1).sum() > 150, "one gold tool"
    assert (counts > 5).sum() > 150, "many gold tools"
    assert sum(bool((run.gold.grades > 1).any()) for run in runs) > 80, "graded gold"
    assert ((result > 0) & (result < 1)).sum() > 100, "gold that is partly missing"


def test_metrics_with_a_cut_off_equal_trec_eval() -> None:
    cuts = ",".join(map(str, CUTS))
    result = theirs(*(f"{trec}.{cuts}" for trec in TREC_NAMES.values()))
    expected = {f"{name}@{k}": result[f"{trec}_{k}"] for name, trec in TREC_NAMES.items() for k in CUTS}
    assert_equal(ours(*expected), expected)


def test_mrr_equals_recip_rank_of_the_first_k() -> None:
    expected = {f"mrr@{k}": theirs("recip_rank", depth=k)["recip_rank"] for k in CUTS}
    assert_equal(ours(*expected), expected)


def test_metrics_without_a_cut_off_equal_trec_eval_s_uncut_ones() -> None:
    names = {"map@100": "map", "ndcg@100": "ndcg", "mrr@100": "recip_rank", "recall@gold": "Rprec"}
    result = theirs(*names.values())
    assert_equal(ours(*names), {name: result[trec] for name, trec in names.items()})


def test_ndcg_at_gold_equals_ndcg_cut_at_each_query_s_own_number_of_gold_tools() -> None:
    counts = np.concatenate([run.gold.counts for run in all_runs()])
    result = theirs(f"ndcg_cut.{','.join(map(str, range(1, counts.max() + 1)))}")
    values = np.array([result[f"ndcg_cut_{n}"][query] for query, n in enumerate(counts.tolist())])
    assert_equal(ours("ndcg@gold"), {"ndcg@gold": values})


def test_set_metrics_equal_trec_eval_s() -> None:
    names = {"set_precision": "set_P", "set_recall": "set_recall", "set_f1": "set_F"}
    result = theirs(*names.values())
    assert_equal(ours(*names, with_sets=True), {name: result[trec] for name, trec in names.items()})

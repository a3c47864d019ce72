"""A program of a user's, which `make check` holds against the types of the public API; nothing runs it.

An `ignore` that ignores nothing is an error, so the wrong calls below must stay wrong.
"""

from pathlib import Path
from typing import assert_type

import numpy as np
import pandas

import bench
from bench import History, Library, Method, ParameterSet, Queries, Ranking, RankingMeasure, top_k
from bench.methods.bm25 import BM25


class Shout(Method):
    """A method with types."""

    class Parameters(ParameterSet):
        """What can be set."""

        weight: float = 1.0

    def fit(self, history: History) -> None:
        self.texts = history.texts

    def index(self, library: Library) -> None:
        self.loudness = np.array([text.count("!") for text in library.texts], dtype=np.float64)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(np.tile(self.loudness * self.parameters.weight, (len(queries), 1)), depth)


FIRST = RankingMeasure(
    "first",
    definition="1 if the first tool is gold",
    edge_cases="none",
    source="ours",
    function=lambda gold, k: (gold.ranks[:, 0] == 1).astype(np.float64),
)

with bench.config_context(offline=True, mirror="mirror", progress=True):
    dataset = bench.load_dataset("starter")
result = bench.run(Shout(weight=0.5), dataset, cut="size", metrics=["ndcg@7"])
assert_type(result, bench.Result)
assert_type(bench.run(["bm25", Shout, bench.build_method("bm25", k1=1.5)], dataset), bench.Results)
assert_type(bench.run("bm25", ["starter", dataset]), bench.Results)
assert_type(bench.run("bm25"), bench.Result)
assert_type(BM25(k1=1.5).search("text", k=5), list[tuple[str, float | None]])
BM25().fit(dataset).search("text")
assert_type(bench.score({"0001": {"a": 1.0}}, "starter"), bench.Result)
bench.score({"0001": ["a", "b"]}, dataset)
bench.score(np.zeros((3, 4)), dataset, split="test")
bench.score(Path("x.trec"), dataset)
bench.score(result.ranking, dataset)
assert_type(result.mean("recall@5"), float)
assert_type(result.per_query, pandas.DataFrame)
assert_type(bench.compare(result, "bm25@starter", metrics=["recall@5"]), bench.Comparison)
assert_type(bench.gate(lambda text: ["a"], "baseline.json", "gate.toml").passed, bool)
bench.run(3)  # type: ignore[call-overload]
bench.run("bm25", cut="half")  # type: ignore[call-overload]
try:
    for table in (bench.methods(), bench.datasets(), bench.metrics()):
        assert_type(table, pandas.DataFrame)
except bench.BenchError as error:
    code: int = error.exit_code

"""From answers to numbers: the tables and metrics of a result agree with each other and with other implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import pytrec_eval
from tokenizers import Tokenizer

from bench.data.dataset import Dataset
from bench.evaluation.checkpoints import Batch
from bench.interface import Library, Method, Queries, Ranking, ToolSets
from bench.models.encoders import embedded_model
from bench.results.code_versions import ties_hash
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import Ties
from bench.results.store import PER_QUERY_SCHEMA, StoredResult, span_of
from bench.results.units import number_units
from bench.search.topk import top_k
from bench.stats.bootstrap import bca_intervals

Run = Callable[..., StoredResult]
FIXED = set(PER_QUERY_SCHEMA.names)
#: Metrics that are taken on queries without gold.
WITHOUT_GOLD = {"abstained", "false_returns"}
#: And on all queries.
CONFIDENCE = {"auroc", "aurc@1", "aurc@5"}
ON_ALL = CONFIDENCE | {"choice"}


def numbers(queries: Queries) -> list[int]:
    """i of the query `qi`, which is in its text: what `rows` tells is the order of asking."""
    return [int(text.split()[1].rstrip(":")) for text in queries.texts]


class Level(Method):
    """Gives every tool the same score."""

    def index(self, library: Library) -> None:
        self._size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(np.ones((len(queries), self._size)), depth)


class Chooses(Level):
    """Recommends the first tool, but nothing for every third query."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[] if number % 3 == 0 else [0] for number in numbers(queries)])


class Short(Method):
    """Returns one, two, three, ... tools in turn, without scores."""

    lengths: ClassVar[int] = 4

    def index(self, library: Library) -> None:
        return None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([list(range(number % self.lengths + 1)) for number in numbers(queries)])


@pytest.mark.parametrize("method", ["bm25", "random", "oracle", Level, Chooses, Short])
def test_means_intervals_and_counts_follow_from_the_values_per_query(run: Run, method: str | type[Method]) -> None:
    result = run(method)
    columns = [name for name in result.per_query.column_names if name not in FIXED]
    assert set(result.metrics.metrics) <= set(columns)
    for name in columns:
        values = result.values(name)
        taken = values[~np.isnan(values)]
        if name not in result.metrics.metrics:
            assert not len(taken)
            continue
        stored = result.metrics.metrics[name]
        assert stored.n == len(taken)
        assert stored.mean == pytest.approx(taken.mean(), abs=1e-12)
        if name in CONFIDENCE:
            # Between 0 and 1, which single values are not: see tests/metrics/test_no_tool.py.
            assert stored.low is None or 0 <= stored.low <= stored.mean
            continue
        units = number_units(result.units[~np.isnan(values)])
        span = span_of(name, [result])
        ends = bca_intervals(taken[:, None], resamples=200, seed=BOOTSTRAP_SEED, units=units, span=span)[0]
        if np.isnan(ends).any():
            # Equal values without a largest one.
            assert (stored.low, stored.high) == (None, None)
        else:
            assert (stored.low, stored.high) == pytest.approx(tuple(ends), abs=1e-9)


def test_judged_queries_have_every_value_and_those_without_gold_none_but_abstained(run: Run) -> None:
    result = run(Chooses)
    for row in result.per_query.to_pylist():
        values = {name: value for name, value in row.items() if name not in FIXED}
        missing = {name for name, value in values.items() if value is None}
        assert missing == (WITHOUT_GOLD if row["n_gold"] else set(values) - WITHOUT_GOLD - ON_ALL)
    # Rows 6, 13 and 20 have no gold; of those row 6 is abstained from.
    assert result.metrics.metrics["abstained"].mean == pytest.approx(1 / 3)
    assert (result.metrics.n, result.metrics.n_no_gold) == (19, 3)
    # Of the 19 judged rows 0, 3, 9, 12, 15, 18 and 21 are abstained from.
    assert result.metrics.metrics["answered"].mean == pytest.approx(12 / 19)


def test_set_metrics_are_left_out_where_no_set_is_recommended(run: Run) -> None:
    result = run("bm25")
    assert not {"tracc", "set_f1", "size_diff", "abstained", "answered"} & set(result.per_query.column_names)
    assert set(result.per_query["recommended"].to_pylist()) == {None}
    assert "recommended" not in result.metrics.tokens


def test_values_are_trec_eval_s(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    ranking: dict[str, dict[str, float]] = {}
    for row in result.run.to_pylist():
        # By rank, as trec_eval breaks ties by its own rule.
        ranking.setdefault(row["query_id"], {})[row["tool_id"]] = 1000.0 - row["rank"]
    gold = {q.query_id: dict(q.gold) for q in tiny.queries if q.split == "test" and q.gold}
    measures = {"recall_5", "recall_10", "P_5", "ndcg_cut_5", "ndcg_cut_10", "map_cut_10"}
    expected = pytrec_eval.RelevanceEvaluator(gold, measures).evaluate(ranking)
    names = {
        "recall_5": "recall@5", "recall_10": "recall@10", "P_5": "precision@5", "ndcg_cut_5": "ndcg@5",
        "ndcg_cut_10": "ndcg@10", "map_cut_10": "map@10",
    }  # fmt: skip
    ids = result.per_query["query_id"].to_pylist()
    for theirs, ours in names.items():
        values = dict(zip(ids, result.values(ours), strict=True))
        for query in gold:
            assert values[query] == pytest.approx(expected[query][theirs], abs=1e-9), (query, ours)


def test_the_run_table_holds_each_ranking_in_its_order(run: Run) -> None:
    result = run(Short)
    rows = result.run.to_pylist()
    assert [row["query_id"] for row in rows] == sorted(row["query_id"] for row in rows)
    for i in range(22):
        mine = [row for row in rows if row["query_id"] == f"q{i:02}"]
        assert [row["rank"] for row in mine] == list(range(1, i % 4 + 2))
        assert [row["tool_id"] for row in mine] == [f"t{code:02}" for code in range(i % 4 + 1)]
        assert {row["score"] for row in mine} == {None}


def test_an_order_without_scores_has_no_tie_band(run: Run) -> None:
    result = run(Short)
    assert result.metrics.n_tied is None
    assert result.metrics.metrics["recall@5"].tie_low is None
    assert result.metrics.metrics["recall@5"].tie_expected is None


def test_equal_scores_show_in_the_tie_band_also_beyond_the_depth(run: Run, tiny: Dataset) -> None:
    result = run(Level, depth=3)
    # All 12 tools tie and 3 fit, so 9 tie beyond; with two gold tools each, worst order none, best both.
    per_query = result.per_query.to_pylist()
    assert {row["tied_beyond"] for row in per_query} == {9}
    for row in per_query:
        gold = tiny.queries[tiny.query_codes[row["query_id"]]].gold
        assert sorted(row["tied_beyond_gold"]) == sorted(tool for tool in gold if tool not in {"t00", "t01", "t02"})
    value = result.metrics.metrics["recall@3"]
    assert (value.tie_low, value.tie_high) == (0.0, 1.0)
    # At random a gold tool is among the first 3 of 12 with chance 1/4.
    assert value.tie_expected == pytest.approx(0.25, abs=1e-12)
    # pass@3: both among the first three of twelve: 3/12 * 2/11.
    assert result.metrics.metrics["pass@3"].tie_expected == pytest.approx(3 / 12 * 2 / 11, abs=1e-12)
    assert result.metrics.ties == Ties(code=ties_hash())
    assert result.metrics.n_tied == 19


def test_tokens_are_those_of_the_texts_that_an_agent_would_read(run: Run, tiny: Dataset) -> None:
    tokenizer = Tokenizer.from_file(str(embedded_model() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def counts(template: str) -> list[int]:
        texts = [tool.text(template) for tool in tiny.tools]
        return [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]

    for template in ("name_description", "toolbench"):
        tokens = run(Chooses, template=template, depth=7).metrics.tokens
        expected = counts(template)
        assert tokens["library"] == sum(expected)
        assert tokens["top_5"] == pytest.approx(sum(expected[:5]))
        # Ten are asked for and seven are there.
        assert tokens["top_10"] == pytest.approx(sum(expected[:7]))
        # The first tool for the 14 of 22 rows that are no multiple of three.
        assert tokens["recommended"] == pytest.approx(expected[0] * 14 / 22)
        definitions = counts("full")
        assert tokens["definitions"] == sum(definitions)
        assert tokens["definitions_top_5"] == pytest.approx(sum(definitions[:5]))
        assert "answer" not in tokens


def test_a_short_ranking_costs_the_tokens_of_its_tools_alone(run: Run) -> None:
    tokens = run(Short).metrics.tokens
    by_length = [run(Chooses, depth=depth, limit=1).metrics.tokens["top_5"] for depth in (1, 2, 3, 4)]
    # Rows 0 to 21 return 1, 2, 3 and 4 tools in turn.
    assert tokens["top_5"] == tokens["top_10"] == pytest.approx(sum(by_length[row % 4] for row in range(22)) / 22)


def test_a_single_query_has_no_interval(run: Run) -> None:
    value = run("bm25", limit=1).metrics.metrics["recall@5"]
    assert (value.n, value.low, value.high) == (1, None, None)


def test_only_queries_without_gold_leave_no_ranking_metric(run: Run, tiny: Dataset) -> None:
    queries = [replace(query, gold={}) if query.split == "test" else query for query in tiny.queries]
    bare = Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=queries))
    result = run(Chooses, dataset=bare)
    assert set(result.metrics.metrics) == WITHOUT_GOLD | {"choice"}
    assert (result.metrics.n, result.metrics.n_no_gold, result.metrics.n_failed) == (0, 22, 0)
    # Rows 0, 3, ..., 21.
    assert result.metrics.metrics["abstained"].mean == pytest.approx(8 / 22)


# Lenient means -------------------------------------------------------------------------------------------------------


def twinned(tiny: Dataset) -> Dataset:
    """The tiny dataset with a twin of the first tool under another parent, last in the order of ids."""
    twin = replace(tiny.tools[0], tool_id="t99", parent="another")
    return Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), tools=[*tiny.tools, twin]))


class Backwards(Method):
    """Ranks the tools in the reverse order of their ids."""

    def index(self, library: Library) -> None:
        self._order = list(range(len(library)))[::-1]

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([self._order[:depth]] * len(queries))


@pytest.mark.parametrize("method", ["bm25", "oracle", Level, Chooses, Short])
def test_without_alternatives_lenient_means_are_the_means_to_the_last_bit(run: Run, method: str | type[Method]) -> None:
    metrics = run(method).metrics
    assert metrics.lenient is not None
    assert (metrics.lenient.queries, metrics.lenient.judgements) == (0, 0)
    assert metrics.lenient.means == {name: metrics.metrics[name].mean for name in metrics.lenient.means}
    left_out = {name.partition("@")[0] for name in metrics.metrics.keys() - metrics.lenient.means}
    assert left_out >= {"ndcg_ptr", "mmrr_printed"}
    assert not left_out & {"recall", "precision", "hit", "ndcg", "pass", "map", "mrr", "mmrr"}


def test_a_twin_of_a_gold_tool_counts_in_the_lenient_mean_alone(run: Run, tiny: Dataset) -> None:
    dataset = twinned(tiny)
    result = run(Backwards, dataset=dataset)
    lenient = result.metrics.lenient
    assert lenient is not None
    having = [query for query in dataset.queries if query.split == "test" and "t00" in query.gold]
    assert (lenient.queries, lenient.judgements) == (len(having), len(having))
    assert len(having) > 1
    # The twin is ranked first: each of these queries finds one gold tool more among the first.
    gain = sum(1 / len(query.gold) for query in having) / result.metrics.n
    assert lenient.means["recall@1"] == pytest.approx(result.metrics.metrics["recall@1"].mean + gain)
    # The whole library is ranked, and the twin and the gold tool count once.
    assert lenient.means["recall@100"] == result.metrics.metrics["recall@100"].mean == 1


def test_a_failed_query_scores_0_in_the_lenient_mean_too(run: Run, tiny: Dataset) -> None:
    class Fails(Backwards):
        def rank(self, queries: Queries, depth: int) -> Ranking:
            return replace(super().rank(queries, depth), failed=np.ones(len(queries), dtype=np.bool_))

    lenient = run(Fails, dataset=twinned(tiny)).metrics.lenient
    assert lenient is not None
    assert set(lenient.means.values()) == {0.0}


def test_batches_are_kept_without_a_bit_for_each_tool(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(Batch, "write", lambda batch, path: kept.append(batch))
    run(Level, depth=3)
    assert kept
    assert all(batch.ranking.tied_beyond is None and (batch.beyond.counts == 9).all() for batch in kept)

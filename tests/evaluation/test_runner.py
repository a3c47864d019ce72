"""The runner: identity, what is stored, overwriting, and several plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.watched import Watched

import bench
from bench.base.errors import MethodError, StorageError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Queries, Ranking
from bench.registry import build_method, load_dataset
from bench.results.ids import method_hash, result_id
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
MakeRunner = Callable[..., Runner]


# Identity -----------------------------------------------------------------------------------------------------------

BASE = Plan(Spec("tiny"), parse("bm25"))


def identity(plan: Plan, dataset: Dataset) -> str:
    return result_id(dataset.content_hash, plan.resolve(dataset), method_hash(build_method(str(plan.method))))


def changed(plan: Plan, **fields: Any) -> Plan:
    return plan.model_copy(update=fields)


def test_the_same_plan_has_the_same_id(tiny: Dataset) -> None:
    assert identity(BASE, tiny) == identity(changed(BASE), tiny)
    # However it is spelt: defaults written out, and settings that are the dataset's own.
    spelt = changed(BASE, method=parse("bm25(b=0.75, k1=1.2)"), template="name_description", split="test")
    assert identity(spelt, tiny) == identity(BASE, tiny)


def test_every_change_of_the_plan_is_another_id(tiny: Dataset) -> None:
    plans = [
        BASE,
        changed(BASE, method=parse("bm25(k1=1.3)")),
        changed(BASE, method=parse("tfidf")),
        changed(BASE, template="description"),
        changed(BASE, split="dev"),
        changed(BASE, split="all"),
        changed(BASE, depth=5),
        changed(BASE, limit=5),
        changed(BASE, limit=6),
        changed(BASE, cut="size"),
        changed(BASE, cut="gap"),
    ]
    ids = [identity(plan, tiny) for plan in plans]
    assert len(set(ids)) == len(plans)
    assert all(len(name) == 12 and int(name, 16) >= 0 for name in ids)


def test_other_data_is_another_id(tiny: Dataset) -> None:
    query = replace(tiny.queries[0], text="another text")
    changed = Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=[query, *tiny.queries[1:]]))
    assert identity(BASE, changed) != identity(BASE, tiny)


def test_a_dataset_option_is_another_id(mirror: Path) -> None:
    ids = {identity(BASE, load_dataset(spec)) for spec in ("rectools", "rectools(seed=1)", "rectools(test_share=0.1)")}
    assert len(ids) == 3
    assert identity(BASE, load_dataset("rectools(seed=0)")) in ids


def test_the_hash_of_a_method_covers_its_parameters_and_revisions(tmp_path: Path) -> None:
    graph = tmp_path / "g.tsv"
    graph.write_text("dependent\tprerequisite\nt01\tt00\n")
    spec = f"tgr(base=bm25, graph={graph})"
    before = method_hash(build_method(spec))
    assert before == method_hash(build_method(spec))
    graph.write_text("dependent\tprerequisite\nt02\tt00\n")
    assert method_hash(build_method(spec)) != before
    assert method_hash(build_method("bm25")) != method_hash(build_method("bm25(b=0.5)"))


# What is stored -----------------------------------------------------------------------------------------------------


def test_the_manifest_says_what_ran_on_what(run: Run, tiny: Dataset, tmp_path: Path) -> None:
    result = run("bm25(k1=2)", limit=9, depth=7, template="description")
    manifest = result.manifest
    plan = Plan(Spec("tiny"), parse("bm25(k1=2)"), limit=9, depth=7, template="description")
    assert manifest.result_id == identity(plan, tiny) == result.metrics.result_id
    assert result.folder == tmp_path / "results" / "tiny" / f"bm25-{manifest.result_id}"
    data = manifest.dataset
    assert (data.spec, data.split, data.limit, data.template) == ("tiny", "test", 9, "description")
    assert (data.queries, data.judged, data.no_gold, data.tools, data.history) == (9, 8, 1, 12, 14)
    assert data.content_hash == tiny.content_hash
    assert (manifest.method.spec, manifest.method.full_spec) == ("bm25(k1=2.0)", "bm25(b=0.75, k1=2.0, tokens=words)")
    assert not manifest.method.oracle
    assert manifest.method.cut is None
    assert manifest.depth == 7
    assert set(manifest.timings) == {"fit", "index", "rank", "score"}
    assert manifest.latency is not None
    # Of a run outside of tests: all nine (`hurried`).
    assert manifest.latency.queries == 5
    assert not manifest.resumed
    assert manifest.environment.packages["bench"] == bench.__version__
    # What scores, and what the method's code imports: of bm25 nothing more.
    assert manifest.environment.packages.keys() - {"numba"} == {
        "bench",
        "python",
        "numpy",
        "pyarrow",
        "scipy",
        "tokenizers",
    }
    assert manifest.environment.hardware["cores"]
    assert manifest.environment.command == (
        "bench run --method 'bm25(k1=2.0)' --dataset tiny --limit 9 --template description --depth 7"
    )
    assert len(result.per_query) == 9
    assert max(result.run["rank"].to_pylist()) <= 7


def test_a_limit_spreads_over_the_split(run: Run) -> None:
    # 22 test queries, q00 to q21: five of them at 0, 5.25, 10.5, 15.75 and 21, rounded (a half to even).
    assert run("bm25", limit=5).per_query["query_id"].to_pylist() == ["q00", "q05", "q10", "q16", "q21"]


@pytest.mark.parametrize("limit", [22, 23, 500])
def test_a_limit_that_limits_nothing_is_none(run: Run, tiny: Dataset, limit: int) -> None:
    result = run("bm25", limit=limit)
    assert result.manifest.result_id == identity(BASE, tiny) != identity(changed(BASE, limit=21), tiny)
    assert result.manifest.dataset.limit is None
    assert result.manifest.warnings == []
    assert "--limit" not in result.manifest.environment.command
    assert len(result.per_query) == 22


def test_a_plan_is_made_normal_by_the_queries_of_its_split(tiny: Dataset) -> None:
    # 22 test, 9 train and 5 dev queries.
    for split, limit, normal in (("dev", 5, None), ("dev", 4, 4), ("test", 5, 5), ("train", 9, None), ("all", 35, 35)):
        plan = changed(BASE, split=split, limit=limit)
        assert plan.normal(tiny) == changed(plan, limit=normal)
    assert BASE.normal(tiny) is BASE


@pytest.mark.parametrize(
    ("plan", "method", "warnings"),
    [
        ({}, "bm25", []),
        ({"limit": 5}, "bm25", ["only 5 queries were evaluated (--limit): not comparable with full results"]),
        ({"depth": 5}, "bm25", ["depth 5: metrics with a deeper cut-off are omitted"]),
        # Twelve tools: depth 12 is the whole library.
        ({"depth": 12}, "bm25", []),
        ({}, "oracle", ["an oracle: it reads the gold"]),
    ],
)
def test_what_a_reader_must_know_is_warned_of(run: Run, plan: dict[str, int], method: str, warnings: list[str]) -> None:
    result = run(method, **plan)
    assert result.manifest.warnings == warnings
    assert result.manifest.method.oracle == (method == "oracle")


def test_a_result_is_the_same_byte_for_byte_when_run_again(run: Run) -> None:
    first = run("tfidf")
    before = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    run("tfidf", overwrite="always")
    after = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} <= {"manifest.json"}


def test_the_stored_manifest_is_what_was_returned(run: Run) -> None:
    result = run("bm25")
    assert json.loads((result.folder / "manifest.json").read_text("utf-8")) == result.manifest.model_dump(mode="json")
    assert StoredResult.read(result.folder).manifest == result.manifest


def test_metrics_asked_for_join_the_usual_ones(run: Run) -> None:
    result = run("bm25", metrics=["ndcg@7", "recall@5"])
    assert {"ndcg@7", "recall@5"} <= set(result.metrics.metrics)
    assert list(result.metrics.metrics).count("recall@5") == 1


def test_metrics_that_look_deeper_than_the_ranking_are_left_out(run: Run) -> None:
    result = run("oracle", depth=5, metrics=["ndcg@4", "recall@5"])
    columns = set(result.per_query.column_names)
    assert {"ndcg@4", "ndcg@5", "recall@5", "recall@gold", "tracc", "mmrr@5"} <= columns
    assert not {"recall@10", "ndcg@10", "mrr@100", "mmrr_printed@100", "tracc@20"} & columns
    assert set(result.metrics.metrics) <= columns
    # Twelve tools: no ranking can be longer, so nothing is cut short.
    assert {"recall@10", "recall@100", "ndcg@50"} <= set(run("oracle", depth=12).metrics.metrics)


@pytest.mark.parametrize("metric", ["ndcg@6", "pass@100", "tracc@20"])
def test_a_metric_that_looks_deeper_than_the_ranking_is_refused(run: Run, tmp_path: Path, metric: str) -> None:
    cutoff = metric.partition("@")[2]
    with pytest.raises(UsageError) as caught:
        run("bm25", depth=5, metrics=["recall@5", metric])
    assert str(caught.value) == f"{metric} needs a deeper ranking: give --depth {cutoff} or more."
    assert not (tmp_path / "results").exists()
    # Of a whole library every metric can be taken.
    assert metric in run("bm25", depth=12, metrics=[metric]).metrics.metrics


class Fine(Watched):
    """Scores that differ by less than single precision can tell, falling with the code, the last tool first."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        tools = np.tile(np.arange(12, dtype=np.int32)[::-1], (len(queries), 1))
        return Ranking(tools, 1.0 + tools * 1e-12)


class Coarse(Fine):
    """The same in single precision, where they are equal."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = super().rank(queries, depth)
        assert ranking.scores is not None
        return Ranking(ranking.tools, ranking.scores.astype(np.float32))


def test_scores_are_compared_and_stored_as_the_method_gave_them(run: Run) -> None:
    result = run(Fine)
    rows = [row for row in result.run.to_pylist() if row["query_id"] == "q00"]
    assert [row["tool_id"] for row in rows] == [f"t{code:02}" for code in range(11, -1, -1)]
    assert [row["score"] for row in rows] == [1.0 + code * 1e-12 for code in range(11, -1, -1)]
    assert result.metrics.n_tied == 0
    again = StoredResult.read(result.folder)
    assert again.run.equals(result.run)
    # A method that gives single precision gets its ties.
    coarse = run(Coarse)
    assert [row["tool_id"] for row in coarse.run.to_pylist()[:12]] == [f"t{code:02}" for code in range(12)]
    assert coarse.metrics.n_tied == 19


# Overwriting --------------------------------------------------------------------------------------------------------


def test_a_result_that_is_there_is_kept(run: Run) -> None:
    first = run(Watched)
    count = len(Watched.calls)
    again = run(Watched)
    assert len(Watched.calls) == count, "nothing was asked again"
    assert again.manifest == first.manifest


def test_never_refuses_before_anything_runs(run: Run, runner: MakeRunner) -> None:
    first = run("bm25")
    plans = [Plan(Spec("tiny"), Spec("watched")), BASE]
    with pytest.raises(UsageError, match=f"the result {first.folder} already exists, and --overwrite is never."):
        list(runner(Watched, overwrite="never").run(plans))
    assert Watched.calls == []
    # Where nothing is there it runs.
    (result,) = runner(Watched, overwrite="never").run(plans[:1])
    assert isinstance(result, StoredResult)
    StoredResult.read(result.folder).verify()


def test_each_question_has_its_own_result_and_no_more(run: Run) -> None:
    folders = {run("bm25", limit=limit).folder for limit in (None, 22, 40, 21)}
    assert len(folders) == 2


def test_always_runs_anew(run: Run) -> None:
    first = run(Watched)
    stamp = (first.folder / "run.parquet").stat().st_mtime_ns
    count = len(Watched.calls)
    run(Watched, overwrite="always")
    assert len(Watched.calls) == 2 * count
    assert (first.folder / "run.parquet").stat().st_mtime_ns > stamp


def test_nothing_but_the_result_is_left_behind(run: Run) -> None:
    result = run("bm25")
    run("bm25", overwrite="always")
    assert [path.name for path in result.folder.parent.iterdir()] == [result.folder.name]


# Several plans ------------------------------------------------------------------------------------------------------


class Breaks(Watched):
    """Raises for its first query."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        raise RuntimeError("the model has gone")


class Doubles(Watched):
    """Returns a tool twice."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([[0, 0]] * len(queries))


def test_after_a_plan_that_fails_the_others_still_run(runner: MakeRunner) -> None:
    names = ("breaks", "watched", "doubles", "bm25")
    plans = [Plan(Spec("tiny"), Spec(name)) for name in names]
    outcomes = list(runner(Breaks, Doubles, Watched).run(plans))
    assert [type(outcome) for outcome in outcomes] == [MethodError, StoredResult, MethodError, StoredResult]
    errors = [str(outcome) for outcome in outcomes if isinstance(outcome, MethodError)]
    assert errors[0].startswith("method breaks failed while ranking the batch of 22 queries from q08: RuntimeError")
    assert errors[1].startswith("method doubles returned a tool twice for query q08, tool t00;")
    done = [outcome for outcome in outcomes if isinstance(outcome, StoredResult)]
    assert [result.manifest.method.spec for result in done] == ["watched", "bm25"]
    for result in done:
        StoredResult.read(result.folder).verify()


def test_a_result_comes_before_the_next_plan_is_begun(runner: MakeRunner) -> None:
    plans = [Plan(Spec("tiny"), Spec("watched"), depth=depth) for depth in (3, 4)]
    outcomes = runner(Watched).run(plans)
    first = next(outcomes)
    assert isinstance(first, StoredResult)
    count = len(Watched.calls)
    StoredResult.read(first.folder).verify()
    assert len(Watched.calls) == count
    assert isinstance(next(outcomes), StoredResult)
    assert len(Watched.calls) == 2 * count


def test_a_results_folder_that_cannot_be_written_is_told_before_anything_runs(
    runner: MakeRunner, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".locks").write_text("in the way")
    with pytest.raises(StorageError, match="a part of the path is a file"):
        list(runner(Watched).run([Plan(Spec("tiny"), Spec("watched"))]))
    assert Watched.calls == []


def test_a_dataset_of_several_plans_is_loaded_once(runner: MakeRunner, tiny: Dataset) -> None:
    loaded: list[Spec] = []

    def load(spec: Spec) -> Dataset:
        loaded.append(spec)
        return tiny

    list(runner(load=load).run([changed(BASE, depth=depth) for depth in (3, 4, 5)]))
    assert loaded == [Spec("tiny")]

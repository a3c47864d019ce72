"""Who tried how often: which stored results are variants of one another, and which of them is the best."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.base.spec import parse
from bench.comparison.variants import best_by, family_of, stored_variants, variants_of, words_of
from bench.evaluation.external import score_run_file
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.manifest import MetricValue
from bench.results.store import PER_QUERY, StoredResult

METHOD = ("spec", "full_spec", "hash", "cut", "run_file", "oracle")
DATA = ("split", "limit", "content_hash", "template")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[StoredResult]:
    """Three variants of bm25 on starter, and random."""
    runner = Runner(tmp_path_factory.mktemp("results"), load=load_dataset, build=build_method)
    specs = ["bm25", "bm25(k1=0.5)", "bm25(b=0.2)", "random"]
    outcomes = list(runner.run([Plan(parse("starter"), parse(spec)) for spec in specs]))
    assert all(isinstance(item, StoredResult) for item in outcomes)
    return [item for item in outcomes if isinstance(item, StoredResult)]


def changed(item: StoredResult, number: int, answers: str | None = None, **more: Any) -> StoredResult:
    """A result as another of the same numbers would be; `answers` in place of the digest of its per-query values."""
    manifest = item.manifest
    method: dict[str, Any] = {name: more.pop(name) for name in METHOD if name in more}
    data: dict[str, Any] = {name: more.pop(name) for name in DATA if name in more}
    files = manifest.files | {PER_QUERY: answers or f"{number:064}"}
    fresh = manifest.model_copy(
        update={
            "result_id": f"{number:012x}",
            "files": files,
            "method": manifest.method.model_copy(update=method),
            "dataset": manifest.dataset.model_copy(update=data),
            **more,
        }
    )
    return StoredResult(item.folder, fresh, item.metrics)


def counts(results: list[StoredResult]) -> list[int]:
    by_id = variants_of(results)
    return [len(by_id[item.manifest.result_id]) for item in results]


def test_parameters_are_variants_and_methods_are_not(made: list[StoredResult]) -> None:
    assert counts(made) == [3, 3, 3, 1]
    by_id = variants_of(made)
    for item in made:
        assert by_id[item.manifest.result_id][0] is item
    assert {item.manifest.method.spec for item in by_id[made[1].manifest.result_id][1:]} == {"bm25", "bm25(b=0.2)"}


def test_a_method_in_a_method_counts_by_the_outer_one(made: list[StoredResult]) -> None:
    outer = changed(made[0], 1, spec="tgr(base=bm25(k1=0.5))")
    assert family_of(outer.manifest.method) == "tgr"
    assert counts([made[0], outer]) == [1, 1]


def test_choices_count_by_model_and_method(made: list[StoredResult]) -> None:
    def choice(number: int, given: str) -> StoredResult:
        spec = f"choose({given})"
        return changed(made[0], number, spec=spec, full_spec=spec)

    few = choice(1, "base=bm25, llm=a, shown=1")
    more = choice(2, "base=bm25(k1=0.5), llm=a, shown=5")
    assert counts([few, more, choice(3, "base=dense, llm=a, shown=5"), choice(4, "base=bm25, llm=b")]) == [2, 2, 1, 1]
    assert family_of(few.manifest.method) == "choose among bm25 by a"
    assert family_of(choice(5, "base=(").manifest.method) == "choose"


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({"hash": "0" * 64}, 2),
        ({"cut": "cut=size(3)"}, 2),
        ({"template": "name"}, 2),
        ({"depth": 10}, 2),
        ({"repeats": 5}, 1),
        ({"content_hash": "0" * 64}, 1),
        ({"split": "dev"}, 1),
        ({"limit": 10}, 1),
    ],
    ids=str,
)
def test_what_is_another_try(made: list[StoredResult], more: dict[str, Any], count: int) -> None:
    assert counts([made[0], changed(made[0], 1, **more)]) == [count, count]


def test_equal_answers_are_one_try(made: list[StoredResult]) -> None:
    answers = made[0].manifest.files[PER_QUERY]
    same = changed(made[0], 1, answers, hash="0" * 64)
    other = changed(made[0], 2, hash="1" * 64)
    assert counts([made[0], same]) == [1, 1]
    assert counts([made[0], same, other]) == [2, 2, 2]


def test_dev_queries_and_oracles_are_not_counted(made: list[StoredResult]) -> None:
    for more in ({"split": "dev"}, {"split": "train"}, {"oracle": True}):
        one = changed(made[0], 1, **more)
        assert counts([one, changed(one, 2, hash="0" * 64)]) == [1, 1]
    whole = changed(made[0], 1, split="all")
    assert counts([whole, changed(whole, 2, hash="0" * 64)]) == [2, 2]


def test_versions_of_a_run_file_are_variants(made: list[StoredResult], tmp_path: Path) -> None:
    dataset = load_dataset("starter")
    query = next(query for query in dataset.rows_again().queries if query.split == "test" and query.gold)
    (gold, *_), other = query.gold, next(tool for tool in dataset.tools if tool.tool_id not in query.gold)
    first, second = (f"{query.query_id} Q0 {tool} 1 1.0 x\n".encode() for tool in (gold, other.tool_id))
    scored = [
        score_run_file(data, file, dataset, tmp_path, name=name, command="")
        for data, file, name in (
            (first, "a.trec", "mine"),
            (second, "b.trec", "mine"),
            (first, "c.trec", "bm25"),
        )
    ]
    assert [len(stored_variants([item])[item.manifest.result_id]) for item in scored] == [2, 2, 1]
    # A run file that is called like a method is no variant of it.
    assert counts([made[0], scored[2]]) == [1, 1]


def test_what_is_stored_beside_a_result_is_found(made: list[StoredResult], tmp_path: Path) -> None:
    root = tmp_path / "results"
    shutil.copytree(made[0].folder.parent.parent, root)
    first = StoredResult.read(next(root.glob(f"*/*{made[0].manifest.result_id}")))
    assert len(stored_variants([first])[first.manifest.result_id]) == 3
    # What cannot be read is no try that could be compared, and no reason to fail.
    (next(root.glob(f"*/*{made[1].manifest.result_id}")) / "metrics.json").write_text("{}")
    assert len(stored_variants([first])[first.manifest.result_id]) == 2
    shutil.rmtree(next(root.glob(f"*/*{made[2].manifest.result_id}")))
    assert stored_variants([first]) == {first.manifest.result_id: [first]}


def with_means(item: StoredResult, **means: float) -> StoredResult:
    values = {
        name.replace("_at_", "@"): MetricValue(mean=mean, low=None, high=None, n=10) for name, mean in means.items()
    }
    return StoredResult(item.folder, item.manifest, item.metrics.model_copy(update={"metrics": values}))


def test_the_best_by_a_metric(made: list[StoredResult]) -> None:
    one = with_means(made[0], recall_at_5=0.5, size_diff=2.0, pass_at_5=0.5)
    other = with_means(made[1], recall_at_5=0.4, size_diff=1.0, pass_at_5=0.5)
    metrics = ["recall@5", "size_diff", "pass@5", "ndcg@5"]
    # Fewer superfluous tools are better, equals are both best, and what is not there is left out.
    assert best_by([one, other], metrics) == ["recall@5", "pass@5"]
    assert best_by([other, one], metrics) == ["size_diff", "pass@5"]


def test_the_words() -> None:
    assert words_of(1, "test", ["recall@5"], ["recall@5"]) == ""
    assert words_of(17, "test", ["recall@5"], ["recall@5"]) == "best of 17 variants on test"
    assert words_of(17, "test", ["recall@5", "pass@5"], ["pass@5"]) == (
        "one of 17 variants on test, the best by pass@5"
    )
    assert words_of(17, "all", ["recall@5"], []) == "one of 17 variants on all queries"

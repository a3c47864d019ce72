"""Running and reading results: the API stores what the command line stores, and shows it as DataFrames."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bench
from bench.api.results import Results
from bench.base.errors import BenchError, ResultError, UnavailableError, UsageError
from bench.interface import Method
from bench.methods.bm25 import BM25
from bench.registry import build_method

RUN: Any = bench.run  # for calls that its types do not allow
COMPARE: Any = bench.compare


def test_the_api_and_the_command_line_share_their_results(command: Callable[..., Any]) -> None:
    ours = bench.run("bm25(k1=1.5)", "starter", limit=20, metrics=["ndcg@7"])
    requests = ("run", "-m", "bm25(k1=1.5)", "-d", "starter", "--limit", 20, "--metric", "ndcg@7", "--json")
    (theirs,) = command(*requests).json
    assert theirs["manifest"] == ours.stored.manifest.model_dump(mode="json"), "kept, not made anew"
    assert theirs["metrics"]["metrics"]["ndcg@7"]["mean"] == ours.mean("ndcg@7")


def test_a_result_outlives_a_metric_that_another_command_adds(command: Callable[..., Any]) -> None:
    # Nobody has read its tables when they change.
    before = bench.run("bm25(k1=1.6)", "starter", limit=20)
    command("run", "-m", "bm25(k1=1.6)", "-d", "starter", "--limit", 20, "--metric", "ndcg@7")
    assert "ndcg@7" not in before.stored.metrics.metrics
    assert math.isclose(before.per_query["recall@5"].mean(), before.mean("recall@5"))
    (before.folder / "per_query.parquet").write_bytes(b"damaged")
    with pytest.raises(ResultError, match="is truncated or changed"):
        _ = bench.load_result(before.folder).per_query


def test_a_block_has_its_folder_of_results(tmp_path: Path) -> None:
    with bench.config_context(results=tmp_path / "other"):
        result = bench.run("bm25", "starter", limit=5)
        assert result.folder.is_relative_to(tmp_path / "other")
        with bench.config_context(offline=True):
            assert bench.load_result(result.id).folder == result.folder
        with pytest.raises(UsageError):
            bench.load_result(result.id, results=tmp_path / "empty")
    with pytest.raises(UsageError):
        bench.load_result(result.id)


def test_a_notebook_shows_the_sentence_of_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        bench.run("bm26")
    assert caught.value._render_traceback_() == [f"UsageError: {caught.value}"]


def test_metrics_and_per_query_values_are_data_frames(bm25: bench.Result) -> None:
    metrics: Any = bm25.metrics  # the stubs of pandas know no type of a cell
    per_query = bm25.per_query
    assert metrics.loc["recall@5", "mean"] == bm25.mean("recall@5")
    assert metrics.loc["recall@5", "n"] == bm25.n
    assert metrics.loc["recall@5", "low"] < metrics.loc["recall@5", "mean"] < metrics.loc["recall@5", "high"]
    assert len(per_query) == 20
    assert math.isclose(per_query["recall@5"].mean(), bm25.mean("recall@5"))
    ranking = bm25.ranking
    assert list(ranking.columns) == ["query_id", "rank", "tool_id", "score"]
    assert set(ranking["query_id"]) <= set(per_query["query_id"])


def test_what_a_notebook_shows(bm25: bench.Result) -> None:
    mean = f"{bm25.mean('recall@5'):.3f}"
    assert repr(bm25) == f"<Result bm25 @ starter (test): 17 judged queries, recall@5 {mean}>"
    shown = str(bm25)
    assert shown.startswith("bm25 @ starter (test): ")
    assert f"recall@5   {bm25.mean('recall@5'):.3f}" in shown
    assert "note: only 20 queries were evaluated" in shown
    assert str(bm25.folder) in shown
    html = bm25._repr_html_()
    assert html.count("<tr>") == html.count("</tr>") > 5
    assert f"<td>{bm25.mean('recall@5'):.3f}</td>" in html


def test_names_cannot_be_markup_in_a_notebook() -> None:
    result = bench.score({"0001": []}, "starter", name="<script>alert(1)</script>")
    assert "<script" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()
    comparison = bench.compare(result, bench.score({"0001": []}, "starter", name="<b>"), metrics=["recall@5"])
    assert "<script" not in comparison._repr_html_()
    assert "<b>" not in comparison._repr_html_()


def test_names_cannot_steer_a_terminal_or_a_page() -> None:
    for sign in ("\x1b[31m", "\u202e", "\u00a0", "\u200b", "\n"):
        with pytest.raises(UsageError, match=r"cannot be shown: it has the sign U\+") as caught:
            bench.score({"0001": []}, "starter", name=f"a{sign}")
        assert sign not in str(caught.value)
    # Letters that look like Latin ones are quoted.
    results = [bench.score({"0001": []}, "starter", name=name) for name in ("b\u043c25", "m\u00fcller")]
    assert "\u201cb\u043c25\u201d" in str(Results(results))
    assert "\u201cm" not in str(Results(results))


def test_without_pandas_all_works_but_data_frames(bm25: bench.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as `import pandas` finds it where it is not installed
    fresh = bench.load_result(bm25.folder)
    assert str(fresh) == str(bm25)
    assert fresh.mean("recall@5") == bm25.mean("recall@5")
    for name in ("metrics", "per_query", "ranking"):
        with pytest.raises(UnavailableError, match=r'pip install "tool-retrieval-bench\[pandas\]"'):
            getattr(fresh, name)


def test_several_methods_on_several_datasets() -> None:
    starter = bench.load_dataset("starter")
    outcome = bench.run(["bm25", bench.build_method("bm25", k1=1.5), "bm25"], starter, limit=5)
    assert [result.method for result in outcome] == ["bm25", "bm25(k1=1.5)"], "the same twice is run once"
    assert outcome[0].id == bench.run("bm25", "starter", limit=5).id, "a loaded dataset is that of the name"
    assert isinstance(outcome[:1], bench.Results)
    assert outcome[:1][0].id == outcome[0].id
    assert outcome.means.loc[("starter", "bm25(k1=1.5)"), "ndcg@5"] == outcome[1].mean("ndcg@5")
    assert outcome.means.index.names == ["dataset", "method"]
    assert list(outcome.means.columns) == list(outcome[0].metrics.index), "in the order of the metrics"
    assert repr(outcome) == "<Results of 2 runs: bm25 @ starter, bm25(k1=1.5) @ starter>"
    assert "bm25(k1=1.5) @ starter" in str(outcome)
    assert "bm25(k1=1.5) @ starter" in outcome._repr_html_()


FAILING = """
from bench import Method
class Failing(Method):
    def index(self, library): raise ValueError("no index today")
    def rank(self, queries, depth): raise AssertionError
"""


def test_a_run_that_fails_is_raised_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_method.py").write_text(FAILING)
    monkeypatch.chdir(tmp_path)
    outcome = bench.run(["failing_method:Failing", "bm25"], "starter", limit=5)
    assert [result.method for result in outcome] == ["bm25"]
    (error,) = outcome.errors.values()
    assert list(outcome.errors) == [("starter", "failing_method:Failing")]
    assert "no index today" in str(error)
    assert "failed: failing_method:Failing @ starter" in str(outcome)
    assert repr(outcome) == "<Results of 1 runs, 1 failed: bm25 @ starter>"
    with pytest.raises(bench.BenchError, match="no index today"):
        bench.run("failing_method:Failing", "starter", limit=5)


def test_a_stored_result_is_found_by_name_id_and_folder(bm25: bench.Result, tmp_path: Path) -> None:
    for name in ("bm25@starter", bm25.id, bm25.id[:6], bm25.folder, str(bm25.folder)):
        assert bench.load_result(name).id == bm25.id
    elsewhere = bench.run("bm25", "starter", limit=5, results=tmp_path / "elsewhere")
    assert elsewhere.folder.is_relative_to(tmp_path / "elsewhere")
    assert bench.load_result("bm25@starter", results=tmp_path / "elsewhere").id == elsewhere.id != bm25.id


class Local(Method):
    """A method of this file, whose module nothing can import by its name."""

    def index(self, library: bench.Library) -> None: ...

    def rank(self, queries: bench.Queries, depth: int) -> bench.Ranking:
        return bench.Ranking.empty(len(queries))


def test_a_class_that_cannot_be_found_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Inner(Local):
        pass

    with pytest.raises(UsageError, match="Inner is defined inside a function or a class; move it to the top level"):
        bench.run(Inner, "starter")
    in_notebook = type("Cell", (Local,), {"__module__": "__main__", "__qualname__": "Cell"})
    monkeypatch.setattr(sys.modules["__main__"], "Cell", in_notebook, raising=False)
    # A package that `python -m` runs has a file, and no notebook.
    for file, place in ((None, "a notebook"), ("/a/pack/__main__.py", "/a/pack/__main__.py, which is run and not")):
        monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
        with pytest.raises(UsageError, match=rf"Cell is defined in {place}.*, .* such as cell.py, and import it"):
            bench.run(in_notebook, "starter")
    old = type("Local", (Local,), {"__module__": "bench.show.objects", "__qualname__": "Local"})
    with pytest.raises(UsageError, match=r"bench.show.objects holds another Local by now; import it again"):
        bench.run(old, "starter")


def test_a_built_in_class_is_known_by_its_own_name() -> None:
    from bench.methods.bm25 import BM25

    assert bench.build_method(BM25, k1=1.5).spec == bench.build_method("bm25(k1=1.5)").spec


def test_an_instance_is_of_its_class_whatever_that_calls_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = type("Mine", (Local,), {"__module__": __name__, "__qualname__": "Mine", "name": "bm25"})
    monkeypatch.setattr(sys.modules[__name__], "Mine", kind, raising=False)
    mine = kind(kind.Parameters(), bench.Context(build_method))
    with pytest.raises(BenchError) as caught:
        bench.build_method(mine, k1=1.5)
    assert f"{__name__}:Mine" in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert str(bench.build_method("bm25", k1=np.float32(1.5), b=np.int64(1)).spec) == "bm25(b=1.0, k1=1.5)"
    result = bench.run("bm25", "starter", limit=np.int64(5))  # type: ignore[call-overload]
    assert result.id == bench.run("bm25", "starter", limit=5).id
    assert bench.run(["bm25"], "starter", limit=5)[np.int64(0)].id == result.id  # type: ignore[call-overload]


def test_parameters_may_be_methods_and_lists_of_them() -> None:
    inner = bench.build_method("bm25", k1=1.5)
    assert str(bench.build_method("rrf", methods=[inner, "dense"]).spec) == str(
        bench.build_method("rrf(methods=[bm25(k1=1.5), dense])").spec
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bench.run("bm26"), "there is no method 'bm26' (did you mean 'bm25'?)"),
        (lambda: RUN([["bm25"]]), "a method is a name such as 'bm25', a Method class or an instance of one, or a"),
        (lambda: RUN([]), "there is nothing to run: the list of methods or of datasets is empty."),
        (lambda: RUN("bm25", []), "there is nothing to run: the list of methods or of datasets is empty."),
        (lambda: RUN("bm25", parameters={"k1": 1}), "there is no setting 'parameters' of a run"),
        (lambda: bench.run(BM25(k2=1)), "has no parameter 'k2'"),
        (lambda: bench.run(BM25(k1=object())), "the parameter 'k1' is an object; give a number"),
        (lambda: bench.run(BM25(k1="much")), "parameter 'k1' of method bm25 is 'much': input should be a valid number"),
        (lambda: bench.run("bm25", "startr"), "there is no dataset 'startr' (did you mean 'starter'?)"),
        (lambda: RUN("bm25", 3), "a dataset is a name such as 'starter' or a loaded Dataset, not an int."),
        (lambda: bench.run("bm25", limit=0), "limit is 0; it must be a whole number of 1 or more."),
        (lambda: bench.run("bm25", depth=0), "depth is 0; it must be a whole number of 1 or more."),
        (lambda: RUN("bm25", split="tset"), "split is 'tset'; it must be train, dev, test or all."),
        (lambda: RUN("bm25", cut="half"), "cut is 'half'; it must be none, size, threshold or gap."),
        (lambda: RUN("bm25", overwrite="yes"), "overwrite is 'yes'; it must be never, missing, remote or always."),
        (lambda: RUN("bm25", template="all"), "there is no template 'all'; use "),
        (lambda: bench.run("bm25", metrics=["ndgc@5"]), "there is no metric 'ndgc'"),
        (lambda: bench.run("bm25", metrics="ndcg@5"), "metrics is 'ndcg@5'; it must be a list of strings."),
        (lambda: RUN("bm25", metrics=[5]), "metrics is [5]; it must be a list of strings."),
        (lambda: bench.compare("a", "b", slices="gold"), "slices is 'gold'; it must be a list of strings."),
        (lambda: bench.compare("a", "b", moved=-1), "moved is -1; it must be a whole number of 0 or more."),
        (
            lambda: COMPARE("a", "b", correction="none"),
            "correction is 'none'; it must be holm, benjamini-hochberg or holm-all.",
        ),
        (lambda: RUN(bench.Dataset), "the class Dataset is not a method; derive it from bench.Method."),
        (lambda: bench.load_result("nothing"), "there is no result 'nothing'"),
        (lambda: bench.load_dataset("startr"), "there is no dataset 'startr'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_metric_that_a_result_lacks(bm25: bench.Result) -> None:
    with pytest.raises(UsageError, match="has no metric 'ndcg@7'; it has recall@1, "):
        bm25.mean("ndcg@7")


def test_two_runs_of_one_process_share_nothing(tmp_path: Path) -> None:
    """Each has its folder, its metrics and its parameters, and the second is what a run of its own would be."""
    first = bench.run("bm25", "starter", limit=5, metrics=["ndcg@7"], results=tmp_path / "a")
    second = bench.run("bm25", "starter", limit=5, results=tmp_path / "b")
    assert first.id == second.id
    assert "ndcg@7" in first.stored.metrics.metrics
    assert "ndcg@7" not in second.stored.metrics.metrics
    assert first.ranking.equals(second.ranking)

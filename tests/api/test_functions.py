"""Explaining, tuning, blessing, plotting and auditing: each is that of its command, and is shown in a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bench
from bench.base.errors import StorageError, UsageError
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool

TUNE: Any = bench.tune  # for calls that its types do not allow


def test_an_explanation_is_that_of_the_command(command: Callable[..., Any], bm25: bench.Result) -> None:
    query = bm25.per_query["query_id"].iloc[0]
    why = bench.explain(bm25, query)
    assert why.to_dict() == command("explain", bm25.id, query, "--json").json
    assert bench.explain("bm25@starter", query).to_dict() == why.to_dict()
    ranks = dict(zip(bm25.ranking["tool_id"], bm25.ranking["rank"], strict=True))
    first = bm25.ranking[bm25.ranking["query_id"] == query].set_index("tool_id")["rank"]
    assert ranks
    for tool in why.gold:
        rank = first.get(tool.tool_id)
        assert tool.position.rank == rank
        assert f"{tool.tool_id} at {rank or 'no rank'}" in repr(why)
    assert repr(why).startswith(f"<Explained bm25 @ starter, query {query}: ")
    assert "\n" not in repr(why)
    assert "<td>*</td>" in why._repr_html_()
    with pytest.raises(UsageError, match="has no query 'nothing'"):
        bench.explain(bm25, "nothing")
    with pytest.raises(UsageError, match="there is no repeat 2"):
        bench.explain(bm25, query, repeat=2)


def test_tuning_is_that_of_the_command(command: Callable[..., Any]) -> None:
    found = bench.tune("bm25", "starter", {"k1": [0.5, 1.5], "b": [0.5]}, metric="ndcg@5")
    grid = ("-g", "k1=0.5,1.5", "-g", "b=0.5", "--metric", "ndcg@5")
    assert found.to_dict() == command("tune", "-m", "bm25", "-d", "starter", *grid, "--json").json
    best = max(found.table.to_dict("records"), key=lambda row: row["ndcg@5"])
    assert found.best == f"bm25(b=0.5, k1={best['k1']})"
    assert list(found.table.columns) == ["k1", "b", "ndcg@5"]
    assert repr(found) == f"<Tuning {found.best} on starter (dev): ndcg@5 {best['ndcg@5']:.3f}, the best of 2 points>"
    assert "<th>ndcg@5</th>" in found._repr_html_()
    assert bench.build_method(found.best).spec.name == "bm25"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TUNE("bm25", "starter", {"k1": "0.5,1"}), "write {parameter: [value, ...]}."),
        (lambda: TUNE("bm25", "starter", {"k2": [1]}), "method bm25 has no parameter 'k2'"),
        (lambda: TUNE("bm25", "starter", {"k1": [-1]}), "parameter 'k1' of method bm25 is -1"),
        (lambda: TUNE("bm25", "starter", {"k1": [1.0]}, metric="tracc"), "tracc is not a ranking metric"),
        (lambda: TUNE("bm25", "starter", {}), "the grid has 0 points"),
        (lambda: TUNE("bm25", {"k1": [1.0]}, "starter"), "takes the dataset before the grid"),
        (lambda: bench.plot("nothing"), "there is no result 'nothing'"),
        (lambda: bench.explain("nothing", "1"), "there is no result 'nothing'"),
        (lambda: bench.audit("startr"), "there is no dataset 'startr'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert sentence in str(caught.value)


def test_blessing_is_that_of_the_command(command: Callable[..., Any], bm25: bench.Result, other: bench.Result) -> None:
    made = bench.bless(bm25, "own.json", by="me", metrics=["ndcg@10"])
    assert repr(made) == "<Blessed bm25 @ starter in own.json: new>"
    theirs = command("bless", bm25.id, "--out", "theirs.json", "--by", "me", "--metric", "ndcg@10", "--json").json[0]
    own = made.to_dict()
    for told in (own, theirs):
        told.pop("file")
        told["blessed"].pop("at")
    assert own == theirs
    assert own["means"]["recall@5"] == pytest.approx(bm25.mean("recall@5"))
    assert "same" in repr(bench.bless("bm25@starter", Path("own.json"), metrics=["ndcg@10"]))
    with pytest.raises(UsageError, match=r"own\.json already exists: give a --reason to replace it"):
        bench.bless(other, "own.json")
    replaced = bench.bless(other, "own.json", reason="another method")
    assert repr(replaced) == "<Blessed random @ starter in own.json: replaced>"
    assert replaced.before is not None
    assert f"<td>{bm25.mean('recall@5'):.3f}</td>" in replaced._repr_html_()
    with pytest.raises(UsageError, match="has no metric 'ndcg@7'"):
        bench.bless(bm25, "more.json", metrics=["ndcg@7"])
    assert bench.gate(bm25, "own.json", _policy()).outcome


def _policy() -> Path:
    Path("gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    return Path("gate.toml")


def test_a_plot_is_that_of_the_command(command: Callable[..., Any], bm25: bench.Result, other: bench.Result) -> None:
    figure = bench.plot(bm25, other, metric="ndcg@5")
    command("compare", bm25.id, other.id, "-m", "ndcg@5", "--picture", "theirs.svg")
    assert figure.save("own.svg") == Path("own.svg")
    assert Path("own.svg").read_text("utf-8") == Path("theirs.svg").read_text("utf-8") == figure._repr_svg_()
    assert ElementTree.fromstring(figure.svg).tag.endswith("svg")
    assert repr(figure) == "<Figure ndcg@5: random with bm25 on starter>"
    assert bench.plot(bench.compare(bm25, other, metrics=["ndcg@5"])) == figure
    with pytest.raises(UsageError, match="either a comparison or results, not both"):
        bench.plot(bench.compare(bm25, other), other)
    Path("folder.svg").mkdir()
    with pytest.raises(StorageError):
        figure.save("folder.svg")


def test_names_in_a_plot_cannot_be_markup() -> None:
    one, two = (bench.score({"0001": []}, "starter", name=name) for name in ("<script>x</script>", "b"))
    figure = bench.plot(one, two)
    assert "<script" not in figure.svg
    assert ElementTree.fromstring(figure.svg).tag.endswith("svg")


def test_an_audit_is_that_of_the_command(command: Callable[..., Any]) -> None:
    found = bench.audit("starter")
    assert json.loads(json.dumps(found.to_dict())) == command("data", "audit", "starter", "--json").json
    assert repr(found).startswith(f"<Audit starter: {len(found.findings)} checks, ")
    table: Any = found.table.set_index("check")
    assert table.loc["never-gold", "total"] == len(bench.load_dataset("starter").tools)


def test_an_audit_counts_by_hand_and_shows_no_markup() -> None:
    from kit.tiny import CARD

    tools = [Tool(name, f"<b>{name}</b>", "Same words.", "", "") for name in ("<i>a</i>", "b")]
    data = Dataset.build("tiny", CARD, Tables(tools, [Query("1", "text", {"b": 1}), Query("2", "text", {"b": 1})]))
    found = bench.audit(data)
    table: Any = found.table.set_index("check")
    assert table.loc["duplicate-description", ["count", "total", "share"]].tolist() == [2, 2, 1.0]
    assert table.loc["duplicate-query", "count"] == 2
    assert table.loc["never-gold", "count"] == 1
    assert "<i>" not in found._repr_html_()
    assert "&lt;i&gt;a" in found._repr_html_()


def test_a_dataset_is_a_line_and_a_table() -> None:
    from kit.tiny import CARD

    tools = [Tool(f"<b>{i}</b>", "x", "y", "", "") for i in range(30)]
    data = Dataset.build("tiny", CARD, Tables(tools, [Query("1", "text", {"<b>1</b>": 1})]))
    assert repr(data) == "<Dataset tiny: 30 tools, 1 query (1 test)>"
    shown = data._repr_html_()
    assert "<td>tools</td><td>30</td>" in shown
    assert "<b>1" not in shown


def test_settings_of_a_block_hold_for_all_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENCH_OFFLINE", "")
    # The tables of a dataset that was loaded before are in the cache.
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    with (
        bench.config_context(offline=True, mirror=str(tmp_path)),
        pytest.raises(bench.BenchError, match=rf"the mirror {tmp_path} has no file"),
    ):
        bench.run("bm25", "apibank")
    bench.run("bm25", limit=5)
    with bench.config_context(progress=True):
        bench.run("bm25", limit=5)
    told = capsys.readouterr().err
    assert told.count("bm25 @ starter: kept from ") == 1, "notes are on standard error, inside the block alone"
    with bench.config_context(progress=True), bench.config_context(progress=False):
        bench.run("bm25", limit=5)
    assert not capsys.readouterr().err

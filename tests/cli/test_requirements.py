"""From a file of queries with alternatives, forbidden tools and no tool to a gate that holds them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]

WORDS = (
    "invoice letter calendar weather repository branch ticket payment camera playlist recipe flight hotel parcel "
    "contact budget chart sensor backup domain certificate container cluster pipeline secret webhook channel survey "
    "coupon refund"
).split()
POLICY = """margin = 0.05
[[rule]]
metric = "recall@5"
[[rule]]
metric = "forbidden@1"
[[rule]]
metric = "auroc"
floor = 0.8
[[rule]]
metric = "aurc@5"
[[rule]]
metric = "abstained"
[[rule]]
metric = "false_returns"
margin = 1
"""


@pytest.fixture
def imported(bench: Bench, tmp_path: Path) -> str:
    """Two servers with the same tools; requests that either answers and that forbid a third, or that nothing fits."""
    for server in ("north", "south"):
        tools = [{"name": f"find_{word}", "description": f"Finds the {word} that is asked for."} for word in WORDS]
        danger = [{"name": f"drop_{word}", "description": f"Removes for good the {word} called."} for word in WORDS]
        (tmp_path / f"{server}.json").write_text(
            json.dumps({"tools": [*tools, *(danger if server == "south" else [])]})
        )
    rows: list[dict[str, Any]] = [
        {
            "query": f"I am looking for the {word} that is asked for",
            "tools": [[f"north/find_{word}", f"south/find_{word}"]],
            "forbidden": [f"drop_{word}"],
            "tags": ["either"],
        }
        for word in WORDS
    ]
    rows += [{"query": f"qqq{number} zzz{number}", "tools": [], "tags": {"kind": "none"}} for number in range(30)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench("data", "import", "mine", tmp_path / "north.json", tmp_path / "south.json", "--queries", tmp_path / "q.jsonl")
    Path("gate.toml").write_text(POLICY)
    return "mine"


def test_all_that_users_need_is_measured_and_gated(bench: Bench, imported: str) -> None:
    cut = ("--cut", "threshold", "--cut-at", "1.5")
    Path("blind.j2").write_text("{{ name[:4] }}")
    # What it cannot read, it cannot find; bm25okapi takes the place of a second version of the search.
    bench("run", "-q", "-m", "bm25", "-d", imported, *cut)
    bench("run", "-q", "-m", "bm25-okapi", "-d", imported, "--template", "blind.j2", *cut)
    folders = [bench("show", f"{name}@{imported}", "--json").json["folder"] for name in ("bm25", "bm25-okapi")]
    good, bad = (json.loads((Path(folder) / "metrics.json").read_text())["metrics"] for folder in folders)
    # Either server's tool is right, so the twin at rank 2 is no loss.
    assert good["recall@1"]["mean"] == 1.0
    assert good["recall@1"]["n"] == len(WORDS)
    assert (good["forbidden@1"]["mean"], good["abstained"]["mean"], good["auroc"]["mean"]) == (0.0, 1.0, 1.0)
    assert good["false_returns"]["mean"] == 0.0
    assert good["aurc@5"]["mean"] < 0.3 < bad["aurc@5"]["mean"]
    assert bad["auroc"]["mean"] < 0.8
    shown = bench("show", f"bm25@{imported}", "--all").out
    for name in ("forbidden@5", "auroc", "aurc@5", "false_returns"):
        assert f" {name} " in shown
    by_kind = bench("show", f"bm25@{imported}", "--by", "either", "--json").json
    assert [item["value"] for item in by_kind["slices"]] == ["yes", "-"]
    assert bench("show", f"bm25@{imported}", "--by", "either", "--metric", "auroc", code=2).err.count(
        "no value by slice"
    )
    wanted = ("recall@5", "forbidden@1", "auroc", "aurc@5", "abstained", "false_returns")
    named = [word for name in wanted for word in ("--metric", name)]
    bench("bless", f"bm25@{imported}", "--out", "b.json", "--by", "a person", *named)
    same = bench("gate", f"bm25@{imported}", "--baseline", "b.json", "--policy", "gate.toml", "--json", code=2).json
    # A statistic of which all queries say the same has no spread from which a bound could come; all other rules pass.
    undecided = [(rule["name"], rule["kind"]) for rule in same["rules"] if rule["verdict"] != "pass"]
    assert undecided == [("auroc", "floor")]
    said = bench(
        "gate", f"bm25-okapi@{imported}", "--baseline", "b.json", "--policy", "gate.toml", "--json", code=1
    ).json
    verdicts = {rule["name"]: rule["verdict"] for rule in said["rules"]}
    assert (verdicts["recall@5"], verdicts["aurc@5"], verdicts["auroc"]) == ("regression", "regression", "inconclusive")


def test_the_protocol_of_the_result_is_that_of_its_data(bench: Bench, imported: str) -> None:
    for data, version in ((imported, "2.1"), ("starter", "2.0")):
        bench("run", "-q", "-m", "bm25", "-d", data)
        folder = bench("show", f"bm25@{data}", "--json").json["folder"]
        assert json.loads((Path(folder) / "manifest.json").read_text())["protocol"] == version


def test_a_rule_on_a_slice_of_what_compares_all_queries_is_refused(bench: Bench, imported: str) -> None:
    bench("run", "-q", "-m", "bm25", "-d", imported)
    bench("bless", f"bm25@{imported}", "--out", "b.json", "--by", "a person")
    Path("gate.toml").write_text(
        '[[rule]]\nmetric = "auroc"\nfloor = 0.5\nslice = { name = "either", value = "yes" }\n'
    )
    said = bench("gate", f"bm25@{imported}", "--baseline", "b.json", "--policy", "gate.toml", code=3)
    assert "auroc compares queries of all slices with one another; remove the slice" in said.out


def test_an_explanation_tells_of_alternatives_and_forbidden_tools(bench: Bench, imported: str) -> None:
    bench("run", "-q", "-m", "bm25", "-d", imported)
    said = " ".join(bench("explain", f"bm25@{imported}", "q01").out.split())
    assert "1 gold tool; 1 of them with other tools that would do; forbidden: south/drop_invoice (rank " in said

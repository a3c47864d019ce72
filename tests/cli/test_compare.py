"""`bench compare`: names of every kind, the numbers it prints, refusals, and every form."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench.data.dataset import Dataset
from bench.lookup.finding import find_result
from bench.results.units import number_units
from bench.stats.units import robust_mean

Bench = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("fewer_flips")


def run_file(folder: Path, name: str, dataset: Dataset, right: Callable[[int], bool]) -> Path:
    """A run that puts a query's gold first where `right` says so, and answers with another tool elsewhere."""
    lines = []
    for i, row in enumerate(dataset.rows("test").tolist()):
        query = dataset.queries[row]
        gold = sorted(query.gold)
        other = next(tool.tool_id for tool in dataset.tools if tool.tool_id not in query.gold)
        lines.append(json.dumps({"query_id": query.query_id, "tools": gold if right(i) and gold else [other]}))
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_differences_are_those_of_the_stored_values(bench: Bench, lexical: Path) -> None:
    said = bench("compare", "bm25@starter", "tfidf@starter", "--json").json
    first, second = (find_result(Path("../results"), f"{name}@starter") for name in ("bm25", "tfidf"))
    for metric in said["datasets"][0]["metrics"]:
        a, b = first.values(metric["metric"]), second.values(metric["metric"])
        kept = ~np.isnan(a)
        d = (b - a)[kept]
        (result,) = metric["differences"]
        assert result["difference"] == pytest.approx(d.mean())
        assert (result["wins"], result["ties"], result["losses"]) == (
            int((d > 0).sum()),
            int((d == 0).sum()),
            int((d < 0).sum()),
        )
        mean, error, freedom = (part[0] for part in robust_mean(d[:, None], number_units(first.units[kept])))
        assert freedom < len(d) - 1
        assert result["p_t"] == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom))
        assert {item["system"]: item["mean"] for item in metric["standings"]} == pytest.approx(
            {"bm25": a[kept].mean(), "tfidf": b[kept].mean()}
        )
    every = [item for metric in said["datasets"][0]["metrics"] for item in metric["differences"]]
    assert all(item["corrected"] >= item["p"] for item in every)
    # A family is the pairs for one metric: here there is one, so that nothing is corrected.
    assert [item["corrected"] for item in every] == [item["p"] for item in every]
    assert said["family"] == "one pair for each metric"
    every_metric = bench("compare", "bm25@starter", "tfidf@starter", "--correction", "holm-all", "--json").json
    assert every_metric["family"] == f"one pair, {len(every)} metrics and 1 dataset together"
    together = [item for metric in every_metric["datasets"][0]["metrics"] for item in metric["differences"]]
    smallest = min(together, key=lambda item: item["p"])
    assert smallest["corrected"] == pytest.approx(min(1.0, smallest["p"] * len(every)))


def test_results_folders_and_run_files_are_equal_citizens(bench: Bench, lexical: Path, starter: Dataset) -> None:
    path = run_file(Path.cwd(), "mine", starter, lambda i: True)
    identifier = find_result(Path("../results"), "bm25@starter").manifest.result_id
    folder = find_result(Path("../results"), "tfidf@starter").folder
    named = (identifier[:8], folder, "bm25-okapi@starter", f"{path}@starter")
    said = bench("compare", *named, "-m", "recall@5", "--json").json
    names = [item["name"] for item in said["datasets"][0]["systems"]]
    assert names == ["bm25", "tfidf", "bm25-okapi", "mine"]
    recall = next(item for item in said["datasets"][0]["metrics"] if item["metric"] == "recall@5")
    assert recall["standings"][0]["system"] == "mine"
    # One request has more than five gold tools.
    assert recall["standings"][0]["mean"] > 0.98
    assert (recall["standings"][0]["rank_low"], recall["standings"][0]["rank_high"]) == (1, 1)
    # A run file may leave its dataset to -d, and methods may too.
    assert bench("compare", "bm25", path, "-d", "starter", "-m", "recall@5", "--json").json["baseline"] == "bm25"


def test_a_clear_winner_and_noise_are_told_apart(bench: Bench, starter: Dataset) -> None:
    base = run_file(Path.cwd(), "base", starter, lambda i: i % 2 == 0)
    better = run_file(Path.cwd(), "better", starter, lambda i: i % 4 != 1)
    noise = run_file(Path.cwd(), "noise", starter, lambda i: (i % 2 == 0) != (i in {8, 9}))
    names = [f"{path}@starter" for path in (base, better, noise)]
    said = bench("compare", *names, "-m", "recall@5", "--json").json
    won, level = said["datasets"][0]["metrics"][0]["differences"]
    assert won["corrected"] < 0.001
    assert won["low"] > 0
    assert (level["wins"], level["losses"], level["p"]) == (1, 1, 1.0)
    ranks = {item["system"]: item["rank_low"] for item in said["datasets"][0]["metrics"][0]["standings"]}
    assert ranks == {"better": 1, "base": 2, "noise": 2}
    out = bench("compare", *names, "-m", "recall@5", "--details").out
    assert "better gained most on recall@5" in out
    assert "‡" in out


def test_the_queries_that_moved_most_come_with_their_texts(bench: Bench, starter: Dataset) -> None:
    base = run_file(Path.cwd(), "base", starter, lambda i: i != 3)
    other = run_file(Path.cwd(), "other", starter, lambda i: i not in {0, 1})
    said = bench("compare", f"{base}@starter", f"{other}@starter", "-m", "recall@5", "--json").json
    (moves,) = said["datasets"][0]["moves"]
    rows = starter.rows("test").tolist()
    judged = [starter.queries[rows[i]] for i in (3, 0, 1) if starter.queries[rows[i]].gold]
    assert [item["query_id"] for item in moves["gained"]] == [q.query_id for q in judged[:1]]
    assert {item["query_id"] for item in moves["lost"]} == {q.query_id for q in judged[1:]}
    assert moves["gained"][0]["text"] == judged[0].text
    assert (
        bench("compare", f"{base}@starter", f"{other}@starter", "--moved", 0, "--json").json["datasets"][0]["moves"]
        == []
    )


def test_slices_part_the_queries(bench: Bench, lexical: Path) -> None:
    requests = ("compare", "bm25@starter", "tfidf@starter", "-m", "recall@5", "--by", "gold")
    said = bench(*requests, "--by", "prerequisite", "--json").json
    slices = said["datasets"][0]["slices"]
    for name in ("gold", "prerequisite"):
        parts = [item for item in slices if item["slice"] == name]
        assert sum(item["n"] for item in parts) == said["datasets"][0]["n"]
    assert "recall@5 by gold" in bench(*requests).out
    assert "has no slice 'colour'" in bench("compare", "bm25@starter", "tfidf@starter", "--by", "colour", code=2).err


def test_several_datasets_are_compared_by_ranks_and_means(bench: Bench, lexical: Path, mirror: Path) -> None:
    methods = ("bm25", "tfidf", "bm25-okapi")
    bench("run", "-q", "-d", "apibank", *(word for name in methods for word in ("-m", name)))
    requests = ("compare", *methods, "-d", "starter", "-d", "apibank", "-m", "recall@5", "-m", "ndcg@10")
    said = bench(*requests, "--json").json
    assert [item["dataset"] for item in said["datasets"]] == ["starter", "apibank"]
    assert said["family"] == "all 3 pairs for each metric and dataset"
    assert len(said["macro"]) == 2
    for macro in said["macro"]:
        means: dict[str, list[float]] = {name: [] for name in methods}
        places: dict[str, list[float]] = {name: [] for name in methods}
        for report in said["datasets"]:
            (metric,) = (item for item in report["metrics"] if item["metric"] == macro["metric"])
            for item in metric["standings"]:
                means[item["system"]].append(item["mean"])
                higher = [other["mean"] - item["mean"] for other in metric["standings"]]
                places[item["system"]].append(1 + sum(d > 0 for d in higher) + (higher.count(0) - 1) / 2)
        for item in macro["standings"]:
            assert item["mean"] == pytest.approx(np.mean(means[item["system"]]))
            assert item["low"] <= item["mean"] <= item["high"]
            assert item["mean_rank"] == np.mean(places[item["system"]])
        order = [(item["rank_low"], -item["mean"]) for item in macro["standings"]]
        assert order == sorted(order)
        best = macro["best"]
        assert best["system"] == max(macro["standings"], key=lambda item: item["mean"])["system"]
        ahead = sum(lead["p"] < 0.05 for lead in best["leads"])
        assert macro["standings"][0]["rank_high"] == len(methods) - ahead
    assert "for each metric and dataset, corrected by Holm" in " ".join(
        bench(*requests, "--picture", "ranks.svg").out.split()
    )
    assert "recall@5 over starter, apibank" in Path("ranks.svg").read_text("utf-8")
    err = bench("compare", "bm25@starter", "tfidf@starter", "bm25@apibank", code=2).err
    assert "apibank has bm25, and starter has bm25, tfidf: name the same methods on each dataset" in err


def test_what_is_not_on_the_same_queries_is_refused_and_says_why(bench: Bench, lexical: Path) -> None:
    bench("run", "-q", "-d", "starter", "--limit", 20, "-m", "bm25", "--results", "short")
    short = next(path.parent for path in Path("short").glob("*/*/manifest.json"))
    err = bench("compare", "tfidf@starter", short, code=6).err
    assert "the limit of queries differs: none for tfidf @ starter, 20 for bm25 @ starter" in err
    assert "needs two results" in bench("compare", "bm25@starter", code=2).err
    assert "is named twice" in bench("compare", "bm25@starter", "bm25@starter", code=2).err
    assert "there is no result 'bm26@starter'" in bench("compare", "bm25@starter", "bm26@starter", code=2).err
    assert "recall@77" in bench("compare", "bm25@starter", "tfidf@starter", "-m", "recall@77", code=2).err


def test_a_run_file_without_a_dataset_is_refused(bench: Bench, lexical: Path, starter: Dataset) -> None:
    path = run_file(Path.cwd(), "mine", starter, lambda i: True)
    assert "name its dataset" in bench("compare", "bm25@starter", path, code=2).err


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "latex", "json"])
def test_every_form_names_every_system(bench: Bench, lexical: Path, form: str) -> None:
    requests = ("compare", "bm25@starter", "tfidf@starter", "bm25-okapi@starter", "-m", "recall@5", "--format", form)
    said = bench(*requests)
    assert all(name in said.out for name in ("bm25", "tfidf", "bm25-okapi"))
    assert bench(*requests).out == said.out
    if form == "csv":
        assert len(list(csv.DictReader(io.StringIO(said.out)))) == 3
    if form == "table":
        assert max(map(len, said.out.splitlines())) <= 100


def test_a_picture_is_written_whole(bench: Bench, lexical: Path) -> None:
    bench("compare", "bm25@starter", "tfidf@starter", "-m", "recall@5", "--picture", "out/picture.svg")
    assert Path("out/picture.svg").read_text("utf-8").startswith("<svg")
    said = bench("compare", "bm25@starter", "tfidf@starter", "--picture", "out/picture.jpg", code=2).err
    assert "picture.jpg has no name that ends with .svg, .png or .pdf" in said
    assert not Path("out/picture.jpg").exists()


def test_what_steers_a_terminal_does_not_reach_it(bench: Bench, lexical: Path, starter: Dataset) -> None:
    path = run_file(Path.cwd(), "a\x1b[31mred", starter, lambda i: True)
    said = bench("compare", "bm25@starter", f"{path}@starter", "-m", "recall@5", code=2)
    assert "\x1b" not in said.err
    assert "cannot be shown: it has the sign U+001B" in said.err


def test_a_name_too_long_for_a_file_is_no_error_of_ours(bench: Bench, lexical: Path) -> None:
    long = f"dense(encoder={'x' * 300})@starter"
    assert "there is no result" in bench("compare", "bm25@starter", long, code=2).err


def test_a_single_query_detects_nothing(bench: Bench, starter: Dataset) -> None:
    base = run_file(Path.cwd(), "base", starter, lambda i: i % 2 == 0)
    other = run_file(Path.cwd(), "other", starter, lambda i: i % 3 == 0)
    said = bench("compare", f"{base}@starter", f"{other}@starter", "-m", "recall@5", "--by", "gold", "--json").json
    for item in said["datasets"][0]["slices"]:
        for difference in item["differences"]:
            assert (difference["detectable"] is None) == (item["n"] == 1)
            assert item["n"] > 1 or difference["needed"] is None


def test_an_order_that_depends_on_a_twin_of_the_gold_is_told_in_every_form(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "twins"
    (folder / "qrels").mkdir(parents=True)
    texts = {"a": "Sends a letter.", "b": "Finds a street.", "z": "Sends a letter."}
    corpus = [{"_id": tool, "title": "tool" if tool == "b" else "letter", "text": text} for tool, text in texts.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus), "utf-8")
    ids = [f"q{i}" for i in range(10)]
    rows = [json.dumps({"_id": name, "text": f"request {name}"}) + "\n" for name in ids]
    (folder / "queries.jsonl").write_text("".join(rows), "utf-8")
    judged = "".join(f"{name}\ta\t1\n" for name in ids)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", "utf-8")
    bench("data", "add", "twins", "--from", folder, "--unit", "none")
    named = []
    for name, answers in {"gold": "aaaaaabbbb", "twin": "zzzzzzzzzz"}.items():
        lines = [json.dumps({"query_id": query, "tools": [tool]}) for query, tool in zip(ids, answers, strict=True)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        named.append(f"{path}@twins")
    report = bench("compare", *named, "-m", "recall@5", "--json").json["datasets"][0]
    (metric,) = report["metrics"]
    assert metric["reversed"] == [["gold", "twin"]]
    means = {item["system"]: (item["mean"], item["lenient"]) for item in metric["standings"]}
    assert means == {"gold": (0.6, 0.6), "twin": (0.0, 1.0)}
    assert [item["marks"] for item in report["systems"]] == [["run file", "order depends on gold"]] * 2
    sentence = "recall@5: the order of gold and twin depends on gold: 0.600 and 0.000, but 0.600 and 1.000 if tools"
    assert sentence in " ".join(bench("compare", *named, "-m", "recall@5").out.split())
    assert sentence in bench("compare", *named, "-m", "recall@5", "--format", "markdown").out
    table = csv.DictReader(io.StringIO(bench("compare", *named, "-m", "recall@5", "--format", "csv").out))
    assert {row["system"]: row["lenient"] for row in table} == {"gold": "0.6", "twin": "1.0"}
    shown = bench("show", "twin@twins").out
    assert "lenient" in shown
    assert "counts (10 queries have one)" in " ".join(shown.split())
    audit = bench("data", "audit", "twins", "--json").json
    by_key = {item["check"]: (item["count"], item["total"]) for item in audit["findings"]}
    assert (by_key["alternative-tool"], by_key["alternative-query"]) == ((1, 1), (10, 10))
    # Both tools have one text: half of the queries find the gold one first.
    assert audit["ceilings"]["same_tool_text"] == 10


def test_a_margin_is_judged_metric_by_metric(bench: Bench, lexical: Path) -> None:
    words = ("compare", "bm25@starter", "bm25-okapi@starter", "-m", "recall@5", "--margin", 0.9, "--by", "gold")
    said = bench(*words)
    assert "With a margin of 0.9" in said.out
    assert "90% interval" in said.out
    assert "within 0.9" in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert "within 0.9" in bench(*words, "--details").out
    slices = bench(*words, "--json").json["datasets"][0]["slices"]
    assert all(item["margin"]["margin"] == 0.9 for part in slices for item in part["differences"])
    assert "margin is 0.0; it must be a number above 0" in bench(*words[:-4], "--margin", 0, code=2).err

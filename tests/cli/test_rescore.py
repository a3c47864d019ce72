"""`bench rescore`: results of protocol 1 become results of today's rules, without a run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kit.results import rehash, seal

from bench.lookup.finding import find_result
from bench.results.store import MANIFEST, PER_QUERY, RUN, StoredResult, omit_ranking

Bench = Callable[..., Any]


@pytest.fixture
def fresh(lexical_results: Path, tmp_path: Path) -> list[Path]:
    """Copies of two results of today."""
    made = (find_result(lexical_results, f"{method}@starter").folder for method in ("bm25", "tfidf"))
    return [Path(shutil.copytree(folder, tmp_path / "r" / "starter" / folder.name)) for folder in made]


def as_of_protocol_1(folder: Path) -> None:
    """The result as bench 0.2 stored it: no units, and the intervals of independent queries."""
    table = pq.read_table(folder / PER_QUERY).drop_columns(["unit"])
    pq.write_table(table, folder / PER_QUERY, compression="zstd")
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    manifest["protocol"] = "1.0"
    manifest["scoring"]["intervals"] = "0" * 64
    for name in ("unit", "units", "effective", "source"):
        del manifest["dataset"][name]
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    metrics["metrics"]["recall@5"]["low"] = 0.0
    (folder / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    for name in (PER_QUERY, "metrics.json"):
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    seal(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize("ranking", [True, False])
def test_an_older_result_gets_the_numbers_of_a_new_one(bench: Bench, fresh: list[Path], ranking: bool) -> None:
    wanted = {folder: StoredResult.read(folder) for folder in fresh}
    tables = {folder: result.per_query for folder, result in wanted.items()}
    root = fresh[0].parent.parent
    for folder in fresh:
        as_of_protocol_1(folder)
        if not ranking:
            # As in a folder of results that keeps large rankings elsewhere.
            omit_ranking(StoredResult.read(folder))
    names = [folder.name.rpartition("-")[2] for folder in fresh]
    refused = bench("compare", *names, "--results", root, code=6)
    assert "was made under protocol 1.0, which took queries as independent; `bench rescore" in refused.err
    # It is still read and shown.
    assert "126 judged queries (test)" in bench("show", names[0], "--results", root).out
    said = bench("rescore", "--results", root, "--json")
    assert [row["outcome"] for row in json.loads(said.out)] == ["rescored", "rescored"]
    for folder in fresh:
        again = StoredResult.read(folder)
        assert again.metrics == wanted[folder].metrics
        assert again.manifest.dataset == wanted[folder].manifest.dataset
        assert again.manifest.protocol == wanted[folder].manifest.protocol
        assert again.manifest.scoring == wanted[folder].manifest.scoring
        assert again.manifest.files[RUN] == wanted[folder].manifest.files[RUN]
        assert again.manifest.environment == wanted[folder].manifest.environment
        assert again.per_query.equals(tables[folder])
        assert again.has_run == ranking
    assert "93 groups" in bench("compare", *names, "--results", root, "--moved", "0").out
    said = bench("rescore", names[0], "--results", root, "--json")
    assert [row["outcome"] for row in json.loads(said.out)] == ["up to date"]


def test_a_run_scores_an_older_result_again_instead_of_ranking(bench: Bench, fresh: list[Path]) -> None:
    as_of_protocol_1(fresh[0])
    said = bench("run", "-m", "bm25", "-d", "starter", "--results", fresh[0].parent.parent)
    assert "ranking kept from" in said.err
    assert StoredResult.read(fresh[0]).manifest.dataset.units == 93


def test_what_cannot_be_scored_again_is_named_and_left_as_it_is(bench: Bench, fresh: list[Path]) -> None:
    as_of_protocol_1(fresh[0])
    path = fresh[0] / MANIFEST
    manifest = json.loads(path.read_text("utf-8"))
    manifest["dataset"]["content_hash"] = "0" * 64
    seal(manifest)
    path.write_text(json.dumps(manifest), "utf-8")
    before = path.read_bytes()
    (fresh[1] / "metrics.json").write_text("{", "utf-8")
    said = bench("rescore", "--results", fresh[0].parent.parent, code=1)
    assert "as it was before it changed; run it again" in " ".join(said.out.split())
    assert said.err.endswith("2 of 2 results could not be scored again.\n")
    assert path.read_bytes() == before


def test_without_its_ranking_a_result_of_other_code_is_not_scored_again(bench: Bench, fresh: list[Path]) -> None:
    as_of_protocol_1(fresh[0])
    omit_ranking(StoredResult.read(fresh[0]))
    path = fresh[0] / MANIFEST
    manifest = json.loads(path.read_text("utf-8"))
    manifest["scoring"]["measures"]["recall"] = "1" * 64
    seal(manifest)
    path.write_text(json.dumps(manifest), "utf-8")
    said = bench("rescore", fresh[0], "--results", fresh[0].parent.parent, "--json", code=1)
    (row,) = json.loads(said.out)
    assert row["outcome"] == "failed"
    assert "its ranking is not in" in row["error"]


def without_lenient_means(folder: Path) -> None:
    """The result as a version stored it that knew none."""
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    del metrics["lenient"]
    (folder / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    rehash(folder, "metrics.json")


def test_lenient_means_are_added_where_the_ranking_is_there_and_nothing_else_changes(
    bench: Bench, fresh: list[Path]
) -> None:
    wanted = {folder: StoredResult.read(folder) for folder in fresh}
    for folder in fresh:
        without_lenient_means(folder)
        older = StoredResult.read(folder)
        assert older.metrics == wanted[folder].metrics.model_copy(update={"lenient": None})
    omit_ranking(StoredResult.read(fresh[1]))
    tables = [(fresh[0] / name).read_bytes() for name in (RUN, PER_QUERY)]
    root = fresh[0].parent.parent
    said = bench("rescore", "--results", root, "--json")
    assert [row["outcome"] for row in json.loads(said.out)] == ["rescored", "up to date"]
    again = StoredResult.read(fresh[0])
    assert [(fresh[0] / name).read_bytes() for name in (RUN, PER_QUERY)] == tables
    assert again.metrics == wanted[fresh[0]].metrics
    assert again.manifest == wanted[fresh[0]].manifest
    assert StoredResult.read(fresh[1]).metrics.lenient is None


def with_drawn_bands(folder: Path) -> None:
    """The result as a version stored it that drew the orders of ties."""
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    del metrics["ties"]
    for value in metrics["metrics"].values():
        if value["tie_expected"] is not None:
            value["tie_expected"] = (value["tie_low"] + value["tie_high"]) / 2
    (folder / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    rehash(folder, "metrics.json")


@pytest.mark.parametrize("ranking", [True, False])
def test_drawn_tie_bands_become_exact_where_the_ranking_is_there_and_nothing_else_changes(
    bench: Bench, lexical_results: Path, tmp_path: Path, ranking: bool
) -> None:
    made = find_result(lexical_results, "bm25-okapi@starter").folder
    folder = Path(shutil.copytree(made, tmp_path / "t" / "starter" / made.name))
    root = folder.parent.parent
    wanted = StoredResult.read(folder)
    name = max(wanted.metrics.metrics, key=lambda name: width(wanted, name))
    assert width(wanted, name) > 0.001
    with_drawn_bands(folder)
    older = StoredResult.read(folder)
    assert older.metrics != wanted.metrics.model_copy(update={"ties": None})
    shown = bench("show", folder, "--metric", name).out
    assert f"expected {older.metrics.metrics[name].tie_expected:.3f} (100 draws)" in " ".join(shown.split())
    tables = {file: (folder / file).read_bytes() for file in (RUN, PER_QUERY)}
    if not ranking:
        omit_ranking(StoredResult.read(folder))
    said = bench("rescore", folder, "--results", root, "--json")
    again = StoredResult.read(folder)
    assert (folder / PER_QUERY).read_bytes() == tables[PER_QUERY]
    shown = " ".join(bench("show", folder, "--metric", name).out.split())
    (row,) = json.loads(said.out)
    if not ranking:
        assert row["outcome"] == "up to date"
        assert again.metrics == older.metrics
        assert "(100 draws)" in shown
        return
    assert row["outcome"] == "rescored"
    assert (folder / RUN).read_bytes() == tables[RUN]
    assert (again.metrics, again.manifest) == (wanted.metrics, wanted.manifest)
    assert f"expected {again.metrics.metrics[name].tie_expected:.3f}" in shown
    assert "draws" not in shown
    (row,) = json.loads(bench("rescore", folder, "--results", root, "--json").out)
    assert row["outcome"] == "up to date"


def width(result: StoredResult, metric: str) -> float:
    value = result.metrics.metrics[metric]
    return 0.0 if value.tie_low is None or value.tie_high is None else value.tie_high - value.tie_low

"""Reference systems: results that a ranking set lists. What is added to a folder of results becomes none of them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.results import another, edit, folder_of, id_of, manifest, rehash
from kit.sites import LISTED, Built, kept

from bench.base.errors import ResultError, UsageError
from bench.base.paths import results_folder
from bench.leaderboard.boards.rankingset import check_references, list_references, read_ranking_set
from bench.registry import method_names
from bench.results.store import PER_QUERY

VIEW = 'version = "1"\n[[views]]\nname = "a"\ntitle = "x"\nwhy = "y"\ndatasets = ["apibank"]\n'


def _copy_kept(dataset: str, *methods: str) -> list[str]:
    """Copy kept results to this test's folder; gives their ids."""
    for item in kept(dataset, *methods):
        shutil.copytree(item.folder, results_folder() / dataset / item.folder.name)
    return [item.manifest.result_id for item in kept(dataset, *methods)]


def _set(path: Path, ids: list[str], text: str = VIEW) -> Path:
    """A ranking set that lists those of some kept results that the board lists."""
    lines = [f'{name} = "{LISTED[name]}"\n' for name in ids if name in LISTED]
    path.write_text(f"{text}[references]\n{''.join(lines)}", "utf-8")
    return path


def _forge(folder: Path, spec: str, seed: int, **changes: Any) -> Path:
    """A result by the name of a method, whose values are those of another one on other queries; its seal is right."""
    copy = another(folder, id_of(f"{spec} {seed}"), method__spec=spec, method__full_spec=spec, **changes)
    table = pq.read_table(copy / PER_QUERY)
    judged = np.flatnonzero(table["n_gold"].to_numpy() > 0)
    order = np.arange(len(table))
    order[judged] = np.random.default_rng(seed).permutation(judged)
    for place, name in enumerate(table.column_names):
        if pa.types.is_float64(table.schema.field(name).type):
            table = table.set_column(place, name, table[name].take(pa.array(order)))
    pq.write_table(table, copy / PER_QUERY)
    rehash(copy, PER_QUERY)
    return copy


def _exported(site: Built, honest: list[str]) -> dict[str, Any]:
    """What the exports say of honest rows and their pairs: all but which rows there are."""
    export = json.loads((site.folder / "results.json").read_text("utf-8"))
    lines = site.page("results.csv.gz").text.splitlines()
    systems = {row["manifest"]["method"]["spec"] for row in export["results"] if row["result_id"] in honest}
    standings = [item for board in export["boards"] for item in board["standings"]]
    told: dict[str, Any] = {"csv": [line for line in lines if any(name in line for name in honest)]}
    told["results"] = [row for row in export["results"] if row["result_id"] in honest]
    told["overall"] = [[row for row in item["rows"] if row["system"] in systems] for item in export["overall"]]
    for item in [*standings, *(part["standing"] for part in export["overall"])]:
        own = [i for i, name in enumerate(item["systems"]) if name in {*honest, *systems}]
        pairs = [[item["p"][i][j - i - 1] for j in own if j > i] for i in own]
        rows = [
            [item[name][i] for name in item if isinstance(item[name], list) and len(item[name]) == len(item["systems"])]
            for i in own
        ]
        told.setdefault("standings", []).append((item["metric"], item["references"], pairs, rows))
    return told


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("dataset", ["apibank", "azure-mcp"])
def test_results_under_registered_names_change_no_honest_row(
    dataset: str, build: Callable[..., Built], tmp_path: Path
) -> None:
    honest = _copy_kept(dataset)
    chosen = _set(tmp_path / "set.toml", honest, VIEW.replace("apibank", dataset))
    options = {"ranking_set": chosen, "downloads": False, "jobs": 1}
    before = build(**options)
    taken = {row.key for row in before.board.rows}
    names = [name for name in method_names() if name not in taken]
    names = [*(name for name in ("colt", "ptr", "nearest-query") if name in names), *names]
    sources = [row.result.folder for row in before.board.rows if not row.oracle]
    for number, name in enumerate(dict.fromkeys(names[:19])):
        _forge(sources[number % len(sources)], name, number, environment__created="2000-01-01T00:00:00+00:00")
    after = build(**options)
    assert len(after.board.rows) == len(before.board.rows) + 16
    assert not after.made.rejected
    assert _exported(after, honest) == _exported(before, honest)
    # The attack is one: by their names, they would have made pairs insignificant.
    listed, _ = list_references(results_folder())
    assert len(listed) > 14 + 10


@pytest.mark.usefixtures("quick", "isolated")
def test_nothing_takes_the_place_of_a_reference(build: Callable[..., Built], tmp_path: Path) -> None:
    honest = _copy_kept("apibank", "tfidf", "names")
    (source,) = kept("apibank", "bm25")
    # Of a method that is not at hand, so that the newest result is the one that counts where none is listed.
    shutil.copytree(source.folder, results_folder() / "apibank" / source.folder.name)
    folder = _forge(results_folder() / "apibank" / source.folder.name, "mine", 0)
    mine = manifest(folder)["result_id"]
    chosen = _set(tmp_path / "set.toml", honest)
    chosen.write_text(f'{chosen.read_text()}{mine} = "{manifest(folder)["digest"]}"\n')
    honest.append(mine)
    before = _exported(build(ranking_set=chosen), honest)
    # A newer answer to the same question; and other answers under the id of the listed one, first in the folder.
    newer = _forge(folder, "mine", 1, environment__created="2099-01-01T00:00:00+00:00")
    shutil.move(_forge(folder, "mine", 2), folder.with_name("a-first"))
    edit(folder.with_name("a-first"), result_id=mine, metrics={"result_id": mine})
    site = build(ranking_set=chosen)
    assert [item.where for item in site.made.rejected] == ["apibank/a-first"]
    assert mine in site.made.rejected[0].reason
    (superseded,) = site.board.superseded
    assert (superseded.id, superseded.newer) == (newer.name[-12:], mine)
    assert "not listed" in [mark.text for mark in superseded.marks]
    after = _exported(site, honest)
    assert [row | {"variants": 1} for row in after["results"]] == before["results"]
    assert after["standings"] == before["standings"]


def _spoil(folder: Path) -> None:
    (folder / PER_QUERY).write_bytes((folder / PER_QUERY).read_bytes()[:-9])


@pytest.mark.usefixtures("quick", "isolated")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(shutil.rmtree, "is not in ", id="gone"),
        pytest.param(
            lambda folder: edit(folder, peak_memory_mib=1.0), "was altered: .*manifest.json has", id="altered"
        ),
        pytest.param(lambda folder: edit(folder, method__oracle=True), "was altered", id="made an oracle"),
        pytest.param(
            lambda folder: (folder / "metrics.json").write_text("{"), "is not on the board: apibank", id="unread"
        ),
        pytest.param(_spoil, "is not on the board: apibank/bm25-.*per_query.parquet", id="table"),
    ],
)
def test_a_listed_result_that_is_gone_or_altered_stops_the_build(
    change: Callable[[Path], Any], said: str, tmp_path: Path, bench: Callable[..., Any]
) -> None:
    chosen = _set(tmp_path / "set.toml", _copy_kept("apibank", "bm25", "names"))
    folder = folder_of(results_folder(), "bm25")
    line = next(i for i, text in enumerate(chosen.read_text().splitlines(), 1) if folder.name[-12:] in text)
    change(folder)
    error = bench("leaderboard", "build", "--ranking-set", chosen, "--out", tmp_path / "site", code=6).err
    assert f"the reference system {folder.name[-12:]} ({chosen}, line {line})" in error
    assert re.search(said, error)
    assert f"or list the results anew with `bench leaderboard references {chosen}`" in error


def test_a_listed_oracle_is_refused(tmp_path: Path) -> None:
    (oracle,) = kept("apibank", "oracle")
    chosen = tmp_path / "set.toml"
    chosen.write_text(f'[references]\n{oracle.manifest.result_id} = "{oracle.manifest.digest}"\n')
    with pytest.raises(ResultError, match=r"line 2.* is a floor or an oracle"):
        check_references(chosen, read_ranking_set(chosen), oracle.folder.parent.parent, [oracle], [])


@pytest.mark.usefixtures("quick", "isolated")
def test_the_command_lists_results_and_leaves_the_rest_of_the_set(
    tmp_path: Path, bench: Callable[..., Any], build: Callable[..., Built]
) -> None:
    _copy_kept("apibank", "bm25", "names", "tfidf", "random", "oracle")
    without = build()
    assert not without.board.declared
    assert "bench leaderboard references" in without.only("d/*.html").text
    chosen = tmp_path / "set.toml"
    assert "2 reference systems" in bench("leaderboard", "references", chosen, "bm25", "names()").out
    public = read_ranking_set()
    assert read_ranking_set(chosen) == public.model_copy(update={"references": read_ranking_set(chosen).references})
    site = build(ranking_set=chosen)
    assert {row.key for row in site.board.rows if row.reference} == {"bm25", "names"}
    # A set with more in it, and tables before and after.
    text = f"# ours\n{VIEW.replace('[[views]]', chosen.read_text() + '[[views]]')}"
    chosen.write_text(text)
    assert "3 reference systems" in bench("leaderboard", "references", chosen).out
    listed = read_ranking_set(chosen)
    assert "# tfidf @ apibank\n" in chosen.read_text()
    assert (len(listed.references), listed.version, chosen.read_text().startswith("# ours")) == (3, "1", True)
    chosen.write_text(f'{VIEW}[references]\n"{"a" * 12}" = "{"b" * 64}"\n')
    assert "as the last table" in bench("leaderboard", "references", chosen, code=2).err
    assert "name other methods" in bench("leaderboard", "references", chosen, "dense", code=2).err
    chosen.write_text(f'{VIEW}[references]\n{"a" * 12} = "b"\n')
    with pytest.raises(UsageError, match="references"):
        read_ranking_set(chosen)


@pytest.mark.usefixtures("quick", "isolated")
def test_a_system_is_a_reference_over_datasets_only_with_listed_results_on_all(
    tmp_path: Path, build: Callable[..., Built]
) -> None:
    ids = [*_copy_kept("apibank", "bm25", "names", "tfidf"), *_copy_kept("starter", "bm25", "names", "bm25-fields")]
    both = VIEW.replace('["apibank"]', '["apibank", "starter"]')
    _forge(folder_of(results_folder(), "bm25-fields"), "tfidf", 3)
    site = build(ranking_set=_set(tmp_path / "set.toml", ids, both))
    export = json.loads((site.folder / "results.json").read_text("utf-8"))
    assert {tuple(sorted(item["standing"]["references"])) for item in export["overall"]} == {("bm25", "names")}
    assert all("tfidf" in item["standing"]["systems"] for item in export["overall"])

"""Results that mean harm, or are broken: the site is right, and says what it left out and why."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.results import another, edit, folder_of, id_of, manifest, rehash, scored_by
from kit.sites import Built, board_of

from bench.base.text import label
from bench.evaluation.run_files import write_trec
from bench.leaderboard.boards.board import make_board, read_results
from bench.leaderboard.pages import explorer
from bench.results.manifest import name_fault
from bench.results.store import PER_QUERY, RUN, StoredResult

SCRIPT = '</script><script>alert("x")</script>'
IMAGE = "<img src=x onerror=alert(1)>"
TURNED = "\u202egnp.exe\u2066"
HEBREW = "שלום עולם"
#: Names of datasets, methods and whatever else a result states.
NAMES = (SCRIPT, IMAGE, TURNED, HEBREW, "../../../etc/passwd", "a" * 50_000, "'\"`", "{{ 7 * 7 }}", "\x00\x1b[31m")
#: Those of them that have signs nobody sees, or too many: a result of such a method is not shown.
UNSEEN = tuple(name for name in NAMES if name_fault(name))
#: Ids of results.
PATHS = ("../../../../owned", "a/b", SCRIPT)
ALLOWED = {
    *(
        "html head meta title link script body a header nav main h1 h2 h3 p footer code pre span form label input"
        " fieldset legend"
    ).split(),
    *("select option button output details summary div table caption thead tbody tr th td small abbr dl dt dd").split(),
    *("section ul ol li figure figcaption svg path circle rect text g b noscript math wbr template").split(),
    *("mrow mfrac msub msup msubsup mi mo mn mtext mtable mtr mtd munder munderover").split(),
}


def _report(environment: Any) -> dict[str, Any]:
    """A report of a reproduction."""
    told = {"paper": IMAGE, "title": IMAGE, "data": {}, "cells": 0, "verdicts": {}, "unreadable": [], "notes": [SCRIPT]}
    counts: dict[str, Any] = {name: {} for name in ("verdicts", "directions", "claims")}
    papers = [{"paper": IMAGE, "cells": 0, "sentence": SCRIPT} | counts]
    rest: dict[str, Any] = {"cells": [], "blocks": [], "claims": [], "papers": papers}
    return {"protocol": SCRIPT, "environment": environment, "seconds": 1.0, "tables": [{"table": SCRIPT} | told]} | rest


@pytest.fixture(scope="session")
def hostile_site(site_of: Callable[..., Built], starter_results: Path) -> Built:
    """Every name of NAMES as what two results on a dataset state, as a distractor's and as a method's of a library of
    another size; ids that are paths; a report of a reproduction; and megabytes of text in fields."""
    bm25, random = folder_of(starter_results, "bm25"), folder_of(starter_results, "random")

    def prepare(results: Path) -> dict[str, Any]:
        (results / "starter").mkdir(parents=True)
        kept = [Path(shutil.copytree(folder, results / "starter" / folder.name)) for folder in (bm25, random)]
        for number, name in enumerate(NAMES):
            data: dict[str, Any] = {"dataset__spec": name, "dataset__title": name, "dataset__content_hash": name}
            data["scoring"] = scored_by(name, StoredResult.read(bm25).metrics.metrics)
            method = {"method__spec": name, "method__full_spec": name}
            stated = {
                "method__marks": [{"kind": "method", "text": name, "why": name}],
                "method__hash": name,
                "warnings": [name],
                "facts": {name: name},
            }
            run = {
                "environment__command": name,
                "environment__created": name,
                "environment__packages": {name: name},
            }
            another(kept[0], id_of(f"bm25 {number}"), f"names-{number}", **data)
            another(kept[1], id_of(f"random {number}"), f"names-{number}", **data, **method, **stated, **run)
            # A curve: the embedded dataset with its own library, and with two larger ones.
            another(kept[0], id_of(f"size {number}"), **method)
            for tools in (200, 300):
                spec = f"starter(distractors={json.dumps(name)}, tools={tools})"
                size = {"dataset__spec": spec, "dataset__tools": tools, "dataset__title": name}
                content = {"dataset__content_hash": id_of(f"{number} {tools}") * 5}
                drawn = f"size-{number}-{tools}"
                another(kept[0], id_of(drawn), drawn, **size, **content, **method)
        for number, values in enumerate(PATHS):
            edit(another(kept[0], id_of(values), f"paths-{number}"), result_id=values, metrics={"result_id": values})
        edit(kept[1], facts={"note": "x" * 7_000_000}, warnings=["y" * 7_000_000])
        report = results.with_name("reproduction.json")
        report.write_text(json.dumps(_report(manifest(bm25)["environment"])))
        return {"files": {"reproduction": report}}

    return site_of("hostile-site", prepare, quick=True)


def _harmless(site: Built) -> None:
    for page in site.pages():
        assert set(page.tags) <= ALLOWED, set(page.tags) - ALLOWED
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert page.tags.count("script") == sum(link.endswith(".js") for link in page.links)
        assert not [link for link in page.links if link.lower().startswith(("javascript:", "data:"))]
        assert TURNED[0] not in page.text
        assert "\x00" not in page.text


def test_a_hostile_name_is_text_and_no_path(hostile_site: Built) -> None:
    site = hostile_site
    assert site.made.results == 2 + 5 * len(NAMES) - 4 * len(UNSEEN)
    assert len(site.made.boards) == 1 + 3 * len(NAMES) - 2 * len(UNSEEN)
    _harmless(site)
    inside = site.folder.resolve()
    for path in site.folder.rglob("*"):
        assert path.resolve().is_relative_to(inside)
        assert len(path.name) < 100
    curves = site.only("l/*.html")
    assert curves.tags.count("svg") == len(NAMES) - len(UNSEEN)
    for page in (curves, *map(site.page, ("methods.html", "datasets.html", "index.html"))):
        assert "49" not in page.texts
        assert "{{ 7 * 7 }}" in page.text
        assert "&lt;script&gt;" in page.text
    assert SCRIPT in " ".join(site.page("reproduction.html").texts)
    # Rankings to download have six fields in a line, whatever the method is called.
    for row in site.board.rows:
        assert {len(line.split()) for line in itertools.islice(write_trec(row.result.of_repeat()), 3)} == {6}


def test_ids_that_are_paths_are_refused(hostile_site: Built) -> None:
    reasons = [item.reason for item in hostile_site.made.rejected]
    assert sum("is not a valid result id" in reason for reason in reasons) == len(PATHS)
    assert sum("its name cannot be shown" in reason for reason in reasons) == len(reasons) - len(PATHS)
    assert not [
        place for place in (hostile_site.folder, *hostile_site.folder.parents) if (place / "owned.html").exists()
    ]


def test_long_texts_do_not_make_long_pages(hostile_site: Built) -> None:
    # Seven megabytes in each of two fields, and many names of fifty thousand signs.
    values = hostile_site.row("random")
    assert len(values.result.manifest.warnings[0]) == 7_000_000
    assert len(hostile_site.page(f"r/{values.id}.html").text) < 200_000
    assert max(len(page.text) for page in hostile_site.pages()) < 1_000_000


def test_every_broken_result_is_listed_with_its_reason_and_the_rest_is_shown(
    few: Path, build: Callable[..., Built]
) -> None:
    whole = folder_of(few, "random")
    reasons: dict[str, str] = {}

    def broken(reason: str) -> Path:
        folder = another(whole, f"{len(reasons) + 1:012x}")
        reasons[folder.name] = reason
        return folder

    (broken("is not JSON") / "metrics.json").write_text("{")
    (broken("no manifest.json") / "manifest.json").unlink()
    (broken("no metrics.json") / "metrics.json").unlink()
    (broken("per_query.parquet is gone") / PER_QUERY).unlink()
    (broken("truncated or changed") / PER_QUERY).write_bytes(b"PAR1")
    (broken("truncated or changed") / RUN).write_bytes(b"PAR1")
    edit(broken("schema version 9"), schema_version=9)
    edit(broken("does not follow its schema"), depth="deep")
    folder = broken("does not follow its schema")
    values = json.loads((folder / "metrics.json").read_text())["metrics"]
    values["recall@5"]["mean"] = float("nan")
    edit(folder, metrics={"metrics": values})
    folder = broken("give different means of recall@5")
    values = json.loads((folder / "metrics.json").read_text())["metrics"]
    values["recall@5"]["mean"] = 0.999
    edit(folder, metrics={"metrics": values})
    folder = broken("not a readable Parquet")
    (folder / RUN).write_bytes(b"PAR1 and no more")
    rehash(folder, RUN)
    folder = broken("has no column tool_id")
    pq.write_table(pa.table({"query_id": ["a"], "rank": pa.array([1], pa.int32()), "score": [1.0]}), folder / RUN)
    rehash(folder, RUN)
    folder = broken("has no column query_id of the type string")
    number = pa.array([1], pa.int32())
    pq.write_table(pa.table({"query_id": number, "rank": number, "tool_id": ["a"], "score": [1.0]}), folder / RUN)
    rehash(folder, RUN)
    folder = broken("has the column tool_id twice")
    table = pa.table([number, ["a"], ["b"], [1.0]], names=["query_id", "tool_id", "tool_id", "score"])
    pq.write_table(table, folder / RUN)
    rehash(folder, RUN)
    folder = broken("not a finite number")
    table = pq.read_table(folder / PER_QUERY)
    place = table.column_names.index("ndcg@5")
    table = table.set_column(place, "ndcg@5", pa.array(np.full(len(table), np.inf)))
    pq.write_table(table, folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    folder = broken("order of query ids")
    table = pq.read_table(folder / PER_QUERY)
    pq.write_table(table.take(list(range(len(table)))[::-1]), folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    folder = broken("failed queries")
    edit(folder, metrics={"n_failed": 3})
    twin = whole.with_name("twin-of-random")
    shutil.copytree(whole, twin)
    reasons[twin.name] = "which is shown"

    site = build()
    assert site.made.results == 2
    told = {item.where.rpartition("/")[2]: item.reason for item in site.made.rejected}
    assert told.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in told[name], name
    page = " ".join(site.page("rejected.html").texts)
    for name in reasons:
        assert name in page
    _harmless(site)


def test_results_on_other_queries_of_the_same_hash_are_refused(ready: Path) -> None:
    folder = folder_of(ready, "random")
    table = pq.read_table(folder / PER_QUERY)
    other = pa.array([f"x{name}" for name in table["query_id"].to_pylist()])
    pq.write_table(table.set_column(0, "query_id", other), folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    (members,), _ = read_results(ready)
    board, (rejected,) = make_board(members, ready, True)
    assert board is not None
    assert len(board.rows) == 4
    assert "its queries differ from those of the other results" in rejected.reason


@given(st.text(max_size=300))
def test_a_label_has_no_sign_that_turns_or_breaks_a_line(text: str) -> None:
    shown = label(text)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\n\r\t\x00")
    assert len(shown) <= 160
    shown.encode("utf-8")


@given(st.recursive(st.text() | st.none() | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_data_of_the_explorer_is_json_that_can_end_no_script(value: object) -> None:
    call = explorer.script_call("f", value)
    assert "<" not in call
    assert call.isascii()
    assert json.loads(call.removeprefix("f(").removesuffix(");\n")) == value


@pytest.mark.parametrize("part", ["", "manifest.json", "metrics.json", "run.parquet", ".."])
def test_links_out_of_the_results_are_not_followed(part: str, few: Path, tmp_path: Path) -> None:
    folder = folder_of(few, "random")
    place = folder.parent if part == ".." else folder / part if part else folder
    secret = tmp_path / "elsewhere"
    shutil.move(place, secret)
    place.symlink_to(secret)
    groups, rejected = read_results(few)
    assert [len(members) for members in groups] == ([] if part == ".." else [1])
    assert {item.reason for item in rejected} == {f"{place.name} is a link that leads out of the results folder."}


def test_a_link_within_the_results_is_followed(few: Path) -> None:
    folder = folder_of(few, "random")
    shutil.move(folder / RUN, folder / "kept.parquet")
    (folder / RUN).symlink_to("kept.parquet")
    (members,), _ = read_results(few)
    board, rejected = make_board(members, few, True)
    assert board is not None
    assert (len(board.rows), rejected) == (2, [])


def test_what_a_stranger_may_not_make_a_build_read_is_rejected(ready: Path) -> None:
    (folder_of(ready, "random") / "manifest.json").write_bytes(b'{"a": "' + b"x" * 17_000_000)
    oracle = next(ready.glob("*/oracle-*"))
    (oracle / "run.parquet").unlink()
    os.mkfifo(oracle / "run.parquet")
    (members,), rejected = read_results(ready)
    assert len(members) == 3
    reasons = sorted(item.reason for item in rejected)
    assert reasons == ["manifest.json is larger than any that bench writes.", "run.parquet is not a regular file."]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2026-01-01T12:00:00+00:00", "2026-01-01T11:30:00-01:00"),
        ("soon", "2020-01-01T00:00:00+00:00"),
        ("zzzz", "2020-01-01"),
    ],
)
def test_of_two_answers_the_later_one_by_the_clock_of_all_places_counts(older: str, newer: str, few: Path) -> None:
    first = folder_of(few, "random")
    another(first, "00000000000a", environment__created=newer)
    another(first, "00000000000b", environment__created=older)
    # One of today's code would count, whenever it was made.
    shutil.rmtree(first)
    board = board_of(few)
    assert "00000000000a" in {row.id for row in board.rows}
    assert [item.newer for item in board.superseded] == ["00000000000a"]

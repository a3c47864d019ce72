"""Results that mean harm, or are broken: the site is right, and says what it left out and why."""

from __future__ import annotations

import importlib
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

from bench.results.store import PER_QUERY, RUN, Result
from bench.storage.paths import results_folder
from bench.text import label

explorer = importlib.import_module("bench.leaderboard.pages.explorer")

SCRIPT = '</script><script>alert("x")</script>'
IMAGE = "<img src=x onerror=alert(1)>"
TURNED = "\u202egnp.exe\u2066"
HEBREW = "שלום עולם"
ALLOWED = {
    *(
        "html head meta title link script body a header nav main h1 h2 h3 p footer code pre span form label input"
    ).split(),
    *("select option button output details summary div table caption thead tbody tr th td small abbr dl dt dd").split(),
    *("section ul ol li figure figcaption svg path circle rect text g b noscript math wbr template").split(),
    *("mrow mfrac msub msubsup mi mo mn mtext mtable mtr mtd munder munderover").split(),
}


def _folder(method: str) -> Path:
    return next(results_folder().glob(f"*/{method}-*"))


def _harmless(site: Any) -> None:
    for page in site.pages():
        assert set(page.tags) <= ALLOWED, set(page.tags) - ALLOWED
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert page.tags.count("script") == sum(link.endswith(".js") for link in page.links)
        assert not [link for link in page.links if link.lower().startswith(("javascript:", "data:"))]
        assert TURNED[0] not in page.text
        assert "\x00" not in page.text


@pytest.mark.parametrize(
    "name", [SCRIPT, IMAGE, TURNED, HEBREW, "../../../etc/passwd", "a" * 50_000, "'\"`", "{{ 7 * 7 }}", "\x00\x1b[31m"]
)
def test_a_hostile_name_is_text_and_no_path(
    name: str, ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    for folder in sorted(ready.glob("[!.]*/*")):
        edit(folder, dataset__spec=name, dataset__title=name, dataset__content_hash=name, scoring=name)
    edit(
        _folder("random"),
        method__spec=name,
        method__full_spec=name,
        method__marks=[name],
        method__hash=name,
        environment__command=name,
        environment__created=name,
        environment__packages={name: name},
        warnings=[name],
        facts={name: name},
    )
    site = build()
    assert site.made.results == 5
    _harmless(site)
    inside = site.folder.resolve()
    for path in site.folder.rglob("*"):
        assert path.resolve().is_relative_to(inside)
        assert len(path.name) < 100
    assert "49" not in site.page("methods.html").texts
    assert max(len(page.text) for page in site.pages()) < 1_000_000


def test_ids_that_are_paths_are_refused(ready: Path, build: Callable[..., Any], edit: Callable[..., None]) -> None:
    for method, own in (("random", "../../../../owned"), ("bm25", "a/b"), ("oracle", SCRIPT)):
        edit(_folder(method), result_id=own, metrics={"result_id": own})
    site = build()
    assert site.made.results == 2
    assert len(site.made.rejected) == 3
    assert not (site.folder.parent / "owned.html").exists()
    _harmless(site)


def test_every_broken_result_is_listed_with_its_reason_and_the_rest_is_shown(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None], rehash: Callable[[Path, str], None]
) -> None:
    whole = _folder("random")

    def copy(number: int) -> Path:
        own = f"{number:012x}"
        folder = whole.with_name(f"broken-{own}")
        shutil.copytree(whole, folder)
        edit(folder, result_id=own, metrics={"result_id": own})
        return folder

    reasons: dict[str, str] = {}

    def broken(reason: str) -> Path:
        folder = copy(len(reasons) + 1)
        reasons[folder.name] = reason
        return folder

    (broken("cannot read") / "metrics.json").write_text("{")
    (broken("no manifest.json") / "manifest.json").unlink()
    (broken("no metrics.json") / "metrics.json").unlink()
    (broken("cannot read") / PER_QUERY).unlink()
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
    assert site.made.results == 5
    told = {item.where.rpartition("/")[2]: item.reason for item in site.made.rejected}
    assert told.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in told[name], name
    page = " ".join(site.page("rejected.html").texts)
    for name in reasons:
        assert name in page
    _harmless(site)


def test_results_on_other_queries_of_the_same_hash_are_refused(
    ready: Path, build: Callable[..., Any], rehash: Callable[[Path, str], None]
) -> None:
    folder = _folder("random")
    table = pq.read_table(folder / PER_QUERY)
    other = pa.array([f"x{name}" for name in table["query_id"].to_pylist()])
    pq.write_table(table.set_column(0, "query_id", other), folder / PER_QUERY)
    rehash(folder, PER_QUERY)
    (rejected,) = build().made.rejected
    assert "not on the same queries" in rejected.reason


def test_a_report_of_a_reproduction_is_text(ready: Path, build: Callable[..., Any], tmp_path: Path) -> None:
    result = Result.read(_folder("bm25"))
    report = {
        "protocol": SCRIPT,
        "environment": result.manifest.environment.model_dump(),
        "seconds": 1.0,
        "tables": [
            {
                "table": SCRIPT,
                "paper": IMAGE,
                "title": IMAGE,
                "data": {},
                "cells": 0,
                "verdicts": {},
                "unreadable": [],
                "notes": [SCRIPT],
            }
        ],
        "cells": [],
        "blocks": [],
        "claims": [],
    }
    path = tmp_path / "reproduction.json"
    path.write_text(json.dumps(report))
    site = build(reproduction=path)
    _harmless(site)
    assert SCRIPT in " ".join(site.page("reproduction.html").texts)


def test_ten_megabytes_of_text_in_a_field_do_not_make_a_page_of_ten_megabytes(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    edit(_folder("bm25"), facts={"note": "x" * 10_000_000}, warnings=["y" * 10_000_000])
    site = build()
    assert max(len(page.text) for page in site.pages()) < 200_000


@given(st.text(max_size=300))
def test_a_label_has_no_sign_that_turns_or_breaks_a_line(text: str) -> None:
    shown = label(text)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\n\r\t\x00")
    assert len(shown) <= 160
    shown.encode("utf-8")


@given(st.recursive(st.text() | st.none() | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_data_of_the_explorer_is_json_that_can_end_no_script(value: object) -> None:
    call = explorer._call("f", value)
    assert "<" not in call
    assert call.isascii()
    assert json.loads(call.removeprefix("f(").removesuffix(");\n")) == value


@pytest.mark.parametrize("part", ["", "manifest.json", "metrics.json", "run.parquet", ".."])
def test_links_out_of_the_results_are_not_followed(
    part: str, ready: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    folder = _folder("random")
    place = folder.parent if part == ".." else folder / part if part else folder
    secret = tmp_path / "elsewhere"
    shutil.move(place, secret)
    place.symlink_to(secret)
    site = build()
    assert site.made.results == (0 if part == ".." else 4)
    assert {item.reason for item in site.made.rejected} == {
        f"{place.name} is a link that leads out of the results folder."
    }


def test_a_link_within_the_results_is_followed(ready: Path, build: Callable[..., Any]) -> None:
    folder = _folder("random")
    shutil.move(folder / RUN, folder / "kept.parquet")
    (folder / RUN).symlink_to("kept.parquet")
    assert build().made.results == 5


def test_what_a_stranger_may_not_make_a_build_read_is_rejected(ready: Path, build: Callable[..., Any]) -> None:
    (_folder("random") / "manifest.json").write_bytes(b'{"a": "' + b"x" * 17_000_000)
    (_folder("oracle") / "run.parquet").unlink()
    os.mkfifo(_folder("oracle") / "run.parquet")
    site = build()
    assert site.made.results == 3
    reasons = sorted(item.reason for item in site.made.rejected)
    assert reasons == ["manifest.json is larger than any that bench writes.", "run.parquet is not a regular file."]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2026-01-01T12:00:00+00:00", "2026-01-01T11:30:00-01:00"),
        ("soon", "2020-01-01T00:00:00+00:00"),
        ("zzzz", "2020-01-01"),
    ],
)
def test_of_two_answers_the_later_one_by_the_clock_of_all_places_counts(
    older: str, newer: str, ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    first = _folder("random")
    second = first.with_name("random-00000000000a")
    shutil.copytree(first, second)
    edit(first, environment__created=older)
    edit(second, result_id="00000000000a", environment__created=newer, metrics={"result_id": "00000000000a"})
    (board,) = build().made.boards
    assert "00000000000a" in {row.id for row in board.rows}
    assert [item.newer for item in board.superseded] == ["00000000000a"]

"""Exports: each form is read back by a reader of its own, with hostile names in it."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.results import folder_of

from bench.base.text import unique_slug
from bench.cli.schemas import shipped_schema
from bench.leaderboard.boards.board import Board, assemble
from bench.leaderboard.exports.bibtex import method_bib
from bench.leaderboard.exports.write import table_path, write_exports
from bench.results.comparability import comparable
from bench.results.store import StoredResult
from bench.show.tables import latex_text

HOSTILE = "</script><script>alert('x')</script>]]>&\"'\\input{/etc/passwd}$%#_^~\u202e\x00\x1b\n=1+1 --- ``x''"
Exports = dict[str, str]


@pytest.fixture(scope="session")
def results(starter_results: Path) -> list[StoredResult]:
    """Three methods on starter, an oracle among them."""
    return [StoredResult.read(folder_of(starter_results, spec)) for spec in ("bm25", "random", "oracle")]


def changed(result: StoredResult, identifier: str, **fields: Any) -> StoredResult:
    """A result as a hostile file could have it: `spec`, `title`, `created`, `protocol`, `dataset`, `marks`, ..."""
    raw = json.loads(result.manifest.model_dump_json())
    raw["result_id"] = identifier
    for key, value in fields.items():
        place = {"title": "dataset", "dataset": "dataset", "limit": "dataset", "created": "environment"}.get(key)
        place = place or ("method" if key in {"spec", "full_spec", "marks", "run_file", "needs_llm", "cut"} else "")
        target = raw[place] if place else raw
        target["spec" if key == "dataset" else key] = value
    manifest = type(result.manifest).model_validate(raw)
    metrics = result.metrics.model_copy(update={"result_id": identifier})
    return StoredResult(result.folder, manifest, metrics)


def boards_of(results: list[StoredResult]) -> list[Board]:
    """The boards of results in one order, as a build has them, without tests of pairs."""
    boards = [assemble(row, {item.manifest.result_id: None for item in row}) for row in comparable(results)]
    return sorted(boards, key=lambda board: board.slug)


def written(results: list[StoredResult]) -> Exports:
    by_key: Exports = {}

    def put(path: str, content: str | bytes) -> None:
        assert path not in by_key
        assert re.fullmatch(r"(?:[a-z0-9-]+/)?[a-z0-9][a-z0-9-]*\.[a-z]+(?:\.gz)?", path)
        text = gzip.decompress(content).decode("utf-8") if isinstance(content, bytes) else content
        text.encode("utf-8")
        by_key[path] = text

    write_exports(put, boards_of(results), ())
    return by_key


@functools.cache
def schema() -> Any:
    """What holds a document to the schema of exports."""
    return jsonschema.validators.validator_for(shipped_schema("export"))(shipped_schema("export"))


@pytest.fixture
def hostile(results: list[StoredResult]) -> list[StoredResult]:
    """Results whose names are tricks, of other protocols and versions, with dates that are none."""
    bm25 = results[0]
    return [
        *results,
        changed(
            bm25,
            "00000000000a",
            spec=HOSTILE,
            full_spec=HOSTILE,
            run_file=HOSTILE,
            marks=[{"kind": "method", "text": HOSTILE}],
        ),
        changed(bm25, "00000000000b", title=HOSTILE, created=HOSTILE, dataset=HOSTILE),
        changed(bm25, "00000000000c", protocol="0.1"),
        changed(bm25, "00000000000d", created="1999-01-01T00:00:00+00:00"),
        changed(bm25, "000000000001", spec="../../../etc/passwd", run_file="x"),
        changed(bm25, "00000000000e", spec="x" * 100_000, run_file="x", created="9999-12-31T23:59:59-23:59"),
        changed(bm25, "00000000000f", spec="=cmd|' /C calc'!A0", run_file="x"),
    ]


# Together -----------------------------------------------------------------------------------------------------------


def test_the_same_results_in_any_order_give_the_same_bytes(hostile: list[StoredResult]) -> None:
    first = written(hostile)
    assert written(hostile[::-1]) == first
    assert list(written(hostile[::-1])) == list(first)


def test_no_results_give_files_without_any() -> None:
    result = written([])
    assert set(result) == {"results.csv.gz", "results.json", "methods.bib"}
    assert len(result["results.csv.gz"].splitlines()) == 1


def test_paths_are_told_and_cannot_be_bent(results: list[StoredResult], hostile: list[StoredResult]) -> None:
    outcome = written(hostile)
    for result in results:
        assert table_path(result) in outcome
    assert table_path(hostile[5]) not in outcome  # of another protocol: exported, and not ranked
    assert len({unique_slug(text) for text in ("A", "a", "a ", "a/", "../a", "")}) == 6


# Each form ----------------------------------------------------------------------------------------------------------


def test_csv_has_a_line_for_each_result_and_metric_and_its_numbers(results: list[StoredResult]) -> None:
    frame = pd.read_csv(io.StringIO(written(results)["results.csv.gz"]))
    assert len(frame) == sum(len(result.metrics.metrics) for result in results)
    for result in results:
        rows = frame[frame.result_id == result.manifest.result_id].set_index("metric")
        for metric, value in result.metrics.metrics.items():
            assert rows.loc[metric, "mean"] == value.mean
            assert rows.loc[metric, "n"] == value.n
        assert set(rows["method"]) == {result.manifest.method.spec}
    assert set(frame[frame.oracle]["method"]) == {"oracle"}


def test_csv_cells_stay_in_their_line_and_are_no_formulas(hostile: list[StoredResult]) -> None:
    text = written(hostile)["results.csv.gz"]
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(text.splitlines()) == len(rows)
    assert not any(cell[:1] in {"=", "+", "-", "@"} for row in rows for cell in row if not _number(cell))
    assert "\x1b" not in text
    assert "\u202e" not in text


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_json_follows_its_schema_and_has_everything(hostile: list[StoredResult]) -> None:
    results_json = written(hostile)["results.json"]
    raw = json.loads(results_json, parse_constant=lambda text: pytest.fail(text))
    schema().validate(raw)
    assert "<" not in results_json
    assert len(raw["results"]) == len(hostile)
    by_id = {item["result_id"]: item for item in raw["results"]}
    for result in hostile:
        item = by_id[result.manifest.result_id]
        assert item["metrics"] == json.loads(result.metrics.model_dump_json())
        assert item["manifest"] == json.loads(result.manifest.model_dump_json())
    assert by_id["00000000000a"]["page"] == "r/00000000000a.html"
    assert by_id["00000000000c"]["marks"] == ["synthetic queries", "protocol 0.1"]
    assert by_id["00000000000d"]["marks"] == ["synthetic queries", "older version"]
    boards = {board["id"]: board for board in raw["boards"]}
    assert {item["board"] for item in raw["results"]} == set(boards)
    assert not boards[by_id["00000000000c"]["board"]]["current"]
    assert {board["metric"] for board in boards.values()} == {"recall@5"}
    ranked = boards[by_id[hostile[0].manifest.result_id]["board"]]["results"]
    assert "00000000000d" not in ranked
    assert ranked[-1] == hostile[2].manifest.result_id  # the oracle
    assert {item["name"] for item in raw["metrics"]} == set().union(*(item.metrics.metrics for item in hostile))


def test_latex_has_the_best_bold_and_the_oracle_below_a_rule(results: list[StoredResult]) -> None:
    text = written(results)[table_path(results[0])]
    bm25, _, oracle = results
    assert text.index("bm25") < text.index("random$^{1}$ &") < text.index("oracle")
    best = f"{bm25.metrics.metrics['recall@5'].mean:.3f}"
    assert rf"bm25$^{{1}}$ & \textbf{{{best}}}" in text
    assert f"{oracle.metrics.metrics['recall@5'].mean:.3f}" in text
    assert r"\textbf{1.000}" not in text
    assert text.count(r"\midrule") == 2
    assert r"oracle$^{2,1}$" in text
    assert "$^{1}$ synthetic queries. $^{2}$ oracle." in text
    assert text.count(" & ") == 4 * (text.split("tabular}{")[1].index("}") - 1)


def test_latex_runs_nothing_of_a_name(hostile: list[StoredResult]) -> None:
    text = written(hostile)[table_path(hostile[0])]
    assert r"\input{" not in text
    assert r"\textbackslash{}input\{" in text
    lines = [line for line in text.splitlines() if " & " in line]
    columns = {len(re.findall(r"(?<!\\)&", line)) for line in lines}
    assert len(columns) == 1
    assert all(line.endswith(r" \\") for line in lines)


@given(st.text(max_size=80))
def test_escaped_latex_has_no_active_sign_but_our_commands(text: str) -> None:
    commands = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textasciigrave)\{\}"
    left = re.sub(rf"{commands}|\\symbol\{{34\}}|\\[&%$#_{{}}]|-\{{\}}|'\{{\}}", "", latex_text(text))
    assert not set(left) & set('\\&%$#_{}~^<>|`"')
    assert "--" not in latex_text(text)


def test_bibtex_has_the_papers_of_datasets_and_methods_once(results: list[StoredResult]) -> None:
    more = [
        changed(results[0], "00000000000a", spec="tgr", full_spec="tgr(base=dense, graph=rules)", dataset="apibank"),
        changed(results[0], "00000000000b", spec="ptr", full_spec="ptr(retriever=bm25)", dataset="rectools"),
        changed(results[0], "00000000000c", spec="rrf", full_spec="rrf(methods=[tgr, toolrerank(base=bm25)])"),
        changed(results[0], "00000000000d", dataset="apibank(query_view=first)"),
        changed(results[0], "00000000000e", spec="ptr", full_spec="ptr", run_file="only a name"),
    ]
    text = written(more)["methods.bib"]
    keys = re.findall(r"@\w+\{([^,]+),", text)
    assert keys == sorted(set(keys))
    assert text.count("Tool Graph Retriever") == 1
    assert text.count("ToolRerank") == 1
    assert text.count("Precision-Driven") == 1
    assert sum("li-etal-2023-api" in key for key in keys) == 1
    for entry in text.split("\n\n"):
        assert entry.count("{") == entry.count("}")


# Names --------------------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(text=st.text(max_size=60), mark=st.text(max_size=30))
def test_any_name_survives_every_form(results: list[StoredResult], text: str, mark: str) -> None:
    odd = changed(
        results[0],
        "00000000000a",
        spec=text,
        title=text,
        dataset=text,
        run_file="x",
        marks=[{"kind": "method", "text": mark}],
    )
    result = written([results[1], odd])
    schema().validate(json.loads(result["results.json"]))
    rows = list(csv.reader(io.StringIO(result["results.csv.gz"])))
    assert {len(row) for row in rows} == {len(rows[0])}


def test_a_method_is_cited_by_its_own_papers() -> None:
    result = method_bib("tgr")
    assert "Tool Graph Retriever" in result
    assert result.count("@misc{") == 1
    # BM25 names no paper, and a name that nobody has registered is not imported.
    assert not method_bib("bm25")
    assert not method_bib("antigravity:Method")

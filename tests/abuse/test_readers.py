"""Every reader of files: damaged, mutated and forged files are read, or refused with a sentence.

Each example is a valid file with a few changes, in its structure or in its bytes: noise alone is refused at the first
byte and shows nothing. Any exception but `BenchError` fails the test. `benchmarks/abuse` does the same with commands,
thousands of times.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import trafficlogs as logs

from bench.__main__ import run
from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.base.text import terminal_text
from bench.data.beir import export_beir, import_beir, read_about
from bench.data.card import cards_from, read_cards
from bench.data.dataset import Dataset
from bench.data.edges import read_edges
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import Tables, Tool, render_tool
from bench.data.template import read_template
from bench.data.tool_names import NameRecord
from bench.evaluation.experiment import read_experiment
from bench.evaluation.run_files import parse_run
from bench.gating.baseline import read_baseline
from bench.gating.policy import read_policy
from bench.importing.queries import read_queries
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.lab.reproduce.page import read_reproduction
from bench.lab.reproduce.parts import cell_row, claim_state, printed_state
from bench.leaderboard.boards.board import make_board, read_results
from bench.leaderboard.boards.rankingset import DECLARED, read_ranking_set
from bench.models.llm.journal import Journal, JournalLine, JournalMessage, JournalRequest
from bench.models.trainingcard import read_card
from bench.registry import build_method, load_dataset
from bench.remote.servers import servers_in
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, METRICS, PER_QUERY, REPEATS, RUN
from bench.traces.traces import read_traffic

ROOT = Path(__file__).resolve().parents[2]
#: Of each reader; those that run a whole command take fewer, and those that run twelve the fewest.
EXAMPLES, FEW, FEWEST = 60, 25, 15
Draw = Callable[[st.SearchStrategy[Any]], Any]

bounded = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(bounded, max_examples=FEW)
fewest = settings(bounded, max_examples=FEWEST)

# Changes ------------------------------------------------------------------------------------------------------------

#: Values that a file may have in the place of any other.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**63, 10**30, 0.5, -0.0, 1e308, "", " ", "a", "a/b", "../x", "0", "\x00", "\x1b[31m",
    "\u202e", "\ud800", "{}", "a|b", "x" * 5000, "\t", "\n", [], {}, [[]], [None], {"": None}, ["a", "a"], {"a": {}},
)  # fmt: skip
TOKENS = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\x1b[31m", b"\r", b"\n", b"\t", b"\\ud800", b"[" * 3000, b'{"a":' * 1500, b"}",
    b"9" * 5000, b"1e999", b"NaN", b"-0", b"null", b'"', b"a." * 50, b"../", b"{{ 1 }}", b"(a=" * 60, b"[]", b";",
)  # fmt: skip


@st.composite
def changed(draw: Draw, valid: Any) -> Any:
    """JSON data after one to three changes: values put in, swapped, left out, given twice, keys renamed."""
    whole = [copy.deepcopy(valid)]
    for _ in range(draw(st.integers(1, 3))):
        places: list[tuple[Any, Any]] = []
        pending: list[Any] = [whole]
        while pending:
            node = pending.pop()
            items = list(node.items() if isinstance(node, dict) else enumerate(node))
            places += [(node, key) for key, _ in items]
            pending += [item for _, item in items if isinstance(item, dict | list)]
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        kind = draw(st.integers(0, 5))
        if kind <= 1:
            holder[key] = copy.deepcopy(VALUES[draw(st.integers(0, len(VALUES) - 1))])
        elif kind == 2:
            other, name = places[draw(st.integers(0, len(places) - 1))]
            holder[key] = copy.deepcopy(other[name])
        elif holder is whole:
            continue
        elif kind == 3:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[draw(st.sampled_from(("", "a", "$ref", "\ud800", "id")))] = holder.pop(key)
    return whole[0]


@st.composite
def damaged(draw: Draw, valid: bytes) -> bytes:
    """Bytes after one to three changes: flipped, cut, repeated, hostile tokens put in."""
    data = valid
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((1, 2, 8, 64, 512)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data = data[:at] + bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in data[at : at + 1]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[:at] + data[at : at + length] * draw(st.sampled_from((2, 20))) + data[at + length :]
        elif kind == 3:
            data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]
        else:
            data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at + length :]
    return data


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def as_lines(value: Any) -> bytes:
    rows = value if isinstance(value, list) else [value]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(value: Any) -> bytes:
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    head = list(rows[0]) if rows else ["query"]
    quoted = [[f'"{str(row.get(name, "")).replace(chr(34), chr(34) * 2)}"' for name in head] for row in rows]
    return "\n".join([",".join(head), *map(",".join, quoted)]).encode("utf-8", "surrogatepass")


def as_table(value: Any) -> bytes:
    """Lines of cells between tabs."""
    rows = [row if isinstance(row, list) else [row] for row in (value if isinstance(value, list) else [value])]
    return "\n".join("\t".join(map(str, row)) for row in rows).encode("utf-8", "surrogatepass")


def as_toml(value: Any) -> bytes:
    items = value.items() if isinstance(value, dict) else [("a", value)]
    return "".join(f"{json.dumps(str(key))} = {_toml(item)}\n" for key, item in items).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps("" if value is None else value)


def files(valid: Any, written: Callable[[Any], bytes]) -> st.SearchStrategy[bytes]:
    """A file with changes in its structure, or in its bytes."""
    return changed(valid).map(written) | damaged(written(valid))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the files of all examples, each of which overwrites those of the one before."""
    return tmp_path_factory.mktemp("readers")


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What bench refuses, it refuses with a sentence that a terminal can show."""
    sentence = ""
    try:
        yield
    except BenchError as error:
        sentence = str(error)
    terminal_text(sentence).encode()


# Catalogues, queries, datasets --------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where."}, "days": {"type": ["integer", "null"]}},
    "required": ["city"],
    "$defs": {"B": {"enum": ["a", 1]}},
}
MCP = {"tools": [
    {"name": "find", "title": "Find", "description": "Finds.", "inputSchema": SCHEMA, "annotations": {"r": True}},
    {"name": "send", "description": "Sends.", "inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}},
]}  # fmt: skip
FUNCTIONS = [
    {"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": SCHEMA}},
    {"name": "send", "description": "Sends.", "input_schema": SCHEMA},
    {"functionDeclarations": [{"name": "look", "description": "Looks.", "parameters": SCHEMA}]},
]
OPENAPI = {
    "openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://a.example"}],
    "paths": {"/a/{b}": {
        "parameters": [{"$ref": "#/components/parameters/P"}],
        "get": {"operationId": "a", "summary": "A.", "tags": ["x"], "deprecated": True, "parameters": [
            {"name": "b", "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/B"}}],
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/B"}}}}}},
        "post": {"requestBody": {"required": True, "content": {"application/json": {"schema": SCHEMA}}}}}},
    "components": {"schemas": {"B": {"type": "object", "properties": {"c": {"$ref": "#/components/schemas/B"}}}},
                   "parameters": {"P": {"name": "p", "in": "query", "schema": {"type": "string"}}}},
}  # fmt: skip
QUERIES = [
    {"query": "find it", "tools": ["find"], "id": "a", "split": "train", "tags": {"kind": "easy"}, "group": "g"},
    {"query": "send or find", "tools": ["find|send"], "searches": ["post"], "origin": "traces"},
    {"query": "none", "tools": [], "tags": ["hard"], "context": ["before", {"role": "user", "content": "x"}]},
    {"query": "both", "tools": {"find": 2, "send": 1}},
]  # fmt: skip
CELLS = [
    {"query": "find it", "tools": "find; send", "tags": "a; b"},
    {"query": "two", "tools": "send|find", "tags": ""},
]
YAML = b"""openapi: 3.0.0
info: {title: t, version: "1"}
x: &a [1, 2.5, ~, true, {k: *b}]
y: &b
  - *a
paths:
  /a:
    get: {operationId: a, summary: 'A.', responses: {200: {description: ok}}}
"""


def kept(tools: list[Tool], queries: Any = ()) -> None:
    """What is accepted can be kept, read back, shown and exported."""
    fields = {"id": "mine", "title": "t", "summary": "s", "licence": "l", "redistribution": False, "template": "full"}
    dataset = Dataset.build("mine", cards_from(fields, "mine")[0], Tables(tools, list(queries)))
    for tool in dataset.tools:
        tool.text("full")
        tool.schema()


@pytest.mark.parametrize("valid", [MCP, FUNCTIONS, OPENAPI], ids=["mcp", "functions", "openapi"])
def test_catalogues(valid: Any, place: Path) -> None:
    path = place / "tools.json"

    @bounded
    @given(files(valid, as_json))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with refused():
            kept(list(read_catalogue([Source(path)]).tools))

    check()


@bounded
@given(damaged(YAML) | damaged(YAML.replace(b"{k: *b}", b"3").replace(b"&b\n  - *a", b"[*a]")))
def test_yaml(place: Path, data: bytes) -> None:
    path = place / "tools.yaml"
    path.write_bytes(data)
    with refused():
        kept(list(read_catalogue([Source(path)]).tools))


@pytest.mark.parametrize(
    ("name", "valid", "written"),
    [("q.jsonl", QUERIES, as_lines), ("q.json", QUERIES, as_json), ("q.csv", CELLS, as_csv)],
    ids=["lines", "json", "csv"],
)
def test_queries(name: str, valid: Any, written: Callable[[Any], bytes], place: Path) -> None:
    path = place / "tools.json"
    path.write_bytes(as_json(MCP))
    tools = list(read_catalogue([Source(path)]).tools)

    @bounded
    @given(files(valid, written), st.booleans())
    def check(data: bytes, drop: bool) -> None:
        (place / name).write_bytes(data)
        with refused():
            kept(tools, read_queries(place / name, tools, [] if drop else None))

    check()


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`starter` in BEIR form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        dataset = load_dataset("starter")
    folder = tmp_path_factory.mktemp("beir")
    export_beir(dataset, folder, "full")
    return folder


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "edges.tsv", "about.json"])
def test_beir(name: str, beir: Path, place: Path) -> None:
    folder = place / "beir"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(beir, folder)
    data = (beir / name).read_bytes()
    if name.endswith(".tsv"):
        result = files([line.split("\t") for line in data.decode().splitlines()], as_table)
    elif name.endswith(".jsonl"):
        result = files([json.loads(line) for line in data.splitlines()], as_lines)
    else:
        result = files(json.loads(data), as_json)

    @few
    @given(result, st.booleans())
    def check(data: bytes, drop: bool) -> None:
        (folder / name).write_bytes(data)
        with refused():
            rows = import_beir(folder, drop_unknown_gold=drop)
            read_about(folder)
            kept(list(rows.tools), rows.queries)

    check()
    shutil.rmtree(folder)


EDGES = [["dependent", "prerequisite", "reason", "note"], ["a", "b", "result", ""], ["b", "c", "verification", "n"]]


@bounded
@given(files(EDGES, as_table))
def test_edges(place: Path, data: bytes) -> None:
    path = place / "edges.tsv"
    path.write_bytes(data)
    with refused():
        read_edges(path)


CARD = tomllib.loads((ROOT / "datasets" / "github_mcp" / "card.toml").read_text("utf-8"))
CARD["known_issues"] = CARD["known_issues"][:1]
VARIANTS = {**CARD, "variants": {"a": {"title": "A"}, "b": {"aliases": ["c"], "unit": {"by": [], "reason": "none"}}}}
EXPERIMENT = {
    "methods": ["bm25(k1=1.5)", "tgr(base=rrf(methods=[bm25, tfidf]))"], "datasets": ["starter"], "split": "test",
    "depth": 100, "limit": 50, "template": "{{ name }}", "cut": "size", "cut_at": 3.0, "repeats": 2, "metrics": [],
}  # fmt: skip
POLICY = tomllib.loads((ROOT / "baselines" / "gate.toml").read_text("utf-8"))
POLICY |= {
    "rule": [*POLICY.get("rule", []), {"metric": "pass@5", "slice": {"name": "gold", "value": "1"}, "margin": 0.1}]
}
RANKING_SET = tomllib.loads(DECLARED.read_text("utf-8"))


def read_plans(path: Path) -> None:
    for plan in read_experiment(path).plans():
        str(plan.method)


@pytest.mark.parametrize(
    ("valid", "read"),
    [(CARD, read_cards), (VARIANTS, read_cards), (EXPERIMENT, read_plans), (POLICY, read_policy),
     (RANKING_SET, read_ranking_set)],
    ids=["card", "variants", "experiment", "policy", "ranking set"],
)  # fmt: skip
def test_toml(valid: Any, read: Callable[[Path], object], place: Path) -> None:
    path = place / "x.toml"
    path.write_bytes(as_toml(valid))
    read(path)

    @bounded
    @given(files(valid, as_toml))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with refused():
            read(path)

    check()


@pytest.mark.parametrize("name", ["dataset.json", "tools.parquet", "queries.parquet", "gold.parquet", "edges.parquet"])
def test_exported_tables(name: str, beir: Path, place: Path) -> None:
    folder = place / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    dataset = Dataset.build("starter", read_dataset_card(), import_beir(beir))
    write_dataset(dataset, folder)
    whole = (folder / name).read_bytes()
    manifest = json.loads((folder / "dataset.json").read_text())

    @few
    @given(TABLE_CHANGES if name.endswith(".parquet") else files(manifest, as_json))
    def check(changes: Any) -> None:
        data = changes if isinstance(changes, bytes) else tabled(whole, changes)
        (folder / name).write_bytes(data)
        if name in manifest["files"]:
            forged = {**manifest["files"], name: hashlib.sha256(data).hexdigest()}
            (folder / "dataset.json").write_bytes(as_json({**manifest, "files": forged}))
        with refused():
            result = read_dataset(folder)
            kept(list(result.tools), result.queries)

    check()


def read_dataset_card() -> Any:
    return read_cards(ROOT / "datasets" / "starter" / "card.toml")[0]


TOOL = Tool("a/b", "find", "Finds things.", parent="a", input_schema=json.dumps(SCHEMA))
JINJA = b"{{ name }}: {{ description }}{% for p in parameters %} {{ p.name }}{% endfor %}{{ schema.properties.city }}"


@bounded
# Jinja's parser raises `ValueError` for numbers that Python refuses; the command line turns it into a sentence, not
# `read_template`.
@given(damaged(JINJA).filter(lambda data: re.search(rb"[0-9_]{4301}", data) is None))
def test_templates(data: bytes) -> None:
    with refused():
        render_tool(read_template(data.decode("utf-8", "surrogateescape")), TOOL)


SPECS = (
    b'tgr(base=rrf(methods=[bm25, tfidf(lowercase=false)]), alpha=0.5, graph="a b.tsv")',
    b"hybrid(lexical=bm25(k1=1.2), weight=1e-3)",
    b"toolbench(part=g1, library_size=500, distractors=toolret)",
)


@bounded
@given(st.sampled_from(SPECS).flatmap(damaged))
def test_specs(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    with refused():
        spec = parse(text)
        assert parse(str(spec)) == spec
        build_method(text)


# Logs, journals, models ---------------------------------------------------------------------------------------------

LOGS = (
    logs.chat_log, logs.fine_tuning, logs.responses_log, logs.otel_log, logs.traceloop_log, logs.openinference_log,
    logs.span_events_log, logs.log_records, logs.langfuse_log, lambda: [logs.langfuse_trace()], logs.langsmith_log,
    logs.gateway_log,
)  # fmt: skip


@pytest.mark.parametrize("log", LOGS)
def test_logs_of_traffic(log: Callable[[], list[dict[str, Any]]], place: Path) -> None:
    path = place / "log.jsonl"

    @few
    @given(files(log(), as_lines))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with refused():
            read_traffic(path, search_tools=["find_tools"]).write(place / "queries.jsonl")

    check()


ASKED = JournalRequest(
    messages=[JournalMessage(role="user", content="find")], temperature=0.0, top_p=1.0, max_tokens=9, sample=0
)
LINE = JournalLine(kind="reply", key="k", model="m", endpoint="e", request=ASKED, text="yes", cost=0.5, made="now")


@bounded
@given(st.lists(changed(json.loads(LINE.model_dump_json(exclude={"check"}))), min_size=1, max_size=3), st.booleans(),
       damaged(b"\n"))  # fmt: skip
def test_journals(place: Path, lines: list[Any], sealed: bool, tail: bytes) -> None:
    written = b""
    for line in lines:
        body = json.dumps(line).encode()[:-1]
        check = hashlib.sha256(body).hexdigest()[:16] if sealed else "0" * 16
        written += body + b',"check":"' + check.encode() + b'"}\n'
    path = place / "journal.jsonl"
    path.write_bytes(written + tail)
    with refused():
        journal = Journal(path)
        journal.find("k")
        journal.endpoints("m")
        journal.append(LINE)


TRAINING = {
    "schema_name": "training", "schema_version": 2, "kind": "retriever", "base": "b", "base_revision": "r",
    "dataset": "starter", "content_hash": "c", "split": "train", "template": "full", "examples": 1, "queries": ["0"],
    "tools": ["1" * 16], "settings": {"epochs": 1}, "validation": "v", "measure": "m",
    "evaluations": [{"step": 1, "loss": 0.5, "value": 0.5}], "best_step": 1, "steps": 1, "seconds": 1.0, "resumed": 0,
    "command": "c", "created": "now", "packages": {}, "hardware": {}, "facts": {}, "before": ["starter"],
}  # fmt: skip


SERVERS = {"mcpServers": {
    "a": {"command": "node", "args": ["server.js"], "env": {"TOKEN": "secret-of-a-test"}},
    "b": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer secret-of-a-test"}, "type": "http"},
}}  # fmt: skip


@bounded
@given(files(SERVERS, as_json))
def test_configured_servers(place: Path, data: bytes) -> None:
    path = place / "servers.json"
    path.write_bytes(data)
    with refused():
        for server in servers_in(path, print):
            assert server.words
            assert server.fallback


@bounded
@given(files(TRAINING, as_json))
def test_training_cards(place: Path, data: bytes) -> None:
    (place / "training.json").write_bytes(data)
    with refused():
        read_card(place)


REPRODUCTION = json.loads((ROOT / "board" / "reproduction.json").read_text("utf-8"))
#: One of each kind of entry, so that changes meet all fields.
REPRODUCTION |= {key: value[:1] for key, value in REPRODUCTION.items() if isinstance(value, list)}


@few
@given(files(REPRODUCTION, as_json))
def test_reports_of_a_reproduction(place: Path, data: bytes) -> None:
    path = place / "reproduction.json"
    path.write_bytes(data)
    with refused():
        report = read_reproduction(path)
        for cell in report.cells:
            cell_row(cell, report.blocks[cell.block])
        for claim in report.claims:
            claim_state(claim)
            printed_state(claim)


# Results, run files, baselines --------------------------------------------------------------------------------------


CELLS_OF_TABLES: tuple[Any, ...] = (
    None, 0, -1, 2**31 - 1, 0.5, float("nan"), "", "a", "x" * 3000, [], ["a"], [None], True, b"a",
)  # fmt: skip
#: What is done, to which column (by its place) or at which byte, from which row on, and with which value.
TABLE_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("flip", "drop", "cut", "repeat", "copy", "turn", "fill", "put")),
        st.integers(0, 1 << 16),
        st.integers(0, 1 << 16),
        st.sampled_from(CELLS_OF_TABLES),
    ),
    min_size=1,
    max_size=2,
)


def tabled(valid: bytes, changes: list[tuple[str, int, int, Any]]) -> bytes:
    """A Parquet file with another column, type, value or order of rows, or with another byte."""
    data = valid
    for kind, at, start, value in changes:
        if kind == "flip":
            return data[: at % len(data)] + bytes([start % 256]) + data[at % len(data) + 1 :]
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        name, rows = table.column_names[at % table.num_columns], table.num_rows
        row = start % (rows + 1)
        if table.column_names.count(name) > 1:
            continue
        if kind == "drop" and table.num_columns > 1:
            table = table.drop_columns([name])
        elif kind == "cut":
            table = table.slice(row)
        elif kind == "repeat":
            table = pa.concat_tables([table, table.slice(0, row)])
        elif kind == "copy":
            table = table.append_column((name, "a", "", "slice:a", "ndcg@5", "unit")[start % 6], table[name])
        elif kind == "turn":
            table = table.take(pa.array(range(rows - 1, -1, -1), pa.int64()))
        elif kind in {"fill", "put"}:
            cells = table[name].to_pylist()
            column = pa.array([value] * rows)
            if kind == "put" and rows:
                # The first cell alone, where the type of the column can hold the value.
                with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                    column = pa.array([value, *cells[1:]], table.schema.field(name).type)
            table = table.set_column(at % table.num_columns, name, column)
        sink = io.BytesIO()
        pq.write_table(table, sink)
        data = sink.getvalue()
    return data


@dataclass(frozen=True)
class Stored:
    """Valid results: one of a single run, one with repeats; the baseline of the first; a folder for copies."""

    single: Path
    repeated: Path
    baseline: Path
    copies: Path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Results and a baseline of the embedded dataset, to be damaged in copies."""
    folder = tmp_path_factory.mktemp("stored")
    results = ("--results", str(folder / "results"))
    # Each example reads them by twelve commands, most of which take as long as there are rows.
    few_queries = ("-d", "starter", "--limit", "12", "-q")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(folder / "cache"))
        patch.setenv("BENCH_DEBUG", "1")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert run(["run", "-m", "bm25", *few_queries, *results]) == 0
            assert run(["run", "-m", "random", *few_queries, "--repeats", "2", *results]) == 0
            assert run(["bless", "bm25@starter", "--out", str(folder / "base.json"), *results]) == 0
    result = folder / "results" / "starter"
    (single,), (repeated,) = result.glob("bm25-*"), result.glob("random-*")
    return Stored(single, repeated, folder / "base.json", folder / "copies" / "starter")


def command(*arguments: object) -> None:
    """A command, whose errors are raised; what it prints is printed nowhere."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), refused():
        run([str(argument) for argument in arguments])


def put(folder: Path, whole: Path, name: str, data: bytes) -> None:
    """A copy of a result with another file, and digests that fit."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    (folder / name).write_bytes(data)
    raw = json.loads((folder / MANIFEST).read_bytes()) if name != MANIFEST else None
    if raw is not None:
        raw["files"][name] = hashlib.sha256(data).hexdigest()
    with contextlib.suppress(ValueError, RecursionError):
        manifest = Manifest.model_validate(json.loads(data) if raw is None else raw)
        (folder / MANIFEST).write_text(json.dumps(manifest.sealed().model_dump(mode="json"), indent=1))


@pytest.fixture
def debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands raise their errors, and read a dataset once."""
    monkeypatch.setenv("BENCH_DEBUG", "1")
    monkeypatch.setattr("bench.registry.datasets.read_dataset", cache(read_dataset))


def read_by_all(stored: Stored, name: str, change: Any) -> None:
    """Whatever reads a result reads a copy with a changed file."""
    whole = stored.repeated if name == REPEATS else stored.single
    copy_of = stored.copies / whole.name
    put(copy_of, whole, name, change if isinstance(change, bytes) else tabled((whole / name).read_bytes(), change))
    command("show", copy_of)
    command("show", copy_of, "--all")
    command("show", copy_of, "--format", "trec")
    command("show", copy_of, "--format", "jsonl")
    command("show", copy_of, "--by", "gold")
    command("compare", copy_of, whole)
    command("gate", copy_of, "--baseline", stored.baseline, "--policy", ROOT / "baselines" / "gate.toml")
    command("list", "results", "--results", stored.copies.parent)
    command("explain", copy_of, "q1")
    command("show", copy_of, "--by", "unit")
    command("rescore", copy_of)
    groups, _ = read_results(stored.copies.parent)
    for members in groups:
        make_board(members, stored.copies.parent, verify=True)
    shutil.rmtree(copy_of)


@pytest.mark.slow("abuse")
@pytest.mark.parametrize("name", [MANIFEST, METRICS, RUN, PER_QUERY, REPEATS])
def test_results(name: str, stored: Stored, debugging: None) -> None:
    whole = stored.repeated if name == REPEATS else stored.single
    valid = (whole / name).read_bytes()

    @fewest
    @given(TABLE_CHANGES if name.endswith(".parquet") else files(json.loads(valid), as_json))
    def check(change: Any) -> None:
        read_by_all(stored, name, change)

    check()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (MANIFEST, b"{"),
        (METRICS, b'{"schema_version": 1e999}'),
        (RUN, [("flip", 40, 7, None)]),
        (RUN, [("put", 1, 0, -1)]),
        (PER_QUERY, [("copy", 0, 3, None), ("put", 9, 0, float("nan"))]),
        (PER_QUERY, [("fill", 1, 0, b"a")]),
        (PER_QUERY, [("fill", 1, 0, [])]),
        (PER_QUERY, [("put", 1, 0, ["a"])]),
        (REPEATS, [("cut", 0, 5, None)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_changed_result(name: str, change: Any, stored: Stored, debugging: None) -> None:
    read_by_all(stored, name, change)


def test_a_site_leaves_out_a_result_with_a_column_twice(stored: Stored) -> None:
    copy_of = stored.copies / stored.single.name
    data = tabled((stored.single / PER_QUERY).read_bytes(), [("copy", 0, 0, None)])
    put(copy_of, stored.single, PER_QUERY, data)
    (members,), _ = read_results(stored.copies.parent)
    board, (rejected,) = make_board(members, stored.copies.parent, verify=True)
    assert board is None
    assert rejected.reason.endswith("has the column query_id twice.")
    shutil.rmtree(copy_of)


def test_token_counts_that_a_result_lacks_are_left_out(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    copy_of = stored.copies / stored.single.name
    raw = json.loads((stored.single / METRICS).read_bytes())
    put(copy_of, stored.single, METRICS, as_json({**raw, "tokens": {"top_5": 3.0}}))
    assert run(["show", str(copy_of)]) == 0
    assert "tokens of tool text: top 5 3\n" in capsys.readouterr().out
    shutil.rmtree(copy_of)


@pytest.mark.parametrize("form", ["trec", "jsonl"])
def test_run_files(form: str, stored: Stored, beir: Path) -> None:
    dataset = Dataset.build("starter", read_dataset_card(), import_beir(beir))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["show", str(stored.single), "--format", form]) == 0
    lines = out.getvalue().splitlines()[:60]
    if form == "trec":
        cells = [line.split(" ") for line in lines]
        result = changed(cells).map(as_table) | damaged("\n".join(lines).encode())
    else:
        result = files([json.loads(line) for line in lines], as_lines)
    rows = np.arange(len(dataset.queries), dtype=np.int64)

    @bounded
    @given(result)
    def check(data: bytes) -> None:
        with refused():
            parse_run(data, "x", dataset, rows, NameRecord(), [])

    check()


def test_baselines(stored: Stored, place: Path, debugging: None) -> None:
    path = place / "base.json"

    @few
    @given(files(json.loads(stored.baseline.read_bytes()), as_json), st.booleans())
    def check(data: bytes, forged: bool) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            raw = json.loads(data) if forged else None
            if isinstance(raw, dict):
                rest = {key: value for key, value in raw.items() if key != "sha256"}
                sealed = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
                data = as_json({**rest, "sha256": hashlib.sha256(sealed).hexdigest()})
        path.write_bytes(data)
        with refused():
            read_baseline(path)
        command("gate", stored.single, "--baseline", path, "--policy", ROOT / "baselines" / "gate.toml")

    check()


def test_archives(stored: Stored, place: Path, debugging: None) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        archive = place / "result.zip"
        assert run(["submit", "pack", str(stored.single), "--out", str(archive)]) == 0
    whole = archive.read_bytes()

    @few
    @given(damaged(whole))
    def check(data: bytes) -> None:
        archive.write_bytes(data)
        command("submit", "check", archive)

    check()

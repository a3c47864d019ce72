"""Where a small fault in bench's own code changes what a method ranks, it changes the hash of the method's code."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.interpreter import Interpreter

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("bm25", "tgr", "ptr", "dense", "colt(epochs=2)")
#: Faults that are tried, and the seed that they are drawn with.
MUTANTS, SEED = 8, 0
#: Prints what each method ranks and its hash; with the lines that ran, if a second argument asks for them.
PROGRAM = """
import hashlib, json, os, sys
lines = sys.argv[2:]
if lines:
    import coverage
    tracer = coverage.Coverage(data_file=None, source=[os.getcwd()], config_file=False)
import bench
from bench.base.config import config_context
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.interface import History, Library, Queries
from bench.registry import build_method, load_dataset
from bench.results.ids import method_hash
assert bench.__file__.startswith(os.getcwd()), bench.__file__
whole = load_dataset("starter")
kept = {tool.tool_id for tool in whole.tools[::3]}
queries = [query for query in whole.queries if query.gold and set(query.gold) <= kept]
edges = [edge for edge in whole.edges if {edge.dependent, edge.prerequisite} <= kept]
tools = [tool for tool in whole.tools if tool.tool_id in kept]
dataset = Dataset.build("small", whole.card, Tables(tools, queries, edges))
library = Library.of(dataset, dataset.card.template)
history = History.of(dataset, library, dataset.rows("test"))
found = {}
for spec in json.loads(sys.argv[1]):
    method = build_method(spec)
    said = found[spec] = {"hash": method_hash(method)}
    try:
        with config_context(cache=False):
            if lines:
                tracer.start()
            method.fit(history)
            method.index(library)
            ranking = method.rank(Queries.of(dataset, dataset.rows("test")[:24]), 20)
            if lines:
                tracer.stop()
        parts = [ranking.tools.tobytes(), b"" if ranking.scores is None else ranking.scores.tobytes()]
        said["ranking"] = hashlib.sha256(b"".join(parts)).hexdigest()
    except Exception as error:
        said["ranking"] = type(error).__name__
data = tracer.get_data() if lines else None
ran = {os.path.relpath(path): data.lines(path) for path in data.measured_files()} if data else {}
print(json.dumps({"found": found, "ran": ran}))
"""


@pytest.fixture
def outcome(copied: Path) -> Iterator[Any]:
    """What the methods of a copy of the checkout do; nothing where it does not run."""
    for name in ("starter", "metatool_single"):
        shutil.copytree(ROOT / "datasets" / name, copied / "datasets" / name)
    with closing(Interpreter("httpx", "jinja2", "numba", "pandas", "sentence_transformers", "torch")) as interpreter:

        def outcome(*lines: str) -> dict[str, Any]:
            words = (json.dumps(METHODS), *lines)
            done = interpreter(PROGRAM, *words, folder=copied, code=None, PYTHONDONTWRITEBYTECODE="1")
            found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
            return found

        yield outcome


@pytest.mark.slow("minutes")
def test_a_fault_that_changes_a_ranking_changes_the_hash(
    outcome: Any, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from mutation import mutants_of, planted

    first = outcome("lines")
    before = first["found"]
    assert outcome()["found"] == before, "rankings differ from run to run"
    mutants = [mutant for file, lines in sorted(first["ran"].items()) for mutant in mutants_of(ROOT / file, set(lines))]
    moved, missed = 0, list[tuple[str, str]]()
    for mutant in random.Random(SEED).sample(mutants, MUTANTS):
        path = copied / mutant.file
        original = path.read_bytes()
        path.write_bytes(planted(original, mutant))
        for spec, now in outcome().get("found", {}).items():
            if now["ranking"] != before[spec]["ranking"]:
                moved += 1
                missed += [(spec, str(mutant))] if now["hash"] == before[spec]["hash"] else []
        path.write_bytes(original)
    assert moved, "no fault changes a ranking: the test shows nothing"
    assert not missed

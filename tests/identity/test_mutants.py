"""Where a small fault in bench's own code changes what a method ranks, it changes the hash of the method's code."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.interpreter import Interpreter

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("bm25", "tgr", "ptr", "dense", "colt(epochs=2)")
#: Faults that are tried, and the seed that they are drawn with.
MUTANTS, SEED = 8, 0
#: Prints what each method ranks, its hash, and the lines that ran for it, if a second argument asks for them.
PROGRAM = """
import hashlib, json, os, sys
lines = sys.argv[2:]
if lines:
    import coverage
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
    tracer = coverage.Coverage(data_file=None, source=[os.getcwd()], config_file=False) if lines else None
    method = build_method(spec)
    said = found[spec] = {"hash": method_hash(method)}
    try:
        with config_context(cache=False):
            if tracer:
                tracer.start()
            method.fit(history)
            method.index(library)
            ranking = method.rank(Queries.of(dataset, dataset.rows("test")[:24]), 20)
            if tracer:
                tracer.stop()
        parts = [ranking.tools.tobytes(), b"" if ranking.scores is None else ranking.scores.tobytes()]
        said["ranking"] = hashlib.sha256(b"".join(parts)).hexdigest()
    except Exception as error:
        said["ranking"] = type(error).__name__
    if tracer:
        data = tracer.get_data()
        said["ran"] = {os.path.relpath(path): data.lines(path) for path in data.measured_files()}
print(json.dumps(found))
"""


@pytest.fixture
def outcome(copied: Path) -> Iterator[Any]:
    """What methods of a copy of the checkout do; nothing where it does not run."""
    for name in ("starter", "metatool_single"):
        shutil.copytree(ROOT / "datasets" / name, copied / "datasets" / name)
    with closing(Interpreter("httpx", "jinja2", "numba", "pandas", "sentence_transformers", "torch")) as interpreter:

        def outcome(methods: Sequence[str], *lines: str) -> dict[str, Any]:
            words = (json.dumps(methods), *lines)
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

    first = outcome(METHODS, "lines")
    ran = {spec: said.pop("ran") for spec, said in first.items()}
    assert outcome(METHODS) == first, "rankings differ from run to run"
    lines: dict[str, set[int]] = {}
    for by_file in ran.values():
        for file, numbers in by_file.items():
            lines.setdefault(file, set()).update(numbers)
    mutants = [mutant for file, numbers in sorted(lines.items()) for mutant in mutants_of(ROOT / file, numbers)]
    moved, missed = 0, list[tuple[str, str]]()
    for mutant in random.Random(SEED).sample(mutants, MUTANTS):
        path = copied / mutant.file
        original = path.read_bytes()
        path.write_bytes(planted(original, mutant))
        # A method that runs nothing of the file ranks as before; a line may run for the first of several alone.
        for spec, now in outcome([spec for spec in METHODS if mutant.file in ran[spec]]).items():
            if now["ranking"] != first[spec]["ranking"]:
                moved += 1
                missed += [(spec, str(mutant))] if now["hash"] == first[spec]["hash"] else []
        path.write_bytes(original)
    assert moved, "no fault changes a ranking: the test shows nothing"
    assert not missed

"""What changes the identity of methods: random faults in a copy of the checkout.

    python benchmarks/identity.py [--mutants 100] [--seed 0]

Mutants are small faults (`mutation.py`) in lines of ours that the methods run while they fit, index and rank. Each is
planted, all methods rank a small part of the starter dataset, and the hash of each method's code is taken: where a
ranking changes, or the method fails, its hash must change. What breaks this rule is printed. (Edits that must change no
hash are tried by `tests/identity/test_methods.py`, in every file at once.)
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from kit.interpreter import Interpreter  # noqa: E402
from mutation import Mutant, mutants_of, planted  # noqa: E402

METHODS = ("bm25", "tgr", "ptr", "dense", "colt(epochs=2)")
PROCESSES = 2

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


class Copy:
    """A copy of the checkout that may be edited, and a process that says what the methods in it do."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("bench", "methods", "datasets"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, place)
        self.interpreter = Interpreter("httpx", "jinja2", "numba", "pandas", "sentence_transformers", "torch")

    def outcome(self, *lines: str) -> dict[str, Any]:
        """What the methods of the copy as it is do; nothing if it does not run, or hangs."""
        variables = {"PYTHONDONTWRITEBYTECODE": "1", "BENCH_OFFLINE": "1", "BENCH_NO_UPDATE_CHECK": "1"}
        variables["BENCH_CACHE"] = str(self.place.parent / "cache")
        done = self.interpreter(PROGRAM, json.dumps(METHODS), *lines, folder=self.place, code=None, **variables)
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found


def try_mutants(copies: list[Copy], count: int, chance: random.Random) -> None:
    """Plant mutants in the copies, and print the table of outcomes."""
    first = copies[0].outcome("lines")
    before = first["found"]
    assert copies[0].outcome()["found"] == before, "rankings differ from run to run"
    drawn = [mutant for file, lines in sorted(first["ran"].items()) for mutant in mutants_of(ROOT / file, set(lines))]
    chance.shuffle(drawn)
    waiting = drawn[:count]
    print(f"{len(drawn)} possible mutants in lines that run; {len(waiting)} are tried.")
    outcomes: collections.Counter[str] = collections.Counter()

    def enter(mutant: Mutant, found: dict[str, dict[str, str]]) -> None:
        if not found:
            outcomes["nothing runs, or it hangs"] += 1
        for spec, now in found.items():
            moved, named = (now[what] != before[spec][what] for what in ("ranking", "hash"))
            outcomes[f"ranking {'changes' if moved else 'stays'}, identity {'changes' if named else 'stays'}"] += 1
            if moved and not named:
                print(f"MISSED: {spec}, {mutant.file}:{mutant.line}: {mutant.old} -> {mutant.new}", flush=True)

    def work(copy: Copy) -> None:
        while waiting:
            mutant = waiting.pop()
            path = copy.place / mutant.file
            original = path.read_bytes()
            path.write_bytes(planted(original, mutant))
            enter(mutant, copy.outcome().get("found", {}))
            path.write_bytes(original)

    with ThreadPoolExecutor(len(copies)) as pool:
        list(pool.map(work, copies))
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:5} {outcome}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        copies = [Copy(Path(scratch) / str(number) / "checkout") for number in range(PROCESSES)]
        try_mutants(copies, given.mutants, random.Random(given.seed))
        for copy in copies:
            copy.interpreter.close()


if __name__ == "__main__":
    main()

"""Mutation testing: small faults are planted in the code, and the tests that run the faulty line must notice.

    make cover                                                 # which test runs which line (once; minutes)
    python benchmarks/mutation.py run --mutants 300 --seed 0   # plant, test, report (resumable)
    python benchmarks/mutation.py run --as-in OUTCOMES         # the mutants of an earlier run, where they still fit
    python benchmarks/mutation.py show                         # the mutants that survived

A mutant is one change of one expression: a comparison turned or shifted, an operator swapped, a number moved by one, a
condition negated, the branches of a conditional expression exchanged. Mutants are drawn at random, evenly over the
rooms in ROOMS, from lines that some test runs. A copy of the checkout holds the faulty file, and the tests that run its
line are executed until one fails (the mutant is killed) or all pass (it survived). A mutant that hangs counts as
killed. Survivors are printed with their place and their change, for a person to judge: a mutant may be equivalent to
the code it replaces.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cover import tests_by_line

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutation"
#: Code that makes numbers, verdicts, identities and pages.
ROOMS = (
    *("bench/metrics", "bench/stats", "bench/comparison", "bench/gating", "bench/interface", "bench/identity"),
    *("bench/results", "bench/evaluation", "bench/diagnosis", "leaderboard"),
)
#: Real browsers, installations, clusters and full-size data or simulations: their time buys no other line.
LEFT_OUT = (
    *("test_browser", "test_accessibility", "test_two_clicks", "test_tasks", "test_simulation", "test_serve"),
    *("test_action", "test_own_results", "test_packaging", "test_light", "test_ray", "test_shards", "test_startup"),
)
#: So many processes run mutants.
PROCESSES = 2
#: A mutant is run against at most so many tests: those that run the fewest lines first, as they are the nearest.
MOST_TESTS = 25
TIMEOUT = 240.0
#: In place of a test: pytest failed without running one, for example because a mutant breaks an import.
NO_TEST = "(none)"


@dataclass(frozen=True)
class Mutant:
    """One change: columns are in bytes, as `ast` counts them."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    old: str
    new: str


_COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_METHODS = {"argmax": "argmin", "argmin": "argmax", "sum": "mean", "mean": "sum", "floor": "ceil", "ceil": "floor"}


def changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Every expression that can be changed, and what replaces it."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for held in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if held is not None
        for inner in ast.walk(held)
    }
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield node, f"({left} {_COMPARISONS[type(node.ops[0])]} {right})"
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            if not any(
                isinstance(side, ast.Constant | ast.JoinedStr | ast.List) for side in (node.left, node.right)
            ) or (
                any(
                    isinstance(side, ast.Constant) and isinstance(side.value, int | float)
                    for side in (node.left, node.right)
                )
            ):
                yield node, f"({ast.unparse(node.left)} {_OPERATORS[type(node.op)]} {ast.unparse(node.right)})"
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield node, "(" + word.join(f"({ast.unparse(value)})" for value in node.values) + ")"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.IfExp):
            yield node, f"({ast.unparse(node.orelse)} if {ast.unparse(node.test)} else {ast.unparse(node.body)})"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, repr(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node, repr(node.value + 1)
        elif isinstance(node, ast.Name) and node.id in _CALLS and isinstance(node.ctx, ast.Load):
            yield node, _CALLS[node.id]
        elif isinstance(node, ast.Attribute) and node.attr in {**_CALLS, **_METHODS}:
            yield node, f"({ast.unparse(node.value)}).{ {**_CALLS, **_METHODS}[node.attr] }"
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield node.test, f"(not ({ast.unparse(node.test)}))"


def mutants_of(path: Path, lines: set[int]) -> list[Mutant]:
    """The mutants of a file on these lines."""
    source = path.read_bytes()
    rows = source.split(b"\n")
    mutants = []
    for node, new in changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        if node.lineno in lines and node.lineno == node.end_lineno:
            old = rows[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if "__future__" not in old and old != new:
                place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
                mutants.append(Mutant(str(path.relative_to(ROOT)), *place, old, new))
    return mutants


def planted(source: bytes, mutant: Mutant) -> bytes:
    """A file with a mutant in it."""
    rows = source.split(b"\n")
    row = rows[mutant.line - 1]
    rows[mutant.line - 1] = row[: mutant.column] + mutant.new.encode() + row[mutant.end_column :]
    return b"\n".join(rows)


#: Imports what tests need of other packages, and nothing of bench, whose code is still to change; then forks a pytest
#: for each line that it reads, `[arguments, file for its output, seconds]`, and answers with its exit code, null if it
#: did not end in time.
SERVER = """
import json, os, signal, sys, time
import click, httpx, hypothesis, jinja2, numpy, pyarrow, pyarrow.parquet, pydantic, pytest, rich.console, scipy.stats
for line in sys.stdin:
    arguments, out, seconds = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = open(0, closefd=False)
        code = pytest.main(arguments)
        sys.stdout.flush()
        os._exit(code)
    end = time.monotonic() + seconds
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not done[0]:
        os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(done[1]) if done[0] else None), flush=True)
"""


class Checkout:
    """A copy of the checkout in which a file may be faulty, and a process that runs tests of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(ROOT, place, ignore=_not_sources, symlinks=True)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self._compiled), "PYTHONPATH": str(place)}
        environment.setdefault("BENCH_MIRROR", str(ROOT.parent / "shared" / "mirror"))
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=place,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def _compiled(self) -> Path:
        return self.place.parent / "compiled"

    def failing(self, tests: list[str], *options: str, seconds: float = TIMEOUT) -> list[str] | None:
        """The tests that fail; None if they take too long."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        arguments = ["-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        out = self.place.parent / "said"
        self._server.stdin.write(json.dumps([[*arguments, *options, *tests], str(out), seconds]) + "\n")
        self._server.stdin.flush()
        code = json.loads(self._server.stdout.readline())
        if not code:
            return None if code is None else []
        lines = [
            line.partition(" ")[2] for line in out.read_text().splitlines() if line.startswith(("FAILED ", "ERROR "))
        ]
        # Without its parameters, whose text may hold blanks.
        failed = [line.partition(" - ")[0].partition("[")[0] for line in lines]
        return failed or [NO_TEST]

    def killer(self, mutant: Mutant, tests: list[str]) -> str:
        """The test that fails on the mutant; `timeout` if it hangs, empty if it survives."""
        path = self.place / mutant.file
        original = path.read_bytes()
        self._replace(path, planted(original, mutant))
        try:
            failed = self.failing(tests, "-x")
        finally:
            self._replace(path, original)
        if failed == [NO_TEST] and self.failing(tests, "-x"):
            # The tests do not run without the mutant, either (renamed since the map was made, say): none has killed it.
            return ""
        return "timeout" if failed is None else failed[0] if failed else ""

    def _replace(self, path: Path, source: bytes) -> None:
        """Write a source file, and drop its compiled form: second and size alone tell it from an older one."""
        path.write_bytes(source)
        for compiled in (self._compiled / path.parent.relative_to("/")).glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


def drawn(count: int, seed: int, covered: dict[str, dict[int, set[str]]]) -> list[Mutant]:
    """Mutants, the rooms in turn, each room's at random."""
    rooms: dict[str, list[Mutant]] = collections.defaultdict(list)
    for file in sorted(covered):
        path = ROOT / file
        if covered[file] and path.suffix == ".py" and path.is_file():
            rooms[next(room for room in ROOMS if file.startswith(room))] += mutants_of(path, set(covered[file]))
    chance = random.Random(seed)
    for members in rooms.values():
        chance.shuffle(members)
    mutants: list[Mutant] = []
    while len(mutants) < count and any(rooms.values()):
        mutants += [rooms[room].pop() for room in ROOMS if rooms.get(room)]
    return mutants[:count]


def covering() -> dict[str, dict[int, set[str]]]:
    """File -> line -> the tests that run it, of those that mutants are tested with."""
    by_file: dict[str, dict[int, set[str]]] = {}
    for file, lines in tests_by_line().items():
        if file.startswith(ROOMS):
            by_line = {
                line: {test for test in tests if not any(name in test for name in LEFT_OUT)}
                for line, tests in lines.items()
            }
            by_file[file] = {line: tests for line, tests in by_line.items() if tests}
    return by_file


def fitting(items: list[dict[str, Any]]) -> list[Mutant]:
    """The mutants of an earlier report whose place still holds what they replace."""
    mutants = [Mutant(**item["mutant"]) for item in items]
    kept = []
    for mutant in mutants:
        path = ROOT / mutant.file
        rows = path.read_bytes().split(b"\n") if path.is_file() else []
        row = rows[mutant.line - 1] if mutant.line <= len(rows) else b""
        if row[mutant.column : mutant.end_column].decode() == mutant.old:
            kept.append(mutant)
    if len(kept) < len(mutants):
        print(f"{len(mutants) - len(kept)} of {len(mutants)} mutants no longer fit.")
    return kept


def run(mutants: list[Mutant], covered: dict[str, dict[int, set[str]]], out: Path) -> None:
    """Test mutants, and append each outcome to a file; those that are in it already are passed over.

    A test that fails without any mutant kills nothing: the tests that killed are run once more on the code as it is,
    and the outcomes of those that fail are dropped and printed.
    """
    breadth = collections.Counter(name for lines in covered.values() for tests in lines.values() for name in tests)
    seen = {json.dumps(item["mutant"]) for item in outcomes(out)}
    waiting = [mutant for mutant in mutants if json.dumps(asdict(mutant)) not in seen]
    writing = threading.Lock()
    out.parent.mkdir(parents=True, exist_ok=True)

    def work(copy: Checkout) -> None:
        if copy.failing(["tests/metrics"]):
            raise SystemExit(f"tests/metrics fails in {copy.place} without a mutant: no outcome would mean anything.")
        while True:
            with writing:
                if not waiting:
                    return
                mutant = waiting.pop(0)
            there = covered.get(mutant.file, {}).get(mutant.line, set())
            tests = sorted(there, key=lambda name: (breadth[name], name))[:MOST_TESTS]
            by = copy.killer(mutant, tests) if tests else ""
            item = {"killed": bool(by), "by": by, "tests": len(tests), "mutant": asdict(mutant)}
            with writing, out.open("a") as file:
                file.write(json.dumps(item) + "\n")
            print(
                "killed  " if by else "SURVIVED",
                f"{mutant.file}:{mutant.line}",
                mutant.old,
                "->",
                mutant.new,
                flush=True,
            )

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(PROCESSES) as pool:
        copies = [Checkout(Path(scratch) / str(number) / "checkout") for number in range(PROCESSES)]
        list(pool.map(work, copies))
        killers = sorted({item["by"] for item in outcomes(out)} - {"", "timeout", NO_TEST})
        unsound: set[str] = set()
        for start in range(0, len(killers), MOST_TESTS):
            part = killers[start : start + MOST_TESTS]
            failed = copies[0].failing(part, seconds=10 * TIMEOUT)
            # Tests that do not run, or not in time, have not been seen to pass.
            unsound |= set(part if failed is None or NO_TEST in failed else failed)
        for copy in copies:
            copy.close()
    if unsound:
        print("fail without a mutant; run again:", *sorted(unsound), sep="\n  ")
        kept = [item for item in outcomes(out) if item["by"] not in unsound]
        out.write_text("".join(json.dumps(item) + "\n" for item in kept))


def _not_sources(folder: str, names: list[str]) -> set[str]:
    """What a copy of the checkout does without; `bench/models` is not the folder of trained models."""
    made = {"build", "site", "models"} if Path(folder) == ROOT else set()
    return {name for name in names if name in made | {".git", ".venv", "__pycache__"} or name.endswith("_cache")}


def outcomes(out: Path) -> list[dict[str, Any]]:
    """The outcomes so far."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []


def show(out: Path) -> None:
    """The score of each room, and the survivors."""
    items = outcomes(out)
    rooms: dict[str, list[bool]] = collections.defaultdict(list)
    for item in items:
        rooms[next(room for room in ROOMS if item["mutant"]["file"].startswith(room))].append(item["killed"])
    for room, killed in rooms.items():
        print(f"{room:16} {sum(killed):4} of {len(killed):4} killed")
    print(f"{'all':16} {sum(item['killed'] for item in items):4} of {len(items):4} killed")
    for item in items:
        if not item["killed"]:
            mutant = item["mutant"]
            print(f"{mutant['file']}:{mutant['line']}  {mutant['old']}  ->  {mutant['new']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["run", "show"])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--as-in", type=Path, help="outcomes of an earlier run: test its mutants")
    parser.add_argument("--only", default="", help="mutants of files whose path holds this")
    parser.add_argument("--out", type=Path, default=WORK / "outcomes.jsonl")
    given = parser.parse_args()
    if given.action == "show":
        show(given.out)
        return
    covered = covering()
    mutants = fitting(outcomes(given.as_in)) if given.as_in else drawn(given.mutants, given.seed, covered)
    run([mutant for mutant in mutants if given.only in mutant.file], covered, given.out)


if __name__ == "__main__":
    main()

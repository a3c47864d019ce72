"""What changes the identity of methods: two tables of a hundred edits each, tried on a copy of the checkout.

    python benchmarks/identity.py [--mutants 100] [--edits 100] [--seed 0]

Mutants are small faults (`mutation.py`) in lines of ours that the methods run while they fit, index and rank. Each is
planted, all methods rank a small part of the starter dataset, and the hash of each method's code is taken: where a
ranking changes, or the method fails, its hash must change. Neutral edits are comments, docstrings, annotations, blank
lines, definitions in another order, functions that nothing uses, and a new metric, verb, template, method and dataset:
no hash may change. What breaks either rule is printed.
"""

from __future__ import annotations

import argparse
import ast
import collections
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mutation import mutants_of, planted

ROOT = Path(__file__).resolve().parent.parent
METHODS = ("bm25", "tgr", "ptr", "dense", "colt(epochs=2)")
PROCESSES = 2
SECONDS = 240.0

#: Loads what takes long and is none of bench; then, for each line that it reads, forks a process that imports bench
#: from the folder named there, and answers with what each method ranks and its hash; with the lines that ran, if asked.
SERVER = """
import json, os, signal, sys, time
import click, filelock, httpx, jinja2, numba, numpy, pandas, pyarrow.parquet, pydantic, scipy.sparse
import sentence_transformers, torch
torch.set_num_threads(1)

def answer(folder, methods, ranked, lines):
    sys.path.insert(0, folder)
    if lines:
        import coverage
        tracer = coverage.Coverage(data_file=None, source=[folder], config_file=False)
    import hashlib
    from bench.data.dataset import Dataset
    from bench.data.tables import Tables
    from bench.results.ids import method_hash
    from bench.interface import History, Library, Queries
    from bench.registry import build_method, load_dataset
    from bench.base.config import config_context
    import bench, time
    assert bench.__file__.startswith(folder), bench.__file__
    whole = load_dataset("starter")
    kept = {tool.tool_id for tool in whole.tools[::3]}
    queries = [query for query in whole.queries if query.gold and set(query.gold) <= kept]
    edges = [edge for edge in whole.edges if {edge.dependent, edge.prerequisite} <= kept]
    tools = [tool for tool in whole.tools if tool.tool_id in kept]
    dataset = Dataset.build("small", whole.card, Tables(tools, queries, edges))
    rows = dataset.rows("test")[:24]
    library = Library.of(dataset, dataset.card.template)
    history = History.of(dataset, library, dataset.rows("test"))
    found, ran = {}, {}
    for spec in methods:
        method = build_method(spec)
        said = {"hash": method_hash(method)}
        found[spec] = said
        if not ranked:
            continue
        try:
            with config_context(cache=False):
                if lines:
                    tracer.start()
                method.fit(history)
                method.index(library)
                ranking = method.rank(Queries.of(dataset, rows), 20)
                if lines:
                    tracer.stop()
            digest = hashlib.sha256(ranking.tools.tobytes())
            if ranking.scores is not None:
                digest.update(ranking.scores.tobytes())
            said["ranking"] = digest.hexdigest()
        except Exception as error:
            said["ranking"] = type(error).__name__
    if lines:
        data = tracer.get_data()
        ran = {path: data.lines(path) for path in data.measured_files()}
    return {"found": found, "ran": ran}

for line in sys.stdin:
    folder, methods, ranked, lines, out, seconds = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        try:
            said = answer(folder, methods, ranked, lines)
        except BaseException as error:
            said = {"failed": f"{type(error).__name__}: {error}"}
        with open(out, "w") as file:
            json.dump(said, file)
        os._exit(0)
    end = time.monotonic() + seconds
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not done[0]:
        os.waitpid(child, 0)
        with open(out, "w") as file:
            json.dump({"failed": "hangs"}, file)
    print(flush=True)
"""


class Copy:
    """A copy of the checkout that may be edited, and a process that says what the methods in it do."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("bench", "methods", "datasets"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, place)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "BENCH_OFFLINE": "1", "BENCH_NO_UPDATE_CHECK": "1"}
        environment["BENCH_CACHE"] = str(place.parent / "cache")
        environment.pop("PYTHONPATH", None)
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVER],
            cwd=place.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def asked(self, *, ranked: bool = True, lines: bool = False) -> dict[str, Any]:
        """What the server says of the copy as it is."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        out = self.place.parent / "said"
        self._server.stdin.write(json.dumps([str(self.place), METHODS, ranked, lines, str(out), SECONDS]) + "\n")
        self._server.stdin.flush()
        self._server.stdout.readline()
        said: dict[str, Any] = json.loads(out.read_text())
        return said

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


def mutants(copies: list[Copy], count: int, chance: random.Random) -> None:
    """The first table."""
    first = copies[0].asked(lines=True)
    before = first["found"]
    assert copies[0].asked()["found"] == before, "rankings differ from run to run"
    drawn = []
    for file, lines in sorted(first["ran"].items()):
        inside = Path(file).relative_to(copies[0].place)
        drawn += mutants_of(ROOT / inside, set(lines))
    chance.shuffle(drawn)
    waiting = drawn[:count]
    print(f"{len(drawn)} possible mutants in lines that run; {len(waiting)} are tried.")
    outcomes: collections.Counter[str] = collections.Counter()

    def work(copy: Copy) -> None:
        while waiting:
            mutant = waiting.pop()
            path = copy.place / mutant.file
            original = path.read_bytes()
            path.write_bytes(planted(original, mutant))
            said = copy.asked()
            path.write_bytes(original)
            if "failed" in said:
                outcomes["nothing runs, or it hangs"] += 1
                continue
            for spec, now in said["found"].items():
                moved = now["ranking"] != before[spec]["ranking"]
                named = now["hash"] != before[spec]["hash"]
                outcomes[f"ranking {'changes' if moved else 'stays'}, identity {'changes' if named else 'stays'}"] += 1
                if moved and not named:
                    where = f"{mutant.file}:{mutant.line}"
                    print(f"MISSED: {spec}, {where}: {mutant.old} -> {mutant.new}", flush=True)

    with ThreadPoolExecutor(len(copies)) as pool:
        list(pool.map(work, copies))
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:5} {outcome}")


# Neutral edits ----------------------------------------------------------------------------------------------------

Edit = Callable[[str, random.Random], str | None]


def commented(text: str, chance: random.Random) -> str | None:
    """A comment on a line of its own before a statement, and blank lines around it."""
    node = chance.choice([node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)])
    rows = text.split("\n")
    indent = rows[node.lineno - 1][: len(rows[node.lineno - 1]) - len(rows[node.lineno - 1].lstrip())]
    if rows[node.lineno - 1].lstrip().startswith(("elif", "@")) or node.col_offset != len(indent):
        return None
    rows[node.lineno - 1 : node.lineno - 1] = [f"{indent}# edited", ""]
    return "\n".join(rows)


def documented(text: str, chance: random.Random) -> str | None:
    """Another docstring."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, holders) and ast.get_docstring(node)]
    if not nodes:
        return None
    string = chance.choice(nodes).body[0]
    rows = text.split("\n")
    assert string.end_lineno is not None
    indent = " " * string.col_offset
    rows[string.lineno - 1 : string.end_lineno] = [f'{indent}"""Edited."""']
    return "\n".join(rows)


def exchanged(text: str, chance: random.Random) -> str | None:
    """Two functions next to each other, at the top or in a class, in the other order."""
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef)]
    pairs = [
        (one, two)
        for body in bodies
        for one, two in itertools.pairwise(body)
        if isinstance(one, ast.FunctionDef)
        and isinstance(two, ast.FunctionDef)
        and not one.decorator_list
        and not two.decorator_list
        and one.name != two.name
    ]
    if not pairs:
        return None
    one, two = chance.choice(pairs)
    rows = text.split("\n")
    assert one.end_lineno is not None
    assert two.end_lineno is not None
    first, between = rows[one.lineno - 1 : one.end_lineno], rows[one.end_lineno : two.lineno - 1]
    second = rows[two.lineno - 1 : two.end_lineno]
    rows[one.lineno - 1 : two.end_lineno] = [*second, *between, *first]
    return "\n".join(rows)


def enlarged(text: str, chance: random.Random) -> str | None:
    """A function and a constant that nothing uses."""
    return (
        text + f"\n\nUNUSED = {chance.randrange(1000)}\n\n\ndef unused(value: int) -> int:\n    return value + UNUSED\n"
    )


def annotated(text: str, chance: random.Random) -> str | None:
    """Another annotation of an argument of a function."""
    candidates = [
        argument.annotation
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and not node.decorator_list
        for argument in node.args.args
        if argument.annotation is not None and argument.annotation.lineno == argument.annotation.end_lineno
    ]
    if not candidates:
        return None
    chosen = chance.choice(candidates)
    rows = text.split("\n")
    row = rows[chosen.lineno - 1].encode()
    rows[chosen.lineno - 1] = (row[: chosen.col_offset] + b"object" + row[chosen.end_col_offset :]).decode()
    return "\n".join(rows)


EDITS: tuple[Edit, ...] = (commented, documented, exchanged, enlarged, annotated)

#: (file, text that is there, text in its place), or (file, None, text) for what is new or is added at the end.
GROWTH: dict[str, tuple[tuple[str, str | None, str], ...]] = {
    "a metric": (
        (
            "bench/metrics/measures.py",
            None,
            "\n\ndef first(gold: GoldRanks, k: Counts) -> Values:\n"
            "    return np.where(gold.ranks[:, 0] == 1, 1.0, 0.0)\n\n\n"
            'MEASURES += (Measure("first", "ranking", _K, "the first is gold", "none", "x", ranked=first),)\n',
        ),
    ),
    "a verb": (
        (
            "bench/cli/newverb.py",
            None,
            '"""A verb."""\n\nimport click\n\n\n@click.command()\ndef newverb() -> None:\n    pass\n',
        ),
    ),
    "a template": (
        (
            "bench/data/tables.py",
            '    "full": as_definition,\n',
            '    "full": as_definition,\n    "short": lambda tool: tool.name,\n',
        ),
        ("bench/data/tables.py", '"full", "toolbench"', '"full", "short", "toolbench"'),
    ),
    "a method": (
        (
            "methods/newest.py",
            None,
            '"""New."""\n\nfrom bench.methods.random import Random\n\n\nclass Newest(Random):\n    pass\n',
        ),
    ),
    "a dataset": (
        ("datasets/newest/__init__.py", None, '"""New."""\n'),
        ("datasets/newest/card.toml", None, 'id = "newest"\n'),
    ),
    "another word in an error": (("bench/search/topk.py", '"scored NaN"', '"gave no number"'),),
    "another word in a description": (("methods/bm25.py", "term-frequency saturation (k1)", "saturation"),),
    "another explanation": (("methods/dense.py", "how its text begins", "its first words"),),
    "a function in errors": (("bench/base/errors.py", None, "\n\ndef unused() -> None:\n    pass\n"),),
    "a function in text": (("bench/base/text.py", None, "\n\ndef unused() -> None:\n    pass\n"),),
    "a field of a measure": (("bench/metrics/measures.py", "import math\n", "import math\nimport json\n"),),
}


def changed_text(name: str) -> Iterator[tuple[str, str]]:
    """The files of one growth, as they are after it."""
    texts: dict[str, str] = {}
    for file, old, new in GROWTH[name]:
        path = ROOT / file
        text = texts.get(file, path.read_text("utf-8") if path.is_file() else "")
        assert old is None or old in text, (file, old)
        texts[file] = text + new if old is None else text.replace(old, new)
    yield from texts.items()


def neutral(copy: Copy, count: int, chance: random.Random) -> None:
    """The second table."""
    first = copy.asked(lines=True)
    hashes = {spec: said["hash"] for spec, said in first["found"].items()}
    files = [str(Path(file).relative_to(copy.place)) for file in first["ran"]]
    edits: list[tuple[str, dict[str, str]]] = [(name, dict(changed_text(name))) for name in GROWTH]
    while len(edits) < count:
        file, edit = chance.choice(files), chance.choice(EDITS)
        text = edit((ROOT / file).read_text("utf-8"), chance)
        if text is not None:
            edits.append((f"{edit.__name__} {file}", {file: text}))
    outcomes: collections.Counter[str] = collections.Counter()
    for name, texts in edits:
        before = {file: (copy.place / file).read_bytes() if (copy.place / file).is_file() else None for file in texts}
        for file, text in texts.items():
            (copy.place / file).parent.mkdir(parents=True, exist_ok=True)
            (copy.place / file).write_text(text, "utf-8")
        said = copy.asked(ranked=False)
        for file, content in before.items():
            if content is None:
                (copy.place / file).unlink()
            else:
                (copy.place / file).write_bytes(content)
        moved = [spec for spec, now in said.get("found", {}).items() if now["hash"] != hashes[spec]]
        outcomes["fails" if "failed" in said else "identity changes" if moved else "identity stays"] += 1
        if moved or "failed" in said:
            print(f"{name}: {said.get('failed', ', '.join(moved))}", flush=True)
    for outcome, times in sorted(outcomes.items()):
        print(f"{times:5} {outcome}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        copies = [Copy(Path(scratch) / str(number) / "checkout") for number in range(PROCESSES)]
        if given.edits:
            neutral(copies[0], given.edits, random.Random(given.seed))
        if given.mutants:
            mutants(copies, given.mutants, random.Random(given.seed))
        for copy in copies:
            copy.close()


if __name__ == "__main__":
    main()

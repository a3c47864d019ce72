"""How long a user waits for each verb, and what of bench it runs: `python benchmarks/innerloop.py [BENCH ...]`.

Each command is started as a process of its own, with warm files, and the fastest of some runs counts: what is slower is
the machine's other work. Times stand beside that of `python -c "import numpy, pyarrow"`, which nothing that reads
results can be faster than. Name the `bench` of another environment to hold two versions against each other; they take
turns. `--count` counts instead, by tracing: modules of bench that are imported and their lines; files of which a
function runs; functions, and lines in them, that run; and CPU time of an untraced run, as a ratio to the same import.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Name -> arguments; those of a run that is made afresh, and of files, are put in.
VERBS = {
    "bench --help": ["--help"],
    "run, kept": ["run", "-m", "bm25", "-d", "starter"],
    "run, afresh": ["run", "-m", "bm25", "-d", "starter", "--overwrite", "always"],
    "show": ["show", "bm25@starter"],
    "score": ["score", "RUN", "-d", "starter", "--name", "ours"],
    "compare": ["compare", "bm25@starter", "tfidf@starter"],
    "gate": ["gate", "bm25@starter", "--baseline", "BASELINE", "--policy", "POLICY"],
    "explain": ["explain", "bm25@starter", "QUERY"],
    "tools": ["tools", "bm25@starter"],
    "list results": ["list", "results"],
    "list methods": ["list", "methods"],
    "list datasets": ["list", "datasets"],
    "data info": ["data", "info", "starter"],
    "list metrics": ["list", "metrics"],
}
#: Verbs that take no folder of results.
_WITHOUT = {"bench --help", "list methods", "list datasets", "data info", "list metrics"}
#: Verbs that are counted.
_COUNTED = ("run, afresh", "run, kept", "score", "show", "compare", "gate", "explain")
POLICY = '[[rule]]\nmetric = "recall@5"\nmargin = 0.05\n'


def seconds(command: list[str]) -> float:
    """Wall time of a command.

    Raises:
        RuntimeError: it ends with another exit code than 0 or, of a gate, 1.
    """
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    taken = time.perf_counter() - begun
    if done.returncode > 1:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return taken


#: Runs a command under a tracer, and prints what of bench it ran as the last line.
COUNTER = """
import io, json, sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
import bench, bench.__main__
places = tuple(map(str, bench.__path__))
calls, lines = set(), set()

def ours(file):
    return file.startswith(places) and "site-packages" not in file.removeprefix(bench.__path__[0])

def step(frame, event, _):
    if event == "line":
        lines.add((frame.f_code.co_filename, frame.f_lineno))
    return step

def trace(frame, event, _):
    code = frame.f_code
    # A module's or class's own code runs when it is imported.
    if ours(code.co_filename) and code.co_flags & 1:
        calls.add(code)
        return step

sys.settrace(trace)
with redirect_stdout(io.StringIO()), suppress(SystemExit):
    bench.__main__.run(sys.argv[1:])
sys.settrace(None)
modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "bench"]
sources = [module.__file__ for module in modules if getattr(module, "__file__", None)]
size = sum(len(Path(file).read_text("utf-8").splitlines()) for file in sources)
print(json.dumps([len(sources), size, len({code.co_filename for code in calls}), len(calls), len(lines)]))
"""


def counts(command: list[str]) -> list[int]:
    """Modules imported, their lines, files entered, functions and lines run, of a command of a `bench`."""
    python = str(Path(command[0]).with_name("python"))
    done = subprocess.run([python, "-c", COUNTER, *command[1:]], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    numbers: list[int] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def cpu_seconds(command: list[str]) -> float:
    """CPU time of a command, on all cores together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_counts(versions: list[dict[str, list[str]]], runs: int) -> None:
    """A table of what each counted verb runs, in each version."""
    floor = min(cpu_seconds([sys.executable, "-c", "import numpy, pyarrow"]) for _ in range(runs))
    heads = "modules | their lines | files | functions | lines run | CPU ratio |"
    sys.stdout.write(f"| command |{f' {heads}' * len(versions)}\n|---|{'---|' * 6 * len(versions)}\n")
    for name in _COUNTED:
        cells = ""
        for version in versions:
            least = min(cpu_seconds(version[name]) for _ in range(runs))
            cells += "".join(f" {number:,} |" for number in counts(version[name])) + f" {least / floor:.1f} |"
        sys.stdout.write(f"| {name} |{cells}\n")
        sys.stdout.flush()


def prepare(bench: str, folder: Path) -> dict[str, list[str]]:
    """The commands of one version, with the results, baseline and policy that they need."""
    results = folder / "results"
    for method in ("bm25", "tfidf"):
        seconds([bench, "run", "-m", method, "-d", "starter", "--results", str(results)])
    baseline, policy = folder / "baseline.json", folder / "gate.toml"
    seconds([bench, "bless", "bm25@starter", "--results", str(results), "--out", str(baseline), "--by", "timing"])
    policy.write_text(POLICY, "utf-8")
    seconds([bench, "data", "export", "starter", "--out", str(folder / "data")])
    query = json.loads((folder / "data" / "queries.jsonl").read_text("utf-8").splitlines()[0])["_id"]
    run = folder / "run.trec"
    shown = [bench, "show", "bm25@starter", "--format", "trec", "--results", str(results)]
    run.write_text(subprocess.run(shown, capture_output=True, text=True, check=True).stdout, "utf-8")
    files = {"RUN": str(run), "BASELINE": str(baseline), "POLICY": str(policy), "QUERY": query}
    return {
        name: [
            bench,
            *(files.get(word, word) for word in words),
            *([] if name in _WITHOUT else ["--results", str(results)]),
        ]
        for name, words in VERBS.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", nargs="*", default=[str(Path(sys.executable).with_name("bench"))])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--count", action="store_true", help="count modules, functions and lines instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        versions = []
        for number, bench in enumerate(arguments.bench):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            versions.append(prepare(bench, folder))
        if arguments.count:
            print_counts(versions, arguments.runs)
            return
        floor = min(seconds([sys.executable, "-c", "import numpy, pyarrow"]) for _ in range(arguments.runs))
        sys.stdout.write(f"import numpy, pyarrow: {floor:.2f} s\n\n| command |{' seconds | ratio |' * len(versions)}\n")
        sys.stdout.write(f"|---|{'---|---|' * len(versions)}\n")
        for name in VERBS:
            best = [
                min(times)
                for times in zip(*([seconds(v[name]) for v in versions] for _ in range(arguments.runs)), strict=True)
            ]
            cells = "".join(f" {value:.2f} | {value / floor:.1f} |" for value in best)
            sys.stdout.write(f"| {name} |{cells}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""How long a user waits for each verb: `python benchmarks/innerloop.py [BENCH ...]`.

Each command is started as a process of its own, with warm files, and the fastest of some runs counts: what is slower is
the machine's other work. Times stand beside that of `python -c "import numpy, pyarrow"`, which nothing that reads
results can be faster than. Name the `bench` of another environment to hold two versions against each other; they take
turns.
"""

from __future__ import annotations

import argparse
import json
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
    files = {"BASELINE": str(baseline), "POLICY": str(policy), "QUERY": query}
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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        versions = []
        for number, bench in enumerate(arguments.bench):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            versions.append(prepare(bench, folder))
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

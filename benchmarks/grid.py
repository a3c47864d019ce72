"""A grid of cells in one process, side by side, and on a cluster of which a node is killed: the same bytes, and times.

    python benchmarks/grid.py OUT [--datasets NAME ...] [--methods NAME ...] [--jobs 2]

Runs the methods that need no training (those of `board/experiments/without-history.toml`) three times into folders
below OUT: one cell after the other, with `--jobs`, and on three Ray nodes on this machine, of which one is killed as
soon as a third of the cells is stored. Prints the times, and ends with 1 if a stored byte differs other than in a
manifest's timings. What methods encode is in the cache after the first run, so run it twice: the second is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from bench.evaluation.experiment import read_experiment

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENT = ROOT / "board" / "experiments" / "without-history.toml"
#: Small to medium libraries, all of them with their own tools.
DATASETS = ("starter", "apibank", "metatool", "rectools", "toolbench-i2-inst", "github-mcp", "restbench-spotify")
#: What tells how long a run took, and on what.
_TIMES = ("timings", "latency", "peak_memory_mib", "digest")


def stored(results: Path) -> dict[str, Any]:
    """Every file of the results by its place, manifests without what only tells times."""
    files: dict[str, Any] = {}
    for path in sorted(results.glob("*/*/*")):
        place = str(path.relative_to(results))
        if path.name != "manifest.json":
            files[place] = path.read_bytes()
            continue
        manifest = json.loads(path.read_text("utf-8"))
        for name in _TIMES:
            manifest.pop(name, None)
        manifest["environment"].pop("created")
        manifest["environment"]["hardware"].pop("jobs", None)
        # How many vectors came from the cache depends on what ran before.
        manifest["facts"] = {name: value for name, value in manifest["facts"].items() if "texts_" not in name}
        files[place] = manifest
    return files


def run(experiment: Path, results: Path, *options: str) -> float:
    """Seconds of one run."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "bench", "run", str(experiment), "--results", str(results), "--quiet", *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 5):
        raise SystemExit(done.stderr)
    return time.perf_counter() - started


def killed(cluster: Cluster, results: Path, cells: int) -> None:
    """Kill a node once a third of the cells is stored."""
    while len(list(results.glob("*/*/manifest.json"))) < cells // 3:
        time.sleep(0.2)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid three ways and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    methods = given.methods or list(dict.fromkeys(str(plan.method) for plan in read_experiment(EXPERIMENT).plans()))
    experiment = given.out / "grid.toml"
    experiment.write_text(f"methods = {json.dumps(methods)}\ndatasets = {json.dumps(list(given.datasets))}\n", "utf-8")
    cells = len(methods) * len(given.datasets)
    alone = run(experiment, given.out / "one")
    print(f"{cells} cells, one after the other: {alone:.0f} s", flush=True)
    beside = run(experiment, given.out / "jobs", "--jobs", str(given.jobs))
    print(f"--jobs {given.jobs}: {beside:.0f} s, {alone / beside:.2f}x", flush=True)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    store = 200 * 2**20
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": store},
    )
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=store)
    killer = threading.Thread(target=killed, args=(cluster, given.out / "ray", cells), daemon=True)
    killer.start()
    many = run(experiment, given.out / "ray", "--ray", cluster.address)
    nodes = 1 + len(cluster.worker_nodes)
    cluster.shutdown()
    print(f"three Ray nodes, {nodes} at the end: {many:.0f} s, {alone / many:.2f}x", flush=True)
    first = stored(given.out / "one")
    differing = 0
    for way in ("jobs", "ray"):
        other = stored(given.out / way)
        unequal = sorted(place for place in first.keys() | other.keys() if first.get(place) != other.get(place))
        print(f"{way}: {len(other)} files, {len(unequal)} differ {unequal[:5]}")
        differing += len(unequal)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())

"""How long the leaderboard takes on a large site, and what its pages weigh.

python benchmarks/site_build.py [FOLDER] [--methods 200] [--datasets 20] [--queries 20000]

Results are made up, in the form of real ones: every dataset's methods share a few tables of rankings and values, by
hard links, so that the disk holds them; each is read and checked as if it were its own.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.__main__ import NEW_OBJECTS
from bench.base.paths import sha256_of
from bench.interface import PROTOCOL_VERSION
from bench.metrics import DEFAULT_METRICS, parse_metric
from bench.results.manifest import (
    DatasetIdentity,
    Environment,
    Latency,
    Manifest,
    MethodIdentity,
    Metrics,
    MetricValue,
    ScoringCode,
)
from bench.results.store import MANIFEST, METRICS, PER_QUERY, PER_QUERY_SCHEMA, RUN, RUN_SCHEMA, to_json

VARIANTS = 16
TOOLS = 5000
NAMES = [name for name in DEFAULT_METRICS if parse_metric(name).measure.kind == "ranking"]


def tables(folder: Path, queries: int, seed: int) -> list[dict[str, float]]:
    """Rankings and values of a dataset's variants; the means of each."""
    random = np.random.default_rng(seed)
    ids = pa.array([f"q{i:06d}" for i in range(queries)])
    tools = np.array([f"provider_{i % 300}/tool_{i:05d}" for i in range(TOOLS)])
    gold = pa.array(random.integers(1, 4, queries), pa.int32())
    hard = random.random(queries)
    # Two queries of three have a unit of independence of their own.
    units = pa.array([f"u{i:06d}" for i in random.integers(0, queries, queries).tolist()])
    means = []
    for variant in range(VARIANTS):
        skill = 0.25 + 0.5 * variant / VARIANTS
        values = {}
        for name in NAMES:
            level = np.clip(skill + 0.4 * (0.5 - hard) + random.normal(0, 0.3, queries), 0, 1)
            values[name] = np.round(level * 3) / 3
        empty = pa.array([None] * queries, pa.list_(pa.string()))
        columns = [
            ids,
            units,
            gold,
            pa.array(np.zeros(queries, bool)),
            pa.array(np.zeros(queries), pa.int32()),
            empty,
            empty,
        ]
        table = pa.table(dict(zip(PER_QUERY_SCHEMA.names, columns, strict=True)))
        for name, column in values.items():
            table = table.append_column(name, pa.array(column))
        pq.write_table(table, folder / f"{variant}-{PER_QUERY}", compression="zstd")
        top = np.argsort(random.random((queries, 64)), axis=1)[:, :10] + random.integers(0, TOOLS - 64, (queries, 1))
        run = pa.table(
            [
                pa.array(np.repeat(np.asarray(ids.to_pylist()), 10)),
                pa.array(np.tile(np.arange(1, 11), queries), pa.int32()),
                pa.array(tools[top.ravel()]),
                pa.array(np.tile(np.linspace(1, 0.1, 10), queries)),
            ],
            schema=RUN_SCHEMA,
        )
        pq.write_table(run, folder / f"{variant}-{RUN}", compression="zstd")
        means.append({name: float(column.mean()) for name, column in values.items()})
    return means


def result(folder: Path, parts: Path, means: dict[str, float], method: int, data: int, queries: int) -> None:
    """A result folder."""
    folder.mkdir(parents=True)
    name = f"{data:04x}{method:08x}"
    variant = method % VARIANTS
    for table in (PER_QUERY, RUN):
        os.link(parts / f"{variant}-{table}", folder / table)
    values = {
        key: MetricValue(mean=mean, low=mean - 0.01, high=mean + 0.01, n=queries, tie_low=mean, tie_high=mean)
        for key, mean in means.items()
    }
    metrics = Metrics(
        result_id=name, n=queries, n_no_gold=0, n_failed=0, n_tied=0, metrics=values, tokens={"top_5": 300.0 + method}
    )
    (folder / METRICS).write_text(to_json(metrics))
    spec = f"method-{method // 2:03d}" + ("(weight=2)" if method % 2 else "")
    manifest = Manifest(
        result_id=name,
        protocol=PROTOCOL_VERSION,
        dataset=DatasetIdentity(
            spec=f"made-up-{data:02d}",
            title=f"Made up {data}",
            content_hash=f"{data:064x}",
            split="test",
            limit=None,
            queries=queries,
            judged=queries,
            no_gold=0,
            tools=TOOLS,
            history=0,
            template="description",
            unit="gold",
        ),
        method=MethodIdentity(
            spec=spec, full_spec=spec, hash="0" * 64, revisions={}, code="0" * 64, oracle=False, needs_llm=False
        ),
        depth=100,
        seeds={"bootstrap": 0},
        environment=Environment(
            command=f"bench run --method '{spec}' --dataset made-up-{data:02d}",
            created="2026-01-01T00:00:00+00:00",
            packages={"bench": "0.1.0"},
            commit=None,
            dirty=None,
            hardware={},
        ),
        timings={"rank": 1.0},
        latency=Latency(p50=0.001 * (1 + method), p95=0.01, queries=50, cached=False),
        peak_memory_mib=100.0,
        facts={},
        warnings=[],
        scoring=ScoringCode(
            measures={name.partition("@")[0]: "0" * 64 for name in metrics.metrics}, intervals="0", tokens="0"
        ),
        files={key: sha256_of(folder / key) for key in (RUN, PER_QUERY, METRICS)},
    )
    (folder / MANIFEST).write_text(to_json(manifest))


def make(results: Path, parts: Path, methods: int, datasets: int, queries: int) -> None:
    for data in range(datasets):
        folder = parts / str(data)
        folder.mkdir(parents=True)
        means = tables(folder, queries, data)
        for method in range(methods):
            place = results / f"made-up-{data:02d}" / f"method-{method:03d}"
            result(place, folder, means[method % VARIANTS], method, data, queries)


def cpu_seconds() -> float:
    """Of this process and those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--methods", type=int, default=200)
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    site = importlib.import_module("bench.leaderboard.site")
    # As the command does.
    gc.set_threshold(NEW_OBJECTS)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bench-site-"))
    results, out = folder / "results", folder / "site"
    if not results.is_dir():
        started = time.perf_counter()
        make(results, folder / "parts", options.methods, options.datasets, options.queries)
        print(f"made up in {time.perf_counter() - started:.0f} s")
    shutil.rmtree(out, ignore_errors=True)
    for what in ("first build", "again, nothing new"):
        started, used = time.perf_counter(), cpu_seconds()
        made = site.build_site(results, out, jobs=options.jobs)
        files = made.files
        print(f"{what}: {time.perf_counter() - started:.1f} s, {cpu_seconds() - used:.1f} s of processors")
        print(f"  {made.results} results, {len(made.rejected)} rejected")
        print(f"  {len(files.written)} files written, {len(files.unchanged)} unchanged")
    pages = sorted(out.rglob("*.*"), key=lambda path: -path.stat().st_size)
    total = sum(path.stat().st_size for path in pages)
    print(f"home page {(out / 'index.html').stat().st_size / 1000:.0f} KB, site {total / 1e6:.0f} MB")
    for path in pages[:3]:
        print(f"  {path.relative_to(out)} {path.stat().st_size / 1000:.0f} KB")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"peak memory of a process {peak / 1024:.0f} MiB")
    if options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

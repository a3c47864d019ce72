"""Thousands of results: what reads a folder of them takes time in proportion."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

Row = tuple[str, int, list[str]]
BENCH = [sys.executable, "-m", "bench"]
SECONDS = 3.0


def results(folder: Path, count: int) -> list[Row]:
    """`list results`, and `compare` of two of them, on a fifth of the results and on all."""
    from bench.results.store import MANIFEST, METRICS, Result, to_json

    made = folder / "made"
    line = [*BENCH, "run", "-m", "bm25", "-m", "tfidf", "-d", "starter", "--results", str(made), "-q"]
    subprocess.run(line, check=True, capture_output=True)
    (stored,) = (made / "starter").glob("bm25-*")
    manifest = Result.read(stored).manifest
    times: dict[str, list[float]] = {"list": [], "compare": []}
    done = 0
    for upto in (count // 5, count):
        for number in range(done, upto):
            copy = stored.with_name(f"bm25-{number:012x}")
            shutil.copytree(stored, copy, copy_function=shutil.copyfile)
            name = f"{number:012x}"
            text = (stored / METRICS).read_text().replace(manifest.result_id, name)
            (copy / METRICS).write_text(text)
            files = manifest.files | {METRICS: hashlib.sha256(text.encode()).hexdigest()}
            changed = manifest.model_copy(update={"result_id": name, "files": files})
            (copy / MANIFEST).write_text(to_json(changed.sealed()))
        done = upto
        for name, line in {
            "list": ["list", "results"],
            "compare": ["compare", f"{0:012x}", "tfidf@starter"],
        }.items():
            begun = time.monotonic()
            ended = subprocess.run([*BENCH, *line, "--results", str(made)], capture_output=True, text=True)
            times[name].append(time.monotonic() - begun if ended.returncode == 0 else float("inf"))
    return [
        (
            f"{count} results: {name} {small:.1f} s for a fifth, {all_of_them:.1f} s",
            1,
            [f"{all_of_them:.1f} s"] if all_of_them > SECONDS or all_of_them > 7 * small else [],
        )
        for name, (small, all_of_them) in times.items()
    ]

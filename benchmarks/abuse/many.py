"""Thousands of results, of a hundred methods: what reads a folder of them takes time in proportion."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.results.store import StoredResult

Row = tuple[str, int, list[str]]
BENCH = [sys.executable, "-m", "bench"]
SECONDS = 3.0


#: What the results are of: as many settings of bm25.
METHODS = 100


def results(folder: Path, count: int) -> list[Row]:
    """`list results`, `compare`, and the site until it answers, on a fifth of the results and on all."""
    from bench.results.store import StoredResult

    made, site = folder / "made", folder / "site"
    line = [*BENCH, "run", "-m", "bm25", "-m", "tfidf", "-d", "starter", "--results", str(made), "-q"]
    subprocess.run(line, check=True, capture_output=True)
    (stored,) = (made / "starter").glob("bm25-*")
    first = StoredResult.read(stored)
    times: dict[str, list[float]] = {}
    done = 0
    for upto in (count // 5, count):
        for number in range(done, upto):
            _copied(first, number)
        done = upto
        for name, words in {
            "list results": ["list", "results"],
            "compare by ids": ["compare", f"{0:012x}", f"{1:012x}"],
            "compare by names": ["compare", f"{_spec(2)}@starter", "tfidf@starter"],
        }.items():
            begun = time.monotonic()
            ended = subprocess.run([*BENCH, *words, "--results", str(made)], capture_output=True, text=True)
            times.setdefault(name, []).append(time.monotonic() - begun if ended.returncode == 0 else float("inf"))
        build = [*BENCH, "leaderboard", "build", "--results", str(made), "--out", str(site)]
        subprocess.run(build, check=True, capture_output=True)
        times.setdefault("leaderboard serve, first answer", []).append(_served(made, site))
    return [
        (
            f"{count} results: {name} {small:.1f} s for a fifth, {all_of_them:.1f} s",
            1,
            [f"{all_of_them:.1f} s"] if all_of_them > SECONDS or all_of_them > 7 * small else [],
        )
        for name, (small, all_of_them) in times.items()
    ]


def _spec(number: int) -> str:
    return f"bm25(k1={(number % METHODS + 1) / 100})"


def _copied(first: StoredResult, number: int) -> None:
    """A copy of a result under another id, as one of another method."""
    from bench.results.store import MANIFEST, METRICS, to_json

    manifest, name = first.manifest, f"{number:012x}"
    copy = first.folder.with_name(f"bm25-{name}")
    shutil.copytree(first.folder, copy, copy_function=shutil.copyfile)
    text = (first.folder / METRICS).read_text().replace(manifest.result_id, name)
    (copy / METRICS).write_text(text)
    files = manifest.files | {METRICS: hashlib.sha256(text.encode()).hexdigest()}
    method = manifest.method.model_copy(update={"spec": _spec(number)})
    changed = manifest.model_copy(update={"result_id": name, "files": files, "method": method})
    (copy / MANIFEST).write_text(to_json(changed.sealed()))


def _served(made: Path, site: Path) -> float:
    """Seconds until the preview of a site has answered with its home page."""
    line = [*BENCH, "leaderboard", "build", "--serve", "0", "--results", str(made), "--out", str(site)]
    begun = time.monotonic()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        with urllib.request.urlopen(address, timeout=60) as answer:
            answer.read()
        return time.monotonic() - begun
    finally:
        process.kill()
        process.wait()

"""Processes that are killed, that share a folder, or whose disk is full or read-only."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

Row = tuple[str, int, list[str]]
BENCH = [sys.executable, "-m", "bench"]


def ended(arguments: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    """A command that ran to its end, in a minute or two at most."""
    return subprocess.run([*BENCH, *arguments], capture_output=True, text=True, timeout=300, **more)  # type: ignore[call-overload,no-any-return]


def content(folder: Path) -> dict[str, str]:
    """Digests of the files of a folder; of manifests, what does not depend on when they were written."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or any(part.startswith(".") for part in Path(name).parts):
            continue
        data = path.read_bytes()
        if path.name in {"manifest.json", "dataset.json", "base.json"}:
            fields = json.loads(data)
            kept = {key: fields.get(key) for key in ("result_id", "files", "content_hash", "values")}
            data = json.dumps(kept, sort_keys=True).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def killed(folder: Path, points: int, seed: int) -> list[Row]:
    """Writing commands killed at random moments and run again: the same files as if nothing had happened."""
    chance = random.Random(seed)
    beir = folder / "beir"
    assert ended(["data", "export", "starter", "--out", str(beir)]).returncode == 0
    assert ended(["run", "-m", "bm25", "-d", "starter", "--results", str(folder / "made")]).returncode == 0
    made = ["--results", str(folder / "made")]
    commands = {
        "run": ["run", "-m", "bm25", "-m", "tfidf", "-d", "starter", "--results", "{out}"],
        "data add": ["data", "add", "mine", "--replace", "--from", str(beir)],
        "data export": ["data", "export", "starter", "--format", "parquet", "--out", "{out}/set"],
        "bless": ["bless", "bm25@starter", "--out", "{out}/base.json", *made],
        "submit pack": ["submit", "pack", "bm25@starter", "--out", "{out}/x.zip", *made],
        "leaderboard build": ["leaderboard", "build", "--out", "{out}/site", *made],
    }
    rows = []
    for name, command in commands.items():
        whole = folder / f"whole-{name}"
        begun = time.monotonic()
        assert _run(command, whole, None) == 0, name
        took = time.monotonic() - begun
        expected = content(whole)
        failed = []
        for number in range(points):
            place = folder / f"killed-{number}"
            moment = took * chance.random()
            _run(command, place, moment)
            code = _run(command, place, None)
            # An export that was done before the kill finds its folder full.
            if code != 0 and not (name == "data export" and code == 2):
                failed.append(f"after {moment:.2f} s: exit {code} when run again")
            elif content(place) != expected:
                failed.append(f"after {moment:.2f} s: other files")
            shutil.rmtree(place)
        rows.append((f"kill -9: bench {name}", points, failed))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _run(command: list[str], place: Path, kill: float | None) -> int:
    """The exit code of a command that writes into a place; it is killed after so many seconds."""
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "BENCH_DATA": str(place / "data")}
    arguments = [*BENCH, *(part.replace("{out}", str(place)) for part in command)]
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        process.communicate(timeout=kill)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode


def disks(folder: Path, sizes: int) -> list[Row]:
    """A disk that is full at some size, and one that is read-only; both need the right to mount."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return [("full disk (needs root)", 0, []), ("read-only disk (needs root)", 0, [])]
    made = folder / "made"
    assert ended(["run", "-m", "bm25", "-d", "starter", "--results", str(made)]).returncode == 0
    line = " ".join([*BENCH, "run", "-m", "bm25", "-d", "starter", "--results", "disk"])
    full, read_only = [], []
    (folder / "disk").mkdir(exist_ok=True)
    for number in range(sizes):
        size = 4 + 8 * number
        script = f"mount -t tmpfs -o size={size}k none disk && {line}; code=$?; ls -a disk/starter; exit $code"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=folder, capture_output=True, text=True)
        whole = "bm25-" in done.stdout.partition("stored in")[2]
        if done.returncode not in {0, 7} or "Traceback" in done.stderr or (done.returncode == 0) != whole:
            full.append(f"{size} KiB: exit {done.returncode}: {done.stderr[-200:]}")
    script = f"mount -t tmpfs -o ro none disk && {line}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=folder, capture_output=True, text=True)
    if done.returncode != 7 or "read-only" not in done.stderr:
        read_only.append(f"exit {done.returncode}: {done.stderr[-200:]}")
    return [("full disk: bench run", sizes, full), ("read-only disk: bench run", 1, read_only)]


def crowd(folder: Path, rounds: int) -> list[Row]:
    """Eight processes on one folder of results with one cold cache."""
    failed = []
    assert ended(["run", "-m", "bm25", "-d", "starter", "--results", str(folder / "alone")]).returncode == 0
    expected = content(folder / "alone")
    for number in range(rounds):
        environment = {**os.environ, "BENCH_CACHE": str(folder / f"cache-{number}")}
        results = folder / f"crowd-{number}"
        line = [*BENCH, "run", "-m", "bm25", "-d", "starter", "--results", str(results)]
        running = [
            subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(8)
        ]
        said = [process.communicate(timeout=300)[1] for process in running]
        codes = [process.returncode for process in running]
        if any(codes) or content(results) != expected:
            failed.append(f"round {number}: exits {codes}: {max(said)[-200:]}")
    return [("8 processes, one folder, cold cache", rounds, failed)]

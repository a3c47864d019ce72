"""Processes that are killed, that share a folder, or whose disk is full or read-only."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
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
            # What is no JSON is another file than any whole one.
            with suppress(ValueError):
                fields = json.loads(data)
                kept = {key: fields.get(key) for key in ("result_id", "files", "content_hash", "values")}
                data = json.dumps(kept, sort_keys=True).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    return found


@dataclass(frozen=True)
class Writing:
    """A command that writes into the folder `{out}`.

    Attributes:
        words: of the command.
        begins: a folder of whose copy the place consists before the command; None for an empty one.
        done: exit codes of the command where it was done before, besides 0.
    """

    words: list[str]
    begins: Path | None = None
    done: tuple[int, ...] = ()


def _writing(folder: Path) -> dict[str, Writing]:
    """The commands that write, by name, with what they read in a folder."""
    beir, made, old = folder / "beir", folder / "made", folder / "old"
    assert ended(["data", "export", "starter", "--out", str(beir)]).returncode == 0
    assert ended(["run", "-m", "bm25", "-d", "starter", "--results", str(made)]).returncode == 0
    results = ["--results", str(made)]
    ranked = ended(["show", "bm25@starter", "--format", "trec", *results])
    (folder / "run.trec").write_text(ranked.stdout)
    (folder / "tools.json").write_text(json.dumps({"tools": [
        {"name": f"find{number}", "description": "Finds.", "inputSchema": {"type": "object"}} for number in range(50)
    ]}))  # fmt: skip
    asked = {"messages": [{"role": "user", "content": "find it"}, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]}]}  # fmt: skip
    (folder / "log.jsonl").write_text((json.dumps(asked) + "\n") * 500)
    _outdated(made, old / "results")
    return {
        "run": Writing(["run", "-m", "bm25", "-m", "tfidf", "-d", "starter", "--results", "{out}"]),
        "score": Writing(["score", str(folder / "run.trec"), "-d", "starter", "--results", "{out}"]),
        "rescore": Writing(["rescore", "--results", "{out}/results"], old),
        "data add": Writing(["data", "add", "mine", "--replace", "--from", str(beir)]),
        "data import": Writing(["data", "import", "mine", str(folder / "tools.json"), "--replace"]),
        # These two, done before the kill, find their file there and their folder full.
        "data from-traffic": Writing(
            ["data", "from-traffic", str(folder / "log.jsonl"), "--output", "{out}/q.jsonl"], done=(2,)
        ),
        "data export": Writing(["data", "export", "starter", "--format", "parquet", "--out", "{out}/set"], done=(2,)),
        "bless": Writing(["bless", "bm25@starter", "--out", "{out}/base.json", *results]),
        "submit pack": Writing(["submit", "pack", "bm25@starter", "--out", "{out}/x.zip", *results]),
        "leaderboard build": Writing(["leaderboard", "build", "--out", "{out}/site", *results]),
    }


def _outdated(made: Path, copy: Path) -> None:
    """A copy of results without lenient means, as older versions left them."""
    from bench.results.store import MANIFEST, METRICS, Result, to_json

    shutil.copytree(made, copy)
    (stored,) = (copy / "starter").glob("bm25-*")
    manifest = Result.read(stored).manifest
    fields = json.loads((stored / METRICS).read_text())
    del fields["lenient"]
    text = json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
    (stored / METRICS).write_text(text)
    files = manifest.files | {METRICS: hashlib.sha256(text.encode()).hexdigest()}
    (stored / MANIFEST).write_text(to_json(manifest.model_copy(update={"files": files}).sealed()))


def killed(folder: Path, points: int, seed: int) -> list[Row]:
    """Writing commands killed at random moments and run again: the same files as if nothing had happened."""
    chance = random.Random(seed)
    rows = []
    for name, writing in _writing(folder).items():
        whole = folder / f"whole-{name}"
        begun = time.monotonic()
        assert _run(writing, whole, None) == 0, name
        took = time.monotonic() - begun
        expected = content(whole)
        failed = []
        for number in range(points):
            place = folder / f"killed-{number}"
            moment = took * chance.random()
            _run(writing, place, moment)
            code = _run(writing, place, None)
            if code not in {0, *writing.done}:
                failed.append(f"after {moment:.2f} s: exit {code} when run again")
            elif content(place) != expected:
                failed.append(f"after {moment:.2f} s: other files")
            shutil.rmtree(place)
        rows.append((f"kill -9: bench {name}", points, failed))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _run(writing: Writing, place: Path, kill: float | None) -> int:
    """The exit code of a command that writes into a place; it is killed after so many seconds."""
    if not place.exists() and writing.begins is not None:
        shutil.copytree(writing.begins, place)
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "BENCH_DATA": str(place / "data")}
    arguments = [*BENCH, *(part.replace("{out}", str(place)) for part in writing.words)]
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        process.communicate(timeout=kill)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode


def disks(folder: Path, sizes: int) -> list[Row]:
    """Writing commands on disks that are full at some size, and on read-only ones; both need the right to mount.

    With 7 a command says that it could not write; each file that is there is then whole. With 0 all of them are.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return [(f"{kind} (needs root)", 0, []) for kind in ("full disk", "read-only disk")]
    rows = []
    for name, writing in _writing(folder).items():
        if writing.begins is not None:
            continue
        whole = folder / f"on-a-disk-{name}"
        assert _run(writing, whole, None) == 0, name
        expected = content(whole)
        room = sum(path.stat().st_blocks // 2 + 4 for path in whole.rglob("*"))
        full = []
        for number in range(sizes):
            size = 4 + room * 5 // 4 * number // sizes
            code, said, found = _on_disk(folder, writing, f"size={size}k")
            torn = [path for path, digest in found.items() if expected.get(path) != digest]
            if code not in {0, 7} or "Traceback" in said or torn or (code == 0 and found != expected):
                full.append(f"{size} KiB: exit {code}: {', '.join(torn)} {said[-200:]}")
        code, said, _ = _on_disk(folder, writing, "ro")
        read_only = [] if code == 7 and "read-only" in said else [f"exit {code}: {said[-200:]}"]
        rows += [(f"full disk: bench {name}", sizes, full), (f"read-only disk: bench {name}", 1, read_only)]
        print(*rows[-2:], file=sys.stderr, flush=True)
    return rows


def _on_disk(folder: Path, writing: Writing, options: str) -> tuple[int, str, dict[str, str]]:
    """Exit code and messages of a command that writes to a disk of its own, and what is on the disk then."""
    disk, found = folder / "disk", folder / "found.json"
    disk.mkdir(exist_ok=True)
    found.write_text("{}")
    line = shlex.join([*BENCH, *(part.replace("{out}", str(disk)) for part in writing.words)])
    look = shlex.join([sys.executable, __file__, str(disk), str(found)])
    script = f"mount -t tmpfs -o {options} none {shlex.quote(str(disk))} && {line}; code=$?; {look}; exit $code"
    environment = {**os.environ, "BENCH_DATA": str(disk / "data")}
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr, json.loads(found.read_text())


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


if __name__ == "__main__":
    # What is on a disk that only this process sees.
    Path(sys.argv[2]).write_text(json.dumps(content(Path(sys.argv[1]))))

"""Processes that are killed, that share a folder, or whose disk is full or read-only."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Row = tuple[str, int, list[str]]
BENCH = [sys.executable, "-m", "bench"]
JOURNAL = "journal.jsonl"


def ended(arguments: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    """A command that ran to its end, in a minute or two at most."""
    return subprocess.run([*BENCH, *arguments], capture_output=True, text=True, timeout=300, **more)  # type: ignore[call-overload,no-any-return]


#: Hidden names that are no locks and no temporary files.
SHOWN = {".github", ".gitignore"}
#: What bench remembers of files by the time of their last change.
REMEMBERED = "hashes"
#: What of a report or a training card tells how it was made, not what.
TIMED = {"created", "seconds", "command", "commit", "dirty", "resumed"}


def content(folder: Path) -> dict[str, str]:
    """Digests of the files of a folder; of manifests and journals, what does not depend on when they were written."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        parts = set(Path(name).parts)
        if path.is_dir() or REMEMBERED in parts or any(part.startswith(".") for part in parts - SHOWN):
            continue
        data = path.read_bytes()
        if path.name == JOURNAL:
            lines = [json.loads(line) for line in data.splitlines()]
            data = json.dumps(sorted([line["kind"], line["key"], line["text"]] for line in lines)).encode()
        elif path.name in {"reproduction.json", "training.json"}:
            with suppress(ValueError):
                data = json.dumps(_without_times(json.loads(data)), sort_keys=True).encode()
                data = data.replace(str(folder).encode(), b"{out}")
        elif path.name == "reproduction.md":
            # Its first line has the command and the time.
            data = b"\n".join(line for line in data.splitlines() if not line.startswith(b"`bench "))
            data = data.replace(str(folder).encode(), b"{out}")
        elif path.name in {"manifest.json", "dataset.json", "base.json"}:
            # What is no JSON is another file than any whole one.
            with suppress(ValueError):
                fields = json.loads(data)
                kept = {key: fields.get(key) for key in ("result_id", "files", "content_hash", "values")}
                data = json.dumps(kept, sort_keys=True).encode()
        digests[name] = hashlib.sha256(data).hexdigest()
    return digests


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in TIMED}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Writing:
    """A command that writes into the folder `{out}`.

    Attributes:
        words: of the command.
        begins: a folder of whose copy the place consists before the command; None for an empty one.
        done: exit codes of the command where it was done before, besides 0.
        variables: of the environment; `{out}` is the folder here, too.
        prints: what the command prints is compared as well.
        skips: it goes on where a file of its cache cannot be written, so that a full disk ends nothing.
    """

    words: list[str]
    begins: Path | None = None
    done: tuple[int, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    prints: bool = False
    skips: bool = False


def _writing(folder: Path, model: str) -> dict[str, Writing]:
    """The commands that write, by name, with what they read in a folder; `model` is the URL of a language model."""
    beir, made, old = folder / "beir", folder / "made", folder / "old"
    assert ended(["data", "export", "starter", "--out", str(beir)]).returncode == 0
    assert ended(["run", "-m", "bm25", "-d", "starter", "--results", str(made)]).returncode == 0
    results = ["--results", str(made)]
    ranked = ended(["show", "bm25@starter", "--format", "trec", *results])
    (folder / "run.trec").write_text(ranked.stdout)
    (folder / "tools.json").write_text(json.dumps({"tools": [
        {"name": f"find{number}", "description": "Finds.", "inputSchema": {"type": "object"}} for number in range(50)
    ]}))  # fmt: skip
    logged = {"messages": [{"role": "user", "content": "find it"}, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]}]}  # fmt: skip
    (folder / "log.jsonl").write_text((json.dumps(logged) + "\n") * 500)
    _outdated(made, old / "results")
    numbers = {"most_steps": 6, "checkpoint_every": 2, "most_tokens": 16}
    settings = ["--base", "minilm", *(part for name in numbers for part in ("--set", f"{name}={numbers[name]}"))]
    # The cells of its two encoders that bench has or makes here; the others are told as not run.
    words = ["reproduce", "tgr-5", "--offline", "--quiet", "--results", "{out}/results", "--out", "{out}/report"]
    fetched = ended(["data", "fetch", "apibank"]).returncode == 0
    reproduced = {"reproduce": Writing(words)} if fetched else {}
    return {
        "run": Writing(["run", "-m", "bm25", "-m", "tfidf", "-d", "starter", "--results", "{out}"]),
        "score": Writing(["score", str(folder / "run.trec"), "-d", "starter", "--results", "{out}"]),
        "rescore": Writing(["rescore", "--results", "{out}/results"], old),
        "data add": Writing(["data", "add", "mine", "--replace", "--from", str(beir)]),
        "data import": Writing(["data", "import", "mine", str(folder / "tools.json"), "--replace"]),
        # These two, done before the kill, find their file there and their folder full.
        "data from-traffic": Writing(
            ["data", "from-traffic", str(folder / "log.jsonl"), "--out", "{out}/q.jsonl"], done=(2,)
        ),
        "data export": Writing(["data", "export", "starter", "--format", "parquet", "--out", "{out}/set"], done=(2,)),
        "bless": Writing(["bless", "bm25@starter", "--out", "{out}/base.json", *results]),
        "submit pack": Writing(["submit", "pack", "bm25@starter", "--out", "{out}/x.zip", *results]),
        "leaderboard build": Writing(["leaderboard", "build", "--out", "{out}/site", *results]),
        # Done before the kill, it finds its files there.
        "init": Writing(["init", "{out}/example"], done=(2,)),
        "data fetch": Writing(
            ["data", "fetch", "served", "--mirror", str(_plugin(folder / "plugin"))],
            variables={"BENCH_CACHE": "{out}/cache", "PYTHONPATH": str(folder / "plugin")},
        ),
        "tune": Writing(
            ["tune", "-m", "bm25", "-d", "starter", "-g", "k1=0.5,1,1.5,2", "-g", "b=0.25,0.75", "--json", "-q"],
            variables={"BENCH_CACHE": "{out}/cache"}, prints=True, skips=True,
        ),
        "data write-queries": Writing(
            ["data", "write-queries", "starter", "--llm", "m", "--out", "{out}/queries.jsonl"],
            variables={"BENCH_LLM_URL": model, "BENCH_LLM_JOURNAL": f"{{out}}/{JOURNAL}"}, skips=True,
        ),
        "train": Writing(
            ["train", "classifier", "-d", "starter", "--out", "{out}/model", "-q", *settings], done=(2,), skips=True
        ),
        **reproduced,
    }  # fmt: skip


def _outdated(made: Path, copy: Path) -> None:
    """A copy of results without lenient means, as older versions left them."""
    from bench.results.store import MANIFEST, METRICS, StoredResult, to_json

    shutil.copytree(made, copy)
    (stored,) = (copy / "starter").glob("bm25-*")
    manifest = StoredResult.read(stored).manifest
    fields = json.loads((stored / METRICS).read_text())
    del fields["lenient"]
    text = json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
    (stored / METRICS).write_text(text)
    files = manifest.files | {METRICS: hashlib.sha256(text.encode()).hexdigest()}
    (stored / MANIFEST).write_text(to_json(manifest.model_copy(update={"files": files}).sealed()))


#: A dataset of a plug-in whose one file lies in a mirror: its card, and the loader.
_CARD = """
title = "Served"
summary = "Made for the campaign."
licence = "CC0-1.0"
redistribution = true
template = "description"

[variants.served]
counts = {{ tools = 2000, parents = 2000, test = 500, gold_min = 1, gold_max = 1 }}

[[variants.served.upstream]]
repository = "someone/something"
commit = "{commit}"
licence = "CC0-1.0"
redistribution = true

[variants.served.upstream.files]
"tools.txt" = "{digest}"
"""
_LOADER = """
from bench.data.tables import Query, Tables, Tool

def load(files, options, card):
    lines = files.text("tools.txt").splitlines()
    tools = [Tool(str(number), str(number), line, parent=str(number)) for number, line in enumerate(lines)]
    return Tables(tools, [Query(f"q{number}", f"find {number}", {str(number): 1}) for number in range(500)])
"""


def _plugin(folder: Path) -> Path:
    """A plug-in with a dataset, as installed in a folder; the mirror with the dataset's file."""
    text, commit = "".join(f"Finds {number}.\n" for number in range(2000)), "0" * 40
    mirror = folder.with_name("mirror")
    for path, content in {
        folder / "served" / "__init__.py": "",
        folder / "served" / "loader.py": _LOADER,
        folder / "served" / "card.toml": _CARD.format(commit=commit, digest=hashlib.sha256(text.encode()).hexdigest()),
        folder / "served-1.dist-info" / "METADATA": "Metadata-Version: 2.1\nName: served\nVersion: 1\n",
        folder / "served-1.dist-info" / "entry_points.txt": "[bench.datasets]\nserved = served\n",
        mirror / "someone" / "something" / commit / "tools.txt": text,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return mirror


@contextmanager
def _model() -> Iterator[str]:
    """The URL of a language model that writes requests from descriptions and finds their tools by them again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": _said(request["messages"][-1]["content"])}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = json.dumps(
                {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _said(prompt: str) -> str:
    listed = [line.partition(": ")[2].partition(" (takes")[0] for line in re.findall(r"(?m)^\d+\. (.*)$", prompt)]
    if "Choices:" not in prompt:
        wanted = listed[:1] if "easily confused" in prompt else [] if "none of these tools can" in prompt else listed
        return json.dumps({"request": f"Please: {' and then '.join(wanted) or f'Paint {len(prompt)} portraits'}."})
    request = prompt.partition("Choices:")[0]
    return json.dumps({"numbers": [number for number, text in enumerate(listed, 1) if text and text in request]})


def killed(folder: Path, points: int, seed: int, names: Sequence[str] = ()) -> list[Row]:
    """Writing commands killed at random moments and run again: the same files as if nothing had happened.

    Args:
        folder: a new one.
        points: how often each is killed.
        seed: of the moments.
        names: of the commands [default: all].
    """
    with _model() as model:
        return [
            _killed(folder, name, writing, points, random.Random(f"{seed} {name}"))
            for name, writing in _writing(folder, model).items()
            if not names or name in names
        ]


def _killed(folder: Path, name: str, writing: Writing, points: int, chance: random.Random) -> Row:
    whole = folder / f"whole-{name}"
    begun = time.monotonic()
    code, printed = _run(writing, whole, None)
    assert code == 0, name
    took = time.monotonic() - begun
    expected = content(whole)
    failed = []
    for number in range(points):
        place = folder / f"killed-{number}"
        moment = took * chance.random()
        _run(writing, place, moment)
        code, again = _run(writing, place, None)
        if code not in {0, *writing.done}:
            failed.append(f"after {moment:.2f} s: exit {code} when run again")
        elif (actual := content(place)) != expected:
            others = [path for path in actual.keys() | expected if actual.get(path) != expected.get(path)]
            failed.append(f"after {moment:.2f} s: other files: {', '.join(sorted(others)[:5])}")
        elif writing.prints and again != printed:
            failed.append(f"after {moment:.2f} s: prints something else")
        shutil.rmtree(place)
    row = (f"kill -9: bench {name}", points, failed)
    print(row, file=sys.stderr, flush=True)
    return row


def _run(writing: Writing, place: Path, kill: float | None) -> tuple[int, bytes]:
    """Exit code and output of a command that writes into a place; it is killed after so many seconds."""
    if not place.exists() and writing.begins is not None:
        shutil.copytree(writing.begins, place)
    place.mkdir(parents=True, exist_ok=True)
    arguments = [*BENCH, *(part.replace("{out}", str(place)) for part in writing.words)]
    process = subprocess.Popen(
        arguments, env=_environment(writing, place), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        printed, _ = process.communicate(timeout=kill)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        printed, _ = process.communicate()
    return process.returncode, printed


def _environment(writing: Writing, place: Path) -> dict[str, str]:
    variables = {name: value.replace("{out}", str(place)) for name, value in writing.variables.items()}
    return {**os.environ, "BENCH_DATA": str(place / "data"), **variables}


def disks(folder: Path, sizes: int, names: Sequence[str] = ()) -> list[Row]:
    """Writing commands on disks that are full at some size, and on read-only ones; both need the right to mount.

    With 7 a command says that it could not write; each file that is there is then whole. With 0 all of them are.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return [(f"{kind} (needs root)", 0, []) for kind in ("full disk", "read-only disk")]
    with _model() as model:
        written = {
            name: writing
            for name, writing in _writing(folder, model).items()
            if writing.begins is None and not writing.skips and (not names or name in names)
        }
    rows = []
    for name, writing in written.items():
        whole = folder / f"on-a-disk-{name}"
        assert _run(writing, whole, None)[0] == 0, name
        expected = content(whole)
        room = sum(path.stat().st_blocks // 2 + 4 for path in whole.rglob("*"))
        full = []
        for number in range(sizes):
            size = 4 + room * 5 // 4 * number // sizes
            code, said, digests = _on_disk(folder, writing, f"size={size}k")
            torn = [path for path, digest in digests.items() if expected.get(path) != digest]
            if code not in {0, 7} or "Traceback" in said or torn or (code == 0 and digests != expected):
                full.append(f"{size} KiB: exit {code}: {', '.join(torn)} {said[-200:]}")
        code, said, _ = _on_disk(folder, writing, "ro")
        read_only = [] if code == 7 and "read-only" in said else [f"exit {code}: {said[-200:]}"]
        rows += [(f"full disk: bench {name}", sizes, full), (f"read-only disk: bench {name}", 1, read_only)]
        print(*rows[-2:], file=sys.stderr, flush=True)
    return rows


def _on_disk(folder: Path, writing: Writing, options: str) -> tuple[int, str, dict[str, str]]:
    """Exit code and messages of a command that writes to a disk of its own, and what is on the disk then."""
    disk, listing = folder / "disk", folder / "found.json"
    disk.mkdir(exist_ok=True)
    listing.write_text("{}")
    words = shlex.join([*BENCH, *(part.replace("{out}", str(disk)) for part in writing.words)])
    look = shlex.join([sys.executable, __file__, str(disk), str(listing)])
    script = f"mount -t tmpfs -o {options} none {shlex.quote(str(disk))} && {words}; code=$?; {look}; exit $code"
    line = ["unshare", "-m", "sh", "-c", script]
    done = subprocess.run(line, env=_environment(writing, disk), capture_output=True, text=True)
    return done.returncode, done.stderr, json.loads(listing.read_text())


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

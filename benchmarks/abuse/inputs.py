"""Mutated inputs over every reader: no exit 70, no traceback, under 10 s and 2 GB each.

Each input is a valid file with a few changes: bytes flipped, cut and repeated, hostile tokens put in, values of parsed
JSON replaced. A reader runs in a forked child with the modules already loaded.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS, BYTES = 10, 2 << 30
RANKING_SET = "ranking_set.toml"
TOKENS = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[31m", b"\r", b"\n\n", "‮".encode(), b"\\ud800", b"[" * 3000,
    b'{"a":' * 1500, b"}" * 9, b"9" * 5000, b"1e999", b"NaN", b"-0", b"null", b"''", b'""', b"a." * 3000, b" " * 9999,
    b"x" * 200_000, b"../../etc/passwd", b"%00", b"{{ 1 }}", b"{% for i in range(9**9) %}", b"(a=" * 60, b"[]", b"{}",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 1e308, 10**30, "", "\x1b]0;x\x07", "\ud800", "‮a", "x" * 100_000, [], {}, [[]], {"": {}},
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A valid file, and the command that reads it from `{file}`; other files lie next to it in `folder`.

    Attributes:
        code: what the command ends with where the file is valid.
    """

    name: str
    file: str
    command: tuple[str, ...]
    code: int = 0


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes after one to four changes."""
    if chance.random() < 0.4 and (changed := _json(data, chance)) is not None:
        return changed
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 2, 8, 64, 512))
        kind = chance.randrange(5)
        if kind == 0 and data:
            at = chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[:at] + data[at : at + length] * chance.choice((2, 50)) + data[at + length :]
        elif kind == 3:
            data = data[:at] + chance.choice(TOKENS) + data[at:]
        else:
            data = data[:at] if chance.random() < 0.3 else data[:at] + chance.choice(TOKENS) + data[at + length :]
    return data


def _json(data: bytes, chance: random.Random) -> bytes | None:
    """One value of a JSON file, or of one line of it, replaced; None for what is no JSON."""
    lines = data.split(b"\n")
    for number in [0] if len(lines) < 3 else [chance.randrange(len(lines) - 1)]:
        text = data if number == 0 and data[:1] in b"{[" and b"\n " in data[:200] else lines[number]
        try:
            value = json.loads(text)
        except ValueError:
            return None
        places: list[tuple[Any, Any]] = []
        pending = [value := copy.deepcopy(value)]
        while pending:
            node = pending.pop()
            if isinstance(node, dict | list):
                items = list(node.items() if isinstance(node, dict) else enumerate(node))
                places += [(node, key) for key, _ in items]
                pending += [item for _, item in items]
        if not places:
            return None
        node, key = chance.choice(places)
        if chance.random() < 0.2:
            del node[key]
        else:
            node[key] = chance.choice(VALUES)
        written = json.dumps(value).encode()
        return written if text is data else b"\n".join([*lines[:number], written, *lines[number + 1 :]])
    return None


def verdict(arguments: list[str], log: Path) -> tuple[str, int]:
    """How a command ends in a child of its own: `fine`, or what is wrong; and its exit code."""
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        _read(arguments, log)
    ended, status = 0, 0
    while not ended:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if not ended and time.monotonic() - begun > SECONDS * 3:
            os.kill(child, signal.SIGKILL)
            return "hangs", -signal.SIGKILL
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return _fault(code, usage, log.read_bytes()), code


def _fault(code: int, usage: resource.struct_rusage, said: bytes) -> str:
    if b"Traceback" in said:
        return "traceback"
    if code == 70 or code < 0:
        return f"exit {code}"
    if usage.ru_utime + usage.ru_stime > SECONDS:
        return "over 10 s"
    if usage.ru_maxrss << 10 > BYTES:
        return "over 2 GB"
    if any(byte < 9 or 11 <= byte <= 31 or byte == 127 for byte in said if byte != 13):
        return "control characters"
    return "fine"


def _read(arguments: list[str], log: Path) -> None:
    from bench.__main__ import run

    # A changed address may be of another machine, which is not asked then.
    os.environ["BENCH_OFFLINE"] = "1"
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    # What asks for more ends with a MemoryError, which bench does not take for a user's mistake.
    resource.setrlimit(resource.RLIMIT_AS, (BYTES * 4, BYTES * 4))
    try:
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        os.write(2, f"Traceback {error!r}".encode())
        code = 70
    os._exit(code)


def prepared(folder: Path, bench: Callable[..., str]) -> list[Reader]:
    """Valid files below a folder, made by bench itself."""
    results = ("--results", str(folder / "results"))
    bench("data", "export", "starter", "--out", folder / "beir")
    bench("run", "-m", "bm25", "-d", "starter", *results, "-q")
    (folder / "run.trec").write_text(bench("show", "bm25@starter", "--format", "trec", *results))
    (folder / "run.jsonl").write_text(bench("show", "bm25@starter", "--format", "jsonl", *results))
    bench("bless", "bm25@starter", "--out", folder / "base.json", *results)
    bench("submit", "pack", "bm25@starter", "--out", folder / "result.zip", *results)
    root = Path(__file__).resolve().parents[2]
    shutil.copyfile(root / "baselines" / "gate.toml", folder / "gate.toml")
    (folder / "x.toml").write_text('methods = ["bm25"]\ndatasets = ["starter"]\nlimit = 2\n')
    (folder / "tools.json").write_text(json.dumps({"tools": [
        {"name": "find", "description": "Finds.", "inputSchema": {
            "type": "object", "properties": {"a": {"type": "string"}}}},
        {"name": "send", "description": "Sends."}]}))  # fmt: skip
    (folder / "api.json").write_text(json.dumps({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {
        "/a/{b}": {"get": {"operationId": "a", "summary": "A.", "parameters": [
            {"name": "b", "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/B"}}]}}},
        "components": {"schemas": {"B": {"type": "string"}}}}))  # fmt: skip
    (folder / "log.jsonl").write_text(
        json.dumps({"messages": [{"role": "user", "content": "find it"}, {"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]}]}) + "\n"
    )  # fmt: skip
    (folder / "api.yaml").write_text(
        "openapi: 3.0.0\ninfo: {title: t, version: '1'}\npaths:\n  /a:\n    get: {operationId: a, summary: &s 'A.'}\n"
        "  /b:\n    get: {operationId: b, summary: *s}\n"
    )
    (folder / "asked.jsonl").write_text(
        json.dumps({"query": "find it", "tools": ["find"], "id": "a", "tags": {"kind": "easy"}, "group": "g"}) + "\n"
        + json.dumps({"query": "none", "tools": [], "context": ["before", {"role": "user", "content": "x"}]}) + "\n"
    )  # fmt: skip
    (folder / "asked.csv").write_text('query,tools,tags\nfind it,find; send,a\n"two",send|find,\n')
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {
        "a": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer of-the-campaign"}}}}))  # fmt: skip
    shutil.copyfile(root / "leaderboard" / "boards" / RANKING_SET, folder / RANKING_SET)
    (folder / "reproduction.json").write_bytes((root / "board" / "reproduction.json").read_bytes())
    (folder / "text.j2").write_text("{{ name }}: {{ description }}{% for p in parameters %} {{ p.name }}{% endfor %}")
    (folder / "spec.txt").write_text(
        'rrf(methods=[tgr(base=bm25(k1=1.5), alpha=0.5), tfidf(tokens="words", sublinear=true)])'
    )
    (folder / "edges.tsv").write_bytes((folder / "beir" / "edges.tsv").read_bytes())
    (stored,) = (folder / "results" / "starter").glob("bm25-*")
    kept = stored.relative_to(folder).as_posix()
    add = ("data", "add", "mine", "--replace", "--from", "{folder}/beir")
    gate = ("gate", "{folder}/run.jsonl", "--baseline", "{folder}/base.json", "--policy", "{folder}/gate.toml")
    score = ("-d", "starter", "--results", "{folder}/scored")
    site = ("leaderboard", "build", *results, "--out", "{folder}/site", "--jobs", "1")
    imported = ("data", "import", "mine", "{folder}/tools.json", "--replace", "--queries", "{file}")
    short = ("-d", "starter", "--limit", "2", "-q", "--results", "{folder}/other")
    return [
        Reader("experiment", "x.toml", ("run", "{file}", "--results", "{folder}/other", "-q")),
        Reader("spec", "spec.txt", ("run", "-m", "{text}", "--offline", *short)),
        Reader("policy", "gate.toml", gate),
        Reader("baseline", "base.json", gate),
        Reader("run file, TREC", "run.trec", ("score", "{file}", *score)),
        Reader("run file, JSON lines", "run.jsonl", ("score", "{file}", *score)),
        Reader("corpus", "beir/corpus.jsonl", add),
        Reader("queries", "beir/queries.jsonl", add),
        Reader("judgements", "beir/qrels/test.tsv", add),
        Reader("about.json", "beir/about.json", add),
        Reader("edges", "edges.tsv", ("run", "-m", "tgr(graph={file}, base=bm25)", *short)),
        Reader("manifest", f"{kept}/manifest.json", ("show", f"{{folder}}/{kept}")),
        Reader("metrics", f"{kept}/metrics.json", ("show", f"{{folder}}/{kept}")),
        Reader("ranking", f"{kept}/run.parquet", ("show", f"{{folder}}/{kept}", "--format", "trec")),
        Reader("per-query values", f"{kept}/per_query.parquet", ("submit", "check", f"{{folder}}/{kept}")),
        Reader("submission", "result.zip", ("submit", "check", "{file}")),
        Reader("MCP tools", "tools.json", ("data", "import", "mine", "{file}", "--replace")),
        Reader("OpenAPI", "api.json", ("data", "import", "mine", "{file}", "--replace")),
        Reader("traffic log", "log.jsonl", ("data", "from-traffic", "{file}", "--out", "{folder}/q.jsonl")),
        Reader("OpenAPI, YAML", "api.yaml", ("data", "import", "mine", "{file}", "--replace")),
        Reader("queries, JSON lines", "asked.jsonl", imported),
        Reader("queries, CSV", "asked.csv", imported),
        # No server listens there.
        Reader("configured MCP servers", "servers.json",
               ("data", "import", "mine", "--mcp-config", "{file}", "--replace"), 4),
        Reader("ranking set", RANKING_SET, (*site, "--ranking-set", "{file}")),
        Reader("report of a reproduction", "reproduction.json", (*site, "--reproduction", "{file}")),
        Reader("template", "text.j2", ("run", "-m", "bm25", "--template", "{file}", *short)),
    ]  # fmt: skip


def _arguments(reader: Reader, folder: Path) -> list[str]:
    path = folder / reader.file
    text = path.read_bytes().decode("utf-8", "surrogateescape").replace("\0", "")[:120_000]
    arguments = list(reader.command)
    for key, value in {"{file}": str(path), "{folder}": str(folder), "{text}": text}.items():
        arguments = [argument.replace(key, value) for argument in arguments]
    return arguments


def campaign(folder: Path, count: int, seed: int, bench: Callable[..., str]) -> list[tuple[str, int, list[str]]]:
    """Readers with the number of inputs and what failed, each with the seed that makes it again."""
    readers = prepared(folder, bench)
    # Loaded before the first fork, so that a child only reads.
    for name in ("bench.api", "bench.cli", "bench.evaluation.runner"):
        importlib.import_module(name)
    rows = []
    for place, reader in enumerate(readers):
        path = folder / reader.file
        whole = path.read_bytes()
        failed: list[str] = []
        # A command that refuses the valid file as well would show nothing.
        fault, code = verdict(_arguments(reader, folder), folder / "said")
        if fault != "fine" or code != reader.code:
            raise SystemExit(f"{reader.name}: the valid file ends with {code}: {(folder / 'said').read_text()}")
        for number in range(count):
            name = f"{seed}-{place}-{number}"
            path.write_bytes(mutated(whole, random.Random(name)))
            outcome, _ = verdict(_arguments(reader, folder), folder / "said")
            if outcome != "fine":
                failed.append(f"{name}: {outcome}")
                shutil.copyfile(path, folder / f"failed-{name}")
                shutil.copyfile(folder / "said", folder / f"failed-{name}.said")
        path.write_bytes(whole)
        rows.append((f"mutated input: {reader.name}", count, failed))
        print(
            reader.name, count, dict(Counter(text.partition(": ")[2] for text in failed)), file=sys.stderr, flush=True
        )
    return rows

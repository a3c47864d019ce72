"""Hostile endpoints and services, and the preview server under slow, many and foreign clients."""

from __future__ import annotations

import gzip
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Row = tuple[str, int, list[str]]
BENCH = [sys.executable, "-m", "bench"]
HEAD = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"


def _flood(code: int) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        peer.sendall(HEAD % code + b"\r\n")
        while True:
            peer.sendall(b"[" * 65536)

    return answer


def _drip(start: bytes) -> Callable[[socket.socket], None]:
    def answer(peer: socket.socket) -> None:
        peer.sendall(start)
        while True:
            peer.sendall(b"x")
            time.sleep(0.05)

    return answer


def _fixed(data: bytes) -> Callable[[socket.socket], None]:
    return lambda peer: peer.sendall(data)


def _sized(code: int, body: bytes, more: bytes = b"") -> Callable[[socket.socket], None]:
    return _fixed(HEAD % code + more + b"Content-Length: %d\r\n\r\n" % len(body) + body)


BOMB = gzip.compress(b" " * (512 << 20), 9)
#: What a server does with every connection.
ANSWERS = {
    "endless 200": _flood(200), "endless 400": _flood(400), "endless 500": _flood(500), "endless 101": _flood(101),
    "dripping head": _drip(b"HTTP/1.1 200 OK\r\nX-Slow: "), "dripping body": _drip(HEAD % 200 + b"\r\n"),
    "dripping error": _drip(HEAD % 500 + b"\r\n"), "silence": lambda peer: time.sleep(20),
    "gzip bomb 200": _sized(200, BOMB, b"Content-Encoding: gzip\r\n"),
    "gzip bomb 400": _sized(400, BOMB, b"Content-Encoding: gzip\r\n"),
    "no HTTP": _fixed(b"\x00\xff" * 5000), "closed": lambda peer: peer.close(),
    "endless head": _fixed(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000), "deep": _sized(200, b"[" * 200_000),
    "redirect": _fixed(b"HTTP/1.1 302 X\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),
    "wait for ever": _sized(429, b"{}", b"Retry-After: 999999999\r\n"),
    "many numbers": _sized(200, b"[" + b"1," * 900_000 + b"1]"),
    "escape": _sized(400, b'{"error": {"message": "\x1b[31m\\u202e"}}'),
}  # fmt: skip


OUTSIDE = (
    b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"//etc/passwd", b"/..%2f..%2fetc/passwd",
    b"/%00", b"/.cache/", b"/\\..\\..\\etc\\passwd",
)  # fmt: skip
FOREIGN = (b"evil.example", b"127.0.0.1.evil.example", b"localhost@evil.example")


@contextmanager
def _server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)

    def one(peer: socket.socket) -> None:
        with peer:
            try:
                peer.recv(65536)
                answer(peer)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def hostile(folder: Path) -> list[Row]:
    """Each answer to each client that asks something outside: documented exit, bounded time and memory."""
    clients = {
        "OpenAI-compatible endpoint": [
            "run", "-m", "query-generation(llm=m)", "-m", "dense(encoder=openai:m)", "-d", "starter", "--limit", "1",
        ],
        "HTTP service": ["run", "-m", "http(url={url}/s, timeout=1, tries=2)", "-d", "starter", "--limit", "12"],
        "MCP server": ["data", "import", "mine", "--mcp", "s={url}/mcp", "--replace"],
    }  # fmt: skip
    rows = []
    for client, command in clients.items():
        failed = []
        for name, answer in ANSWERS.items():
            with _server(answer) as url:
                environment = {
                    **os.environ, "BENCH_LLM_URL": f"{url}/v1", "BENCH_LLM_KEY": "sk-of-the-campaign",
                    "BENCH_LLM_TIMEOUT": "1", "BENCH_LLM_JOURNAL": str(folder / "journal.jsonl"), "NO_PROXY": "*",
                }  # fmt: skip
                line = [*BENCH, *(part.replace("{url}", url) for part in command)]
                line += ["--results", str(folder / "hostile")] if command[0] == "run" else []
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
                try:
                    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=180)
                except subprocess.TimeoutExpired:
                    failed.append(f"{name}: over 180 s")
                    continue
                used = max(0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before)
            if done.returncode == 70 or done.returncode < 0 or "Traceback" in done.stderr or "\x1b" in done.stderr:
                failed.append(f"{name}: exit {done.returncode}: {done.stderr[-200:]}")
            elif used > 2 << 20:
                failed.append(f"{name}: {used >> 10} MiB")
            elif "sk-of-the-campaign" in done.stdout + done.stderr:
                failed.append(f"{name}: prints the key")
        rows.append((f"hostile {client}", len(ANSWERS), failed))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def preview(folder: Path, slow: int, busy: int) -> list[Row]:
    """`bench leaderboard serve` while clients are slow or many, ask for files outside, or name another host."""
    results = folder / "made"
    run = [*BENCH, "run", "-m", "bm25", "-d", "starter", "--results", str(results), "-q"]
    subprocess.run(run, check=True, capture_output=True)
    line = [*BENCH, "leaderboard", "serve", "--port", "0", "--out", str(folder / "served"), "--results", str(results)]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    port = 0
    for text in server.stdout:
        if "http://" in text:
            port = int(text.rpartition("http://")[2].partition("/")[0].rpartition(":")[2])
            break
    try:
        idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(slow)]
        for peer in idle:
            peer.sendall(b"GET / HT")
        failed: list[str] = []

        def ask(path: bytes, host: bytes = b"127.0.0.1") -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
                peer.sendall(b"GET " + path + b" HTTP/1.0\r\nHost: " + host + b":%d\r\n\r\n" % port)
                return b"".join(iter(lambda: peer.recv(65536), b""))

        def many() -> None:
            for _ in range(5):
                try:
                    if b" 200 " not in ask(b"/")[:20]:
                        failed.append("not 200")
                except OSError as error:
                    failed.append(str(error))

        threads = [threading.Thread(target=many) for _ in range(busy)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = [path.decode() for path in OUTSIDE if b"root:" in ask(path)]
        foreign = [host.decode() for host in FOREIGN if b" 200 " in ask(b"/", host)[:20]]
        for peer in idle:
            peer.close()
        return [
            (f"preview: {busy} busy clients while {slow} are slow", busy * 5, failed),
            ("preview: paths out of the site", len(OUTSIDE), left),
            ("preview: foreign Host headers", len(FOREIGN), foreign),
        ]
    finally:
        server.terminate()
        server.wait(30)

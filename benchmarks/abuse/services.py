"""Hostile endpoints, services and processes, and the preview server under slow, many and foreign clients."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import misbehaving

Row = tuple[str, int, list[str]]
#: What a server does with a connection and the request that came over it.
Answer = Callable[[socket.socket, bytes], None]
BENCH = [sys.executable, "-m", "bench"]
#: A key for each door, so that none is masked because another door knows it: of endpoints of chat and of embeddings, of
#: HTTP services, of MCP servers by `token=`, and of those that a client's configuration names. By variable.
KEYS = {
    "BENCH_LLM_KEY": "sk-of-a-language-model-1234",
    "BENCH_EMBEDDING_KEY": "sk-of-an-encoder-5678",
    "SERVICE_TOKEN": "bearer-of-a-service-2345",
    "MCP_TOKEN": "bearer-of-an-mcp-server-6789",
}
CONFIGURED = "of-a-configured-server-3456"
#: A command may wait for four starts of a program of a minute each, or for ten queries of half a minute each, before it
#: gives up; and take so much memory.
SECONDS, BYTES = 360, 2 << 30
#: Commands at once: most of their time they wait.
AT_ONCE = 12
HEAD = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Type: application/json\r\n"


def _flood(start: bytes, unit: bytes = b"[") -> Answer:
    def answer(peer: socket.socket, request: bytes) -> None:
        peer.sendall(start)
        while True:
            peer.sendall(unit * 65536)

    return answer


def _drip(start: bytes) -> Answer:
    def answer(peer: socket.socket, request: bytes) -> None:
        peer.sendall(start)
        while True:
            peer.sendall(b"x")
            time.sleep(0.05)

    return answer


def _fixed(data: bytes) -> Answer:
    return lambda peer, request: peer.sendall(data)


def _sized(code: int, body: bytes, more: bytes = b"") -> Answer:
    return _fixed(HEAD % code + more + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def _value(value: object, code: int = 200) -> Answer:
    return _sized(code, json.dumps(value).encode())


def _echo(code: int) -> Answer:
    """The request, its key among it, as the text of an error or of an answer."""

    def answer(peer: socket.socket, request: bytes) -> None:
        text = request.decode("latin-1")
        value: dict[str, Any] = {"error": {"message": text, "code": text}, "tools": [text]}
        value["choices"] = [{"message": {"role": "assistant", "content": text}, "finish_reason": text}]
        _value(value, code)(peer, request)

    return answer


def _escaped(code: int) -> Answer:
    """The same with every letter of a text written as a number, which JSON allows."""

    def answer(peer: socket.socket, request: bytes) -> None:
        text = "".join(f"\\u{byte:04x}" for byte in request)
        message = f'{{"role": "assistant", "content": "{text}"}}'
        choices = f'[{{"message": {message}, "finish_reason": "{text}"}}]'
        body = f'{{"error": {{"message": "{text}", "code": "{text}"}}, "tools": ["{text}"], "choices": {choices}}}'
        _sized(code, body.encode())(peer, request)

    return answer


def _bomb() -> bytes:
    """512 MiB of spaces, packed; made bit by bit, because a child counts its parent's memory as its own."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packing.compress(b" " * (1 << 20)) for _ in range(512)]
    return b"".join([*parts, packing.flush()])


BOMB = _bomb()
PACKED = b"Content-Encoding: gzip\r\n"
#: Answers that are wrong for whatever was asked.
ANSWERS: dict[str, Answer] = {
    "endless 200": _flood(HEAD % 200 + b"\r\n"), "endless 400": _flood(HEAD % 400 + b"\r\n"),
    "endless 500": _flood(HEAD % 500 + b"\r\n"), "endless 101": _flood(HEAD % 101 + b"\r\n"),
    "endless head": _flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "dripping head": _drip(b"HTTP/1.1 200 OK\r\nX-Slow: "), "dripping body": _drip(HEAD % 200 + b"\r\n"),
    "dripping error": _drip(HEAD % 500 + b"\r\n"), "silence": lambda peer, request: time.sleep(20),
    "gzip bomb 200": _sized(200, BOMB, PACKED), "gzip bomb 400": _sized(400, BOMB, PACKED),
    "no HTTP": _fixed(b"\x00\xff" * 5000), "closed": lambda peer, request: peer.close(),
    "deep": _sized(200, b"[" * 200_000), "not JSON": _sized(200, b"<html>"),
    "redirect": _fixed(b"HTTP/1.1 302 X\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),
    "wait for ever": _sized(429, b"{}", b"Retry-After: 999999999\r\n"),
    "many numbers": _sized(200, b"[" + b"1," * 900_000 + b"1]"), "a number": _value(1), "null": _value(None),
    "escape 200": _value({"tools": ["\x1b[31m\u202e"], "choices": [{"message": {"content": "\x1b[31m\u202e"}}]}),
    "escape 400": _value({"error": {"message": "\x1b[31m\u202e"}}, 400),
    "echo of the key 200": _echo(200), "echo of the key 400": _echo(400), "echo of the key 401": _echo(401),
    "echo of the key 500": _echo(500), "escaped echo of the key 200": _escaped(200),
    "escaped echo of the key 400": _escaped(400),
}  # fmt: skip


def _reply(content: object, usage: object = None) -> Answer:
    message = {"role": "assistant", "content": content}
    return _value(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage, "model": "m"}
    )


def _vectors(*vectors: object, index: object = 0) -> Answer:
    return _value({"data": [{"index": index, "embedding": vector} for vector in vectors], "model": "m", "usage": {}})


#: JSON of the wrong shape, and the right shape with wrong values, of an OpenAI-compatible endpoint.
SHAPES: dict[str, Answer] = {
    "no choices": _value({"choices": []}), "choices are a number": _value({"choices": 5}),
    "a choice is null": _value({"choices": [None]}), "no content": _reply(None),
    "content is an object": _reply({"a": 1}),
    "long content": _reply("word " * 2_000_000), "half a character": _reply("\ud800"), "deep": _reply("[" * 90_000),
    "usage is a text": _reply("a", "b"), "usage is strange": _reply("a", {"prompt_tokens": -5, "total_tokens": 10**30}),
    "no vectors": _vectors(), "an empty vector": _vectors([]), "a vector of texts": _vectors(["a", "b"]),
    "a vector of nested lists": _vectors([[1.0]]), "a vector of infinities": _vectors([1e308, -1e308, 10**400]),
    "too many vectors": _vectors(*[[0.1, 0.2]] * 5000), "a vector without its place": _vectors([0.1, 0.2], index="a"),
    "a vector that is not base64": _vectors("!!!"), "a vector of base64": _vectors("AAAAAAA="),
    "a vector of nothing": _vectors([0.0, 0.0]), "a vector of a million": _vectors([0.1] * 1_000_000),
}  # fmt: skip

# MCP ----------------------------------------------------------------------------------------------------------------


def _mcp(wrong: dict[str, Any], identifier: object = None, greets: Answer | None = None) -> Answer:
    """A server of MCP over HTTP that is wrong in one place; `greets`: what it does after a right greeting."""

    def answer(peer: socket.socket, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        question = json.loads(body) if head.startswith(b"POST") and body else {}
        if not head.startswith(b"POST"):
            _sized(405, b"{}")(peer, request)
        elif "id" not in question:
            _sized(202, b"")(peer, request)
        elif greets is not None and str(question.get("method")).startswith("tools/"):
            greets(peer, request)
        else:
            value = misbehaving.reply(question, wrong)
            _value(value if identifier is None else {**value, "id": identifier})(peer, request)

    return answer


def _mcp_echo(make: Callable[[str], dict[str, Any]]) -> Answer:
    """A server of MCP over HTTP that has the key of each request in its answer."""

    def answer(peer: socket.socket, request: bytes) -> None:
        key = re.search(rb"(?i)\r\nauthorization: *Bearer ([^\r]+)", request)
        _mcp(make(key[1].decode("latin-1") if key else "none"))(peer, request)

    return answer


EVENTS = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"
MCP_OVER_HTTP: dict[str, Answer] = {
    **{name: _mcp(wrong) for name, wrong in misbehaving.WRONG.items()},
    **{name: _mcp_echo(make) for name, make in misbehaving.ECHOES.items()},
    "wrong ids": _mcp({}, 10**9), "ids are texts": _mcp({}, "a"), "ids are objects": _mcp({}, {"a": 1}),
    "endless events": _mcp({}, greets=_flood(EVENTS, b": here\n\n")),
    "an endless event": _mcp({}, greets=_flood(EVENTS + b"data: ", b"x")),
    "dripping events": _mcp({}, greets=_drip(EVENTS)), "events, then silence": _mcp({}, greets=_fixed(EVENTS)),
    **{f"greets, then {name}": _mcp({}, greets=answer) for name, answer in ANSWERS.items()},
}  # fmt: skip


@contextmanager
def _server(answer: Answer) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)

    def one(peer: socket.socket) -> None:
        with peer, suppress(OSError, ValueError):
            answer(peer, _asked(peer))

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
        # A closed socket wakes nobody who waits for a connection.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _asked(peer: socket.socket) -> bytes:
    """A request, with its body if it says how long that is."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (part := peer.recv(65536)):
            return data
        data += part
    length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", data)
    while length and len(data.partition(b"\r\n\r\n")[2]) < int(length[1]):
        if not (part := peer.recv(65536)):
            break
        data += part
    return data


def _fault(line: list[str], folder: Path, more: dict[str, str]) -> str:
    """What is wrong with how a command ends; empty if nothing. Its own folder takes all that it writes."""
    folder.mkdir(parents=True)
    environment = {
        **os.environ, "BENCH_RESULTS": str(folder / "results"), "BENCH_DATA": str(folder / "data"),
        **KEYS, "BENCH_LLM_TIMEOUT": "1", "BENCH_LLM_JOURNAL": str(folder / "journal.jsonl"),
        "NO_PROXY": "*", **more,
    }  # fmt: skip
    begun = time.monotonic()
    with (folder / "said").open("wb") as said:
        running = subprocess.Popen([*BENCH, *line], env=environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        ended, status = 0, 0
        while not ended:
            # Not `Popen.wait`: the memory of this one command is asked for.
            ended, status, usage = os.wait4(running.pid, os.WNOHANG)
            if not ended and time.monotonic() - begun > SECONDS:
                running.kill()
                os.wait4(running.pid, 0)
                running.returncode = -9
                return f"over {SECONDS} s"
            time.sleep(0.05)
    running.returncode = code = os.waitstatus_to_exitcode(status)
    text = (folder / "said").read_bytes()
    if code == 70 or code < 0 or b"Traceback" in text:
        return f"exit {code}: {text[-300:].decode(errors='replace')}"
    if any(byte < 9 or 11 <= byte <= 31 or byte == 127 for byte in text if byte != 13):
        return "control characters"
    if usage.ru_maxrss << 10 > BYTES:
        return f"{usage.ru_maxrss >> 10} MiB"
    written = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    leaks = [
        f"the key {key!r} is in {path.relative_to(folder)}"
        for path, data in written.items()
        for key in (*KEYS.values(), CONFIGURED)
        if key.encode() in data
    ]
    shutil.rmtree(folder / "data", ignore_errors=True)
    return "; ".join(leaks)


def _configuration(file: Path, server: dict[str, Any]) -> str:
    """A client's configuration with one server, which lies outside the folder that is searched for keys."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"s": server}}))
    return str(file)


def _run(method: str, *more: str) -> list[str]:
    return ["run", "-m", method, "-d", "starter", *(more or ("--limit", "1")), "-q"]


def hostile(folder: Path, share: float = 1.0) -> list[Row]:
    """Each wrong answer to each client that asks something outside: documented exit, bounded time and memory, no key.

    Args:
        folder: a new one.
        share: of the cases of each client that are tried, spread over all of them; those that send a key back always.
    """
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = {"BENCH_LLM_URL": "{url}/v1"}
    chat = ANSWERS | {name: answer for name, answer in SHAPES.items() if "vector" not in name}
    vectors = ANSWERS | {name: answer for name, answer in SHAPES.items() if "vector" in name}
    http = 'http(url="{url}/s", token=SERVICE_TOKEN, timeout=1, tries=2)'
    served = 'mcp(server="{url}/mcp", tool=search, token=MCP_TOKEN, timeout=2)'
    proxied = {"HTTPS_PROXY": "{url}", "NO_PROXY": "", "BENCH_MIRROR": ""}
    listing = ["data", "import", "mine", "--mcp", "s={url}/mcp"]
    configured = ["data", "import", "mine", "--mcp-config", "{configuration}"]
    over_http: list[tuple[str, list[str], dict[str, Answer], dict[str, str]]] = [
        ("OpenAI-compatible endpoint: query-generation", _run("query-generation(llm=m)"), chat, endpoint),
        ("OpenAI-compatible endpoint: ptr", _run("ptr(llm=m, retriever=none, views=[], order=set)"), chat, endpoint),
        ("OpenAI-compatible endpoint: encoder", _run("dense(encoder=openai:m)"), vectors, endpoint),
        ("HTTP service: http", _run(http, "--limit", "12"), ANSWERS, {}),
        ("MCP server over HTTP: import", listing, ANSWERS | MCP_OVER_HTTP, {}),
        ("configured MCP server over HTTP: import", configured, ANSWERS | MCP_OVER_HTTP, {}),
        ("MCP server over HTTP: mcp", _run(served), ANSWERS | MCP_OVER_HTTP, {}),
        ("proxy: downloads", ["data", "fetch", "restbench"], ANSWERS, proxied),
    ]  # fmt: skip
    as_program: list[tuple[str, list[str]]] = [
        ("MCP server as a process: import", ["data", "import", "mine", "--mcp", "s={run}"]),
        ("configured MCP server as a process: import", configured),
        ("MCP server as a process: mcp", _run('mcp(server="{run}", tool=search, timeout=2)')),
        ("process: command", _run('command(run="{run}", timeout=2)', "--limit", "12")),
    ]
    asked_of: list[tuple[str, list[tuple[str, Future[str]]]]] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for client, command, answers, variables in over_http:
            place = folder / re.sub("[^A-Za-z]+", "-", client)

            def ask_one(name: str, answer: Answer, command: list[str] = command, place: Path = place,
                      variables: dict[str, str] = variables) -> str:  # fmt: skip
                with _server(answer) as url:
                    more = {key: value.replace("{url}", url) for key, value in variables.items()}
                    if "HTTPS_PROXY" in more:
                        more["BENCH_CACHE"] = str(place / f"cache of {name}")
                    line = [part.replace("{url}", url) for part in command]
                    if "{configuration}" in line:
                        server = {"url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {CONFIGURED}"}}
                        line[-1] = _configuration(place / "configurations" / f"{name}.json", server)
                    return _fault(line, place / name, more)

            names = _some(answers, share)
            asked_of.append((client, [(name, pool.submit(ask_one, name, answers[name])) for name in names]))
        for client, command in as_program:
            place = folder / re.sub("[^A-Za-z]+", "-", client)

            def ran(name: str, command: list[str] = command, place: Path = place) -> str:
                words = [misbehaving.__file__, str(list(misbehaving.PROCESSES).index(name))]
                line = [part.replace("{run}", shlex.join([sys.executable, *words])) for part in command]
                if "{configuration}" in line:
                    server = {"command": sys.executable, "args": words, "env": {misbehaving.KEY: CONFIGURED}}
                    line[-1] = _configuration(place / "configurations" / f"{name}.json", server)
                return _fault(line, place / name, {})

            names = _some(misbehaving.PROCESSES, share)
            asked_of.append((client, [(name, pool.submit(ran, name)) for name in names]))
        return [_row(client, cases) for client, cases in asked_of]


def _some(cases: dict[str, Any], share: float) -> list[str]:
    names = list(cases)
    count = max(1, round(len(names) * share))
    spread = {names[len(names) * place // count] for place in range(count)}
    return [name for name in names if name in spread or "key" in name]


def _row(client: str, cases: list[tuple[str, Future[str]]]) -> Row:
    failed = [f"{name}: {fault}" for name, case in cases if (fault := case.result())]
    row = (f"hostile {client}", len(cases), failed)
    print(row, file=sys.stderr, flush=True)
    return row


OUTSIDE = (
    b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"//etc/passwd", b"/..%2f..%2fetc/passwd",
    b"/%00", b"/.cache/", b"/\\..\\..\\etc\\passwd",
)  # fmt: skip
FOREIGN = (b"evil.example", b"127.0.0.1.evil.example", b"localhost@evil.example")


def preview(folder: Path, slow: int, busy: int) -> list[Row]:
    """`bench leaderboard build --serve` while clients are slow or many, ask for files outside, or name another host."""
    results = folder / "made"
    run = [*BENCH, "run", "-m", "bm25", "-d", "starter", "--results", str(results), "-q"]
    subprocess.run(run, check=True, capture_output=True)
    line = [*BENCH, "leaderboard", "build", "--serve", "0", "--out", str(folder / "served"), "--results", str(results)]
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

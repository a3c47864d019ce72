"""A server on loopback that speaks chat completions and embeddings, and misbehaves on demand.

Tests get one by the fixture `chat_server`. By default it answers every prompt with `reply to: PROMPT`, and embeds a
text by its letters. `answer` and `vector` may be replaced, and each entry of `faults` spoils one request, in order.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


class Exchange:
    """One request that waits for an answer."""

    def __init__(self, server: ChatServer, handler: BaseHTTPRequestHandler, body: Body) -> None:
        self.server = server
        self.body = body
        self._handler = handler

    @property
    def reply(self) -> Body:
        """What a server that behaves would answer."""
        return self.server.reply(self.body)

    def send(self, data: bytes | Body, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.begin(len(content), status, headers)
        self.write(content)

    def begin(self, length: int, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self._handler.send_header(name, value)
        self._handler.send_header("Content-Length", str(length))
        self._handler.end_headers()

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def hang_up(self) -> None:
        """Drop the connection, so that the other side sees a reset and no end."""
        self._handler.close_connection = True
        self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._handler.connection.close()


Fault = Callable[[Exchange], None]


class ChatServer:
    """The server.

    Attributes:
        base, paths, key_header: end of its address, what may be asked below it, and where the key is.
        url: its address, as BENCH_LLM_URL wants it.
        requests: bodies of all requests that came, spoilt ones too.
        keys: their Authorization headers.
        faults: what spoils the next requests, one entry each; None spoils nothing.
        fault: what spoils every request that no entry of `faults` is for.
        answer: gives the text for the body of a chat request.
        calls: gives the tool calls (name, arguments) for the body of a chat request.
        vector: gives the vector of a text.
        most_at_once: the most requests that were open at one moment.
        flooded: bytes that `flood` could send.
    """

    base = "/v1"
    paths = r"/chat/completions|/embeddings"
    key_header = "Authorization"

    def __init__(self) -> None:
        self.requests: list[Body] = []
        self.keys: list[str] = []
        self.faults: deque[Fault | None] = deque()
        self.fault: Fault | None = None
        self.answer: Callable[[Body], str] = lambda body: f"reply to: {body['messages'][-1]['content']}"
        self.calls: Callable[[Body], list[tuple[str, str]]] = lambda body: []
        self.vector: Callable[[str], list[float]] = lambda text: (
            [float(text.count(letter)) for letter in "aeiost"] + [1]
        )
        self.closing = threading.Event()
        self.most_at_once = 0
        self.flooded = 0
        self._open = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Else the kernel holds a body back for 40 ms.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *arguments: object) -> None:
                """A client that went away is no error of a test."""

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}{self.base}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Stop; requests that hang are let go."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def prompts(self) -> list[str]:
        """The last message of each chat request that came."""
        return [body["messages"][-1]["content"] for body in self.requests if "messages" in body]

    def reply(self, body: Body) -> Body:
        """The body of a good answer."""
        if "messages" not in body:
            texts = body["input"]
            rows = [{"object": "embedding", "index": i, "embedding": self.vector(text)} for i, text in enumerate(texts)]
            used = sum(len(text.split()) or 1 for text in texts)
            return {"data": rows, "model": body["model"], "usage": {"prompt_tokens": used, "total_tokens": used}}
        called = [
            {"id": f"call-{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(self.calls(body))
        ]
        text = "" if called else self.answer(body)
        texts = [message["content"] for message in body["messages"]] + list(map(json.dumps, body.get("tools", ())))
        given = sum(len(text.split()) for text in texts)
        made = len(text.split()) + len(called)
        message: Body = {"role": "assistant", "content": text}
        if called:
            message = {"role": "assistant", "content": None, "tool_calls": called}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": f"{body['model']}-served",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": given or 1, "completion_tokens": made, "total_tokens": (given or 1) + made},
        }

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.requests.append(body)
            self.keys.append(handler.headers.get(self.key_header, ""))
            fault = self.faults.popleft() if self.faults else self.fault
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        exchange = Exchange(self, handler, body)
        try:
            if not re.fullmatch(f"{self.base}({self.paths})", handler.path):
                exchange.send({"error": {"message": f"no such path: {handler.path}"}}, 404)
            elif fault is None:
                exchange.send(exchange.reply)
            else:
                fault(exchange)
        finally:
            with self._lock:
                self._open -= 1


def by_words(body: Body) -> list[tuple[str, str]]:
    """Calls the tool that has most words of the request, none where no tool has any: for `ChatServer.calls`."""

    def words(text: str) -> set[str]:
        return set(re.findall(r"[a-z]{4,}", text.lower()))

    wanted = words(body["messages"][-1]["content"])
    tools = [tool["function"] for tool in body["tools"]]
    score, name = max(
        (len(wanted & words(f"{t['name'].replace('_', ' ')} {t['description']}")), t["name"]) for t in tools
    )
    return [(name, "{}")] if score else []


# Faults -------------------------------------------------------------------------------------------------------------


def status(number: int, message: str = "of no use", headers: Mapping[str, str] | None = None, **error: Any) -> Fault:
    """An HTTP status with an error as OpenAI words them; `error` gives more fields: `code`, `param`."""
    return lambda exchange: exchange.send({"error": {"message": message, **error}}, number, headers)


def raw(data: bytes, code: int = 200) -> Fault:
    """These bytes for an answer."""
    return lambda exchange: exchange.send(data, code)


def changed(change: Callable[[Body], Any]) -> Fault:
    """A good answer after `change` was done to it (in place, or by giving another)."""

    def fault(exchange: Exchange) -> None:
        body = exchange.reply
        other = change(body)
        exchange.send(json.dumps(body if other is None else other).encode())

    return fault


def message(**fields: Any) -> Fault:
    """A good answer with other fields in its message."""
    return changed(lambda body: body["choices"][0]["message"].update(fields))


def finish(reason: Any) -> Fault:
    """A good answer that ended for another reason."""
    return changed(lambda body: body["choices"][0].update(finish_reason=reason))


def usage(value: Any) -> Fault:
    """A good answer that counts its tokens otherwise."""
    return changed(lambda body: body.update(usage=value))


def hang(seconds: float = 60.0) -> Fault:
    """No answer for so long, then a good one."""

    def fault(exchange: Exchange) -> None:
        exchange.server.closing.wait(seconds)
        exchange.send(exchange.reply)

    return fault


def drop(after: int = -1) -> Fault:
    """The connection breaks: before the answer, or so many bytes into its body."""

    def fault(exchange: Exchange) -> None:
        if after >= 0:
            data = json.dumps(exchange.reply).encode()
            exchange.begin(len(data))
            exchange.write(data[:after])
            time.sleep(0.05)
        exchange.hang_up()

    return fault


def flood(code: int, most: int = 256 << 20) -> Fault:
    """A body without an end, under a status; `most` bytes of it if nobody hangs up."""

    def fault(exchange: Exchange) -> None:
        exchange.begin(1 << 50, code)
        piece = b"no! " * (1 << 16)
        for _ in range(most // len(piece)):
            exchange.write(piece)
            exchange.server.flooded += len(piece)

    return fault


@cache
def _packed(size: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(b" " * (1 << 20)) for _ in range(size >> 20)) + packer.flush()


def bomb(code: int, size: int = 128 << 20) -> Fault:
    """A few packed bytes that are `size` bytes unpacked, under a status."""
    packed = _packed(size)
    return lambda exchange: exchange.send(packed, code, {"Content-Encoding": "gzip"})


def drip_head(pause: float = 0.05) -> Fault:
    """The head of an answer byte by byte, without an end."""

    def fault(exchange: Exchange) -> None:
        exchange.write(b"HTTP/1.1 400 Bad\r\nX-Slow: ")
        while not exchange.server.closing.wait(pause):
            exchange.write(b"x")

    return fault


def drip(pause: float = 0.05) -> Fault:
    """A good answer byte by byte."""

    def fault(exchange: Exchange) -> None:
        data = json.dumps(exchange.reply).encode()
        exchange.begin(len(data))
        for i in range(len(data)):
            if exchange.server.closing.wait(pause):
                return
            exchange.write(data[i : i + 1])

    return fault

"""A search service on loopback that a test makes misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request; `sent` is its JSON body."""

    sent: Any = None
    # Else the kernel holds a body back for 40 ms.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answered()

    def do_GET(self) -> None:
        self._answered()

    def _answered(self) -> None:
        server = self.server
        assert isinstance(server, Service)
        with server.counting:
            server.seen.append((self.command, self.path, self.sent, dict(self.headers)))
            server.open += 1
            server.most_open = max(server.most_open, server.open)
        try:
            server.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with server.counting:
                server.open -= 1

    def reply(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def drip(self, data: bytes, pause: float) -> None:
        """Send a byte at a time, until the other side has gone."""
        for byte in data:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(pause)

    def log_message(self, *arguments: object) -> None:
        return


class Service(ThreadingHTTPServer):
    """Answers by `answer`, which a test sets; `seen` are (verb, path, body, headers) of requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.counting = threading.Lock()
        self.seen: list[tuple[str, str, Any, dict[str, str]]] = []
        self.open = self.most_open = 0
        self.answer: Answer = lambda request: request.reply([])
        self.url = f"http://127.0.0.1:{self.server_address[1]}/search"

    def handle_error(self, *arguments: object) -> None:
        return


@contextmanager
def serving() -> Iterator[Service]:
    """A service, until the block ends."""
    server = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()

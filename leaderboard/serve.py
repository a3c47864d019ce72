"""The preview server: serves the site on localhost and rebuilds it on changes. `command` starts it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from bench.base.errors import BenchError, StorageError
from bench.results.store import MANIFEST, STRESS

State = frozenset[tuple[str, int, int]]


class _Handler(SimpleHTTPRequestHandler):
    """Serve files to programs of this machine, without logging, and forbid browsers to cache pages."""

    #: Timeout of a client's request, in seconds.
    timeout = 30

    def parse_request(self) -> bool:
        """Refuse requests for another host: a page of that host could read the site through the user's browser."""
        if not super().parse_request():
            return False
        host = self.headers.get("Host", "localhost").strip()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() in {"localhost", "127.0.0.1", "[::1]"}:
            return True
        self.send_error(421, "Misdirected Request")
        return False

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Do not follow links out of the site; this includes a folder's index page."""
        site, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        try:
            inside = all(one.resolve().is_relative_to(site) for one in (path, path / "index.html", path / "index.htm"))
        except (OSError, RuntimeError, ValueError):  # circular links, or an invalid path
            inside = False
        if inside:
            return super().send_head()
        self.send_error(404, "File not found")
        return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the interface's
        return

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def state_of(results: Path) -> State:
    """What changes when results change: paths, times and sizes of their manifests, and of what stress measured."""
    entries = set()
    for path in (*results.glob(f"*/*/{MANIFEST}"), *results.glob(f"*/*/{STRESS}")):
        try:
            status = path.stat()
        except OSError:
            continue
        entries.add((str(path), status.st_mtime_ns, status.st_size))
    return frozenset(entries)


def open_server(out: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder on localhost; port 0 selects a free port.

    Raises:
        StorageError: the port is taken or not allowed.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(out)))
    except (OSError, OverflowError) as error:
        raise StorageError(f"cannot serve on port {port} ({error}); name another with --port.") from None


def watch(
    results: Path,
    last: State,
    build: Callable[[], None],
    say: Callable[[str], None],
    stop: threading.Event,
    every: float = 1.0,
) -> None:
    """Rebuild after each change of the results until stopped; a failed build does not stop it.

    Args:
        results: their folder.
        last: their state before the site was built.
        build: rebuilds the site.
        say: called with the reason if a build fails.
        stop: ends it.
        every: seconds between checks of the folder.
    """
    while not stop.wait(every):
        now = state_of(results)
        if now == last:
            continue
        last = now
        try:
            build()
        except BenchError as error:
            say(str(error))

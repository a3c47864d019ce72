"""Downloads against a real server on loopback that misbehaves by script."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from bench.base.errors import BenchError, DataError, UnavailableError
from bench.data import sources as sources_module
from bench.data.sources import Sources

COMMIT = "owner/repo/" + "0" * 40
NAME = f"{COMMIT}/data/queries.json"
BODY = bytes(range(256)) * 800  # 204,800 bytes: several chunks


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Upstream(ThreadingHTTPServer):
    """Serves `files` by name, with ranges; `script` holds replies that a name gives first, one for each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {NAME: BODY}
        self.script: dict[str, list[Reply]] = {}
        self.requests: list[tuple[str, str | None, float]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ranges(self, name: str = NAME) -> list[str | None]:
        """The Range header of each request for a file, in order."""
        return [request for requested, request, _ in self.requests if requested == name]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"
    # Else the kernel holds a body back for 40 ms.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        name = unquote(self.path).removeprefix("/")
        with self.server.lock:
            self.server.requests.append((name, self.headers["Range"], time.monotonic()))
            replies = self.server.script.get(name, [])
            reply = replies.pop(0) if replies else serve
        reply(self, self.server.files.get(name, b""))

    def answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


Reply = Callable[[Handler, bytes], None]


def wanted(handler: Handler, body: bytes) -> tuple[int, bytes]:
    start = handler.headers["Range"]
    return (200, body) if start is None else (206, body[int(start.removeprefix("bytes=").removesuffix("-")) :])


def serve(handler: Handler, body: bytes) -> None:
    code, part = wanted(handler, body)
    if code == 206 and not part:
        handler.answer(416)
    else:
        handler.answer(code, part)


def whole(handler: Handler, body: bytes) -> None:
    handler.answer(200, body)


def status(code: int, **headers: Any) -> Reply:
    return lambda handler, body: handler.answer(code, b"an error page", **headers)


def drop_after(count: int) -> Reply:
    """The connection breaks `count` bytes into what was asked for."""

    def reply(handler: Handler, body: bytes) -> None:
        code, part = wanted(handler, body)
        handler.answer(code, part[:count], length=len(part))
        handler.close_connection = True

    return reply


def hang_up(handler: Handler, body: bytes) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def drip(handler: Handler, body: bytes) -> None:
    handler.answer(200, length=len(body))
    for start in range(0, len(body), 1000):
        handler.wfile.write(body[start : start + 1000])
        handler.wfile.flush()


def endless(handler: Handler, body: bytes) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    with suppress(OSError):
        while True:
            handler.wfile.write(bytes(1 << 16))


class Recorder:
    """Progress that remembers what it is told."""

    def __init__(self) -> None:
        self.advanced: Counter[str] = Counter()
        self.notes: list[str] = []

    @contextmanager
    def stage(self, title: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
        recorder = self

        class Stage:
            def advance(self, amount: int = 1) -> None:
                recorder.advanced[title] += amount

        yield Stage()

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to loopback go there directly."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A server of files on loopback."""
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache."""
    return tmp_path / "cache"


@pytest.fixture
def sources(upstream: Upstream, cache: Path) -> Sources:
    """Downloads from the server into the cache, without waiting between attempts."""
    return Sources(cache=cache, base_url=upstream.url, patience=0.001)


def stored(cache: Path) -> list[str]:
    """Every file below `cache/upstream`."""
    root = cache / "upstream"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def part_of(cache: Path, data: bytes) -> Path:
    """Leave the beginning of a download behind, as an interrupted process does."""
    part = cache / "upstream" / f"{NAME}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(data)
    return part


def test_files_arrive_with_the_right_bytes_under_their_names(upstream: Upstream, sources: Sources, cache: Path) -> None:
    names = [
        "a b.json",
        "größe/工具 №1.jsonl",
        "100%25 #1?x=y&z.txt",
        "+plus;semi'quote\".csv",
        "a/b/c/deep.txt",
        "~.x",
    ]
    upstream.files = {f"{COMMIT}/{name}": f"{name} text".encode() * 100 for name in names}
    upstream.files[f"{COMMIT}/empty"] = b""
    paths = sources.fetch({name: sha(data) for name, data in upstream.files.items()})
    assert {name: path.read_bytes() for name, path in paths.items()} == upstream.files
    assert paths == {name: cache / "upstream" / name for name in upstream.files}
    assert stored(cache) == sorted(upstream.files)
    assert Counter(name for name, _, _ in upstream.requests) == Counter(upstream.files.keys())


def test_a_name_as_long_as_the_file_system_allows_is_fetched(upstream: Upstream, sources: Sources) -> None:
    name = f"{COMMIT}/" + "n" * 255
    upstream.files = {name: b"long"}
    assert sources.fetch({name: sha(b"long")})[name].read_bytes() == b"long"


@pytest.mark.parametrize(
    "faults",
    [
        [status(500)],
        [status(502), status(504)],
        [status(503, Retry_After="0")],
        [status(429, Retry_After="1")],
        [hang_up],
        [drop_after(0)],
        [drop_after(10)],
        [drop_after(100_000), drop_after(70_000)],
        [drop_after(100_000), whole],
        [status(500), hang_up, drop_after(100_000), status(503)],
    ],
)
def test_passing_faults_are_survived_by_asking_again(
    upstream: Upstream, sources: Sources, cache: Path, faults: list[Reply]
) -> None:
    upstream.script[NAME] = list(faults)
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    expected = len(faults) + (faults[-1] is not whole)
    assert len(upstream.requests) == expected
    assert stored(cache) == [NAME]


def test_a_slow_download_arrives(upstream: Upstream, sources: Sources) -> None:
    upstream.script[NAME] = [drip]
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert len(upstream.requests) == 1


def test_a_broken_download_goes_on_from_the_byte_where_it_stopped(upstream: Upstream, cache: Path) -> None:
    sizes: list[int] = []

    def look_then_serve(handler: Handler, body: bytes) -> None:
        sizes.append((cache / "upstream" / f"{NAME}.part").stat().st_size)
        serve(handler, body)

    upstream.script[NAME] = [drop_after(100_000), look_then_serve]
    progress = Recorder()
    sources = Sources(cache=cache, base_url=upstream.url, patience=0.001, progress=progress)
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert 0 < sizes[0] <= 100_000
    assert upstream.ranges() == [None, f"bytes={sizes[0]}-"]
    # No byte is written twice.
    assert progress.advanced == {"received": len(BODY), "download": 1}


@pytest.mark.parametrize("have", [1, 100_000, len(BODY) - 1])
def test_what_an_earlier_process_left_is_resumed(upstream: Upstream, sources: Sources, cache: Path, have: int) -> None:
    part_of(cache, BODY[:have])
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert upstream.ranges() == [f"bytes={have}-"]


def test_a_part_that_was_complete_is_kept_when_the_server_has_no_more(
    upstream: Upstream, sources: Sources, cache: Path
) -> None:
    part_of(cache, BODY)
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert upstream.ranges() == [f"bytes={len(BODY)}-"]  # answered with 416
    assert stored(cache) == [NAME]


def test_a_server_that_ignores_ranges_sends_the_whole_file(upstream: Upstream, sources: Sources, cache: Path) -> None:
    part_of(cache, BODY[:100_000])
    upstream.script[NAME] = [whole]
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert upstream.ranges() == ["bytes=100000-"]


@pytest.mark.parametrize("stale", [b"\1" * 1000, b"\1" * len(BODY), b"\1" * (len(BODY) + 5)])
def test_a_part_of_another_version_is_thrown_away(
    upstream: Upstream, sources: Sources, cache: Path, stale: bytes
) -> None:
    part_of(cache, stale)
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert upstream.ranges() == [f"bytes={len(stale)}-", None]
    assert stored(cache) == [NAME]


def test_wrong_content_is_refused_and_nothing_is_kept(upstream: Upstream, sources: Sources, cache: Path) -> None:
    with pytest.raises(DataError) as caught:
        sources.fetch({NAME: sha(b"the right text")})
    assert str(caught.value) == (
        f"the download of {NAME} has sha256 {sha(BODY)[:16]}..., but its card says {sha(b'the right text')[:16]}...: "
        "the file is corrupted or not the version named; it was not used."
    )
    assert stored(cache) == []
    assert len(upstream.requests) == 1


def test_a_wrong_resumed_download_is_tried_once_more_from_the_start_then_refused(
    upstream: Upstream, sources: Sources, cache: Path
) -> None:
    part_of(cache, BODY[:500])
    with pytest.raises(DataError, match="the download of"):
        sources.fetch({NAME: sha(b"the right text")})
    assert upstream.ranges() == ["bytes=500-", None]
    assert stored(cache) == []


def test_a_body_without_end_is_refused_and_nothing_of_it_is_kept(
    upstream: Upstream, sources: Sources, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "LARGEST_FILE", 1 << 20)
    upstream.script[NAME] = [endless]
    with pytest.raises(DataError, match=r"is larger than .*refused"):
        sources.fetch({NAME: sha(BODY)})
    assert len(upstream.requests) == 1
    # Else the disk stays full, and a server that honours ranges is asked for more of the same.
    assert stored(cache) == []


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 451])
def test_a_refusal_of_the_server_is_told_at_once(upstream: Upstream, sources: Sources, cache: Path, code: int) -> None:
    upstream.script[NAME] = [status(code)]
    with pytest.raises(UnavailableError, match=f"queries.json answers HTTP {code}; .*BENCH_MIRROR"):
        sources.fetch({NAME: sha(BODY)})
    assert len(upstream.requests) == 1
    assert stored(cache) == []


def test_a_lasting_fault_is_given_up_after_five_attempts(upstream: Upstream, sources: Sources) -> None:
    upstream.script[NAME] = [status(503)] * 9
    with pytest.raises(UnavailableError) as caught:
        sources.fetch({NAME: sha(BODY)})
    assert str(caught.value) == (
        f"could not download {NAME} in 5 attempts (HTTP 503); run the command again to resume, "
        "or point BENCH_MIRROR at a mirror."
    )
    assert len(upstream.requests) == 5


def test_the_command_run_again_resumes_what_was_given_up(upstream: Upstream, sources: Sources, cache: Path) -> None:
    body = upstream.files[NAME] = BODY * 4
    upstream.script[NAME] = [drop_after(100_000)] * 5
    with pytest.raises(UnavailableError, match="in 5 attempts"):
        sources.fetch({NAME: sha(body)})
    have = (cache / "upstream" / f"{NAME}.part").stat().st_size
    assert have > 0
    assert sources.fetch({NAME: sha(body)})[NAME].read_bytes() == body
    assert upstream.ranges()[5:] == [f"bytes={have}-"]


def test_a_host_that_is_not_there_is_given_up_after_two_attempts(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"could not download {NAME} in 2 attempts"):
        Sources(cache=cache, base_url=f"http://127.0.0.1:{port}", patience=0.001).fetch({NAME: sha(BODY)})


def test_the_wait_that_the_server_asks_for_is_kept(upstream: Upstream, cache: Path) -> None:
    upstream.script[NAME] = [status(503, Retry_After="30")]
    Sources(cache=cache, base_url=upstream.url, patience=0.01).fetch({NAME: sha(BODY)})
    first, second = (at for _, _, at in upstream.requests)
    assert 0.3 <= second - first < 5  # 30 seconds, scaled by patience; unasked it is at most 0.015


@pytest.mark.parametrize("value", ["soon", "Wed, 21 Oct 2015 07:28:00 GMT", "-3", "1.5", "²", "9" * 400, ""])
def test_a_wait_that_makes_no_sense_is_no_fault(upstream: Upstream, cache: Path, value: str) -> None:
    upstream.script[NAME] = [status(503, Retry_After=value)]
    sources = Sources(cache=cache, base_url=upstream.url, patience=0.0001)
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY


def test_redirections_are_followed(upstream: Upstream, sources: Sources) -> None:
    upstream.files = {"elsewhere": b"moved"}
    upstream.script[NAME] = [status(302, Location="/elsewhere")]
    assert sources.fetch({NAME: sha(b"moved")})[NAME].read_bytes() == b"moved"


@pytest.mark.parametrize(
    "reply",
    [status(302, Location=f"/{NAME}"), status(200, Content_Encoding="gzip")],
    ids=["redirected in a circle", "garbled gzip"],
)
def test_an_answer_that_makes_no_sense_is_a_sentence(
    upstream: Upstream, sources: Sources, cache: Path, reply: Reply
) -> None:
    upstream.script[NAME] = [reply] * 150
    with pytest.raises(BenchError, match=r"queries\.json"):
        sources.fetch({NAME: sha(BODY)})
    assert NAME not in stored(cache)

"""What is fetched and what is not: offline, cached files, mirrors, a cache that cannot be written."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from bench.base.config import config_context
from bench.base.errors import DataError, StorageError, UnavailableError
from bench.data.sources import Sources

COMMIT = "owner/repo/" + "0" * 40
NAME = f"{COMMIT}/data/queries.json"
BODY = b"{}" * 5000


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Upstream:
    """A plain web server over a folder, and the names it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.before: Callable[[str], object] = self.asked.append
        upstream = self

        class Handler(SimpleHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                upstream.before(unquote(self.path).removeprefix("/"))
                super().do_GET()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def put(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """A server with one file."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    upstream = Upstream(tmp_path / "upstream")
    upstream.put(NAME, BODY)
    with upstream.server as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield upstream
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


def test_offline_fails_at_once_without_a_request_and_names_the_file(
    upstream: Upstream, sources: Sources, cache: Path
) -> None:
    others = {f"{COMMIT}/{letter}": letter.encode() for letter in "zab"}
    for name, data in others.items():
        upstream.put(name, data)
    sources.fetch({f"{COMMIT}/z": sha(b"z")})
    upstream.asked.clear()
    offline = Sources(cache=cache, base_url=upstream.url, offline=True)
    with pytest.raises(UnavailableError, match=f"offline, and 2 of 3 files are not in the cache, first {COMMIT}/a; "):
        offline.fetch({name: sha(data) for name, data in others.items()})
    assert upstream.asked == []
    # What is there is there.
    assert offline.fetch({f"{COMMIT}/z": sha(b"z")})[f"{COMMIT}/z"].read_bytes() == b"z"


def test_cached_files_are_not_requested_again(upstream: Upstream, sources: Sources) -> None:
    first = sources.fetch({NAME: sha(BODY)})
    upstream.put(f"{COMMIT}/more", b"more")
    assert sources.fetch({NAME: sha(BODY), f"{COMMIT}/more": sha(b"more")})[NAME] == first[NAME]
    assert upstream.asked == [NAME, f"{COMMIT}/more"]


def test_a_damaged_cached_file_is_fetched_again(upstream: Upstream, sources: Sources) -> None:
    path = sources.fetch({NAME: sha(BODY)})[NAME]
    path.write_bytes(BODY[:-1])
    assert sources.fetch({NAME: sha(BODY)})[NAME].read_bytes() == BODY
    assert upstream.asked == [NAME, NAME]


def test_one_missing_file_does_not_undo_the_others(upstream: Upstream, sources: Sources) -> None:
    with pytest.raises(UnavailableError, match="gone answers HTTP 404"):
        sources.fetch({NAME: sha(BODY), f"{COMMIT}/gone": sha(b"x")})
    upstream.put(f"{COMMIT}/gone", b"x")
    paths = sources.fetch({NAME: sha(BODY), f"{COMMIT}/gone": sha(b"x")})
    assert [path.read_bytes() for path in paths.values()] == [BODY, b"x"]
    assert Counter(upstream.asked) == {NAME: 1, f"{COMMIT}/gone": 2}


@pytest.fixture
def mirrored(tmp_path: Path, upstream: Upstream, cache: Path) -> tuple[Sources, Path]:
    """Sources with a mirror that has the file, and its path there."""
    copy = tmp_path / "mirror" / NAME
    copy.parent.mkdir(parents=True)
    copy.write_bytes(BODY)
    return Sources(mirror=tmp_path / "mirror", cache=cache, base_url=upstream.url), copy


def test_a_mirror_is_used_instead_of_the_network(
    upstream: Upstream, mirrored: tuple[Sources, Path], cache: Path
) -> None:
    sources, copy = mirrored
    assert sources.fetch({NAME: sha(BODY)}) == {NAME: copy}
    assert upstream.asked == []
    assert not cache.exists()


def test_a_file_of_the_mirror_is_checked(upstream: Upstream, mirrored: tuple[Sources, Path]) -> None:
    sources, copy = mirrored
    copy.write_bytes(BODY + b"!")
    with pytest.raises(DataError, match=r"queries.json in the mirror has sha256 .*but its card says"):
        sources.fetch({NAME: sha(BODY)})
    assert upstream.asked == []


def test_a_file_that_the_mirror_lacks_is_not_looked_for_elsewhere(
    upstream: Upstream, mirrored: tuple[Sources, Path], sources: Sources
) -> None:
    sources.fetch({NAME: sha(BODY)})
    upstream.asked.clear()
    mirrored[1].unlink()
    with pytest.raises(UnavailableError, match=f"the mirror .*mirror has no file {NAME}; complete it"):
        mirrored[0].fetch({NAME: sha(BODY)})
    assert upstream.asked == []


def test_files_come_from_where_the_session_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_MIRROR", "~/mirror")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BENCH_OFFLINE", "0")
    assert Sources.from_session().mirror == tmp_path / "mirror"
    assert not Sources.from_session().offline
    with config_context(mirror=Path("given"), offline=True):
        assert Sources.from_session().mirror == Path("given")
        assert Sources.from_session().offline
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    monkeypatch.delenv("BENCH_MIRROR")
    assert Sources.from_session().offline
    assert Sources.from_session().mirror is None


@pytest.mark.parametrize("blocked", ["cache", "cache/upstream", "cache/upstream/owner", ""])
def test_a_cache_that_cannot_be_written_is_a_storage_error(
    upstream: Upstream, tmp_path: Path, cache: Path, blocked: str
) -> None:
    # Root may write into any folder, but not below a file.
    place = tmp_path / (blocked or "file")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("a file where a folder should be")
    sources = Sources(cache=cache if blocked else place / "cache", base_url=upstream.url, patience=0.001)
    with pytest.raises(StorageError, match="cannot write"):
        sources.fetch({NAME: sha(BODY)})
    assert upstream.asked == []
    assert place.read_text() == "a file where a folder should be"


def test_two_processes_that_fetch_the_same_files_ask_for_each_once(upstream: Upstream, cache: Path) -> None:
    files = {f"{COMMIT}/{number}": f"file {number}".encode() * 1000 for number in range(12)}
    for name, data in files.items():
        upstream.put(name, data)
    waiting = threading.Event()

    # Whoever comes first is held up until the other has met the lock, so that the two do overlap.
    def hold_until_the_other_waits(name: str) -> None:
        upstream.asked.append(name)
        if name == "waiting":
            waiting.set()
        assert waiting.wait(30)

    upstream.before = hold_until_the_other_waits
    upstream.put("waiting", b"")
    program = f"""
import json, sys
from pathlib import Path
from urllib.request import urlopen
from bench.data.sources import Sources
from bench.base.progress import Quiet

class Waiting(Quiet):
    def note(self, message):
        assert "another process is downloading" in message
        urlopen({upstream.url + "/waiting"!r}).read()

sources = Sources(cache=Path({str(cache)!r}), base_url={upstream.url!r}, patience=0.01, progress=Waiting())
paths = sources.fetch(json.load(sys.stdin))
print(json.dumps({{name: path.read_text() for name, path in paths.items()}}))
"""
    wanted = json.dumps({name: sha(data) for name, data in files.items()})
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(wanted)
        process.stdin.close()
    for process in processes:
        assert process.stdout is not None
        with process.stdout:
            printed = process.stdout.read()
        assert process.wait(30) == 0
        assert json.loads(printed) == {name: data.decode() for name, data in files.items()}
    assert Counter(upstream.asked) == {**dict.fromkeys(files, 1), "waiting": 1}

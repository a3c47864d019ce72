"""Upstream files from a mirror, the cache or the network, verified by checksum. The registry fetches with it.

Every file is named `owner/repo/commit/path` and has a sha256 in its dataset's card. A download goes
to `NAME.part`, resumes there after an interruption, is checked, and is renamed into the cache.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from bench.base.config import current_session
from bench.base.errors import DataError, UnavailableError
from bench.base.http import retry_after
from bench.base.locks import lock
from bench.base.paths import cache_folder, expand_path, sha256_of, storage_errors
from bench.base.progress import QUIET, Progress

if TYPE_CHECKING:
    import httpx

UPSTREAM_URL = "https://raw.githubusercontent.com"
ATTEMPTS = 5
UNREACHABLE_ATTEMPTS = 2
CONNECTIONS = 4
LONGEST_WAIT = 60.0
# No dataset file comes close to this; a server that never stops sending must not fill the disk.
LARGEST_FILE = 4 << 30


class _TryAgain(Exception):
    """A temporary fault of the server or the connection; `wait` is the delay that the server requested, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class Sources:
    """Where upstream files come from.

    With `mirror`, files are only read from there. With `offline`, a file that is in neither the mirror nor the cache is
    an error at once.
    """

    mirror: Path | None = None
    offline: bool = False
    cache: Path = field(default_factory=cache_folder)
    progress: Progress = QUIET
    base_url: str = UPSTREAM_URL
    patience: float = 1.0  # scales the waits between attempts

    @staticmethod
    def from_session(progress: Progress = QUIET) -> Sources:
        """As set in the current session, whose defaults are `BENCH_MIRROR` and `BENCH_OFFLINE`."""
        here = current_session()
        return Sources(expand_path(here.mirror) if here.mirror else None, here.offline, progress=progress)

    def fetch(self, files: Mapping[str, str]) -> dict[str, Path]:
        """Make every file (`owner/repo/commit/path` -> sha256) available and verified; return local paths.

        Raises:
            UnavailableError: a file is missing and may not be, or could not be, downloaded.
            DataError: a file's sha256 is not the card's.
            StorageError: the cache cannot be written.
        """
        if self.mirror is not None:
            return {name: self._from_mirror(self.mirror, name, digest) for name, digest in files.items()}
        paths = {name: self.cache / "upstream" / name for name in files}
        missing = {name: digest for name, digest in files.items() if not _matches(paths[name], digest)}
        if missing and self.offline:
            raise UnavailableError(
                f"offline, and {len(missing)} of {len(files)} files are not in the cache, first {min(missing)}; "
                "run `bench data fetch` with a network, or point BENCH_MIRROR at a mirror."
            )
        if missing:
            self._download_all(missing)
        return paths

    def check(self, name: str, digest: str) -> None:
        """Like `fetch` for one file, but a damaged file in the cache is reported and kept."""
        path = self.cache / "upstream" / name
        if self.mirror is None and path.is_file() and (actual := sha256_of(path)) != digest:
            raise DataError(_mismatch(str(path), actual, digest))
        self.fetch({name: digest})

    def _from_mirror(self, mirror: Path, name: str, digest: str) -> Path:
        path = mirror / name
        if not path.is_file():
            raise UnavailableError(f"the mirror {mirror} has no file {name}; complete it, or do without a mirror.")
        actual = sha256_of(path)
        if actual != digest:
            raise DataError(_mismatch(f"{path} in the mirror", actual, digest))
        return path

    def _download_all(self, files: Mapping[str, str]) -> None:
        import httpx

        with (
            lock(self.cache / "download.lock", f"downloading into {self.cache}", self.progress),
            self.progress.stage("download", len(files), "files") as files_done,
            self.progress.stage("received", None, "B") as received,
            httpx.Client(
                headers={"Accept-Encoding": "identity", "User-Agent": "tool-retrieval-bench"},
                timeout=httpx.Timeout(30.0),
                follow_redirects=True,
                limits=httpx.Limits(max_connections=CONNECTIONS),
            ) as client,
        ):

            def get(item: tuple[str, str]) -> None:
                name, digest = item
                path = self.cache / "upstream" / name
                # Another process may have fetched it while this one waited for the lock.
                if not _matches(path, digest):
                    self._download(client, name, digest, path, received.advance)
                files_done.advance()

            with ThreadPoolExecutor(CONNECTIONS) as pool:
                futures = [pool.submit(get, item) for item in files.items()]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    def _download(self, client: httpx.Client, name: str, digest: str, path: Path, count: Callable[[int], None]) -> None:
        import httpx

        part = _part(path)
        with storage_errors(str(part)):
            path.parent.mkdir(parents=True, exist_ok=True)
        problem = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                resumed = self._receive(client, name, part, count)
            except (_TryAgain, httpx.RequestError) as error:
                problem = str(error) or type(error).__name__
                # A host that cannot be reached is rarely back a moment later, so fail soon.
                if attempt == (UNREACHABLE_ATTEMPTS if isinstance(error, httpx.ConnectError) else ATTEMPTS):
                    break
                self._wait(attempt, error.wait if isinstance(error, _TryAgain) else None)
                continue
            actual = sha256_of(part)
            if actual == digest:
                with storage_errors(str(path)):
                    os.replace(part, path)
                return
            part.unlink()
            # The first part may be damaged or of another version: start again once.
            if not resumed:
                raise DataError(_mismatch(f"the download of {name}", actual, digest))
            problem = "the resumed download did not match its checksum"
        raise UnavailableError(
            f"could not download {name} in {attempt} attempts ({problem}); run the command again to resume, "
            "or point BENCH_MIRROR at a mirror."
        )

    def _wait(self, attempt: int, requested: float | None) -> None:
        wait = 2.0 ** (attempt - 1) * (0.5 + random.random()) if requested is None else requested
        time.sleep(min(wait, LONGEST_WAIT) * self.patience)

    def _receive(self, client: httpx.Client, name: str, part: Path, count: Callable[[int], None]) -> bool:
        """Append the missing bytes to `part`; return whether the download was resumed."""
        have = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with client.stream("GET", f"{self.base_url}/{quote(name)}", headers=headers) as response:
            if response.status_code == 416:
                # Nothing is missing, or the file shrank: the checksum decides.
                return True
            if response.status_code == 429 or response.status_code >= 500:
                raise _TryAgain(
                    f"HTTP {response.status_code}", retry_after(response.headers.get("Retry-After"), time.time())
                )
            if response.status_code not in {200, 206}:
                raise UnavailableError(
                    f"{response.url} answers HTTP {response.status_code}; upstream may have moved: "
                    "point BENCH_MIRROR at a mirror that has the file."
                )
            resumed = response.status_code == 206
            size = have if resumed else 0
            with storage_errors(str(part)), part.open("ab" if resumed else "wb") as out:
                for chunk in response.iter_bytes(1 << 16):
                    size += len(chunk)
                    if size > LARGEST_FILE:
                        part.unlink()
                        raise DataError(f"{response.url} is larger than {LARGEST_FILE >> 30} GiB; refused.")
                    out.write(chunk)
                    count(len(chunk))
            return resumed


def _matches(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_of(path) == digest


def _part(path: Path) -> Path:
    """The file of a download in progress; names that are too long for the file system with `.part` are hashed."""
    name = path.name + ".part"
    if len(os.fsencode(name)) > 255:
        name = hashlib.sha256(os.fsencode(path.name)).hexdigest() + ".part"
    return path.with_name(name)


def _mismatch(what: str, actual: str, expected: str) -> str:
    return (
        f"{what} has sha256 {actual[:16]}..., but its card says {expected[:16]}...: "
        "the file is corrupted or not the version named; it was not used."
    )

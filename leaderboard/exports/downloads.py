"""The downloads of a site: the stored results of a board in one zip file. The build calls it.

Files are as they were stored, so their digests are those of the manifests, and every command reads the unpacked folder:
`bench compare` and `bench show --format trec`, for example. The same results give the same bytes.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.base.errors import ResultError, UsageError
from bench.base.keys import refuse
from bench.base.paths import read_regular
from bench.base.secrets import known_secrets
from bench.leaderboard.writer import Writer
from bench.leaderboard.zips import write_archive
from bench.results.store import MANIFEST, NOTES, StoredResult, result_folder

#: Maximum bytes of a file.
_LARGEST = 1 << 28


def download_path(board: str) -> str:
    """The path of a board's download relative to the site's root; `board` is its slug."""
    return f"downloads/{board}.zip"


def has_key(result: StoredResult) -> bool:
    """Whether a text of the result contains a key of this environment, so that it must not be given away as it is."""
    if not known_secrets():
        return False
    texts = [result.manifest.model_dump_json(), result.metrics.model_dump_json()]
    try:
        notes = result.notes if NOTES in result.manifest.files else None
        texts += [] if notes is None else [note or "" for note in notes["note"].to_pylist()]
        refuse(f"the result {result.label}", *texts)
    except (ResultError, UsageError):
        return True
    return False


def write_download(board: str, results: Sequence[StoredResult], writer: Writer) -> None:
    """Write the zip file of a board's results.

    Args:
        board: the slug of the board.
        results: the results to put into it.
        writer: the site's writer.

    Raises:
        ResultError: a file is no longer the one of the manifest.
    """
    state = "\n".join(result.manifest.model_dump_json() for result in results)
    key = hashlib.sha256(f"2 {state}".encode("utf-8", "surrogatepass")).hexdigest()
    writer.put_made(download_path(board), key, partial(_zip, results))


def _zip(results: Sequence[StoredResult]) -> bytes:
    members = {}
    for result in results:
        manifest = result.manifest
        place = result_folder(Path(), manifest.dataset.spec, manifest.method.spec, manifest.result_id)
        for name in {MANIFEST, *manifest.files} - set(manifest.omitted):
            try:
                data = read_regular(result.folder / name, _LARGEST)
            except OSError as error:
                raise ResultError(f"{result.folder / name} cannot be read: {error.strerror or error}.") from None
            if name != MANIFEST and hashlib.sha256(data).hexdigest() != manifest.files[name]:
                raise ResultError(f"{result.folder / name} has changed since it was stored.")
            members[str(place / name)] = data
    return write_archive(members, zipfile.ZIP_DEFLATED)

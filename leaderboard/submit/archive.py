"""The submission archive: a byte-reproducible, uncompressed zip file of five members and source files in `code/`.

The result of a run with repeats has a sixth member. `bench submit pack` writes archives and `check` reads them.

Nothing is extracted: members are read into memory, under names that are fixed here or are names of Python modules
(`code.py`). The format leaves no freedom (no compression, folder entries or attributes, one order), so an archive is
compared with the one that these members give, byte by byte.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from bench.base import strict_json
from bench.base.errors import ResultError
from bench.base.keys import refuse
from bench.base.reading import Reader
from bench.leaderboard.submit.code import FOLDER, LARGEST_CODE, LARGEST_FILE, MOST_FILES, is_code
from bench.leaderboard.submit.submission import PARTS, SUBMISSION, Submission, parts_of
from bench.leaderboard.zips import write_archive
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, METRICS, NOTES, PER_QUERY, REPEATS, RUN, StoredResult

#: Members that every archive has.
MEMBERS = tuple(sorted((*PARTS, SUBMISSION)))

_MIB = 1 << 20
#: Maximum bytes of each member.
LARGEST = {
    MANIFEST: _MIB,
    METRICS: 4 * _MIB,
    SUBMISSION: _MIB // 16,
    PER_QUERY: 128 * _MIB,
    REPEATS: 256 * _MIB,
    RUN: 256 * _MIB,
}
LARGEST_ARCHIVE = sum(LARGEST.values()) + LARGEST_CODE
#: A longer directory has more members than a submission can have, and is not even listed.
_LONGEST_DIRECTORY = 64 << 10
_END = struct.Struct("<4s4H2LH")
_END_SIGN, _ZIP64_SIGN = b"PK\x05\x06", b"PK\x06\x07"


def pack(result: StoredResult, code: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """Pack a stored result into an archive.

    Args:
        result: the result.
        code: source files of its method, by member name (`bench.leaderboard.submit.code.source_files`).

    Raises:
        ResultError: a file of the result is missing, damaged, too large for a submission or was just replaced, or
            the result has notes.
        UsageError: its manifest or a source file contains a key.
    """
    if NOTES in result.manifest.files:
        raise ResultError(
            f"{result.label} cannot be submitted: it has notes of a language model's choices, which boards do not "
            "take; submit the result that it chose from."
        )
    result.verify()
    parts = {}
    for name in parts_of(result.manifest):
        parts[name] = Reader(str(result.folder / name), ResultError).read_bytes(result.folder / name)
        if len(parts[name]) > LARGEST[name]:
            raise ResultError(
                f"{result.folder / name} has {len(parts[name])} bytes; a submission takes {LARGEST[name]} at most."
            )
    manifest = result.manifest
    refuse(f"the result {result.label}", manifest.model_dump_json())
    for name, data in code.items():
        refuse(f"the file {name}", data.decode("utf-8", "replace"))
    try:
        submission = Submission.of(manifest, parts, code)
        same = Manifest.model_validate(strict_json.loads(parts[MANIFEST])) == manifest
    except ValidationError:
        raise ResultError(f"{result.folder / MANIFEST} has an invalid id or hash; run it again.") from None
    # The result may have been replaced in the meantime: never pack a mixture of both.
    if not same or any(submission.files[name] != digest for name, digest in manifest.files.items()):
        raise ResultError(f"{result.folder} was changed while it was packed; pack it again.")
    return write_archive({**parts, **code, SUBMISSION: submission.text().encode()})


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a regular file; links are refused.

    Raises:
        ResultError: it is not a regular file, cannot be read, or has more than `most` bytes.
    """
    strange = ResultError(f"{path} is not a regular file.")
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise strange
        with open(path, "rb", opener=_as_it_is) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise strange
            # Not `most`, which would be allocated in full.
            data = file.read(min(about.st_size, most) + 1)
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror}.") from None
    if len(data) > most:
        raise ResultError(f"{path} has more than {most} bytes; no submission is so large.")
    return data


def _as_it_is(path: str, flags: int) -> int:
    """Open the current file, which may have been replaced: do not follow links or wait for pipes."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def open_archive(data: bytes) -> tuple[dict[str, bytes], list[str]]:
    """The members of an archive, and the faults of its form; no members if they cannot be trusted.

    Raises:
        ResultError: it is not a zip archive, or is damaged.
    """
    _check_end(data)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error) as error:
        raise ResultError(f"the archive is damaged: {_error_text(error)}.") from None
    with archive:
        entries = archive.infolist()
        problems = _form(entries)
        if problems:
            return {}, problems
        members = {}
        for entry in entries:
            try:
                members[entry.filename] = archive.read(entry)
            except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError, struct.error) as error:
                raise ResultError(f"the archive is damaged: {entry.filename}: {_error_text(error)}.") from None
    if write_archive(members) != data:
        return members, [
            "the archive is not byte for byte as `bench submit pack` writes it (another order, other attributes, or "
            "something hidden between its members); pack the result again."
        ]
    return members, []


def _check_end(data: bytes) -> None:
    """Check the end record before it is used: Python lists as many members as it claims."""
    end = data[-_END.size :]
    if len(data) > LARGEST_ARCHIVE or not end.startswith(_END_SIGN) or len(end) < _END.size:
        raise ResultError("it is not an archive from `bench submit pack`, or it is truncated.")
    values = _END.unpack(end)
    zip64 = data[-_END.size - 20 :].startswith(_ZIP64_SIGN)
    if zip64 or values[5] > _LONGEST_DIRECTORY or values[7]:
        raise ResultError(
            f"its directory has {values[5]} bytes, a comment or the 64-bit form; a submission has {len(MEMBERS)} files "
            f"({len(LARGEST)} with repeats) and at most {MOST_FILES} of code."
        )


def _form(entries: list[zipfile.ZipInfo]) -> list[str]:
    """Faults of the members that their headers show, one sentence each."""
    problems = []
    seen: set[str] = set()
    for entry in entries:
        name = quote(entry.orig_filename)
        if entry.orig_filename in seen:
            problems.append(f"the member {name} occurs twice.")
        seen.add(entry.orig_filename)
        if place := _place(entry.orig_filename):
            problems.append(f"the member {name} {place}.")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind == stat.S_IFLNK:
            problems.append(f"the member {name} is a link.")
        elif kind not in {0, stat.S_IFREG}:
            problems.append(f"the member {name} is a device, a pipe or a folder, not a file.")
        if entry.flag_bits & 1:
            problems.append(f"the member {name} is encrypted.")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            problems.append(
                f"the member {name} is compressed ({entry.compress_size} bytes that claim to be {entry.file_size}); "
                "submissions are not compressed."
            )
        most = LARGEST_FILE if is_code(entry.orig_filename) else LARGEST.get(entry.orig_filename, 0)
        if most and entry.file_size > most:
            problems.append(f"the member {name} has {entry.file_size} bytes; {most} are allowed.")
    problems += [f"the archive lacks {name}." for name in MEMBERS if name not in seen]
    code = [entry.file_size for entry in entries if is_code(entry.orig_filename)]
    if len(code) > MOST_FILES or sum(code) > LARGEST_CODE:
        problems.append(
            f"the archive has {len(code)} files of code with {sum(code)} bytes; {MOST_FILES} files and {LARGEST_CODE} "
            "bytes are allowed."
        )
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"and {len(problems) - _MOST_PROBLEMS} more faults."]
    return problems


_MOST_PROBLEMS = 40


def _place(name: str) -> str:
    """What is wrong with a member's name; empty if nothing is."""
    if name in LARGEST or is_code(name):
        return ""
    parts = re.split(r"[/\\]", name)
    if name[:1] in {"/", "\\"} or re.match(r"[A-Za-z]:", name):
        return "has an absolute path"
    if ".." in parts:
        return "leads out of the archive"
    if parts[0] == FOLDER and len(parts) > 1:
        return "is not a Python module; code/ contains only these"
    if len(parts) > 1:
        return "is in a folder"
    return "is not part of a submission"


def quote(text: str, most: int = 80) -> str:
    """An untrusted name in quotes, shortened, with everything unprintable escaped."""
    return ascii(text if len(text) <= most else text[: most - 3] + "...")


def _error_text(error: Exception) -> str:
    return quote(str(error) or type(error).__name__, 160).strip("'\"")

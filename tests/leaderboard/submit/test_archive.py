"""The form of archives: the same bytes for the same result, and every trick that an archive can play."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.base.errors import ResultError
from bench.leaderboard.submit import archive
from bench.leaderboard.submit.archive import MEMBERS, open_archive, pack, read_bytes
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import check_archive
from bench.leaderboard.submit.submission import SUBMISSION
from bench.leaderboard.zips import write_archive

Checked = Callable[..., CheckedSubmission]


def rewritten(
    members: dict[str, bytes],
    extra: list[tuple[zipfile.ZipInfo | str, bytes]] | None = None,
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """An archive by Python's own writer, with further members."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as out:
        warnings.simplefilter("ignore")  # about duplicate names
        for name in MEMBERS:
            if name in members:
                out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), members[name], compression)
        for entry, data in extra or []:
            out.writestr(entry, data)
    return buffer.getvalue()


def reasons(verdict: CheckedSubmission) -> str:
    assert verdict.outcome == "refused"
    assert all(reason.endswith(".") and "\n" not in reason for reason in verdict.reasons)
    return "\n".join(verdict.reasons)


def test_the_same_result_gives_the_same_bytes_and_is_accepted(made: Any, checked: Checked, tmp_path: Path) -> None:
    first = pack(made.result)
    for path in made.result.folder.iterdir():
        os.utime(path, (1, 1))
    assert pack(made.result) == first
    verdict = checked(first)
    assert (verdict.outcome, verdict.reasons) == ("accepted", ())
    assert verdict.label == "bm25 @ starter"


def test_an_archive_holds_the_five_members_in_order_with_fixed_dates_and_no_compression(made: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(pack(made.result))) as file:
        assert [entry.filename for entry in file.infolist()] == list(MEMBERS)
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in file.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.create_system for entry in file.infolist()} == {3}
        for name, data in made.parts.items():
            assert file.read(name) == data


def test_a_damaged_result_is_not_packed(made: Any, tmp_path: Path) -> None:
    from bench.results.store import StoredResult

    for name, data in made.parts.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "run.parquet").write_bytes(made.parts["run.parquet"][:-1])
    with pytest.raises(ResultError, match="truncated or changed"):
        pack(StoredResult.read(tmp_path))


def test_a_result_that_is_made_anew_while_it_is_packed_is_not_packed(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.results.store import StoredResult

    for name, data in made.parts.items():
        (tmp_path / name).write_bytes(data)
    verify = StoredResult.verify
    for name in ("metrics.json", "manifest.json"):

        def replaced(self: StoredResult, name: str = name) -> None:
            verify(self)
            (tmp_path / name).write_bytes(made.members(manifest=lambda raw: raw.update(resumed=True))[name] + b" ")

        monkeypatch.setattr(StoredResult, "verify", replaced)
        with pytest.raises(ResultError, match="changed while it was packed"):
            pack(StoredResult.read(tmp_path))
        monkeypatch.setattr(StoredResult, "verify", verify)
        (tmp_path / name).write_bytes(made.parts[name])


def test_a_choice_of_a_language_model_is_not_packed(made: Any, tmp_path: Path) -> None:
    from bench.results.store import StoredResult

    def with_notes(raw: Any) -> None:
        raw["files"]["notes.parquet"] = "0" * 64

    for name, data in (made.members(manifest=with_notes) | {"notes.parquet": b""}).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ResultError, match="notes of a language model's choices"):
        pack(StoredResult.read(tmp_path))


def test_a_result_whose_id_is_none_is_not_packed(made: Any, tmp_path: Path) -> None:
    from bench.results.store import StoredResult

    def other(raw: Any) -> None:
        raw["result_id"] = "../../x"

    for name, data in made.members(manifest=other, metrics=other).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ResultError, match=r"manifest\.json has an invalid id or hash"):
        pack(StoredResult.read(tmp_path))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../../tmp/evil", "leads out of the archive"),
        ("..\\..\\evil", "leads out of the archive"),
        ("results/../../evil", "leads out of the archive"),
        ("/etc/cron.d/evil", "has an absolute path"),
        ("\\\\server\\share\\evil", "has an absolute path"),
        ("C:\\Windows\\evil", "has an absolute path"),
        ("C:evil", "has an absolute path"),
        ("folder/manifest.json", "is in a folder"),
        ("folder/", "is in a folder"),
        ("manifest.JSON", "is not part of a submission"),
        ("manifest.json ", "is not part of a submission"),
        ("inner.zip", "is not part of a submission"),
        ("\x1b]0;title\x07", "is not part of a submission"),
        ("\u202egnp.exe", "is not part of a submission"),
        ("a" * 60000, "is not part of a submission"),
    ],
)
def test_a_member_anywhere_else_is_refused(made: Any, checked: Checked, name: str, reason: str) -> None:
    inner = rewritten(made.members())
    entry = zipfile.ZipInfo("x")
    entry.filename = name  # as a tool that does not mend names would write it
    sentences = reasons(checked(rewritten(made.members(), [(entry, inner)])))
    assert reason in sentences
    assert sentences.isascii()
    assert sentences.isprintable() or "\n" in sentences
    assert len(sentences) < 400


def test_a_name_with_a_null_does_not_pass_for_the_name_before_it(made: Any, checked: Checked) -> None:
    data = rewritten(made.members()).replace(b"submission.json", b"run.parquet\0abc")
    assert reasons(checked(data)).count("run.parquet") == 1


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_that_stands_twice_is_refused(made: Any, checked: Checked, name: str) -> None:
    assert "occurs twice" in reasons(checked(rewritten(made.members(), [(name, b"{}")])))


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_that_lacks_is_named(made: Any, checked: Checked, name: str) -> None:
    members = made.members()
    del members[name]
    assert f"lacks {name}" in reasons(checked(rewritten(members)))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(stat.S_IFLNK, "is a link"), (stat.S_IFCHR, "a device"), (stat.S_IFIFO, "a device"), (stat.S_IFDIR, "folder")],
)
def test_links_and_devices_are_refused(made: Any, checked: Checked, kind: int, reason: str) -> None:
    members = made.members()
    entry = zipfile.ZipInfo("run.parquet")
    entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
    del members["run.parquet"]
    assert reason in reasons(checked(rewritten(members, [(entry, b"/etc/passwd")])))


def test_a_bomb_is_not_unpacked(made: Any, checked: Checked) -> None:
    members = made.members()
    del members["run.parquet"]
    entry = zipfile.ZipInfo("run.parquet")
    entry.compress_type = zipfile.ZIP_DEFLATED
    bomb = rewritten(members, [(entry, bytes(300 << 20))])
    assert len(bomb) < 1 << 20
    sentences = reasons(checked(bomb))
    assert "is compressed" in sentences
    assert "268435456 are allowed" in sentences


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_compression_is_taken(made: Any, checked: Checked, compression: int) -> None:
    assert reasons(checked(rewritten(made.members(), compression=compression))).count("is compressed") == 5


def test_members_that_share_their_bytes_are_refused(made: Any, checked: Checked) -> None:
    # All entries of the directory point at the first member's bytes: a bomb without compression.
    data = bytearray(write_archive(made.members()))
    place = data.index(b"PK\x01\x02")
    while data[place : place + 4] == b"PK\x01\x02":
        name, extra, comment = struct.unpack("<3H", data[place + 28 : place + 34])
        data[place + 42 : place + 46] = bytes(4)
        place += 46 + name + extra + comment
    assert checked(bytes(data)).outcome == "unreadable"


def test_thousands_of_members_are_not_even_listed(made: Any, checked: Checked) -> None:
    verdict = checked(rewritten(made.members(), [(f"{i:04}", b"") for i in range(3000)]))
    assert verdict.outcome == "unreadable"
    assert "directory has" in verdict.reasons[0]
    few = checked(rewritten(made.members(), [(f"{i:04}", b"") for i in range(300)]))
    assert len(few.reasons) <= 41


def test_an_encrypted_member_is_refused(made: Any, checked: Checked) -> None:
    data = bytearray(write_archive(made.members()))
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(sign) + offset] |= 1
    assert "is encrypted" in reasons(checked(bytes(data)))


@pytest.mark.parametrize("at", ["before", "between", "after", "comment", "order", "date", "attribute"])
def test_nothing_hides_in_an_archive(made: Any, checked: Checked, at: str) -> None:
    data, members = write_archive(made.members()), made.members()
    place = data.index(b"PK\x01\x02")
    if at == "before":
        data = b"#!/bin/sh\nexit\n" + data
    elif at == "between":
        end = data.rindex(b"PK\x05\x06")
        moved = struct.pack("<L", place + 6)
        data = data[:place] + b"hidden" + data[place:end] + data[end : end + 16] + moved + data[end + 20 :]
    elif at == "after":
        data += b"hidden"
    elif at == "comment":
        data = data[:-2] + struct.pack("<H", 6) + b"hidden"
    else:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as out:
            for name in sorted(MEMBERS, reverse=at == "order"):
                year = 1981 if at == "date" else 1980
                entry = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
                entry.external_attr = (stat.S_IFREG | (0o755 if at == "attribute" else 0o644)) << 16
                out.writestr(entry, members[name])
        data = buffer.getvalue()
    assert checked(data).outcome in {"refused", "unreadable"}


@pytest.mark.parametrize("what", ["empty", "text", "tar", "cut", "end", "zip64", "crc"])
def test_what_is_no_whole_archive_is_unreadable(made: Any, checked: Checked, what: str) -> None:
    whole = write_archive(made.members())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as out:
        out.addfile(tarfile.TarInfo("../evil"))
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    forms = {
        "empty": b"",
        "text": b"this is no archive " * 10,
        "tar": buffer.getvalue(),
        "cut": whole[:-200],
        "end": b"PK\x05\x06" + bytes(18),
        "zip64": whole[:-22] + locator + whole[-22:],
        "crc": whole.replace(b"PAR1", b"PAR2", 1),
    }
    verdict = checked(forms[what])
    assert verdict.outcome == "unreadable" if what != "end" else verdict.outcome in {"refused", "unreadable"}
    assert len(verdict.reasons) >= 1


def test_only_regular_files_are_opened(tmp_path: Path, load: Any, made: Any) -> None:
    pipe, link, real = tmp_path / "pipe.zip", tmp_path / "link.zip", tmp_path / "real.zip"
    os.mkfifo(pipe)
    real.write_bytes(pack(made.result))
    link.symlink_to(real)
    for path in (pipe, link, Path("/dev/zero")):
        verdict = check_archive(path, load)
        assert verdict.outcome == "unreadable"
        assert "not a regular file" in verdict.reasons[0]
    verdict = check_archive(tmp_path / "none.zip", load)
    assert (verdict.outcome, verdict.reasons) == (
        "unreadable",
        (f"cannot read {tmp_path / 'none.zip'}: No such file or directory.",),
    )


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_file_that_is_replaced_before_it_is_opened_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, other = tmp_path / "a.zip", tmp_path / "other"
    path.write_bytes(b"1")
    other.write_bytes(b"secret")
    real = Path.lstat

    def replaced(self: Path) -> os.stat_result:
        result = real(self)
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(other)
        return result

    monkeypatch.setattr(Path, "lstat", replaced)
    with pytest.raises(ResultError, match=r"not a regular file|cannot read"):
        read_bytes(path, 100)


def test_a_small_file_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"1")
    tracemalloc.start()
    try:
        read_bytes(tmp_path / "a.zip", archive.LARGEST_ARCHIVE)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(11))
    assert len(read_bytes(path, 11)) == 11
    with pytest.raises(ResultError, match="more than 10 bytes"):
        read_bytes(path, 10)


def test_a_result_larger_than_a_submission_may_be_is_not_packed(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(archive.LARGEST, "run.parquet", 100)
    with pytest.raises(ResultError, match="takes 100 at most"):
        pack(made.result)


_SLOW = settings(
    deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def test_no_byte_of_an_archive_can_change(made: Any) -> None:
    whole = pack(made.result)
    # The headers are few among many bytes of tables: half of the examples are theirs.
    heads = [i for i in range(len(whole)) if whole[i : i + 2] == b"PK"]
    near = st.sampled_from(heads).flatmap(lambda at: st.integers(at, min(at + 70, len(whole) - 1)))

    @_SLOW
    @given(st.integers(0, len(whole) - 1) | near, st.integers(1, 255))
    def check(at: int, flip: int) -> None:
        flipped = bytearray(whole)
        flipped[at] ^= flip
        try:
            members, faults = open_archive(bytes(flipped))
        except ResultError:
            return
        assert faults
        assert members == {} or set(members) == set(MEMBERS)

    check()


@_SLOW
@given(data=st.binary(max_size=400))
def test_no_bytes_bring_the_reader_down(data: bytes) -> None:
    for candidate in (data, data + b"PK\x05\x06" + data[:18].ljust(18, b"\0")):
        try:
            _, faults = open_archive(candidate)
        except ResultError:
            continue
        assert faults


def test_the_submission_names_the_hash_of_each_file(made: Any) -> None:
    import hashlib
    import json

    import jsonschema

    from bench.cli.schemas import shipped_schema

    members, faults = open_archive(pack(made.result))
    assert not faults
    about = json.loads(members[SUBMISSION])
    jsonschema.validate(about, shipped_schema("submission"))
    assert about["files"] == {name: hashlib.sha256(members[name]).hexdigest() for name in made.parts}

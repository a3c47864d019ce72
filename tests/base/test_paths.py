"""Files are written whole or not at all, and what the system refuses is a sentence."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bench.base.config import current_session
from bench.base.errors import DataError, StorageError
from bench.base.paths import (
    cache_folder,
    data_folder,
    env_flag,
    read_once,
    replacing,
    results_folder,
    sha256_of,
    storage_errors,
    write_text,
)
from bench.data.sources import Sources

NOTHING_LOST = "Existing files are unchanged."


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Writing ------------------------------------------------------------------------------------------------------------


def test_a_new_file_appears_under_its_name_alone_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "new.txt"
    with replacing(path) as temporary:
        assert temporary.parent == path.parent  # else the rename could cross file systems
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(path.parent) == ["new.txt"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("n")
        assert path.read_text() == "old"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError("no"), DataError("no"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("before", ["old", None])
def test_an_exception_leaves_what_was_there_and_no_temporary_file(
    tmp_path: Path, error: BaseException, before: str | None
) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_text(before)

    def fail_halfway() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)) as caught:
        fail_halfway()
    assert caught.value is error
    assert names(tmp_path) == ([] if before is None else ["file"])
    assert before is None or path.read_text() == before


def test_a_body_that_writes_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(StorageError, match=rf"cannot write {path}: "), replacing(path):
        pass
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as one, replacing(path) as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    # The outer one is renamed last.
    assert path.read_text() == "one"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "name",
    ["n" * 255, "a b", "größe – №1", "工" * 85, ".hidden", "-dash", "file.tmp", "new\nline"],
    ids=["255 bytes", "space", "accents", "255 bytes of Chinese", "hidden", "dash", "tmp", "line end"],
)
def test_any_name_that_the_file_system_takes_can_be_written(tmp_path: Path, name: str) -> None:
    for text in ("one", "two"):
        write_text(tmp_path / name, text)
        assert (tmp_path / name).read_text() == text
    assert names(tmp_path) == [name]


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for place in (pipe, link):
        with pytest.raises(StorageError, match="a device or a pipe"):
            write_text(place, "x")
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_what_comes_through_a_pipe_is_read_once_and_silence_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = bytes(range(256)) * 2000

    def write(parts: int) -> None:
        with suppress(BrokenPipeError), pipe.open("wb") as file:
            for _ in range(parts):
                file.write(data)
                file.flush()
                time.sleep(0.05)

    writer = threading.Thread(target=write, args=(3,))
    writer.start()
    assert read_once(pipe) == data * 3
    writer.join()
    (tmp_path / "file").write_bytes(data)
    assert read_once(tmp_path / "file", len(data)) == data
    with pytest.raises(OSError, match="larger than 499 KiB"):
        read_once(tmp_path / "file", len(data) - 513)
    writer = threading.Thread(target=write, args=(1,))
    writer.start()
    with pytest.raises(OSError, match="larger than 499 KiB"):
        read_once(pipe, len(data) - 513)
    writer.join()
    monkeypatch.setattr("bench.base.paths.PATIENCE", 0.1)
    with pytest.raises(OSError, match=r"nothing was written to this pipe for 0\.1 seconds"):
        read_once(pipe)
    with pytest.raises(OSError, match="a device, not a regular file"):
        read_once(Path(os.devnull))


def test_text_has_plain_line_ends_and_utf_8(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "é\n工\r\n")
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9\n\xe5\xb7\xa5\r\n"


@pytest.mark.parametrize("size", [0, 1, 1_000_003])
def test_a_checksum_is_the_sha256_of_the_bytes(tmp_path: Path, size: int) -> None:
    data = bytes(i * 7 % 256 for i in range(size))
    (tmp_path / "file").write_bytes(data)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(data).hexdigest()


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, the device that is always full")
def test_a_full_disk_is_told_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fill_the_disk() -> None:
        with replacing(path) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("new")

    with pytest.raises(StorageError) as caught:
        fill_the_disk()
    assert str(caught.value) == f"cannot write {path}: the disk is full. {NOTHING_LOST}"
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]
    assert Path("/dev/full").exists()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file/below", "a part of the path is a file, not a folder"),
        ("file/far/below", "a part of the path is a file, not a folder"),
        ("folder", "the path is a folder, not a file"),
        ("n" * 256, "the name is too long"),
        ("folder/" + "n" * 256 + "/file", "the name is too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("inner")
    with pytest.raises(StorageError) as caught:
        write_text(tmp_path / place, "new")
    assert str(caught.value) == f"cannot write {tmp_path / place}: {reason}. {NOTHING_LOST}"
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == ["inner"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StorageError, match="permission denied"):
        write_text(tmp_path / "locked" / "file", "new")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EACCES, "permission denied"),
        (errno.EPERM, "permission denied"),
        (errno.EROFS, "the file system is read-only"),
        (errno.ENOTDIR, "a part of the path is a file, not a folder"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_each_refusal_of_the_system_has_its_words(number: int, reason: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("the thing"):
        raise OSError(number, os.strerror(number), "file")
    assert str(caught.value) == f"cannot write the thing: {reason}. {NOTHING_LOST}"
    assert caught.value.exit_code == 7
    assert isinstance(caught.value.__cause__, OSError)


def test_an_error_without_a_number_keeps_its_words() -> None:
    with pytest.raises(StorageError, match="cannot write x: odd"), storage_errors("x"):
        raise OSError("odd")


def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), storage_errors("x"):
        raise ZeroDivisionError


# Places -------------------------------------------------------------------------------------------------------------


def test_the_environment_names_other_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", "~/c")
    monkeypatch.setenv("BENCH_DATA", "~/d")
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "r"))
    assert (cache_folder(), data_folder(), results_folder()) == (tmp_path / "c", tmp_path / "d", tmp_path / "r")


@pytest.mark.parametrize("value", ["", None])
def test_without_it_they_are_the_users_own_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("BENCH_CACHE", "BENCH_DATA", "BENCH_RESULTS"):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder().is_relative_to(tmp_path)
    assert data_folder().is_relative_to(tmp_path)
    assert cache_folder() != data_folder()
    assert cache_folder().name == data_folder().name == "tool-retrieval-bench"
    assert results_folder() == Path("results")


def test_results_may_be_named_from_the_home_folder_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BENCH_RESULTS", "~/r")
    assert results_folder() == tmp_path / "r"


NO_HOME = """
import os, sys
import bench.base.paths, bench.base.secrets, platformdirs

# A container may run as a number that no user of the system has.
if os.geteuid() == 0:
    os.setuid(987_654)
else:
    import pwd

    def nobody(number):
        raise KeyError(number)

    pwd.getpwuid = nobody
for name in ("cache", "data", "results"):
    try:
        print(name, getattr(bench.base.paths, name + "_folder")())
    except bench.base.paths.StorageError as error:
        print(name, "refused:", error)
"""


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            {},
            "cache refused: this user has no home folder; name a place in BENCH_CACHE.\n"
            "data refused: this user has no home folder; name a place in BENCH_DATA.\n"
            "results results\n",
        ),
        (
            {"BENCH_CACHE": "/c", "BENCH_DATA": "/d", "BENCH_RESULTS": "/r"},
            "cache /c\ndata /d\nresults /r\n",
        ),
    ],
)
def test_a_user_without_a_home_folder_is_told_what_to_name(named: dict[str, str], said: str) -> None:
    assert without_home(named) == said


def test_a_place_in_a_home_folder_that_there_is_not_is_told() -> None:
    said = without_home({"BENCH_CACHE": "~/c", "BENCH_DATA": "~/d", "BENCH_RESULTS": "~/r"})
    assert [line.split(":")[0] for line in said.splitlines()] == ["cache refused", "data refused", "results refused"]


def without_home(named: dict[str, str]) -> str:
    """What a process without a home folder says of its places."""
    unset = {"HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "BENCH_CACHE", "BENCH_DATA", "BENCH_RESULTS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | named
    done = subprocess.run([sys.executable, "-c", NO_HOME], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Flags --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "true", "yes", "TRUE", " 1 ", "on", "2", "anything"])
def test_a_variable_that_says_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BENCH_FLAG", value)
    assert env_flag("BENCH_FLAG")


@pytest.mark.parametrize("value", [None, "", "  ", "0", " 0 ", "false", "False", "FALSE", "no", "No"])
def test_a_variable_that_is_not_set_or_says_no_is_a_no(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("BENCH_FLAG", raising=False)
    if value is not None:
        monkeypatch.setenv("BENCH_FLAG", value)
    assert not env_flag("BENCH_FLAG")


@pytest.mark.parametrize(("value", "yes"), [("1", True), ("true", True), ("false", False), ("no", False), ("", False)])
def test_every_flag_is_read_alike(monkeypatch: pytest.MonkeyPatch, value: str, yes: bool) -> None:
    monkeypatch.setenv("BENCH_OFFLINE", value)
    monkeypatch.setenv("BENCH_NO_CACHE", value)
    assert Sources.from_session().offline == yes
    assert current_session().cache != yes

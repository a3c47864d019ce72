"""Folders that are replaced as a whole: what exists at every moment, also after a kill; one process at a time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from bench.base.errors import StorageError
from bench.base.locks import lock, recover, replace_folder, standing
from bench.base.progress import Quiet

ROOT = Path(__file__).resolve().parents[2]


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def give_up(fresh: Path, error: BaseException) -> None:
    """Write half of a folder."""
    (fresh / "file").write_text("half")
    raise error


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# Replacing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An existing folder with one file."""
    folder = tmp_path / "place" / "folder"
    folder.mkdir(parents=True)
    (folder / "file").write_text("old")
    return folder


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet" / "there"
    with replace_folder(folder) as fresh:
        assert fresh.parent == folder.parent
        assert list(fresh.iterdir()) == []
        (fresh / "file").write_text("new")
        (fresh / "deep" / "er").mkdir(parents=True)
        (fresh / "deep" / "er" / "file").write_text("deep")
        assert not folder.exists()
    assert tree(tmp_path) == {"not/yet/there/file": "new", "not/yet/there/deep/er/file": "deep"}


def test_the_old_folder_stands_until_the_new_one_is_whole_and_nothing_of_it_stays(old: Path) -> None:
    (old / "other").write_text("old")
    with replace_folder(old) as fresh:
        (fresh / "file").write_text("new")
        assert tree(old) == {"file": "old", "other": "old"}
    assert tree(old.parent) == {"folder/file": "new"}
    assert [path.name for path in old.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_after_an_error_the_old_folder_stands_and_nothing_is_left(old: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, replace_folder(old) as fresh:
        give_up(fresh, error)
    assert caught.value is error
    assert tree(old.parent) == {"folder/file": "old"}
    assert [path.name for path in old.parent.iterdir()] == ["folder"]


def test_a_full_disk_is_told_and_the_old_folder_stands(old: Path) -> None:
    with pytest.raises(StorageError) as caught, replace_folder(old) as fresh:
        give_up(fresh, OSError(errno.ENOSPC, "No space left on device"))
    assert str(caught.value) == f"cannot write {old}: the disk is full. Existing files are unchanged."
    assert tree(old.parent) == {"folder/file": "old"}


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="a part of the path is a file"), replace_folder(tmp_path / "file" / "a"):
        pass
    assert tree(tmp_path) == {"file": "in the way"}


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    # As a glob, `[a]` would mean `a`.
    for name in ("plain", "with [a] * ?"):
        folder = tmp_path / name
        left = tmp_path / f".new-{name}-0123abcd"
        left.mkdir()
        (left / "file").write_text("half")
        with replace_folder(folder) as fresh:
            assert not left.exists()
            (fresh / "file").write_text("new")
        assert tree(folder) == {"file": "new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "with [a] * ?"]


def test_what_another_process_is_writing_for_another_folder_stays(tmp_path: Path) -> None:
    # Its lock is another one, though its name begins the same.
    with replace_folder(tmp_path / "tiny-two") as theirs:
        (theirs / "file").write_text("two")
        with replace_folder(tmp_path / "tiny") as mine:
            (mine / "file").write_text("one")
    assert tree(tmp_path) == {"tiny/file": "one", "tiny-two/file": "two"}


# Killed -------------------------------------------------------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
from bench.base.locks import replace_folder

folder, renames = Path(sys.argv[1]), int(sys.argv[2])
rename, done = os.rename, []

def counted(source, target):
    if len(done) == renames:
        os._exit(9)
    done.append(target)
    rename(source, target)

os.rename = counted
with replace_folder(folder) as fresh:
    (fresh / "file").write_text("new")
os._exit(9)
"""


def killed(folder: Path, renames: int) -> None:
    """A replacement by a process that ends without a word when it comes to rename for the n-th time."""
    process = python(KILLED, folder, renames)
    process.communicate(timeout=60)
    assert process.returncode == 9


@pytest.mark.parametrize(("renames", "stands"), [(0, "old"), (1, "old"), (2, "new")])
def test_whenever_a_process_is_killed_a_whole_folder_stands(old: Path, renames: int, stands: str) -> None:
    killed(old, renames)
    (result,) = standing(list(old.parent.iterdir()))
    assert tree(result) == {"file": stands}
    assert result.name == (".old-folder" if renames == 1 else "folder")
    recover(old)
    assert tree(old) == {"file": stands}
    assert standing(list(old.parent.iterdir())) == [old]
    with replace_folder(old) as fresh:
        assert tree(old) == {"file": stands}
        (fresh / "file").write_text("newer")
    assert [path.name for path in old.parent.iterdir()] == ["folder"]
    assert tree(old) == {"file": "newer"}


def test_a_replacement_after_one_that_was_killed_loses_nothing_if_it_fails_too(old: Path) -> None:
    killed(old, 1)
    assert not old.exists()
    with pytest.raises(ValueError, match="no"), replace_folder(old):
        raise ValueError("no")
    assert tree(old.parent) == {"folder/file": "old"}


def test_recovering_keeps_the_new_folder_where_there_are_both(old: Path) -> None:
    aside = old.with_name(".old-folder")
    aside.mkdir()
    (aside / "file").write_text("older")
    recover(old)
    assert tree(old.parent) == {"folder/file": "old"}
    assert not aside.exists()


def test_recovering_where_nothing_happened_changes_nothing(old: Path) -> None:
    recover(old)
    recover(old.with_name("other"))
    assert tree(old.parent) == {"folder/file": "old"}


def test_standing_are_folders_in_their_place_and_those_set_aside_whose_place_is_empty(tmp_path: Path) -> None:
    for name in ("b", "a", ".old-a", ".old-c", ".new-b-0123abcd", ".new-d-0123abcd", ".locks", ".e.partial"):
        (tmp_path / name).mkdir()
    result = standing(list(tmp_path.iterdir()))
    assert [path.name for path in result] == [".old-c", "a", "b"]
    assert standing([]) == []


# Locks --------------------------------------------------------------------------------------------------------------


class Listening(Quiet):
    """Keeps notes, and lets a lock go when the first comes."""

    def __init__(self, lock: FileLock | None = None) -> None:
        self.lines: list[str] = []
        self._lock = lock

    def note(self, message: str) -> None:
        self.lines.append(message)
        if self._lock is not None:
            self._lock.release()


def test_a_free_lock_is_taken_without_a_word_and_its_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "a.lock"
    notes = Listening()
    with lock(path, "making a", notes):
        assert path.is_file()
    # To remove it would let a third process in.
    assert path.is_file()
    with lock(path, "making a", notes):
        pass
    assert notes.lines == []


def test_who_must_wait_is_told_for_what(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    other = FileLock(path)
    other.acquire()
    notes = Listening(other)
    with lock(path, "making a", notes):
        assert not other.is_locked
    assert notes.lines == ["another process is making a; waiting for it"]


def test_after_the_longest_wait_the_holder_is_to_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with FileLock(path), pytest.raises(StorageError) as caught, lock(path, "making a", longest=0.05):
        pytest.fail("two hold the lock")
    assert str(caught.value).startswith(f"another process has held {path} ")
    assert str(caught.value).endswith("end it.")
    with lock(path, "making a", longest=0.05):
        pass


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), ValueError("no"), KeyboardInterrupt()])
def test_an_error_in_the_work_frees_the_lock_and_stays_what_it_is(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.lock"
    with pytest.raises(type(error)) as caught, lock(path, "making a"):
        raise error
    assert caught.value is error
    assert not isinstance(caught.value, StorageError)
    with FileLock(path).acquire(timeout=0):
        pass


def test_a_lock_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="a part of the path is a file"), lock(tmp_path / "file" / "a.lock", "x"):
        pass


HOLD = """
import sys
from pathlib import Path
from bench.base.locks import lock

with lock(Path(sys.argv[1]), "holding"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock `a.lock`."""
    process = python(HOLD, tmp_path / "a.lock")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StorageError), lock(tmp_path / "a.lock", "holding", longest=0.05):
        pass
    holder.send_signal(signal.SIGKILL)
    assert holder.wait(60) == -signal.SIGKILL
    with lock(tmp_path / "a.lock", "holding", longest=0.05):
        pass


def test_one_at_a_time_is_inside(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "a.lock", [], []

    def work() -> None:
        for _ in range(5):
            with lock(path, "working"):
                inside.append(1)
                most.append(len(inside))
                threading.Event().wait(0.002)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20

"""What chooses tests and what they share: near tests, slow tests, and folders that are made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.near import changed_lines, fold, nearest, read_map
from kit.once import changed, makes_once

TESTS = Path(__file__).parent
SOURCE = '''"""A module."""

LIMIT = 3


def first(x):
    return x + 1


class Box:
    size = 2

    @property
    def half(self):
        def inner():
            return self.size / 2

        return inner()


def last(x):
    return x - 1
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one module, two files of tests and a map."""
    root = tmp_path / "checkout"
    files = {
        "bench/room/boxes.py": SOURCE,
        "bench/room/notes.txt": "words\n",
        "tests/room/test_boxes.py": "\n\n".join(
            f"def test_{name}():\n    pass\n" for name in ("first", "half", "last")
        ),
        "tests/room/test_wide.py": "class TestAll:\n    def test_everything(self):\n        pass\n",
    }
    boxes, wide = "tests/room/test_boxes.py", "tests/room/test_wide.py::TestAll::test_everything"
    near = {
        "first": [f"{boxes}::test_first", wide],
        "Box.half": [f"{boxes}::test_half", f"{boxes}::test_gone", wide],
        "last": [f"{boxes}::test_last", wide],
    }
    rows = [f"bench/room/boxes.py:{name}\t{fold(tests)}\n" for name, tests in near.items()]
    for name, text in {**files, "tests/near.txt": "".join(rows)}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def names(root: Path) -> list[str]:
    return [test.rpartition("::")[2] for test in nearest(root).tests if "::" in test]


def test_the_map_is_read_as_it_was_written(checkout: Path) -> None:
    result = read_map(checkout / "tests/near.txt")
    assert result["bench/room/boxes.py:Box.half"] == [
        "tests/room/test_boxes.py::test_half",
        "tests/room/test_boxes.py::test_gone",
        "tests/room/test_wide.py::TestAll::test_everything",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("x + 1", "x + 2", ["test_first", "test_everything", "test_half", "test_last"]),
        ("x - 1", "x - 2", ["test_last", "test_everything", "test_first", "test_half"]),
        # A line that went; a name of the map that is no test any more is passed over.
        ("\n        return inner()\n", "\n", ["test_half", "test_everything", "test_first", "test_last"]),
        ("    @property\n", "    @cached\n", ["test_half", "test_everything", "test_first", "test_last"]),
        ("self.size / 2", "self.size / 3", ["test_half", "test_everything", "test_first", "test_last"]),
        ("size = 2", "size = 3", ["test_first", "test_half", "test_last", "test_everything"]),
        # What is no Python any more: the function that was there, and what all are near to.
        ("def last", "def (", ["test_last", "test_first", "test_everything", "test_half"]),
        # Two functions take turns.
        ("1\n", "2\n", ["test_first", "test_last", "test_everything", "test_half"]),
        # What is outside of all functions is near to what any of them is near to.
        ("LIMIT = 3", "LIMIT = 4", ["test_first", "test_half", "test_last", "test_everything"]),
        (
            "def last",
            "def newer(x):\n    return x\n\n\ndef last",
            ["test_first", "test_half", "test_last", "test_everything"],
        ),
    ],
)
def test_the_tests_of_what_has_changed_come_in_their_order(
    checkout: Path, old: str, new: str, expected: list[str]
) -> None:
    path = checkout / "bench/room/boxes.py"
    path.write_text(SOURCE.replace(old, new))
    assert names(checkout) == expected
    # Also when the change is staged.
    git(checkout, "add", ".")
    assert names(checkout) == expected


def test_the_file_of_tests_of_that_name_comes_after_those_that_run_the_function(checkout: Path) -> None:
    place = checkout / "bench/room/boxes.py"
    place.write_text(place.read_text().replace("x - 1", "x - 2"))
    tests = nearest(checkout).tests
    assert tests[2:4] == ["tests/room/test_boxes.py", "tests/room/test_boxes.py::test_first"]


def test_changed_tests_are_near_themselves(checkout: Path) -> None:
    path = checkout / "tests/room/test_boxes.py"
    path.write_text(path.read_text().replace("def test_half():\n    pass", "def test_half():\n    assert True"))
    assert nearest(checkout).tests == ["tests/room/test_boxes.py::test_half"]
    (checkout / "tests/room/test_new.py").write_text("import os\n\n\ndef test_new():\n    pass\n")
    assert "tests/room/test_new.py" in nearest(checkout).tests


def test_data_is_near_to_what_the_code_beside_it_is_near_to(checkout: Path) -> None:
    (checkout / "bench/room/notes.txt").write_text("other words\n")
    assert names(checkout) == ["test_first", "test_half", "test_last", "test_everything"]


def test_a_checkout_without_changes_or_map_says_so(checkout: Path) -> None:
    assert changed_lines(checkout) == {}
    assert nearest(checkout) == ((), "Nothing has changed since the last commit: no test is near.")
    (checkout / "tests/near.txt").unlink()
    (checkout / "bench/room/alone.py").write_text("one = 1\n")
    result = nearest(checkout)
    assert not result.tests
    assert "No test is known to be near to tests/near.txt, bench/room/alone.py" in result.told


# Slow tests ---------------------------------------------------------------------------------------------------------

SUITE = """
import pytest

def test_quick():
    pass

@pytest.mark.slow("a browser")
def test_page():
    pass

@pytest.mark.slow("simulations")
@pytest.mark.parametrize("seed", range(3))
def test_size(seed):
    pass
"""
LEFT = "Left to `make test-all`: 4 slow tests (3 of simulations, 1 of a browser)."


@pytest.fixture
def suite(tmp_path: Path) -> Callable[..., str]:
    """A small suite that is run with options; what pytest says."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kit.selection"]\n')
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow(what): needs long\n")
    (tmp_path / "test_suite.py").write_text(SUITE)

    def suite(*options: str) -> str:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        # Each process would take a second to load plugins that are installed and have no part in this.
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TESTS)}
        several = ["-p", "xdist"] if "-n" in options else []
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *several, *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    return suite


@pytest.mark.parametrize(
    ("options", "passed", "left"),
    [
        ((), 1, True),
        (("-n", "2"), 1, True),
        (("--all",), 5, False),
        (("--all", "-n", "2"), 5, False),
        (("-m", "slow"), 4, False),
        (("test_suite.py",), 5, False),
        (("test_suite.py::test_page",), 1, False),
    ],
)
def test_slow_tests_are_left_out_unless_they_are_meant(
    suite: Callable[..., str], options: tuple[str, ...], passed: int, left: bool
) -> None:
    said = suite(*options)
    assert f"{passed} passed" in said
    assert said.count(LEFT) == left


# What is made once --------------------------------------------------------------------------------------------------


def test_a_folder_is_made_once_however_many_ask_for_it(tmp_path: Path) -> None:
    calls: list[int] = []

    def make(folder: Path) -> None:
        calls.append(1)
        (folder / "file").write_text("content")

    threads = [threading.Thread(target=lambda: makes_once(tmp_path / "once")("data", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert (makes_once(tmp_path / "once")("data", make) / "file").read_text() == "content"


def test_a_folder_that_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    once = makes_once(tmp_path)

    def fails(folder: Path) -> None:
        (folder / "half").write_text("")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once("data", fails)
    folder = once("data", lambda place: (place / "whole").write_text(""))
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_a_test_that_changes_what_is_shared_is_found(tmp_path: Path) -> None:
    folder = makes_once(tmp_path)("data", lambda place: [(place / name).write_text(name) for name in ("a", "b", "c")])
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "a").write_text("changed")
    assert changed(tmp_path) == []
    (folder / "a").write_text("changed")
    (folder / "b").unlink()
    (folder / "d").write_text("")
    (folder / ".lock").write_text("")
    assert changed(tmp_path) == ["data/a", "data/b", "data/d"]

"""What chooses tests and what they share: near tests, slow tests, fixtures, and folders that are made once."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.near import changed_lines, nearest
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


FILES = {
    "bench/room/boxes.py": SOURCE,
    "bench/room/labels.txt": "words\n",
    "bench/hall/shelf.py": "from bench.room.boxes import Box\n",
    "bench/attic/trunk.py": "one = 1\n",
    "tests/room/test_boxes.py": "from bench.room.boxes import Box, first, last\n\n\n"
    + "\n\n".join(f"def test_{name}():\n    assert {name}\n" for name in ("first", "half", "last")),
    "tests/room/test_other.py": "def test_other():\n    pass\n",
    "tests/hall/test_wide.py": "import bench.room.boxes\n\n\n"
    "class TestAll:\n    def test_everything(self):\n        pass\n",
    "tests/hall/test_shelf.py": "from bench.hall.shelf import Box\n\n\ndef test_shelf():\n    pass\n",
    "tests/test_far.py": "def test_far():\n    pass\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with three rooms and their tests."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    commit(root)
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first", "--allow-empty")


def names(root: Path) -> list[str]:
    return [test.rpartition("::")[2] for test in nearest(root).tests]


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("x + 1", "x + 2", "test_first"),
        ("x - 1", "x - 2", "test_last"),
        # A line that went, a decorator, a function in a function.
        ("\n        return inner()\n", "\n", "test_half"),
        ("    @property\n", "    @cached\n", "test_half"),
        ("self.size / 2", "self.size / 3", "test_half"),
        # What is no Python any more.
        ("def last", "def (", "test_last"),
    ],
)
def test_of_a_room_the_tests_that_speak_of_what_has_changed_come_first(
    checkout: Path, old: str, new: str, first: str
) -> None:
    path = checkout / "bench/room/boxes.py"
    path.write_text(SOURCE.replace(old, new))
    order = names(checkout)
    assert order[0] == first
    # Its room's tests, what imports it elsewhere, what imports an importer; not what has no part in it.
    assert sorted(order[:3]) == ["test_first", "test_half", "test_last"]
    assert sorted(order[3:5]) == ["test_everything", "test_other"]
    assert order[5:] == ["test_shelf"]
    # Also when the change is staged.
    git(checkout, "add", ".")
    assert names(checkout) == order


def test_tests_near_to_two_changes_take_turns(checkout: Path) -> None:
    for name, old in (("bench/room/boxes.py", "x - 1"), ("bench/hall/shelf.py", "Box")):
        path = checkout / name
        path.write_text(path.read_text().replace(old, f"{old} # changed"))
    assert {names(checkout)[0], names(checkout)[1]} == {"test_shelf", "test_last"}


def test_a_test_elsewhere_that_has_the_name_of_the_file_or_shares_a_rare_name_is_as_near(checkout: Path) -> None:
    for name, line in (("hall/test_boxes.py", "pass"), ("test_rare.py", "assert {'most_boxes': 1}")):
        (checkout / "tests" / name).write_text(f"def test_{Path(name).stem}():\n    {line}\n")
    git(checkout, "add", ".")
    commit(checkout)
    path = checkout / "bench/room/boxes.py"
    path.write_text(SOURCE.replace("x + 1", "x + most_boxes"))
    order = names(checkout)
    assert order[0] == "test_test_rare"
    assert order.index("test_test_boxes") < order.index("test_other")


def test_changed_tests_are_near_themselves(checkout: Path) -> None:
    path = checkout / "tests/room/test_boxes.py"
    path.write_text(path.read_text().replace("assert half", "assert not half"))
    assert nearest(checkout).tests == ["tests/room/test_boxes.py::test_half"]
    (checkout / "tests/room/test_new.py").write_text("import os\n\n\ndef test_new():\n    pass\n")
    assert "tests/room/test_new.py::test_new" in nearest(checkout).tests


def test_data_is_near_to_the_tests_of_its_room(checkout: Path) -> None:
    (checkout / "bench/room/labels.txt").write_text("other words\n")
    assert {"test_first", "test_other"} <= {*names(checkout)}
    assert "test_far" not in names(checkout)


def test_a_checkout_without_changes_or_near_tests_says_so(checkout: Path) -> None:
    assert changed_lines(checkout) == {}
    assert nearest(checkout) == ((), "Nothing has changed since the last commit: no test is near.")
    (checkout / "bench/attic/trunk.py").write_text("one = 2\n")
    assert nearest(checkout) == ((), "No test is near to bench/attic/trunk.py: `make test` runs all.")


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
        )
        assert done.returncode == 0, done.stdout + done.stderr
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


def test_near_tests_that_have_no_time_are_counted_and_fail_nothing(suite: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_near.py").write_text("def test_near():\n    pass\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    assert "1 passed" in suite("--near")
    (tmp_path / "conftest.py").write_text(
        'pytest_plugins = ["kit.selection"]\nimport kit.selection\nkit.selection.NEAR_SECONDS = -1\n'
    )
    assert "No time was left for 1 of the near tests: `make test` runs them." in suite("--near")


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


def _fixtures(path: Path) -> list[ast.FunctionDef]:
    """The fixtures that a file of tests defines."""
    source = path.read_bytes()
    return [
        node
        for node in (ast.parse(source).body if b"@pytest.fixture" in source else ())
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(item).startswith("pytest.fixture") for item in node.decorator_list)
    ]


def test_every_fixture_says_what_it_is() -> None:
    by_place = {
        f"{path.relative_to(TESTS)}:{item.lineno}": item for path in TESTS.rglob("*.py") for item in _fixtures(path)
    }
    assert len(by_place) > 300
    silent = [f"{place} {item.name}" for place, item in by_place.items() if ast.get_docstring(item) is None]
    assert not silent, f"give these fixtures a docstring: {', '.join(silent)}"

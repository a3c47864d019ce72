"""The tests that are nearest to a change: those that run a changed function and, besides it, the fewest others.

`tests/near.txt` says which tests run a function; `make cover` renews it. It knows functions by name, so that it stays
right when lines move. What it does not know, such as a function written since, is tested by what its neighbours in the
file are tested by.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

#: Which tests run a function, by line: the file, a colon, the function; then a tab and the tests, the nearest first.
MAP = Path("tests/near.txt")
#: Where code lies.
CODE = ("bench/", "methods/", "datasets/", "leaderboard/")
#: What is outside every function.
MODULE = "<module>"
#: The most tests that are chosen, for a change of whatever size.
MOST = 400


class Near(NamedTuple):
    """Ids of tests, the nearest first, and a sentence about them."""

    tests: Sequence[str]
    told: str


def nearest(root: Path) -> Near:
    """The tests near to what has changed in a checkout since its last commit."""
    changes = changed_lines(root)
    known = read_map(root / MAP)
    lists: list[list[str]] = []
    # What follows while there is time: the file of tests of that name, then the tests of the file's other functions.
    namesakes: list[list[str]] = []
    others: list[list[str]] = []
    for file, (new, gone) in changes.items():
        path = root / file
        names = _functions_at(path.read_text("utf-8"), new) if new else set()
        names |= _functions_at(_git(root, "show", f"HEAD:{file}"), gone) if gone else set()
        if file.startswith("tests/"):
            lists.append(_tests_of(path, file, names))
        elif file.endswith(".py") and file.startswith(CODE):
            collected = [known[f"{file}:{name}"] for name in sorted(names) if f"{file}:{name}" in known]
            neighbours = _neighbours(f"{file}:", known)
            lists += collected if collected and MODULE not in names else [*collected, neighbours]
            namesakes.append(_namesakes(root, file))
            others.append(neighbours)
        elif file.startswith(CODE):
            # Data and templates: what is near to the code of their folder.
            lists.append(_neighbours(file.rpartition("/")[0] + "/", known))
    turns = (test for part in (lists, namesakes, others) for turn in zip_longest(*part) for test in turn if test)
    tests = [test for test in dict.fromkeys(turns) if _exists(root, test)][:MOST]
    if not changes:
        return Near((), "Nothing has changed since the last commit: no test is near.")
    files = ", ".join(list(changes)[:5]) + (f" and {len(changes) - 5} more files" if len(changes) > 5 else "")
    if not tests:
        return Near((), f"No test is known to be near to {files}: `make test` runs all.")
    return Near(tests, f"{len(tests)} tests are near to the change of {files}.")


def changed_lines(root: Path) -> dict[str, tuple[set[int], set[int]]]:
    """File -> lines that are new since the last commit, and lines of the last commit that are gone.

    A file that is no text has neither, and one that git does not know yet has new lines alone.
    """
    by_key: dict[str, tuple[set[int], set[int]]] = {}
    for part in re.split(r"^diff --git ", _git(root, "diff", "-U0", "--no-renames", "HEAD"), flags=re.MULTILINE)[1:]:
        file = part.partition("\n")[0].rpartition(" b/")[2]
        new, gone = by_key.setdefault(file, (set(), set()))
        for old_first, old, new_first, count in re.findall(
            r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", part, re.MULTILINE
        ):
            gone |= set(range(int(old_first), int(old_first) + int(old or 1)))
            new |= set(range(int(new_first), int(new_first) + int(count or 1)))
    for file in _git(root, "ls-files", "--others", "--exclude-standard").splitlines():
        by_key[file] = (set(range(1, 1 + len((root / file).read_bytes().splitlines()))), set())
    return by_key


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, errors="replace").stdout


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Every outermost function or method of a module, as `f` or `C.f`, with its first and last line."""

    def walk(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                yield prefix + node.name, first, node.end_lineno or first
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try | ast.With):
                yield from walk([child for child in ast.walk(node) if isinstance(child, ast.stmt)][1:], prefix)

    return walk(tree.body, "")


def _functions_at(source: str, lines: set[int]) -> set[str]:
    """The functions that have one of these lines; `MODULE` for lines of none, and for what is no Python."""
    try:
        spans = list(functions(ast.parse(source)))
    except SyntaxError:
        return {MODULE}
    return {next((name for name, first, last in spans if first <= line <= last), MODULE) for line in lines}


def read_map(path: Path) -> dict[str, list[str]]:
    """Function -> the tests that run it, the nearest first."""
    if not path.is_file():
        return {}
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {name: _unfold(tests) for name, tests in rows}


def fold(tests: Sequence[str]) -> str:
    """Ids of tests as they stand in the map: a file is written once where several tests of it follow each other."""
    words, before = [], ""
    for test in tests:
        file, _, name = test.removeprefix("tests/").partition("::")
        words.append(f"::{name}" if file == before else f"{file}::{name}")
        before = file
    return " ".join(words)


def _unfold(text: str) -> list[str]:
    tests, file = [], ""
    for word in text.split():
        values, _, name = word.partition("::")
        file = values or file
        tests.append(f"tests/{file}::{name}")
    return tests


def _neighbours(start: str, known: dict[str, list[str]]) -> list[str]:
    """The tests near to any function whose file begins so, in turn."""
    lists = [tests for name, tests in known.items() if name.startswith(start)]
    return list(dict.fromkeys(test for turn in zip_longest(*lists) for test in turn if test))


def _namesakes(root: Path, file: str) -> list[str]:
    """Files of tests named after a file of code, or after its folder: `tests/stats/test_tiers.py`."""
    path = Path(file)
    room = path.parts[1] if path.parts[0] == "bench" and len(path.parts) > 2 else path.parts[0]
    collected = [
        item for name in (path.stem, path.parent.name) for item in (root / "tests" / room).glob(f"test_{name}*.py")
    ]
    return [item.relative_to(root).as_posix() for item in dict.fromkeys(sorted(collected))]


def _tests_of(path: Path, file: str, names: set[str]) -> list[str]:
    """The changed tests of a file of tests; all of it if what they share has changed."""
    if not path.name.startswith("test_") or not path.is_file():
        return []
    parts = [name for name in sorted(names) if name.rpartition(".")[2].startswith("test_")]
    tests = [f"{file}::{name.replace('.', '::')}" for name in parts]
    return tests if len(tests) == len(names) else [file]


def _exists(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    function = name.rpartition("::")[2]
    return path.is_file() and (not function or f"def {function}(" in path.read_text("utf-8"))

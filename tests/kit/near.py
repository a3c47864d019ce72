"""The tests that are nearest to what has changed since the last commit: by room, by imports and by shared words.

Nothing is stored. Of a changed file come first the tests of its room that are named after it or import it, and tests
elsewhere that have its name or share a rare name with the change, then the other tests of its room and all that import
it, then the tests of what imports it. Within each of these, the test comes first that shares most words with the
functions that have changed.
"""

from __future__ import annotations

import ast
import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

#: Folders with modules that tests import, and how the names of these modules begin.
CODE = {"bench": "bench", "methods": "bench.methods", "datasets": "bench.datasets", "leaderboard": "bench.leaderboard"}
CODE |= {"tests/kit": "kit"}
#: The most tests that are chosen, for a change of whatever size.
MOST = 150
#: A name that so few tests have, or fewer, leads to them from any room.
FEW = 10

_DOTTED = re.compile(r"\b(?:bench|kit)(?:\.\w+)+")
_FROM = re.compile(r"^\s*from ((?:bench|kit)[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
_TEST = re.compile(r"^(?:def|class) \w+|^    def test_\w+", re.MULTILINE)


class Near(NamedTuple):
    """Ids of tests, the nearest first, and a sentence about them."""

    tests: Sequence[str]
    message: str


class Test(NamedTuple):
    """A test function: its id, its file relative to the checkout, and its words."""

    id: str
    file: str
    words: frozenset[str]


def nearest(root: Path) -> Near:
    """The tests near to what has changed in a checkout since its last commit."""
    changes = changed_lines(root)
    if not changes:
        return Near((), "Nothing has changed since the last commit: no test is near.")
    checkout = Checkout(root)
    orders = [_near_file(checkout, file, new, gone) for file, (new, gone) in changes.items()]
    tests = list(dict.fromkeys(test for turn in zip_longest(*orders) for test in turn if test))[:MOST]
    files = ", ".join(list(changes)[:5]) + (f" and {len(changes) - 5} more files" if len(changes) > 5 else "")
    if not tests:
        return Near((), f"No test is near to {files}: `make test` runs all.")
    return Near(tests, f"These tests are the nearest to the change of {files}.")


class Checkout:
    """The modules and tests of a checkout, and what they import."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, str] = {}
        #: File -> name of the module.
        self.modules: dict[str, str] = {}
        for folder, prefix in CODE.items():
            for path in sorted((root / folder).rglob("*.py")):
                parts = (prefix, *path.relative_to(root / folder).with_suffix("").parts)
                self.modules[path.relative_to(root).as_posix()] = ".".join(parts).removesuffix(".__init__")
        self._names = set(self.modules.values())
        #: The files of tests.
        self.tests = [path.relative_to(root).as_posix() for path in sorted((root / "tests").rglob("test_*.py"))]

    def text(self, file: str) -> str:
        """The text of a file, read once."""
        if file not in self._files:
            self._files[file] = (self.root / file).read_text("utf-8", errors="replace")
        return self._files[file]

    @cache  # noqa: B019
    def imports(self, file: str) -> frozenset[str]:
        """The modules that a file imports or names as text, as plug-ins and patches do."""
        text = self.text(file)
        names = set(_DOTTED.findall(text))
        names |= {f"{module}.{name}" for module, words in _FROM.findall(text) for name in re.findall(r"\w+", words)}
        prefixes = {name.rsplit(".", cut)[0] for name in names for cut in range(3)}
        return frozenset(prefixes & self._names)

    @cache  # noqa: B019
    def tests_of(self, file: str) -> tuple[Test, ...]:
        """The test functions of a file."""
        text = self.text(file)
        starts = [match.start() for match in _TEST.finditer(text)]
        tests, group = [], ""
        for start, end in pairwise([*starts, len(text)]):
            part = text[start:end]
            kind, name = part.split(None, 2)[:2]
            name = re.split(r"\W", name)[0]
            if part[0] != " ":
                group = f"::{name}" if kind == "class" else ""
            if name.startswith("test_"):
                tests.append(Test(f"{file}{group}::{name}", file, _words(part)))
        return tuple(tests)

    @property
    @cache  # noqa: B019
    def weights(self) -> Mapping[str, float]:
        """Word -> how rare it is among the tests."""
        tests = [test for file in self.tests for test in self.tests_of(file)]
        counts = Counter(word for test in tests for word in test.words)
        return {word: math.log(len(tests) / count) for word, count in counts.items()}


def _near_file(checkout: Checkout, file: str, new: set[int], gone: set[int]) -> list[str]:
    """Ids of the tests near to one changed file."""
    path = Path(file)
    source = checkout.text(file) if (checkout.root / file).is_file() else ""
    old = _git(checkout.root, "show", f"HEAD:{file}") if gone else ""
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        names = {f"::{name.replace('.', '::')}" for name in _functions_at(source, new)}
        tests = [test.id for test in checkout.tests_of(file)] if source else []
        return [test for test in tests if test.removeprefix(file) in names] or tests
    module = checkout.modules.get(file, "")
    if not module and path.suffix != ".py":
        # What reads data and templates: the code that has the file's name, or lies beside it or above with that stem.
        stem = path.name.partition(".")[0]
        changed = {
            name
            for code, name in checkout.modules.items()
            if path.name in checkout.text(code) or (Path(code).stem == stem and _room(code) == _room(file))
        }
    else:
        changed = {module}
    importers = {checkout.modules[code] for code in checkout.modules if checkout.imports(code) & changed}
    words = _words(f"{_changed_text(source, new)} {_changed_text(old, gone)} {' '.join(path.with_suffix('').parts)}")
    stems = {part for part in (path.name.partition(".")[0], path.parent.name) if part != _room(file)}

    def distance(test: str) -> int:
        here, imported = _room(test) == _room(file), checkout.imports(test)
        direct = bool(imported & changed) or path.name in checkout.text(test)
        if here and (direct or any(stem in Path(test).stem for stem in stems)):
            return 0
        if Path(test).stem == f"test_{path.stem}":
            return 0
        return 1 if here or direct else 2 if imported & importers else 3

    score = checkout.weights
    rare = math.log(sum(len(checkout.tests_of(name)) for name in checkout.tests) / FEW)

    def names_it(test: Test) -> bool:
        """Whether a test shares a rare name with the change, such as a setting that a changed function reads."""
        return any("_" in word and score[word] >= rare for word in test.words & words)

    near = [
        (0 if names_it(test) else at, test)
        for name in checkout.tests
        for at in [distance(name)]
        for test in checkout.tests_of(name)
    ]
    return [
        test.id
        for at, test in sorted(near, key=lambda item: (item[0], -sum(score[word] for word in item[1].words & words)))
        if at < 3
    ]


def _room(file: str) -> str:
    """The folder of a room that a file is in, or that a test is of."""
    parts = Path(file).parts
    return parts[1] if parts[0] in {"bench", "tests"} and len(parts) > 2 else parts[0]


def _words(text: str) -> frozenset[str]:
    """The words of a text, and its names of several words."""
    return frozenset([*re.findall(r"[a-z]{3,}", text.lower()), *re.findall(r"[a-z]+(?:_[a-z]+)+", text.lower())])


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
        if (root / file).is_file():
            by_key[file] = (set(range(1, 1 + len((root / file).read_bytes().splitlines()))), set())
    return by_key


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, errors="replace").stdout


def _functions(source: str) -> Iterator[tuple[str, int, int]]:
    """Every outermost function or method of a module, as `f` or `C.f`, with its first and last line."""

    def walk(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                yield prefix + node.name, first, node.end_lineno or first
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")

    try:
        return walk(ast.parse(source).body, "")
    except SyntaxError:
        return iter(())


def _functions_at(source: str, lines: set[int]) -> set[str]:
    """The functions that have one of these lines; nothing if a line is outside of all functions."""
    spans = list(_functions(source))
    found = {next((name for name, first, last in spans if first <= line <= last), "") for line in lines}
    return set() if "" in found else found


def _changed_text(source: str, lines: set[int]) -> str:
    """The functions that have one of these lines, and lines that are in none."""
    spans = [(first, last) for _, first, last in _functions(source)]
    wanted = set(lines)
    for first, last in spans:
        if not lines.isdisjoint(range(first, last + 1)):
            wanted |= set(range(first, last + 1))
    return "\n".join(text for number, text in enumerate(source.splitlines(), 1) if number in wanted)

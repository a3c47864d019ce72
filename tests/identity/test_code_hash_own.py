"""The version of the code of a method of one's own: it changes with its helpers, also where there is no file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from kit.interpreter import Interpreter

ROOT = Path(__file__).resolve().parent.parent.parent
HASH = """
import sys
from bench.identity.sources import code_hash
print(code_hash(sys.argv[1]))
"""


Hashed = Callable[[str], str]
ChangedBy = Callable[[str, Iterable[str]], set[str]]


@pytest.fixture
def hashed(interpreter: Interpreter, tmp_path: Path) -> Hashed:
    """The hash of a module in the test's folder, found by a fresh process."""
    return lambda module: interpreter(HASH, module, folder=tmp_path, path=(ROOT,)).stdout.strip()


@pytest.fixture
def changed_by(hashed: Hashed, tmp_path: Path) -> ChangedBy:
    """Of these files, those whose change changes the hash of a module."""

    def changed_by(module: str, files: Iterable[str]) -> set[str]:
        found = set()
        before = hashed(module)
        for name in files:
            (tmp_path / name).write_text((tmp_path / name).read_text() + "\n# edited\n")
            after = hashed(module)
            if after != before:
                found.add(name)
            before = after
        return found

    return changed_by


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Files by their path in a folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# In files -----------------------------------------------------------------------------------------------------------


def test_a_package_is_hashed_with_the_modules_it_imports(tmp_path: Path, changed_by: ChangedBy) -> None:
    texts = {
        "mine/method.py": "from . import near\nfrom .deep.far import value\nimport json\n",
        "mine/near.py": "import mine.further\n",
        "mine/further.py": "",
        "mine/deep/far.py": "from ..circle import value\n",
        "mine/circle.py": "from . import method\nvalue = 1\n",
    }
    others = {"mine/__init__.py": "", "mine/deep/__init__.py": "", "mine/stranger.py": ""}
    write(tmp_path, texts | others)
    assert changed_by("mine.method", [*texts, "mine/stranger.py"]) == set(texts)


def test_the_packages_around_an_imported_module_are_hashed(tmp_path: Path, changed_by: ChangedBy) -> None:
    """Python runs the `__init__.py` of every package on the way to a module."""
    files = {
        "method.py": "import outer.inner.leaf\n",
        "outer/__init__.py": "a = 1\n",
        "outer/inner/__init__.py": "b = 1\n",
        "outer/inner/leaf.py": "c = 1\n",
    }
    write(tmp_path, files)
    assert changed_by("method", files) == set(files)


def test_helpers_beside_the_method_are_hashed_however_they_are_imported(tmp_path: Path, changed_by: ChangedBy) -> None:
    texts = {
        "method.py": """
from first import value
import second as other
import numpy as np

def rank():
    from third import value
    import package.inner
""",
        "first.py": "import fourth\nvalue = 1\n",
        "second.py": "",
        "third.py": "value = 3\n",
        "fourth.py": "",
        "package/inner.py": "import package.outer\n",
        "package/outer.py": "",
    }
    write(tmp_path, texts | {"stranger.py": "import first\n"})
    assert changed_by("method", [*texts, "stranger.py"]) == set(texts)


def test_installed_packages_and_the_interpreter_s_own_modules_are_not_followed(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    method = """
import json, os, sys, time
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import pyarrow.parquet
from scipy.sparse import csr_matrix
from pydantic import Field
import helper
import there.is_none
"""
    write(
        tmp_path, {"method.py": method, "helper.py": "import bisect\nimport pandas\nfrom bench.results import store\n"}
    )
    reached = "from bench.identity import sources; print(*sorted(sources.closure('method')))"
    found = interpreter(reached, folder=tmp_path, path=(ROOT,)).stdout.split()
    assert [name for name in found if not name.startswith("bench.")] == ["helper", "method"]
    assert "bench.results.store" in found


@pytest.mark.parametrize("text", ["print('was run')", "raise SystemExit('was run')", "this is no Python"])
def test_what_is_hashed_is_not_run(tmp_path: Path, hashed: Hashed, changed_by: ChangedBy, text: str) -> None:
    # The method imports them when it ranks, if then.
    method = "def rank():\n    from helper import value\n    from package.inner import value\n"
    write(tmp_path, {"method.py": method, "helper.py": text, "package/__init__.py": text, "package/inner.py": ""})
    assert len(hashed("method")) == 64
    assert changed_by("method", ["helper.py", "package/inner.py"]) == {"helper.py", "package/inner.py"}


def test_a_helper_s_change_is_another_id(interpreter: Interpreter, tmp_path: Path) -> None:
    # Else the result of the old helper would pass for one of the new.
    method = """
from bench.protocol import Method, Ranking
from helper import answer

class Mine(Method):
    def index(self, library):
        pass

    def rank(self, queries, depth):
        return Ranking.of_lists([answer] * len(queries))
"""
    write(tmp_path, {"method.py": method, "helper.py": "answer = [0]\n"})
    program = "from bench.registry import build_method; from bench.evaluation.plan import method_hash; "
    program += "print(method_hash(build_method('method:Mine')))"
    before, again = (interpreter(program, folder=tmp_path, path=(ROOT,)).stdout for _ in range(2))
    assert again == before
    write(tmp_path, {"helper.py": "answer = [1]\n"})
    assert interpreter(program, folder=tmp_path, path=(ROOT,)).stdout != before


# Without a file -----------------------------------------------------------------------------------------------------

TYPED = """
from bench.errors import BenchError
from bench.protocol import Context, Method, Ranking
from bench.registry import build_method
from bench.evaluation.plan import method_hash

class Mine(Method):
    def index(self, library):
        pass

    def rank(self, queries, depth):
        return Ranking.of_lists([[0]] * len(queries))

try:
    method_hash(Mine(Mine.Parameters(), Context(build_method)))
except BenchError as error:
    print(error.exit_code, error)
"""


def python(folder: Path, argument: str, text: str = "") -> str:
    """What a Python process in a folder prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, argument], cwd=folder, env=environment, input=text, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_code_that_was_typed_in_is_refused_with_what_to_do(tmp_path: Path) -> None:
    said = python(tmp_path, "-", TYPED)
    assert said.startswith("2 the module __main__ has no source file")
    assert said.endswith("save it in a .py file.")


def test_a_script_that_is_run_has_a_file(tmp_path: Path) -> None:
    write(tmp_path, {"script.py": TYPED + "else:\n    print('hashed')\n"})
    assert python(tmp_path, "script.py") == "hashed"

"""Code that is edited in a process that has imported it: never the old code's numbers under the new code's name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.paths import results_folder

Bench = Callable[..., Any]

METHOD = """
import helper
from bench.interface import Method
from bench.search.topk import top_k
import numpy as np

class First(Method):
    def index(self, library):
        self.size = len(library)
    def rank(self, queries, depth):
        helper.before(self)
        return top_k(np.tile(np.arange(self.size, dtype=float) * helper.SIGN, (len(queries), 1)), depth)
"""
HELPER = "SIGN = 1\ndef before(method):\n    pass\n"


@pytest.fixture(autouse=True)
def modules(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method and what it imports, in the working folder; forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget(monkeypatch)
    Path("plug.py").write_text(METHOD)
    Path("helper.py").write_text(HELPER)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("plug", "helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def run(bench: Bench, code: int = 0, method: str = "plug:First") -> Any:
    return bench("run", "-m", method, "-d", "starter", "--limit", 4, "--json", code=code)


@pytest.mark.parametrize("file", ["plug.py", "helper.py"])
def test_an_edited_file_is_not_run_as_it_was_before(bench: Bench, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = run(bench).json
    old, new = ("helper.SIGN", "-helper.SIGN") if file == "plug.py" else ("SIGN = 1", "SIGN = -1")
    Path(file).write_text(Path(file).read_text().replace(old, new))
    said = run(bench, code=2)
    assert f"{file} was edited after this process had imported or read it" in said.err
    assert len(list(results_folder().glob("*/*/manifest.json"))) == 1
    # A new process has the new code.
    forget(monkeypatch)
    (second,) = run(bench).json
    assert second["manifest"]["result_id"] != first["manifest"]["result_id"]


def test_a_search_function_is_told_from_what_it_was_before(bench: Bench) -> None:
    text = "def search(text, limit):\n    return []\n"
    Path("plug.py").write_text(text)
    run(bench, method="plug:search")
    Path("plug.py").write_text(text.replace("[]", "['a']"))
    assert (
        "plug.py was edited after this process had imported or read it" in run(bench, code=2, method="plug:search").err
    )


def test_a_file_that_is_edited_while_it_runs_gives_no_result(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("helper.py").write_text(
        "import os\nSIGN = 1\ndef before(method):\n    os.system('echo SIGN = -1 > helper.py')\n"
    )
    said = run(bench, code=5)
    assert "was edited" in said.err
    assert not list(results_folder().rglob("*.parquet"))
    assert not list(results_folder().glob("*/.*.partial"))
    forget(monkeypatch)
    Path("helper.py").write_text(HELPER)
    run(bench)

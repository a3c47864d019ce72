"""Code that is edited in a process that has imported it: never the old code's numbers under the new code's name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.paths import results_folder
from bench.results.store import StoredResult, to_json

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


# Kept results ---------------------------------------------------------------------------------------------------------

READS = HELPER + "from pathlib import Path\nSIGN = int(Path('sign.txt').read_text())\n"


def again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of the result in another process."""
    forget(monkeypatch)
    (found,) = run(bench).json
    identifier: str = found["manifest"]["result_id"]
    return identifier


def test_a_kept_result_is_one_of_which_all_is_as_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("helper.py").write_text(READS)
    Path("sign.txt").write_text("1")
    first = again(bench, monkeypatch)
    Path("helper.py").write_text(READS + "# a comment\n")
    assert again(bench, monkeypatch) == first
    Path("sign.txt").write_text("-1")
    second = again(bench, monkeypatch)
    assert second != first
    # A name means what would be stored today.
    assert bench("show", "plug:First@starter", "--json").json["manifest"]["result_id"] == second
    Path("sign.txt").write_text("1")
    forget(monkeypatch)
    assert bench("show", "plug:First@starter", "--json").json["manifest"]["result_id"] == first
    Path("sign.txt").unlink()
    forget(monkeypatch)
    assert "cannot be imported" in run(bench, code=5).err


def test_a_record_that_leaves_out_a_file_keeps_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("helper.py").write_text(READS)
    Path("sign.txt").write_text("1")
    first = again(bench, monkeypatch)
    (path,) = results_folder().glob("*/*/manifest.json")
    manifest = StoredResult.read(path.parent).manifest
    assert manifest.method.used is not None
    files = {name: digest for name, digest in manifest.method.used.files.items() if name != "sign.txt"}
    method = manifest.method.model_copy(update={"used": manifest.method.used.model_copy(update={"files": files})})
    path.write_text(to_json(manifest.model_copy(update={"method": method}).sealed()))
    Path("sign.txt").write_text("-1")
    assert again(bench, monkeypatch) != first


def test_batches_of_other_files_are_not_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = "import os\nclass Broken(Exception): pass\n" + READS.replace(
        "pass\n", "open('late.txt').read()\n    if os.path.exists('break'):\n        raise Broken\n"
    )
    Path("helper.py").write_text(breaks)
    Path("plug.py").write_text(METHOD.replace("class First(Method):", "class First(Method):\n    batch_size = 1"))
    for name in ("sign.txt", "late.txt"):
        Path(name).write_text("1")
    first = again(bench, monkeypatch)
    Path("late.txt").write_text("2")
    second = again(bench, monkeypatch)
    assert first != second
    # The first query is answered, and then it breaks.
    later = breaks.replace("os.path.exists('break')", "os.path.exists('break') and ASKED.append(1) or len(ASKED) > 1")
    Path("helper.py").write_text("ASKED = []\n" + later)
    Path("break").write_text("")
    forget(monkeypatch)
    run(bench, code=5)
    assert list(results_folder().glob("*/.*.partial/used.json"))
    Path("late.txt").write_text("3")
    Path("break").unlink()
    forget(monkeypatch)
    (found,) = run(bench).json
    assert found["manifest"]["resumed"] is False

"""The method `command`, end to end with real programs, in Python and in Node."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bench.checks.method import check_method
from bench.errors import UnavailableError, UsageError
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.store import RUN, Result
from bench.specs.spec import Spec, Value

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
PYTHON = (EXAMPLES / "search.py").read_text("utf-8")


def run(results: Path, command: str, limit: int = 20, **more: Value) -> Result:
    runner = Runner(results, load=lambda spec: load_dataset(str(spec)), build=build_method)
    spec = Spec.of("command", {"run": command, **more})
    found = next(runner.run([Plan(Spec.of("starter"), spec, limit=limit)]))
    if not isinstance(found, Result):
        raise found
    return found


@pytest.fixture
def program() -> str:
    return f"{sys.executable} {EXAMPLES / 'search.py'}"


def test_a_program_ranks_the_tools_that_it_is_given(program: str, tmp_path: Path) -> None:
    result = run(tmp_path / "r", program)
    assert result.metrics.n_failed == 0
    assert result.metrics.metrics["recall@10"].mean > 0.2
    assert [mark.text for mark in result.manifest.marks] == ["remote"]
    named = run(tmp_path / "r", program, revision="abc")
    assert named.manifest.method.revisions == {program: "abc"}
    assert named.manifest.marks == []


def test_a_program_in_another_language_gives_the_same(program: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    one, other = run(tmp_path / "r", program), run(tmp_path / "r", f"{node} {EXAMPLES / 'search.js'}")
    assert one.folder != other.folder
    assert (one.folder / RUN).read_bytes() == (other.folder / RUN).read_bytes()


def test_a_program_that_dies_fails_its_query_alone_and_is_not_started_for_ever(tmp_path: Path) -> None:
    dying = PYTHON.replace("    query =", "    if asked['id'] == 5: sys.exit(1)\n    query =")
    (tmp_path / "search.py").write_text(dying)
    result = run(tmp_path / "r", f"{sys.executable} {tmp_path / 'search.py'}")
    assert result.manifest.facts["failures"] == "1 x no answer: the process ended with 1"
    assert result.metrics.n_failed <= 1
    (tmp_path / "search.py").write_text("import sys\nfor line in sys.stdin: print('[]', flush=True); sys.exit(1)\n")
    with pytest.raises(UnavailableError, match="ended or had to be stopped 4 times"):
        run(tmp_path / "s", f"{sys.executable} {tmp_path / 'search.py'}")


def test_a_program_passes_the_conformance_kit(program: str) -> None:
    spec = Spec.of("command", {"run": program})
    found = check_method(lambda: build_method(spec), load_dataset("starter"))
    assert [check for check in found if check.problem] == []


def test_what_cannot_work_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a command"):
        run(tmp_path, "")
    with pytest.raises(UnavailableError, match="cannot start the command 'no-such-program'"):
        run(tmp_path, "no-such-program")

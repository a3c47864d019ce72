"""The plug-in in projects that have nothing but bench installed and a test of three lines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse.csgraph
import scipy.special
import scipy.stats
from kit.once import Once
from kit.results import of_this_run, scored_by

from bench.base.spec import parse
from bench.evaluation.external import score_run_file
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.gating.baseline import read_baseline, write_baseline
from bench.gating.bless import bless
from bench.registry import build_method, load_dataset
from bench.results.manifest import ScoringCode

pytest_plugins = ["pytester"]

#: A project's own search: words that query and tool share, with a fault that a test plants. Its sums are exact:
#: a plain sum over a set depends on the interpreter's hash seed, and so would the order of near ties in a subprocess.
PROJECT = """
from collections import Counter
from math import fsum
from bench.registry import load_dataset

TEXTS = {tool.tool_id: tool.name + " " + tool.description for tool in load_dataset("starter").tools}
TOOLS = {name: set(text.lower().replace("_", " ").split()) for name, text in TEXTS.items()}
COUNTS = Counter(word for words in TOOLS.values() for word in words)

def my_search(query, fault=""):
    words = set(query.lower().split())
    ranked = sorted(TOOLS, key=lambda name: (-fsum(1 / COUNTS[word] for word in words & TOOLS[name]), name))
    return ranked[-20:] if fault == "worst" else ranked[:20]
"""
THREE_LINES = """
from project import my_search

def test_search_does_not_get_worse(bench_gate):
    bench_gate(lambda query: my_search(query))
"""
POLICY = 'margin = 0.02\n[[rule]]\nmetric = "recall@5"\n'

#: Loaded before any test: pytester forgets what its inner sessions import, and NumPy's parts cannot be loaded twice.
LOADED = (scipy.sparse.csgraph, scipy.special, scipy.stats)


@pytest.fixture(scope="module")
def blessed_search(once: Once, shared_cache: Path) -> Path:
    """The baseline of the project's search: its run file, scored and blessed, once in a run."""

    def make(folder: Path) -> None:
        namespace: dict[str, Any] = {}
        exec(PROJECT, namespace)
        dataset = load_dataset("starter")
        requests = [query for query in dataset.queries if query.split == "test"]
        by_query_id = {query.query_id: namespace["my_search"](query.text) for query in requests}
        lines = [json.dumps({"query_id": query, "tools": tools}) for query, tools in by_query_id.items()]
        data = ("\n".join(lines) + "\n").encode()
        result = score_run_file(data, "run.jsonl", dataset, folder / "r", name="mine", command="x")
        bless([result], folder / "b.json", by="a person")

    with of_this_run(shared_cache):
        return once("blessed-search", make) / "b.json"


@pytest.fixture
def project(pytester: pytest.Pytester, blessed_search: Path) -> pytest.Pytester:
    """A project whose search has a blessed baseline."""
    pytester.makepyfile(project=PROJECT)
    shutil.copy(blessed_search, pytester.path)
    (pytester.path / "gate.toml").write_text(POLICY)
    return pytester


OPTIONS = ("--bench-baseline", "b.json", "--bench-policy", "gate.toml")


def test_the_plug_in_is_an_entry_point_of_the_package() -> None:
    (point,) = [point for point in entry_points(group="pytest11") if point.name == "bench"]
    assert point.value == "bench.gating.pytest_plugin"


def test_a_search_that_is_what_it_was_passes(project: pytest.Pytester) -> None:
    project.makepyfile(test_search=THREE_LINES)
    before = (project.path / "b.json").read_bytes()
    project.runpytest(*OPTIONS).assert_outcomes(passed=1)
    assert (project.path / "b.json").read_bytes() == before


def test_options_may_stand_in_the_configuration_and_pytest_be_called_from_below(project: pytest.Pytester) -> None:
    project.makeini(f"[pytest]\naddopts = {' '.join(OPTIONS)}\n")
    project.makepyfile(test_search=THREE_LINES)
    project.makeconftest("import sys, pathlib; sys.path.insert(0, str(pathlib.Path(__file__).parent))")
    below = project.mkdir("below")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project.path)]
    done = subprocess.run(command, cwd=below, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_search_that_got_worse_fails_with_the_report(project: pytest.Pytester) -> None:
    project.makepyfile(test_search=THREE_LINES.replace("(query))", "(query, 'worst'), name='mine')"))
    result = project.runpytest(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["gate: mine @ starter against mine @ starter*", "regression *recall@5*", "newly failing*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(("argument", "outcome"), [("", "failed"), (", inconclusive='xfail'", "xfailed")])
def test_what_is_not_decided_is_never_a_pass(project: pytest.Pytester, argument: str, outcome: str) -> None:
    lines = THREE_LINES.replace("my_search(query))", f"my_search(query)[len(query) % 2 :]{argument})")
    project.makepyfile(test_search=lines)
    (project.path / "gate.toml").write_text(POLICY.replace("0.02", "0.03"))
    result = project.runpytest(*OPTIONS, "-rxf")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*inconclusive: the measurements show neither a pass nor a regression*"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("bench_gate(lambda query: ['no.such.tool'])", "*could not run: candidate answered the query*no.such.tool*"),
        ("bench_gate(lambda query: my_search(query)[:1] * 2)", "*could not run*twice*"),
        ("bench_gate(lambda query: 'text')", "*it must give a list of tool ids*"),
        ("bench_gate(lambda query: None)", "*it must give a list of tool ids*"),
        ("bench_gate(lambda query: [])", "*126 of 126 judged queries failed*"),
        ("bench_gate(my_search, baseline='none.json')", "*there is no baseline*none.json*"),
        ("bench_gate(my_search, policy='none.toml')", "*cannot read the policy*none.toml*"),
        ("bench_gate(lambda query: 1 / 0)", "*ZeroDivisionError*"),
    ],
)
def test_what_could_not_run_fails(project: pytest.Pytester, body: str, said: str) -> None:
    project.makepyfile(test_search=f"from project import my_search\n\ndef test_it(bench_gate):\n    {body}\n")
    result = project.runpytest(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([said])


def test_without_a_baseline_the_test_fails_and_is_not_skipped(project: pytest.Pytester) -> None:
    project.makepyfile(test_search=THREE_LINES)
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bench_gate could not run: give a file with --bench-baseline*"])


def test_a_baseline_of_other_data_is_not_compared(project: pytest.Pytester) -> None:
    path = project.path / "b.json"
    baseline = read_baseline(path)
    project.makepyfile(test_search=THREE_LINES)
    other = baseline.dataset.model_copy(update={"content_hash": "0" * 64})
    for changed, said in (
        ({"dataset": other}, "content of the dataset"),
        ({"scoring": ScoringCode(**scored_by("0" * 64, baseline.values))}, "scoring code of recall"),
    ):
        write_baseline(path, baseline.model_copy(update=changed).sealed())
        result = project.runpytest(*OPTIONS)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"*the *{said} differs*", "not comparable*"])


def test_the_clock_runs_until_a_lazy_search_has_been_read_to_its_end(project: pytest.Pytester) -> None:
    lazy = """
        import time
        from project import my_search

        def lazy(query):
            time.sleep(0.003)
            yield from my_search(query)

        def test_it(bench_gate):
            bench_gate(lazy)
        """
    project.makepyfile(test_search=lazy)
    (project.path / "gate.toml").write_text("[latency]\np95_seconds = 0.002\n")
    result = project.runpytest(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["regression *latency p95, seconds*"])


def test_a_search_without_end_is_told_instead_of_being_read_for_ever(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_search="import itertools\nfrom project import my_search\n\n"
        "def test_it(bench_gate):\n    bench_gate(lambda query: itertools.cycle(my_search(query)))\n"
    )
    result = project.runpytest(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*could not run*twice*"])


def test_a_baseline_of_a_method_judges_a_search_that_ranks_as_it_does(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    """Also with a limit: the fixture asks the queries that were blessed."""
    runner = Runner(tmp_path / "r", load=load_dataset, build=build_method)
    (result,) = runner.run([Plan(parse("starter"), parse("bm25"), limit=40)])
    bless([result], pytester.path / "b.json", by="a person")  # type: ignore[list-item]
    (pytester.path / "gate.toml").write_text(POLICY)
    pytester.makepyfile(
        """
        import numpy as np
        from bench.interface import Library, Queries
        from bench.registry import build_method, load_dataset

        def test_it(bench_gate):
            dataset = load_dataset("starter")
            method = build_method("bm25")
            library = Library.of(dataset, dataset.card.template)
            method.index(library)
            rows = dataset.rows("test")
            queries = Queries.of(dataset, rows)
            places = {text: i for i, text in enumerate(queries.texts)}

            def search(query):
                found = method.rank(queries.take(np.array([places[query]])), 100).tools[0]
                return [dataset.tools[code].tool_id for code in found if code >= 0]

            report = bench_gate(search)
            assert [(rule.worse, rule.better) for rule in report.rules] == [(0, 0)]
        """
    )
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=1)


def test_the_plug_in_imports_nothing_heavy_at_start_up() -> None:
    program = """
import sys
before = set(sys.modules)
import bench.gating.pytest_plugin
new = {name for name in set(sys.modules) - before}
print(sorted(name for name in new if name.startswith("bench")))
print([name for name in ("numpy", "pydantic", "pyarrow", "torch", "scipy", "click") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['bench', 'bench.gating', 'bench.gating.pytest_plugin']", "[]"], done.stderr

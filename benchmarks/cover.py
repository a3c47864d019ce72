"""Which lines and branches the tests run.

    python benchmarks/cover.py run [TEST ...]   # tests under coverage; if none is named, all, slow ones included
    python benchmarks/cover.py show             # lines and branches that were run, by folder

`make cover` does both. Processes that tests start, such as `bench` itself, are not followed. What a fixture of a
whole module or run executes counts for every test that asks for it, whichever came first; `mutation.py` draws its tests
from the same data.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "cover"
DATA = WORK / "data"
#: What is measured.
CODE = ("bench", "methods", "datasets", "leaderboard")


def run(tests: list[str]) -> int:
    """Run tests under coverage, on all cores; keeps what each test and each shared fixture ran."""
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("*"):
        old.unlink()
    settings = WORK / "settings"
    source = ",".join(str(ROOT / name) for name in CODE)
    settings.write_text(f"[run]\nbranch = true\ndata_file = {DATA}\nparallel = true\nsource = {source}\n")
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    # coverage starts itself in each process that finds this in its environment, before anything is imported.
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "cover", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


# In the processes that run tests ------------------------------------------------------------------------------------

if "COVERAGE_PROCESS_START" in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
    import coverage
    import pytest

    # Processes that tests start are not measured.
    del os.environ["COVERAGE_PROCESS_START"]
    _started = coverage.Coverage.current()
    assert _started is not None
    _coverage: coverage.Coverage = _started
    _contexts = [""]
    #: Test -> the shared fixtures that it asks for.
    _asks: dict[str, list[str]] = {}

    def _name(item: pytest.Item) -> str:
        return item.nodeid.partition("[")[0]

    @contextmanager
    def _running(name: str) -> Iterator[None]:
        """What runs now is this test's, or this fixture's."""
        _contexts.append(name)
        _coverage.switch_context(name)
        try:
            yield
        finally:
            _contexts.pop()
            _coverage.switch_context(_contexts[-1])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
        """A test, with the fixtures that it alone has."""
        known = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
        shared = {_fixture(fixtures[-1]) for fixtures in known if fixtures[-1].scope != "function"}
        _asks[_name(item)] = sorted(shared | set(_asks.get(_name(item), ())))
        with _running(_name(item)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """A fixture of a module or a run: all those tests' that ask for it."""
        if fixturedef.scope == "function":
            return (yield)
        with _running(_fixture(fixturedef)):
            return (yield)

    def _fixture(fixturedef: pytest.FixtureDef[Any]) -> str:
        return f"fixture {fixturedef.baseid}::{fixturedef.argname}"

    def pytest_unconfigure() -> None:
        """Keep it."""
        _coverage.stop()
        _coverage.save()
        if _asks:
            (WORK / f"asks.{os.getpid()}.json").write_text(json.dumps(_asks))


# Afterwards ---------------------------------------------------------------------------------------------------------


@functools.cache
def tests_by_line() -> Mapping[str, Mapping[int, frozenset[str]]]:
    """File -> line -> ids of the tests that run it."""
    import coverage

    asking: dict[str, set[str]] = collections.defaultdict(set)
    for part in WORK.glob("asks.*.json"):
        for test, fixtures in json.loads(part.read_text()).items():
            for fixture in fixtures:
                asking[fixture].add(test)
    by_file: dict[str, dict[int, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for part in sorted(WORK.glob(f"{DATA.name}.*")):
        data = coverage.CoverageData(str(part))
        data.read()
        for file in data.measured_files():
            lines = by_file[str(Path(file).relative_to(ROOT))]
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    if context:
                        lines[line] |= asking[context] if context.startswith("fixture ") else {context}
    return {file: {line: frozenset(tests) for line, tests in lines.items()} for file, lines in by_file.items()}


def show() -> None:
    """Print the shares of lines and of branches that were run."""
    import coverage

    whole = coverage.Coverage(config_file=str(WORK / "settings"), data_file=str(WORK / "whole"))
    parts = sorted(WORK.glob(f"{DATA.name}.*"))
    whole.combine([str(part) for part in parts], keep=True)
    report = WORK / "report.json"
    whole.json_report(outfile=str(report), omit=["*.html", "*.txt", "*.xml", "*.md", "*.svg"])
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for file, item in json.loads(report.read_text())["files"].items():
        place = str(Path(file).resolve().relative_to(ROOT)) if Path(file).is_absolute() else file
        parts_of_place = place.split("/")
        room = "/".join(parts_of_place[:2]) if parts_of_place[0] == "bench" else parts_of_place[0]
        for name in (room, "all"):
            counts[name].update({key: value for key, value in item["summary"].items() if isinstance(value, int)})
    print(f"{'folder':24} {'lines':>7} {'run':>7} {'share':>7}  {'branches':>8} {'run':>7} {'share':>7}")
    for name, counted in sorted(counts.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        lines, branches = counted["num_statements"], counted["num_branches"]
        print(
            f"{name:24} {lines:7} {counted['covered_lines']:7} {counted['covered_lines'] / max(lines, 1):7.2%}"
            f"  {branches:8} {counted['covered_branches']:7} {counted['covered_branches'] / max(branches, 1):7.2%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["run", "show"])
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    if given.action == "run":
        sys.exit(run(given.tests or ["--all"]))
    show()


if __name__ == "__main__":
    main()

"""Results of bm25 and of chance on starter, made once, and the command line to compare them with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kit.once import Once
from kit.results import LOCKS, of_this_run

import bench
from bench.base.paths import results_folder


@pytest.fixture(scope="session")
def short_results(once: Once, shared_cache: Path) -> Path:
    """bm25 and random on the first twenty queries of starter."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache):
            bench.run(["bm25", "random"], "starter", limit=20, results=folder)

    return once("short-results", make)


@pytest.fixture
def bm25(short_results: Path, isolated: None) -> bench.Result:
    """bm25, among this test's own results with the other one."""
    shutil.copytree(short_results, results_folder(), ignore=LOCKS)
    return bench.load_result("bm25@starter")


@pytest.fixture
def other(bm25: bench.Result) -> bench.Result:
    """The other one."""
    return bench.load_result("random@starter")


@pytest.fixture(name="command")
def command_line(request: pytest.FixtureRequest) -> object:
    """The fixture `bench`, by a name that is not that of the package."""
    return request.getfixturevalue("bench")

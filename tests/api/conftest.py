"""One result of bm25 on starter, and the command line to compare it with."""

from __future__ import annotations

import pytest

import bench


@pytest.fixture
def bm25() -> bench.Result:
    """bm25 on the first twenty queries of starter."""
    return bench.run("bm25", "starter", limit=20)


@pytest.fixture(name="command")
def command_line(request: pytest.FixtureRequest) -> object:
    """The fixture `bench`, by a name that is not that of the package."""
    return request.getfixturevalue("bench")

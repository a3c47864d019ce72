"""`bench check method`: the conformance kit from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]

HASTY = '''
"""A method that forgets about empty queries."""

from bench.interface import Method, Ranking


class Hasty(Method):
    """Ranks by the first letter."""

    def index(self, library):
        self.size = len(library)

    def rank(self, queries, depth):
        first = [ord(text[0]) % self.size for text in queries.texts]
        return Ranking.of_lists([[code] for code in first])
'''


@pytest.fixture
def hasty(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """A method in the working folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "hasty", raising=False)
    Path("hasty.py").write_text(HASTY)
    return "hasty:Hasty"


def test_a_method_that_passes_is_told_check_by_check(bench: Bench) -> None:
    lines = bench("check", "method", "bm25").out.splitlines()
    assert len([line for line in lines if line.startswith("ok    ")]) == 16
    assert [line for line in lines if line.startswith("skip  sets:")]
    assert "      it recommends no sets" in lines


def test_a_method_that_fails_is_told_with_the_reason_and_exit_code_1(bench: Bench, hasty: str) -> None:
    said = bench("check", "method", hasty, code=1)
    lines = said.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("FAIL  odd queries:"))
    assert lines[at + 1] == "      it raised IndexError: string index out of range (hasty.py:14)"
    assert said.err == "bench: hasty:Hasty fails 4 of 17 checks.\n"


def test_the_checks_are_given_as_json(bench: Bench, hasty: str) -> None:
    rows = bench("check", "method", hasty, "--json", code=1).json
    assert len(rows) == 17
    # The small libraries that the kit makes have an empty query too.
    failed = {row["name"].partition(":")[0] for row in rows if row["problem"]}
    assert failed == {"odd queries", "tiny library", "odd library", "no leak"}


def test_natural_texts_may_come_from_another_dataset(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    assert "FAIL" not in bench("check", "method", "bm25", "-d", "mine").out

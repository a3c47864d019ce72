"""An exception in code of a user's is told in a sentence with the file and the line that raised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.base.errors import MethodError
from bench.metrics import measures

METHODS = """\
from bench import Method, ParameterSet, Ranking
import faulty_helper

class Faulty(Method):
    class Parameters(ParameterSet):
        step: str = "rank"

    def __init__(self, parameters, context):
        super().__init__(parameters, context)
        self.reached("init")

    def reached(self, step):
        if self.parameters.step == step:
            raise ValueError("no more")  # line 14

    def fit(self, history):
        self.reached("fit")

    def index(self, library):
        self.reached("index")
        if self.parameters.step == "helper":
            faulty_helper.helped()  # line 22

    def rank(self, queries, depth):
        self.reached("rank")
        if self.parameters.step == "inside":
            int("x")
        return {}[0] if self.parameters.step == "key" else Ranking.empty(len(queries))
"""
HELPER = "def helped():\n    return 1 / 0\n"


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with a method that raises, in the working folder, and another beside it."""
    (tmp_path / "faulty_methods.py").write_text(METHODS)
    (tmp_path / "faulty_helper.py").write_text(HELPER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import faulty_methods  # type: ignore[import-not-found]

    yield faulty_methods
    for name in ("faulty_methods", "faulty_helper"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("init", "cannot be built: ValueError: no more (faulty_methods.py:14)."),
        ("index", "ValueError: no more (faulty_methods.py:14)."),
        ("rank", "ValueError: no more (faulty_methods.py:14)."),
        # What another module of the author's raises is told by the line that called it.
        ("helper", "ZeroDivisionError: division by zero (faulty_methods.py:22)."),
        ("inside", "ValueError: invalid literal for int() with base 10: 'x' (faulty_methods.py:27)."),
        ("key", "KeyError: 0 (faulty_methods.py:28)."),
    ],
)
def test_of_a_method_by_its_class_and_by_its_name(faulty: Any, step: str, told: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: bench.run(faulty.Faulty(step=step), "starter", limit=5),
        lambda: bench.run(f"faulty_methods:Faulty(step={step})", "starter", limit=5),
    ]
    for call in calls:
        with pytest.raises(MethodError) as caught:
            call()
        assert str(caught.value).endswith(told)
        assert "\n" not in str(caught.value)


def test_of_what_learns(faulty: Any) -> None:
    with pytest.raises(MethodError, match=r"while learning from past queries: .* \(faulty_methods\.py:14\)\.$"):
        bench.run(faulty.Faulty(step="fit"), "starter", limit=5)


def test_a_line_of_the_command_has_it(faulty: Any, command: Callable[..., Any]) -> None:
    said = command("run", "-m", "faulty_methods:Faulty", "-d", "starter", "--limit", 5, code=5)
    assert "ValueError: no more (faulty_methods.py:14)." in said.err.replace("\n", " ")


METRICS = """\
import functools
import numpy as np
from bench import ParameterSet, RankingMeasure

class Options(ParameterSet):
    p: float = 0.5

def broken(gold, k, p):
    return share(gold)

def share(gold):
    return gold.nothing  # line 12

def wrapped(function):
    @functools.wraps(function)
    def inner(*arguments, **named):
        return function(*arguments, **named)
    return inner

WORDS = {"definition": "one", "edge_cases": "none", "source": "this test"}
PLAIN = RankingMeasure("plain", function=lambda gold, k: 1 / 0, **WORDS)
WITH = RankingMeasure("with", function=broken, parameters=Options, **WORDS)
WRAPPED = RankingMeasure("wrapped", **WORDS, function=wrapped(lambda gold, k: np.zeros(len(k))[-1000]))
"""


@pytest.fixture
def broken_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Metrics that raise, in the catalogue."""
    (tmp_path / "broken_metrics.py").write_text(METRICS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import broken_metrics  # type: ignore[import-not-found]

    own = {measure.name: measure for measure in (broken_metrics.PLAIN, broken_metrics.WITH, broken_metrics.WRAPPED)}
    known = {**measures(), **own}
    monkeypatch.setattr("bench.metrics.catalogue.measures", lambda: known)
    yield
    sys.modules.pop("broken_metrics", None)


@pytest.mark.usefixtures("broken_metrics")
@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("plain@5", "metric plain@5 failed: ZeroDivisionError: division by zero (broken_metrics.py:21)."),
        (
            "with(p=0.25)@5",
            "metric with(p=0.25)@5 failed: AttributeError: 'GoldRanks' object has no attribute 'nothing' "
            "(broken_metrics.py:12).",
        ),
        (
            "wrapped@5",
            "metric wrapped@5 failed: IndexError: index -1000 is out of bounds for axis 0 with size 5 "
            "(broken_metrics.py:23).",
        ),
    ],
)
def test_of_a_metric(metric: str, told: str) -> None:
    with pytest.raises(MethodError) as caught:
        bench.run("bm25", "starter", limit=5, metrics=["recall@7", metric])
    assert str(caught.value) == told
    with pytest.raises(MethodError, match=r"\(broken_metrics\.py:\d+\)\.$"):
        bench.tune("bm25", "starter", {"k1": [1.0]}, metric=metric)

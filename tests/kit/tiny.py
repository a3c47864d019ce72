"""A tiny dataset, and plans run on it the way `bench run` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import BenchError
from bench.base.progress import QUIET, Progress, Quiet
from bench.base.spec import Spec, parse
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Query, Split, Tables, Tool
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Overwrite, Runner
from bench.interface import Context, Method
from bench.metrics import parse_metrics
from bench.registry import build_method
from bench.results.store import StoredResult

CARD = Card(
    id="tiny", title="Tiny", summary="Made here.", licence="CC0-1.0", redistribution=True, template="name_description"
)
WORDS = "mail letter stamp street road map train ticket hotel room bank coin".split()


@pytest.fixture(scope="session")
def tiny() -> Dataset:
    """Twelve tools, each about two words; 22 test, 9 train and 5 dev queries. Every seventh has no gold."""
    tools = [
        Tool(f"t{i:02}", f"tool_{word}", f"Does {word} and {WORDS[(i + 1) % 12]}.", "c", f"p{i // 4}")
        for i, word in enumerate(WORDS)
    ]
    counts: dict[Split, int] = {"test": 22, "train": 9, "dev": 5}
    sides = [side for side, count in counts.items() for _ in range(count)]
    queries = []
    for i, side in enumerate(sides):
        gold = {} if i % 7 == 6 else {f"t{i % 12:02}": 1, f"t{(5 * i + 3) % 12:02}": 1}
        queries.append(Query(f"q{i:02}", f"request {i}: {WORDS[i % 12]} {WORDS[(i * 3) % 12]}", gold, side))
    edges = [Edge("t01", "t00", "result"), Edge("t05", "t02", "verification")]
    return Dataset.build("tiny", CARD, Tables(tools, queries, edges))


class Notes(Quiet):
    """Keeps what the user is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        """Keep a line."""
        self.lines.append(message)


@pytest.fixture
def notes() -> Notes:
    """What a run tells its user, when it is given as `progress`."""
    return Notes()


@pytest.fixture
def instance() -> Callable[[type[Method]], Method]:
    """A method of a class of the test's own."""

    def instance(kind: type[Method]) -> Method:
        method = kind(kind.Parameters(), Context(build_method))
        method.name = kind.__name__.lower()
        return method

    return instance


@pytest.fixture
def runner(
    tmp_path: Path, tiny: Dataset, instance: Callable[[type[Method]], Method], few_resamples: None
) -> Callable[..., Runner]:
    """A runner over the tiny dataset; `kinds` are method classes of the test's own, by lower-case name."""

    def runner(
        *kinds: type[Method], overwrite: Overwrite = "missing", metrics: Sequence[str] = (), **more: Any
    ) -> Runner:
        by_key = {kind.__name__.lower(): kind for kind in kinds}

        def build(spec: Spec) -> Method:
            return instance(by_key[spec.name]) if spec.name in by_key else build_method(spec)

        settings = {"load": lambda spec: tiny, "build": build, **more}
        return Runner(tmp_path / "results", overwrite=overwrite, metrics=parse_metrics(metrics), **settings)

    return runner


@pytest.fixture
def run(runner: Callable[..., Runner], tiny: Dataset) -> Callable[..., StoredResult]:
    """Run one method (a spec or a class), on the tiny dataset if not on another; further arguments are the plan's.

    An error that ended the run is raised.
    """

    def run(
        method: str | type[Method],
        *,
        overwrite: Overwrite = "missing",
        metrics: Sequence[str] = (),
        progress: Progress = QUIET,
        dataset: Dataset = tiny,
        **plan: Any,
    ) -> StoredResult:
        kinds = () if isinstance(method, str) else (method,)
        spec = parse(method) if isinstance(method, str) else Spec(method.__name__.lower())
        chosen = runner(*kinds, overwrite=overwrite, metrics=metrics, progress=progress, load=lambda spec: dataset)
        (outcome,) = chosen.run([Plan(Spec(dataset.spec), spec, **plan)])
        if isinstance(outcome, BenchError):
            raise outcome
        return outcome

    return run

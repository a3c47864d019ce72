"""Runs on the embedded dataset, as `bench run` makes them."""

from __future__ import annotations

from pathlib import Path

from bench.base.spec import Spec
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method
from bench.results.store import StoredResult
from kit.datasets import loaded


def ran(results: Path, method: Spec, limit: int = 20) -> StoredResult:
    """The result of a method on the first test queries of the embedded dataset; what ended the run is raised."""
    runner = Runner(results, load=lambda spec: loaded(str(spec)), build=build_method)
    result = next(runner.run([Plan(Spec.of("starter"), method, limit=limit)]))
    if not isinstance(result, StoredResult):
        raise result
    return result

"""Whether a method learns: from what its result states."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.leaderboard.boards import traits
from bench.results.manifest import Manifest, Mark

ROOT = Path(__file__).resolve().parents[2]
KEPT = next((ROOT / "board" / "results" / "starter").glob("bm25-*/manifest.json"))


def row(spec: str, *, history: int = 100, needs_llm: bool = False, **method: Any) -> Any:
    manifest = Manifest.model_validate_json(KEPT.read_bytes())
    fields = {"spec": spec, "full_spec": spec, "needs_llm": needs_llm, "learns": None} | method
    changed = manifest.model_copy(
        update={
            "method": manifest.method.model_copy(update=fields),
            "dataset": manifest.dataset.model_copy(update={"history": history}),
        }
    )
    return SimpleNamespace(result=SimpleNamespace(manifest=changed))


def test_what_a_result_states_decides() -> None:
    assert traits.learns(row("bm25", learns=True))
    assert not traits.learns(row("nearest-query", learns=False))
    # Of a run file it is not known.
    assert not traits.learns(row("nearest-query", learns=None, run_file="x"))


@pytest.mark.parametrize("kind", ["tools seen", "trained on test"])
def test_a_trained_model_counts_as_learning(kind: str) -> None:
    assert traits.learns(row("bm25", learns=False, marks=[Mark.from_method(kind, "it did")]))
    assert traits.learns(row("bm25", history=0, marks=[Mark.from_method(kind, "it did")]))
    # A method that only says so in words of its own does not count.
    assert not traits.learns(row("bm25", learns=False, marks=[Mark(kind="method", text="much the same")]))

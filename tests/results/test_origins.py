"""Results say if their queries come from traces or from a language model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.comparison.rows import marks, usual
from bench.data.dataset import Dataset
from bench.results.manifest import Manifest
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]


@pytest.fixture
def mixed(tiny: Dataset) -> Dataset:
    """The tiny dataset, of which two in three queries were not written by people."""
    origins = ("", "traces", "model some-model")
    queries = [replace(query, origin=origins[i % 3]) for i, query in enumerate(tiny.queries)]
    return Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=queries))


def test_a_result_counts_the_evaluated_queries(run: Run, mixed: Dataset) -> None:
    result = run("bm25", dataset=mixed)
    origins = [mixed.queries[row].origin for row in mixed.rows("test")]
    data = result.manifest.dataset
    assert data.origins == {name: origins.count(name) for name in ("traces", "model some-model")}
    assert 0 < origins.count("traces") < [query.origin for query in mixed.queries].count("traces")
    assert [(mark.kind, mark.text, mark.why) for mark in marks(result, usual([result]))] == [
        (
            "from traces",
            "from traces",
            f"{origins.count('traces')} of 22 queries are taken from logs: called is not the same as right",
        ),
        (
            "synthetic queries",
            "synthetic queries",
            f"{origins.count('model some-model')} of 22 queries are written by some-model",
        ),
    ]
    assert result.manifest.notes[-2].startswith("from traces: ")
    assert Manifest.model_validate_json(result.manifest.model_dump_json()) == result.manifest


def test_a_result_on_queries_of_people_is_written_as_before(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    assert "origins" not in json.loads((result.folder / "manifest.json").read_text("utf-8"))["dataset"]
    assert marks(result, usual([result])) == []


def test_a_stored_result_learns_the_origin_without_running_again(run: Run, tiny: Dataset, mixed: Dataset) -> None:
    before = run("bm25")
    after = run("bm25", dataset=replace(mixed))
    assert after.manifest.result_id == before.manifest.result_id
    assert after.manifest.environment == before.manifest.environment
    assert set(after.manifest.dataset.origins) == {"traces", "model some-model"}
    assert after.metrics == before.metrics

"""Results side by side: which compare, in what order, and which leads ties decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.results.comparing import comparable, data_differences, doubtful_leads, marks, ordered, usual_template
from bench.results.manifest import MetricValue
from bench.results.store import Result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A real result, of which the tests make variants."""
    from bench.evaluation.plan import Plan
    from bench.evaluation.runner import Runner
    from bench.registry import build_method, load_dataset
    from bench.specs.spec import Spec

    runner = Runner(tmp_path_factory.mktemp("results"), load=load_dataset, build=build_method)
    (result,) = runner.run([Plan(Spec("starter"), Spec("bm25"))])
    assert isinstance(result, Result)
    return result


def variant(
    made: Result,
    method: str = "bm25",
    *,
    value: MetricValue | None = None,
    oracle: bool = False,
    run_file: str | None = None,
    depth: int = 100,
    **data: object,
) -> Result:
    manifest = made.manifest
    identity = manifest.method.model_copy(update={"spec": method, "oracle": oracle, "run_file": run_file})
    dataset = manifest.dataset.model_copy(update=data)
    metrics = made.metrics.model_copy(update={"metrics": {} if value is None else {"m": value}})
    changed = manifest.model_copy(update={"method": identity, "dataset": dataset, "depth": depth})
    return Result(Path("nowhere"), changed, metrics)


def texts(row: Result) -> list[str]:
    return [mark.text for mark in marks(row, "name_description")]


def mean(value: float, low: float | None = None, high: float | None = None) -> MetricValue:
    return MetricValue(mean=value, low=None, high=None, n=10, tie_low=low, tie_expected=value, tie_high=high)


@pytest.mark.parametrize(
    "data",
    [{"content_hash": "0"}, {"split": "dev"}, {"limit": 5}, {"spec": "other"}],
    ids=lambda data: next(iter(data)),
)
def test_what_was_asked_of_other_queries_or_tools_does_not_compare(made: Result, data: dict[str, Any]) -> None:
    a, b, c = variant(made), variant(made, "dense"), variant(made, **data)
    assert comparable([a, c, b]) == [[a, b], [c]]


def test_other_data_is_named_by_its_dataset_and_changed_data_by_its_content(made: Result) -> None:
    manifest = made.manifest

    def on(**more: Any) -> Any:
        return manifest.model_copy(update={"dataset": manifest.dataset.model_copy(update=more)})

    assert data_differences(manifest, on()) == []
    # One content under two names is the same data.
    assert data_differences(manifest, on(spec="renamed")) == []
    (other,) = data_differences(manifest, on(spec="other", content_hash="0" * 64))
    assert (other.what, other.first, other.second) == ("the dataset", manifest.dataset.spec, "other")
    (changed,) = data_differences(manifest, on(content_hash="0" * 64))
    assert (changed.what, changed.second) == ("the content of the dataset", "0" * 12)


def test_depth_and_tool_text_compare_and_are_marked(made: Result) -> None:
    rows = [
        variant(made),
        variant(made, depth=20),
        variant(made, template="description"),
        variant(made, "mine", run_file="r"),
    ]
    assert comparable(rows) == [rows]
    assert usual_template(rows) == "name_description"
    assert [texts(row) for row in rows] == [[], ["depth 20"], ["text: description"], ["run file"]]
    assert texts(variant(made, "oracle", oracle=True)) == ["oracle"]


def test_the_best_stand_first_and_oracles_last(made: Result) -> None:
    low, high = variant(made, "b", value=mean(0.2)), variant(made, "a", value=mean(0.4))
    level, oracle = variant(made, "a", value=mean(0.2)), variant(made, "o", value=mean(1.0), oracle=True)
    silent = variant(made, "z")
    assert ordered([silent, oracle, low, high, level], "m") == [high, level, low, silent, oracle]


@pytest.mark.parametrize(
    ("first", "second", "doubtful"),
    [
        (mean(0.5), mean(0.4), False),
        (mean(0.5, 0.45, 0.5), mean(0.4, 0.4, 0.44), False),
        # 0.5 may be 0.44 against ties, 0.4 may be 0.44 with them: the lead is gone.
        (mean(0.5, 0.44, 0.5), mean(0.4, 0.4, 0.44), True),
        (mean(0.5, 0.39, 0.6), mean(0.4), True),
        (mean(0.5), mean(0.4, 0.3, 0.55), True),
        # Without a lead there is nothing to doubt.
        (mean(0.4, 0.3, 0.6), mean(0.4, 0.3, 0.6), False),
    ],
)
def test_a_lead_within_the_tie_bands_is_doubtful(
    made: Result, first: MetricValue, second: MetricValue, doubtful: bool
) -> None:
    rows = [variant(made, "a", value=first), variant(made, "b", value=second)]
    assert doubtful_leads(rows, "m") == [doubtful, False]


def test_an_oracle_below_the_last_method_puts_no_lead_in_doubt(made: Result) -> None:
    rows = [variant(made, "a", value=mean(0.5, 0.1, 0.9)), variant(made, "o", value=mean(0.4, 0.1, 1.0), oracle=True)]
    assert doubtful_leads(rows, "m") == [False, False]
    assert doubtful_leads([rows[0], variant(made, "z")], "m") == [False, False]

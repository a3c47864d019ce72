"""Results side by side: which compare, in what order, and which leads ties decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.comparison.rows import Usual, doubtful_leads, marks, order_results, reversal_marks, reversals, usual
from bench.results.comparability import comparable, data_differences, other_packages
from bench.results.manifest import Lenient, MetricValue
from bench.results.store import StoredResult


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> StoredResult:
    """A real result, of which the tests make variants."""
    from bench.base.spec import Spec
    from bench.evaluation.plan import Plan
    from bench.evaluation.runner import Runner
    from bench.registry import build_method, load_dataset

    runner = Runner(tmp_path_factory.mktemp("results"), load=load_dataset, build=build_method)
    (result,) = runner.run([Plan(Spec("starter"), Spec("bm25"))])
    assert isinstance(result, StoredResult)
    return result


def variant(
    made: StoredResult,
    method: str = "bm25",
    *,
    value: MetricValue | None = None,
    oracle: bool = False,
    run_file: str | None = None,
    depth: int = 100,
    **data: object,
) -> StoredResult:
    manifest = made.manifest
    identity = manifest.method.model_copy(update={"spec": method, "oracle": oracle, "run_file": run_file})
    dataset = manifest.dataset.model_copy(update=data)
    metrics = made.metrics.model_copy(update={"metrics": {} if value is None else {"m": value}})
    changed = manifest.model_copy(update={"method": identity, "dataset": dataset, "depth": depth})
    return StoredResult(Path("nowhere"), changed, metrics)


def texts(row: StoredResult) -> list[str]:
    return [mark.text for mark in marks(row, Usual("name_description", {}))]


def mean(value: float, low: float | None = None, high: float | None = None) -> MetricValue:
    return MetricValue(mean=value, low=None, high=None, n=10, tie_low=low, tie_expected=value, tie_high=high)


@pytest.mark.parametrize(
    "data",
    [{"content_hash": "0"}, {"split": "dev"}, {"limit": 5}, {"spec": "other"}],
    ids=lambda data: next(iter(data)),
)
def test_what_was_asked_of_other_queries_or_tools_does_not_compare(made: StoredResult, data: dict[str, Any]) -> None:
    a, b, c = variant(made), variant(made, "dense"), variant(made, **data)
    assert comparable([a, c, b]) == [[a, b], [c]]


def test_other_data_is_named_by_its_dataset_and_changed_data_by_its_content(made: StoredResult) -> None:
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


def test_depth_and_tool_text_compare_and_are_marked(made: StoredResult) -> None:
    rows = [
        variant(made),
        variant(made, depth=20),
        variant(made, template="description"),
        variant(made, "mine", run_file="r"),
    ]
    assert comparable(rows) == [rows]
    assert usual(rows).template == "name_description"
    # Requests of starter are written by a language model.
    data = "synthetic queries"
    expected = [[data], [data, "depth 20"], [data, "text: description"], [data, "run file"]]
    assert [texts(row) for row in rows] == expected
    assert texts(variant(made, "oracle", oracle=True)) == ["oracle", data]


def with_packages(made: StoredResult, **versions: str) -> StoredResult:
    manifest = made.manifest
    environment = manifest.environment.model_copy(update={"packages": versions})
    return StoredResult(Path("nowhere"), manifest.model_copy(update={"environment": environment}), made.metrics)


def test_rows_made_with_other_versions_of_packages_are_marked(made: StoredResult) -> None:
    usually = {"bench": "1", "python": "3.11.7", "numpy": "2.4.6"}
    rows = [
        *(with_packages(made, **usually) for _ in range(2)),
        # Of bench the code counts, and of Python what changes more than faults. Torch is no part of the others.
        with_packages(made, **usually | {"bench": "2", "python": "3.11.9", "torch": "2.13"}),
        with_packages(made, **usually | {"numpy": "2.5.0"}),
        with_packages(made, **usually | {"python": "3.12.1"}),
        with_packages(made),
    ]
    most = usual(rows)
    told = [next((mark.why for mark in marks(row, most) if mark.kind == "packages"), "") for row in rows]
    assert [text.partition(": ")[2].partition(";")[0] for text in told] == [
        *("", "", ""),
        *("numpy 2.5.0 (most rows: 2.4.6)", "python 3.12 (most rows: 3.11)", ""),
    ]
    # They compare all the same.
    assert comparable(rows) == [rows]
    assert other_packages(rows[3].manifest.environment.packages, usually) == {"numpy": ("2.5.0", "2.4.6")}


def test_the_best_stand_first_and_oracles_last(made: StoredResult) -> None:
    low, high = variant(made, "b", value=mean(0.2)), variant(made, "a", value=mean(0.4))
    level, oracle = variant(made, "a", value=mean(0.2)), variant(made, "o", value=mean(1.0), oracle=True)
    silent = variant(made, "z")
    assert order_results([silent, oracle, low, high, level], "m") == [high, level, low, silent, oracle]


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
    made: StoredResult, first: MetricValue, second: MetricValue, doubtful: bool
) -> None:
    rows = [variant(made, "a", value=first), variant(made, "b", value=second)]
    assert doubtful_leads(rows, "m") == [doubtful, False]


def test_an_oracle_below_the_last_method_puts_no_lead_in_doubt(made: StoredResult) -> None:
    rows = [variant(made, "a", value=mean(0.5, 0.1, 0.9)), variant(made, "o", value=mean(0.4, 0.1, 1.0), oracle=True)]
    assert doubtful_leads(rows, "m") == [False, False]
    assert doubtful_leads([rows[0], variant(made, "z")], "m") == [False, False]


# Orders that depend on gold -----------------------------------------------------------------------------------------


def lenient(row: StoredResult, value: float | None, code: str = "today") -> StoredResult:
    """The row with that lenient mean of the metric m."""
    result = None if value is None else Lenient(code=code, queries=1, judgements=1, means={"m": value})
    return StoredResult(row.folder, row.manifest, row.metrics.model_copy(update={"lenient": result}))


def board(made: StoredResult, *rows: tuple[float, float | None]) -> list[StoredResult]:
    return [lenient(variant(made, f"m{i}", value=mean(strict)), other) for i, (strict, other) in enumerate(rows)]


def test_pairs_that_change_places_are_found_also_where_they_are_not_neighbours(made: StoredResult) -> None:
    rows = board(made, (0.5, 0.5), (0.4, 0.49), (0.3, 0.6))
    assert reversals(rows, "m") == [(0, 2), (1, 2)]
    assert [mark and mark.kind for mark in reversal_marks(rows, ["a", "b", "c"], "m")] == ["gold"] * 3
    assert [mark.why.partition(";")[0] for mark in reversal_marks(rows, ["a", "b", "c"], "m") if mark] == [
        "m puts it above c",
        "m puts it above c",
        "m puts it below a, b",
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [(0.5, 0.6), (0.4, 0.5)],
        # Equal in either is no order that could turn.
        [(0.5, 0.5), (0.5, 0.6)],
        [(0.5, 0.6), (0.4, 0.6)],
        [(0.5, 0.6), (0.5 - 1e-15, 0.6 + 1e-15)],
        # What is not known is not compared.
        [(0.5, 0.5), (0.4, None)],
    ],
)
def test_rows_that_keep_their_order_are_not_marked(made: StoredResult, rows: list[tuple[float, float | None]]) -> None:
    assert reversals(board(made, *rows), "m") == []
    assert reversal_marks(board(made, *rows), ["a", "b"], "m") == [None, None]


def test_oracles_and_lenient_means_of_other_code_do_not_change_places(made: StoredResult) -> None:
    first, second = board(made, (0.5, 0.5), (0.4, 0.6))
    assert reversals([first, second], "m") == [(0, 1)]
    assert reversals([first, lenient(second, 0.6, code="older")], "m") == []
    oracle = lenient(variant(made, "best", value=mean(0.4), oracle=True), 0.6)
    assert reversals([first, oracle], "m") == []


def test_of_many_rows_the_mark_names_some(made: StoredResult) -> None:
    rows = board(made, (0.9, 0.1), *((0.5 - i / 100, 0.5 - i / 100) for i in range(6)))
    mark = reversal_marks(rows, list("abcdefg"), "m")[0]
    assert mark is not None
    assert "above b, c, d and 3 more;" in mark.why

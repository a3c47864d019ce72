"""Grid search on dev: every point is tried, the best comes first, and test queries take no part."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.base.paths import data_folder
from bench.base.spec import Spec, Value
from bench.data.card import Card, Unit
from bench.data.dataset import Dataset
from bench.data.devsplit import HeldOut
from bench.data.parquet import write_dataset
from bench.data.tables import SPLITS, Query, Split, Tables, Tool
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.metrics import parse_metrics
from bench.registry import build_method, load_dataset
from bench.results.units import number_units
from bench.search.topk import top_k
from bench.stats.bounded import Span
from bench.stats.paired import compare
from bench.tuning.command import command
from bench.tuning.tune import Tuning, tune, tune_method

CARD = Card(id="dials", title="Dials", summary="", licence="CC0-1.0", redistribution=True, template="description")
RECALL = parse_metrics(["recall@1"])[0]


@pytest.fixture
def dials() -> Dataset:
    """Ten tools; all past queries want tool 3, the test query wants tool 8."""
    tools = [Tool(str(code), "", f"number {code}") for code in range(10)]
    rows: list[tuple[str, str, Split]] = [(f"train {i}", "3", "train") for i in range(5)] + [
        (f"dev {i}", "3", "dev") for i in range(70)
    ]
    queries = [Query(f"{i:03}", text, {gold: 1}, split) for i, (text, gold, split) in enumerate(rows)]
    return Dataset.build("dials", CARD, Tables(tools, [*queries, Query("999", "test", {"8": 1}, "test")]))


class Dial(Method):
    """Puts tool `left` + `right` first, and remembers what it was shown."""

    class Parameters(ParameterSet):
        left: int = 0
        right: int = 0

    parameters: Parameters

    def fit(self, history: History) -> None:
        assert all(text.startswith("train") for text in history.texts)

    def index(self, library: Library) -> None:
        self.place = self.parameters.left + self.parameters.right

    def rank(self, queries: Queries, depth: int) -> Ranking:
        assert all(text.startswith("dev") for text in queries.texts)
        scores: NDArray[np.float64] = -np.abs(np.arange(10.0) - self.place)
        return top_k(np.tile(scores, (len(queries), 1)), depth)


class Unwatched(Dial):
    """A dial that answers whatever it is asked."""

    def fit(self, history: History) -> None:
        pass

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores: NDArray[np.float64] = -np.abs(np.arange(10.0) - self.place)
        return top_k(np.tile(scores, (len(queries), 1)), depth)


def build(spec: Spec) -> Method:
    method = Dial(Dial.Parameters.model_validate(dict(spec.arguments)), Context(build_method))
    method.name = "dial"
    return method


def test_every_point_is_tried_and_the_first_of_equals_wins(dials: Dataset) -> None:
    points = tune(build, Spec("dial"), {"left": [0, 1, 2], "right": [0, 1, 2]}, dials, RECALL)
    assert [tuple(point.values.values()) for point in points[:2]] == [(1, 2), (2, 1)]
    assert [point.score for point in points] == [1.0, 1.0] + [0.0] * 7


def test_what_stays_is_laid_under_the_grid(dials: Dataset) -> None:
    points = tune(build, Spec.of("dial", {"left": 3}), {"right": [0, 5]}, dials, RECALL)
    # On the test query 3 + 5 would have won.
    assert [point.values for point in points] == [{"right": 0}, {"right": 5}]


@pytest.mark.parametrize(
    ("grid", "metric", "match"),
    [
        ({}, "recall@1", "0 points"),
        ({"left": []}, "recall@1", "0 points"),
        ({"left": list(range(200)), "right": list(range(200))}, "recall@1", "40000 points"),
        ({"left": [1]}, "set_f1", "not a ranking metric"),
    ],
)
def test_grids_that_make_no_sense_are_refused(
    dials: Dataset, grid: dict[str, list[Value]], metric: str, match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        tune(build, Spec("dial"), grid, dials, parse_metrics([metric])[0])


@pytest.mark.parametrize("with_dev", [True, False])
def test_what_test_queries_need_changes_nothing(dials: Dataset, with_dev: bool) -> None:
    tables = (dials if with_dev else without_dev(20)).rows_again()
    found = set()
    for place in range(10):
        queries = [replace(query, gold={str(place): 1}) if query.split == "test" else query for query in tables.queries]
        dataset = Dataset.build("dials", CARD, replace(tables, queries=queries))
        tuning = tune_method(build_unwatched, Spec("dial"), {"left": list(range(10))}, dataset, RECALL)
        found.add(tuple((point.values["left"], point.score) for point in tuning.points))
        # Where it is asked, only dev queries decide, and it says how many variants they decided between.
        assert "the best of 10 points" in repr(tuning)
        split = "dev" if with_dev else "held out of train"
        assert tuning.notes[-1].startswith(f"best of 10 variants on {split}: the choice makes its mean there too high")
    assert len(found) == 1


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ([3, 5], "better than the default, dial: +1.000 [+0.805, +1.000], p <.001 for the best of 2 points"),
        ([4, 5], "not shown to be better than the default, dial: 0.000 ["),
        ([0, 5], "the default is the best point"),
    ],
)
def test_the_best_is_held_against_the_default(dials: Dataset, grid: list[Value], said: str) -> None:
    tables = dials.rows_again()
    # Dev queries in pairs of one unit.
    queries = [
        replace(query, group=f"{int(query.query_id) // 2}") if query.split == "dev" else query
        for query in tables.queries
    ]
    dataset = Dataset.build(
        "dials", CARD.model_copy(update={"unit": Unit(by=["group"], reason="pairs")}), replace(tables, queries=queries)
    )
    tuning = tune_method(build, Spec("dial"), {"left": grid}, dataset, RECALL)
    best = 1.0 if 3 in grid else 0.0
    assert tuning.findings[0].startswith(f"best recall@1: {best:.3f} [")
    assert tuning.findings[0].endswith(", 70 queries, 36 groups (effective 36)")
    assert tuning.findings[1].startswith(said)
    told = tuning.to_dict()
    assert (told["n"], told["mean"], told["units"]) == (70, best, 36)
    assert told["low"] <= best <= told["high"]
    assert told["default"]["mean"] == 0


def test_p_is_that_of_compare_for_a_single_point_and_allows_for_the_choice() -> None:
    alone, chosen = tune_on_starter({"k1": [0.5]}), tune_on_starter({"k1": [0.5], "b": [0.0, 0.75]})
    one, two = alone.default, chosen.default
    assert one is not None
    assert two is not None
    dataset = load_dataset("starter")
    best, default = (
        tune(build_method, Spec("bm25"), {"k1": [k1]}, dataset, parse_metrics(["ndcg@5"])[0])[0].queries
        for k1 in (0.5, dict(build_method("bm25").full_spec.arguments)["k1"])
    )
    units = dataset.units[dataset.rows("dev")]
    taken = ~np.isnan(best)
    (pair,) = compare((best - default)[taken, None], units=number_units(units[taken]), span=Span(-1, 1))
    assert (one.difference, one.low, one.high) == pytest.approx((pair.difference, pair.low, pair.high))
    assert one.p == pair.p
    assert one.method == "bm25"
    # The same best, of two points.
    assert chosen.points[0].values == {"k1": 0.5, "b": 0.75}
    assert two.difference == one.difference
    assert two.p > one.p


def tune_on_starter(grid: dict[str, list[Value]]) -> Tuning:
    return tune_method(build_method, Spec("bm25"), grid, load_dataset("starter"), parse_metrics(["ndcg@5"])[0])


def test_a_method_without_a_default_is_not_held_against_one() -> None:
    def needy(spec: Spec) -> Method:
        if "left" not in dict(spec.arguments):
            raise UsageError("dial needs a value of left.")
        return build_unwatched(spec)

    tuning = tune_method(needy, Spec("dial"), {"left": [1]}, without_dev(20), RECALL)
    assert tuning.default is None
    assert "no default to compare with" in tuning.findings[-1]
    assert tuning.to_dict()["default"] is None


def build_unwatched(spec: Spec) -> Method:
    method = Unwatched(Unwatched.Parameters.model_validate(dict(spec.arguments)), Context(build_method))
    method.name = "dial"
    return method


def test_without_dev_queries_nothing_is_tuned(dials: Dataset) -> None:
    tables = dials.rows_again()
    without = replace(tables, queries=[query for query in tables.queries if query.split != "dev"])
    with pytest.raises(UsageError, match=r"no dev queries.*test queries must not be used"):
        tune(build, Spec("dial"), {"left": [1]}, Dataset.build("dials", CARD, without), RECALL)


def without_dev(train: int) -> Dataset:
    """A dataset without dev; each pair of train queries wants a tool of its own, as one unit."""
    tools = [Tool(str(code), "", f"number {code}") for code in range(10)]
    queries = [Query(f"{i:03}", f"train {i}", {str(i // 2): 1}, "train") for i in range(train)]
    card = CARD.model_copy(update={"id": "pairs"})
    return Dataset.build("pairs", card, Tables(tools, [*queries, Query("999", "test", {"8": 1}, "test")]))


class Watcher(Method):
    """Remembers what it learnt from and what it was asked."""

    learnt: ClassVar[set[str]] = set()
    queried: ClassVar[set[str]] = set()

    class Parameters(ParameterSet):
        top: int = 0

    parameters: Parameters

    def fit(self, history: History) -> None:
        self.learnt.update(history.texts)

    def index(self, library: Library) -> None:
        pass

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self.queried.update(queries.texts)
        scores: NDArray[np.float64] = -np.abs(np.arange(10.0) - self.parameters.top)
        return top_k(np.tile(scores, (len(queries), 1)), depth)


def test_without_dev_whole_units_of_train_are_held_out() -> None:
    def watch(spec: Spec) -> Method:
        method = Watcher(Watcher.Parameters.model_validate(dict(spec.arguments)), Context(build_method))
        method.name = "watcher"
        return method

    Watcher.learnt, Watcher.queried = set(), set()
    tuning = tune_method(watch, Spec("watcher"), {"top": [0, 1]}, without_dev(20), RECALL, seed=1)
    assert tuning.held_out == HeldOut(seed=1, queries=4, units=2, train=20)
    assert len(Watcher.queried) == 4
    assert Watcher.learnt == {f"train {i}" for i in range(20)} - Watcher.queried
    numbers = {int(text.split()[1]) for text in Watcher.queried}
    assert numbers == {i ^ 1 for i in numbers}
    assert tuning.to_dict()["held_out"] == {"seed": 1, "queries": 4, "units": 2, "train": 20}
    assert "held out of train" in str(tuning)


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
def test_the_verb_says_what_was_held_out_here_and_in_other_processes(
    jobs: tuple[str, ...], bench: Callable[..., Any]
) -> None:
    write_dataset(without_dev(20), data_folder() / "datasets" / "pairs")
    said = bench("tune", "-m", "bm25", "-d", "pairs", "-g", "k1=0.5,1.2", *jobs, "--seed", "4", "--json")
    tuned = json.loads(said.out)
    assert tuned["held_out"] == {"seed": 4, "queries": 4, "units": 2, "train": 20}
    assert tuned["points"][0]["recall@5"] == tuned["points"][1]["recall@5"]
    said = bench("tune", "-m", "bm25", "-d", "pairs", "-g", "k1=0.5,1.2", *jobs)
    assert "4 of 20 train queries, held out by 2 whole groups of dependent queries (seed 0)" in said.err


def test_an_oracle_is_not_tuned(dials: Dataset) -> None:
    models: Callable[[Spec], Method] = build_method
    with pytest.raises(UsageError, match="oracle"):
        tune(models, Spec("toolrerank-oracle"), {"group_size": [1]}, dials, RECALL)


def test_the_verb_prints_the_best_as_a_method() -> None:
    options = ["-m", "bm25", "-d", "starter", "-g", "k1=0.5,1.2", "-g", "b=0.1,0.75", "--metric", "ndcg@3", "-q"]
    said = CliRunner().invoke(command, options, catch_exceptions=False)
    assert said.exit_code == 0
    assert "ndcg@3" in said.output
    best = said.output.strip().splitlines()[-1]
    assert build_method(best).name == "bm25"
    assert all(f"{name}=" in best for name in ("k1", "b"))


def test_points_side_by_side_are_the_points_one_after_the_other() -> None:
    options = ["-m", "nearest-query", "-d", "starter", "-g", "neighbours=1,3,9", "--metric", "recall@5", "-q", "--json"]
    alone, beside = (
        CliRunner().invoke(command, [*options, *jobs], catch_exceptions=False) for jobs in ([], ["--jobs", "2"])
    )
    assert alone.exit_code == 0
    one, two = json.loads(alone.output), json.loads(beside.output)
    assert one["method"] == two["method"]
    assert [point["values"] for point in one["points"]] == [point["values"] for point in two["points"]]
    # Stored values are rounded.
    for first, second in zip(one["points"], two["points"], strict=True):
        assert first["recall@5"] == pytest.approx(second["recall@5"], abs=1e-9)
    assert len(one["points"]) == 3
    # So is what is said of the best, and of the default, which no executor runs.
    assert [one[name] for name in ("n", "units", "effective")] == [two[name] for name in ("n", "units", "effective")]
    assert (one["low"], one["high"]) == pytest.approx((two["low"], two["high"]), abs=1e-6)
    assert one["default"]["method"] == two["default"]["method"] == "nearest-query"
    assert one["default"]["p"] == two["default"]["p"]


def test_a_query_of_several_calls_is_asked_by_all_of_them_however_points_run() -> None:
    tools = [
        Tool("bread", "", "bakes bread"),
        Tool("milk", "", "pours milk"),
        *(Tool(f"x{i}", "", "") for i in range(3)),
    ]
    queries = [
        Query(f"{split} {i}", "breakfast", {"bread": 1, "milk": 1}, split, searches=("some bread", "some milk"))
        for split in SPLITS
        for i in range(3)
    ]
    made = Dataset.build("asked", CARD.model_copy(update={"id": "asked"}), Tables(tools, queries))
    write_dataset(made, data_folder() / "datasets" / "asked")
    options = ["-m", "bm25", "-d", "asked(view=searches)", "-g", "k1=1,2", "--metric", "recall@2", "-q", "--json"]
    for jobs in ([], ["--jobs", "2"]):
        said = CliRunner().invoke(command, [*options, *jobs], catch_exceptions=False)
        assert [point["recall@2"] for point in json.loads(said.output)["points"]] == [1.0, 1.0], jobs


@pytest.mark.parametrize("axes", [["k1"], ["=1"], ["k1="], ["k1=1", "k1=2"]])
def test_axes_that_cannot_be_read_are_refused(axes: list[str]) -> None:
    options = [word for axis in axes for word in ("-g", axis)]
    with pytest.raises(UsageError, match="--grid"):
        CliRunner().invoke(command, ["-m", "bm25", "-d", "starter", *options], catch_exceptions=False)


def test_a_method_that_learns_is_not_tuned_without_anything_to_learn_from(dials: Dataset) -> None:
    rows = dials.rows_again()
    without = replace(rows, queries=[query for query in rows.queries if query.split != "train"])
    models: Callable[[Spec], Method] = build_method
    with pytest.raises(UsageError, match=r"method nearest-query.* needs past queries, and dials has none"):
        tune(models, Spec("nearest-query"), {"neighbours": [1, 2]}, Dataset.build("dials", CARD, without), RECALL)
    # One that only searches is tuned as before.
    points = tune(models, Spec("bm25"), {"k1": [1, 2]}, Dataset.build("dials", CARD, without), RECALL)
    assert len(points) == 2


def test_a_metric_of_destructive_tools_is_no_metric_to_tune_by(tiny: Dataset) -> None:
    (metric,) = parse_metrics(["excess_destructive@5"])
    with pytest.raises(UsageError, match=r"excess_destructive@5 is not a ranking metric"):
        tune(build_method, Spec.of("bm25"), {"k1": [1.0]}, tiny, metric)

"""A metric's string is its identity: it parses, prints back the same, and is refused in sentences."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base import plugins
from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.data.gold import Gold
from bench.interface.ranking import Ranking
from bench.metrics import (
    DEFAULT_METRICS,
    Measure,
    Metric,
    RankingMeasure,
    get_measure,
    measures,
    parse_metric,
    parse_metrics,
)
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measure import LARGEST_CUTOFF, Counts, Cutoff, Values, measure_name
from bench.results.code_versions import measure_hash

#: Every row of the protocol's section 2, and the two that its rule 3 asks for.
PROTOCOL_NAMES = [
    *("recall@5", "precision@5", "hit@5", "ndcg@5", "map@5", "mrr@5", "mmrr@5", "pass@5"),
    *("recall@gold", "ndcg@gold"),
    *("tracc", "tracc@5"),
    *("set_precision", "set_recall", "set_f1", "size_diff"),
    *("ndcg_ptr@gold", "mmrr_printed@5"),
    *("abstained", "answered"),
]


class Options(ParameterSet):
    """Parameters of every kind that a spec can hold."""

    p: float = 0.5
    n: int = 3
    strict: bool = False
    mode: str = "plain"
    weights: tuple[float, ...] = (1.0, 2.0)


def chosen(gold: GoldRanks, k: Counts, **parameters: Any) -> Values:
    return np.full(len(k), parameters["p"])


WORDS: dict[str, Any] = {"definition": "one", "edge_cases": "none", "source": "this test"}
MEASURE = RankingMeasure("optional", cutoffs=("k", "gold"), function=chosen, parameters=Options, **WORDS)


@st.composite
def metrics(draw: st.DrawFn) -> Metric:
    """Any measure at any cut-off it takes."""
    measure = draw(st.sampled_from(list(measures().values())))
    forms: dict[str, st.SearchStrategy[Cutoff]] = {
        "k": st.integers(1, LARGEST_CUTOFF),
        "gold": st.just("gold"),
        "none": st.none(),
    }
    return Metric(measure, draw(st.one_of([forms[form] for form in sorted(measure.cutoffs)])))


@given(metrics())
@settings(deadline=None, derandomize=True)
def test_a_metric_s_string_parses_and_prints_back(metric: Metric) -> None:
    assert parse_metric(str(metric)) == metric
    assert str(parse_metric(str(metric))) == str(metric)


@given(
    st.builds(
        Options,
        p=st.floats(allow_nan=False, allow_infinity=False),
        n=st.integers(-(10**20), 10**20),
        strict=st.booleans(),
        mode=st.text(max_size=12) | st.sampled_from(["a@5", ")@gold", "p=1", '"', "null", "1e5", ""]),
        weights=st.lists(st.floats(0, 1)).map(tuple),
    ),
    st.integers(1, LARGEST_CUTOFF) | st.just("gold"),
)
@settings(deadline=None, derandomize=True)
def test_a_metric_with_parameters_parses_and_prints_back(options: Options, cutoff: Cutoff) -> None:
    text = f"{MEASURE.at(options).name}@{cutoff}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.metrics.catalogue.measures", lambda: {MEASURE.name: MEASURE})
        metric = parse_metric(text)
        assert str(metric) == text
        assert parse_metric(str(metric)) == metric
    assert metric.cutoff == cutoff
    assert measure_name(text) == metric.measure.name
    assert isinstance(metric.measure.function, functools.partial)
    assert Options(**metric.measure.function.keywords) == options
    assert (options == Options()) is ("(" not in text)


@given(st.text(st.sampled_from("abcdeglmnprt_@0159 .-()=,rbp"), max_size=20))
@settings(deadline=None, derandomize=True)
def test_any_text_is_a_metric_or_refused_in_a_sentence(text: str) -> None:
    try:
        metric = parse_metric(text)
    except UsageError as error:
        sentence = str(error)
        assert sentence.endswith(".")
    else:
        assert parse_metric(str(metric)) == metric


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_metric_of_the_protocol_is_in_the_catalogue(name: str) -> None:
    assert str(parse_metric(name)) == name


def test_every_default_metric_parses_to_itself_and_stands_once() -> None:
    assert [str(metric) for metric in parse_metrics(DEFAULT_METRICS)] == list(DEFAULT_METRICS)


@pytest.mark.parametrize("measure", measures().values(), ids=measures())
def test_every_measure_says_what_it_is_and_where_from(measure: Measure) -> None:
    assert measure.definition.strip()
    assert measure.edge_cases.strip()
    assert measure.source.strip()


def test_only_the_papers_own_variants_are_for_reproduction_only() -> None:
    for name, measure in measures().items():
        assert measure.reproduction_only == ("for reproduction, never for ranking" in measure.source), name
    assert measures()["ndcg_ptr"].reproduction_only


def test_what_is_better_when_lower() -> None:
    for name, measure in measures().items():
        assert measure.higher_is_better != measure.edge_cases.startswith("Lower is better."), name
    assert not measures()["aurc"].higher_is_better


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("map", "map@100"),
        ("recall", "recall@100"),
        ("ndcg", "ndcg@100"),
        ("mmrr_printed", "mmrr_printed@100"),
        ("ndcg_ptr", "ndcg_ptr@gold"),
        ("tracc", "tracc"),
        ("size_diff", "size_diff"),
        ("ndcg@05", "ndcg@5"),
        ("  ndcg@5 ", "ndcg@5"),
        ("recall@1000000", "recall@1000000"),
        ("rbp", "rbp@100"),
        ("rbp()@5", "rbp@5"),
        ("rbp(p=0.80)@10", "rbp@10"),
        ("rbp(p=8e-1)@10", "rbp@10"),
        ("rbp( p = .9 )@010", "rbp(p=0.9)@10"),
        ("rbp (p=0.5)", "rbp(p=0.5)@100"),
        ("recall()@5", "recall@5"),
    ],
)
def test_bare_names_and_loose_spellings_have_one_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_metric(text)) == canonical


def test_repeated_metrics_are_taken_once_in_order() -> None:
    result = parse_metrics(["ndcg@5", "map", "ndcg@05", "map@100", "hit@1"])
    assert [str(metric) for metric in result] == ["ndcg@5", "map@100", "hit@1"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ndgc@5", "there is no metric 'ndgc' (did you mean 'ndcg'?); `bench list metrics` lists them."),
        ("zzzzzz", "there is no metric 'zzzzzz'; `bench list metrics` lists them."),
        ("", "'' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("NDCG@5", "'NDCG@5' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("ndcg@", "'ndcg@' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("ndcg@-1", "'ndcg@-1' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("ndcg@5.0", "'ndcg@5.0' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("ndcg@٥", "'ndcg@٥' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("ndcg@0", "the cut-off of 'ndcg@0' must be between 1 and 1000000."),
        ("ndcg@1000001", "the cut-off of 'ndcg@1000001' must be between 1 and 1000000."),
        (f"ndcg@{'9' * 5000}", f"the cut-off of 'ndcg@{'9' * 5000}' must be between 1 and 1000000."),
        ("map@gold", "map does not take the cut-off gold; write map@5."),
        ("ndcg_ptr@5", "ndcg_ptr does not take the cut-off 5; write ndcg_ptr@gold."),
        ("set_f1@5", "set_f1 does not take the cut-off 5; write set_f1."),
        ("rbp(p=1)@5", "parameter 'p' of metric rbp is 1: input should be less than 1."),
        ("rbp(p=0)@5", "parameter 'p' of metric rbp is 0: input should be greater than 0."),
        (
            "rbp(p=x)@5",
            "parameter 'p' of metric rbp is 'x': input should be a valid number, unable to parse string as a number.",
        ),
        ("rbp(q=0.9)@5", "metric rbp has no parameter 'q'; its parameters: p."),
        ("recall(p=1)@5", "metric recall has no parameter 'p'; its parameters: none."),
        ("rpb(p=0.9)@5", "there is no metric 'rpb' (did you mean 'rbp'?); `bench list metrics` lists them."),
        ("rbp(p=0.9)@gold", "rbp(p=0.9) does not take the cut-off gold; write rbp(p=0.9)@5."),
        ("rbp(p=0.9@5", "'rbp(p=0.9@5' is not a metric; write a name and a cut-off as in ndcg@5 or recall@gold."),
        ("rbp(p=0.9, p=0.8)@5", "cannot read 'rbp(p=0.9, p=0.8)': argument 'p' occurs twice."),
        ("tracc@gold", "tracc does not take the cut-off gold; write tracc@5 or tracc."),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_metric(text)
    assert str(caught.value) == sentence


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution with one metric plug-in; its module is to be written."""
    info = tmp_path / "bench_extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bench.metrics]\nextra = bench_extra_metric:MEASURE\n")
    monkeypatch.syspath_prepend(tmp_path)

    def forget() -> None:
        plugins._all_points.cache_clear()
        measures.cache_clear()

    forget()
    yield tmp_path / "bench_extra_metric.py"
    forget()
    sys.modules.pop("bench_extra_metric", None)


def measure_named(name: str) -> str:
    return (
        "import numpy as np\nfrom bench.metrics import RankingMeasure\n"
        f"MEASURE = RankingMeasure({name!r}, definition='one', edge_cases='none', source='this test', "
        "function=lambda gold, k: np.ones(len(k)))\n"
    )


def test_a_plug_in_s_measure_joins_the_catalogue(plugin: Path) -> None:
    plugin.write_text(measure_named("always_one"))
    assert str(parse_metric("always_one@3")) == "always_one@3"
    assert get_measure("always_one").source == "this test"


@pytest.mark.parametrize("text", [measure_named("recall"), "MEASURE = 5\n"], ids=["a name that is taken", "no measure"])
def test_a_plug_in_that_is_no_new_measure_is_refused(plugin: Path, text: str) -> None:
    plugin.write_text(text)
    with pytest.raises(UsageError, match=r"the plug-in metric 'extra' \(bench_extra_metric:MEASURE\) is not a new"):
        parse_metric("ndcg@5")


WITH_PARAMETERS = """
import numpy as np
from pydantic import Field
from bench import ParameterSet, RankingMeasure

class Options(ParameterSet):
    grace: int = Field(1, ge=0, le=9, description="ranks that cost nothing")

def found(gold, k, grace):
    return np.where(gold.ranks[:, 0] <= 1 + grace, 1.0, 0.0)

MEASURE = RankingMeasure(
    "graceful", function=found, definition="one", edge_cases="none", source="this test", parameters=Options
)
"""


def test_a_plug_in_s_measure_may_have_parameters(plugin: Path) -> None:
    plugin.write_text(WITH_PARAMETERS)
    ranks = GoldRanks.of(Ranking.of_lists([[8, 9, 1], [9, 1, 8]]).tools, Gold.of([{1: 1}, {1: 1}]))
    values = {}
    for text in ("graceful@3", "graceful(grace=2)@3"):
        metric = parse_metric(text)
        assert str(metric) == text
        values[text] = metric.measure.function(ranks, np.array([3, 3])).tolist()
    # The first gold tools have the ranks 3 and 2.
    assert values == {"graceful@3": [0.0, 1.0], "graceful(grace=2)@3": [1.0, 1.0]}
    with pytest.raises(UsageError, match=r"parameter 'grace' of metric graceful is 10: input should be less than or"):
        parse_metric("graceful(grace=10)@3")


def test_parameters_take_part_in_the_hash() -> None:
    plain, same, other = (get_measure(text) for text in ("rbp", "rbp(p=0.8)", "rbp(p=0.9)"))
    assert plain is same
    assert get_measure("rbp(p=0.90)") is other
    assert measure_hash(plain) != measure_hash(other)
    assert len({measure_hash(measure) for measure in (plain, other, get_measure("recall"))}) == 3


def test_a_parameter_needs_a_default() -> None:
    class Required(ParameterSet):
        p: float

    with pytest.raises(ValueError, match="the parameter 'p' of the measure x needs a default"):
        RankingMeasure("x", function=chosen, parameters=Required, **WORDS)

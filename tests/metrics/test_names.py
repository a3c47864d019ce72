"""A metric's string is its identity: it parses, prints back the same, and is refused in sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.errors import UsageError
from bench.metrics import DEFAULT_METRICS, Measure, Metric, get_measure, measures, parse_metric, parse_metrics
from bench.metrics.measure import LARGEST_CUTOFF, Cutoff

#: Every row of the protocol's section 2, and the two that its rule 3 asks for.
PROTOCOL_NAMES = [
    *("recall@5", "precision@5", "hit@5", "ndcg@5", "map@5", "mrr@5", "mmrr@5", "pass@5"),
    *("recall@gold", "ndcg@gold"),
    *("tracc", "tracc@5"),
    *("set_precision", "set_recall", "set_f1", "size_diff"),
    *("ndcg_ptr@gold", "mmrr_printed@5"),
    *("abstained", "answered"),
]


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


@given(st.text(st.sampled_from("abcdeglmnprt_@0159 .-"), max_size=20))
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
    assert {name for name in measures() if measures()[name].reproduction_only} == {"ndcg_ptr", "mmrr_printed"}


def test_what_is_better_when_lower() -> None:
    assert {name for name in measures() if not measures()[name].higher_is_better} == {
        "size_diff",
        "aurc",
        "false_returns",
        "forbidden",
    }


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
    ],
)
def test_bare_names_and_loose_spellings_have_one_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_metric(text)) == canonical


def test_repeated_metrics_are_taken_once_in_order() -> None:
    found = parse_metrics(["ndcg@5", "map", "ndcg@05", "map@100", "hit@1"])
    assert [str(metric) for metric in found] == ["ndcg@5", "map@100", "hit@1"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ndgc@5", "there is no metric 'ndgc' (did you mean 'ndcg'?); `bench metrics` lists them."),
        ("zzzzzz", "there is no metric 'zzzzzz'; `bench metrics` lists them."),
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
    measures.cache_clear()
    yield tmp_path / "bench_extra_metric.py"
    measures.cache_clear()
    sys.modules.pop("bench_extra_metric", None)


def measure_named(name: str) -> str:
    return (
        "import numpy as np\nfrom bench.metrics import Measure\n"
        f"MEASURE = Measure({name!r}, 'ranking', frozenset({{'k'}}), 'one', 'none', 'this test', "
        "ranked=lambda gold, k: np.ones(len(k)))\n"
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

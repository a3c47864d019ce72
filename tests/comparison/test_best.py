"""Who is best over several datasets: sentences by hand, and no contradiction of the boards whatever these hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.comparison.best import best_over_datasets, best_sentence, worse_on
from bench.comparison.report import BestOverDatasets, Lead, WorseOn
from bench.stats.bounded import Span
from bench.stats.differences import intervals_and_p_values
from bench.stats.macro import FEWEST_SOURCES, lead_intervals, macro_values
from bench.stats.ranking import pairwise_tests


def found(*leads: Lead, datasets: int = 6, sources: int = 6, worse: Sequence[WorseOn] = ()) -> BestOverDatasets:
    return BestOverDatasets(
        system="A",
        datasets=[f"d{i}" for i in range(datasets)],
        sources=sources,
        leads=list(leads),
        worse=list(worse),
    )


def ahead(system: str, difference: float = 0.031, low: float = 0.004, high: float = 0.058) -> Lead:
    return Lead(system=system, difference=difference, low=low, high=high, p=0.01, verdict="ahead")


def tied(system: str) -> Lead:
    return Lead(system=system, difference=0.01, low=-0.02, high=0.04, p=0.3, verdict="not told apart")


def barely(system: str) -> Lead:
    return Lead(system=system, difference=0.05, low=-0.01, high=0.11, p=0.001, verdict="these datasets")


def test_the_sentence_of_many_sources() -> None:
    worse = [WorseOn(dataset="d1", system="B", p=0.0123), WorseOn(dataset="d1", system="C", p=0.0001)]
    assert best_sentence(found(ahead("B"), tied("C"), worse=[*worse, WorseOn(dataset="d4", system="B", p=0.04)])) == (
        "A has the best mean over 6 datasets (6 sources): ahead of B by 0.031 [0.004, 0.058]; not told apart from C; "
        "but significantly worse than B (p = .012) and C (p <.001) on d1 and than B (p = .040) on d4."
    )
    assert best_sentence(found(barely("B"), tied("C"), tied("D")), {"A": "First", "C": "Third, of C"}) == (
        "First has the best mean over 6 datasets (6 sources): on these datasets, but not surely on others, ahead of B "
        "by 0.050 [-0.010, 0.110]; not told apart from “Third, of C” and D."
    )


def test_few_sources_do_not_speak_of_other_datasets_and_one_dataset_is_no_average() -> None:
    assert best_sentence(found(ahead("B"), datasets=3, sources=2)) == (
        "Too few sources to speak of other datasets (at least 5 are needed). A has the best mean over these 3 "
        "datasets (2 sources): ahead of B by 0.031 [0.004, 0.058]."
    )
    assert best_sentence(found(ahead("B"), tied("C"), datasets=1, sources=1)) == (
        "A has the best mean on d0: ahead of B by 0.031 [0.004, 0.058]; not told apart from C."
    )
    assert "undecided against B by 0.050" in best_sentence(found(barely("B"), datasets=2, sources=2))


def test_long_lists_end_in_a_count() -> None:
    leads = [ahead(name, 0.1 + i / 100) for i, name in enumerate("BCDEFG")]
    said = best_sentence(found(*leads, *(tied(name) for name in "HIJK")))
    assert "D by 0.120 [0.004, 0.058] and 3 others by 0.130 or more" in said
    # One more than are named is named as well: `1 other` would be no shorter.
    assert "not told apart from H, I, J and K." in said


def statement(
    parts: Sequence[NDArray[np.float64]], units: Sequence[NDArray[np.int64]], sources: Sequence[str]
) -> tuple[BestOverDatasets, list[NDArray[np.float64]]]:
    """What is said of systems a, b, …, and the p-values of each dataset."""
    names = [chr(ord("a") + i) for i in range(parts[0].shape[1])]
    table, codes = macro_values(parts, units, sources)
    best = int(np.round(table.mean(axis=0), 12).argmax())
    pairs = [pairwise_tests(part, code, flips=2000).p for part, code in zip(parts, units, strict=True)]
    datasets, worse = [f"d{i}" for i in range(len(parts))], []
    for name, part, found_p in zip(datasets, parts, pairs, strict=True):
        means = part.mean(axis=0).tolist()
        worse += worse_on(name, means[best], zip(names, means, found_p[best].tolist(), strict=True))
    order = [best, *(i for i in range(len(names)) if i != best)]
    p = pairwise_tests(table, codes, flips=2000).p[best, order]
    leads = lead_intervals([part[:, order] for part in parts], units, sources, Span(-1.0, 1.0))
    return best_over_datasets([names[i] for i in order], leads, p, datasets, len(set(sources)), worse), pairs


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(2, 5),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.integers(1, 2),
)
def test_the_statement_contradicts_no_board(
    seed: int, datasets: int, most_sources: int, systems: int, spread: float, per_unit: int
) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(22, 60, datasets) * per_unit
    skill = np.clip(0.6 + spread * random.normal(size=(datasets, systems)), 0.05, 0.95)
    parts = [(random.random((size, systems)) < row).astype(np.float64) for size, row in zip(sizes, skill, strict=True)]
    units = [np.arange(size) // per_unit for size in sizes]
    sources = [str(i % most_sources) for i in range(datasets)]
    best, pairs = statement(parts, units, sources)
    said, place = best_sentence(best), ord(best.system) - ord("a")
    contradicting = {
        (f"d{i}", chr(ord("a") + other)): p[place, other]
        for i, (part, p) in enumerate(zip(parts, pairs, strict=True))
        for other in range(systems)
        if part[:, other].mean() > part[:, place].mean() and p[place, other] < 0.05
    }
    assert {(item.dataset, item.system): item.p for item in best.worse} == contradicting
    for dataset, _ in contradicting:
        assert f" on {dataset}" in said.partition("but significantly worse")[2]
    assert {lead.system for lead in best.leads} == {chr(ord("a") + i) for i in range(systems)} - {best.system}
    means = np.mean(
        [np.mean([part.mean(axis=0) for part, own in zip(parts, sources, strict=True) if own == each], axis=0)
         for each in dict.fromkeys(sources)], axis=0
    )  # fmt: skip
    for lead in best.leads:
        other = ord(lead.system) - ord("a")
        assert lead.difference == pytest.approx(means[place] - means[other], abs=1e-12)
        assert lead.difference >= -1e-12
        if datasets == 1:
            assert (lead.verdict == "ahead") == (pairs[0][place, other] < 0.05)
            own = intervals_and_p_values(
                parts[0][:, [place]] - parts[0][:, [other]], units=units[0], span=Span(-1.0, 1.0)
            )[0][0]
            assert (lead.low, lead.high) == pytest.approx(tuple(own), abs=1e-12)
        elif lead.verdict == "ahead":
            assert lead.p < 0.05
            assert lead.low is not None
            assert lead.low > 0
        else:
            assert lead.p >= 0.05 or lead.low is None or lead.low <= 0
    assert ("Too few sources" in said) == (datasets > 1 and len(set(sources)) < FEWEST_SOURCES)

"""Which system is best over several datasets, and over which others: one statement for commands, files and the site."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.comparison.report import BestOverDatasets, Lead, WorseOn
from bench.show.numbers import format_fixed, interval, number_or_none, p_value, several
from bench.stats.macro import FEWEST_SOURCES
from bench.stats.noninferiority import LEVEL

#: Number of systems that a list names; the others are counted.
_MOST_NAMED = 3


def best_over_datasets(
    systems: Sequence[str],
    leads: NDArray[np.float64],
    p: NDArray[np.float64],
    datasets: Sequence[str],
    sources: int,
    worse: Sequence[WorseOn],
) -> BestOverDatasets:
    """The conclusions about the system with the best macro mean.

    It is ahead of another if the test on these datasets separates the two and the interval of the difference excludes
    zero. On a single dataset, the test alone decides.

    Args:
        systems: names of the contenders, the one with the best macro mean first.
        leads: (systems, 3) its lead over each and the ends of the interval, as from `bench.stats.macro.lead_intervals`;
            positive in the metric's better direction.
        p: (systems,) corrected p-values of the best against each, by the test on these datasets.
        datasets: their names.
        sources: number of sources that they come from.
        worse: the results of `worse_on` for all datasets.
    """
    found = [
        Lead(
            system=name,
            difference=difference,
            low=number_or_none(low),
            high=number_or_none(high),
            p=by_test,
            verdict=(
                "not told apart" if by_test >= LEVEL else "ahead" if len(datasets) == 1 or low > 0 else "these datasets"
            ),
        )
        for name, (difference, low, high), by_test in zip(systems, leads.tolist(), p.tolist(), strict=True)
    ]
    return BestOverDatasets(
        system=systems[0],
        datasets=list(datasets),
        sources=sources,
        leads=sorted(found[1:], key=lambda lead: (lead.difference, lead.system)),
        worse=list(worse),
    )


def worse_on(dataset: str, mean: float, rivals: Iterable[tuple[str, float, float]]) -> list[WorseOn]:
    """The systems that are significantly better on one dataset than the overall best.

    Args:
        dataset: its name.
        mean: the mean of the overall best; higher is better.
        rivals: name, mean and corrected p-value of each system that the dataset ranks, including systems missing on
            other datasets.
    """
    better = sorted((p, name) for name, other, p in rivals if other > mean and p < LEVEL)
    return [WorseOn(dataset=dataset, system=name, p=p) for p, name in better]


def best_sentence(best: BestOverDatasets, titles: Mapping[str, str] | None = None) -> str:
    """The statement in words.

    Args:
        best: the conclusions.
        titles: system -> display name; others are shown by their own name.
    """

    def title(name: str) -> str:
        known = (titles or {}).get(name, name)
        # In a list, a comma in a name would look like its end.
        return f"“{known}”" if "," in known else known

    def ahead(leads: Sequence[Lead]) -> str:
        named = [f"{title(lead.system)} by {_amount(lead)}" for lead in leads]
        return join_names(named, lambda rest: f"{rest} others by {format_fixed(leads[-rest].difference)} or more")

    name, one = title(best.system), len(best.datasets) == 1
    general = one or best.sources >= FEWEST_SOURCES
    surely, barely, tied = (
        [lead for lead in best.leads if lead.verdict == verdict]
        for verdict in ("ahead", "these datasets", "not told apart")
    )
    parts = [f"ahead of {ahead(surely)}"] if surely else []
    if barely:
        where = "on these datasets, but not surely on others, ahead of" if general else "undecided against"
        parts.append(f"{where} {ahead(barely)}")
    if tied:
        parts.append(f"not told apart from {join_names([title(lead.system) for lead in tied])}")
    if best.worse:
        boards = []
        for dataset in dict.fromkeys(item.dataset for item in best.worse):
            rivals = [f"{title(item.system)} (p {_equals(item.p)})" for item in best.worse if item.dataset == dataset]
            boards.append(f"than {join_names(rivals)} on {dataset}")
        parts.append(f"but significantly worse {join_names(boards, most=len(boards))}")
    if one:
        return f"{name} has the best mean on {best.datasets[0]}: {'; '.join(parts)}."
    these = f"{'' if general else 'these '}{len(best.datasets)} datasets"
    sources = several(best.sources, "source")
    few = "" if general else f"Too few sources to speak of other datasets (at least {FEWEST_SOURCES} are needed). "
    return f"{few}{name} has the best mean over {these} ({sources}): {'; '.join(parts)}."


def _amount(lead: Lead) -> str:
    ends = interval(lead.low, lead.high, "brackets", none="")
    return f"{format_fixed(lead.difference)} {ends}".rstrip()


def _equals(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def join_names(
    names: Sequence[str], others: Callable[[int], str] = lambda rest: f"{rest} others", most: int = _MOST_NAMED
) -> str:
    """`a, b and c`; if more than one name is too many, the rest is counted.

    Args:
        names: at least one.
        others: how the rest is counted.
        most: maximum names; one more is named too, because counting it is no shorter.
    """
    rest = len(names) - most
    *first, last = names if rest < 2 else [*names[:most], others(rest)]
    return f"{', '.join(first)} and {last}" if first else last

"""Results side by side: which compare, in what order, and what a reader must know of each."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

from bench.metrics.measure import DEFAULT_DEPTH
from bench.results.store import Result


def comparable(results: Sequence[Result]) -> list[list[Result]]:
    """Groups of results on the same data, split, number of queries and protocol, in the order in which they come.

    Depth and tool text may differ within a group: they are choices of a method's user, and `marks` names them.
    """
    groups: defaultdict[tuple[str, str, int | None, str, str], list[Result]] = defaultdict(list)
    for result in results:
        data = result.manifest.dataset
        groups[data.spec, data.split, data.limit, data.content_hash, result.manifest.protocol].append(result)
    return list(groups.values())


def ordered(results: Sequence[Result], metric: str) -> list[Result]:
    """Best first by the mean of a metric; oracles, which are no competitors, come last."""
    return sorted(results, key=lambda item: (item.manifest.method.oracle, -_mean(item, metric), item.label))


def doubtful_leads(rows: Sequence[Result], metric: str) -> list[bool]:
    """(rows,) whether a row's lead over the next is within the tie bands (rule 1 of the protocol).

    Such a lead vanishes when ties are broken against the first method and for the second.
    """
    found = [False] * len(rows)
    for i, (first, second) in enumerate(itertools.pairwise(rows)):
        a, b = first.metrics.metrics.get(metric), second.metrics.metrics.get(metric)
        if a is None or b is None or first.manifest.method.oracle != second.manifest.method.oracle:
            continue
        worst = a.mean if a.tie_low is None else a.tie_low
        best = b.mean if b.tie_high is None else b.tie_high
        found[i] = a.mean > b.mean and worst <= best
    return found


def marks(result: Result, template: str) -> list[str]:
    """What sets a row apart from the others of its group; `template` is the tool text that most of them have."""
    manifest = result.manifest
    found = ["oracle"] if manifest.method.oracle else []
    found += manifest.method.marks
    if manifest.method.run_file:
        found.append("run file")
    elif manifest.depth != DEFAULT_DEPTH:
        found.append(f"depth {manifest.depth}")
    if manifest.dataset.template != template:
        found.append(f"text: {manifest.dataset.template}")
    return found


def usual_template(results: Sequence[Result]) -> str:
    """The tool text that most results of a group have."""
    names = [result.manifest.dataset.template for result in results]
    return max(sorted(set(names)), key=names.count)


def _mean(result: Result, metric: str) -> float:
    value = result.metrics.metrics.get(metric)
    return -1.0 if value is None else value.mean

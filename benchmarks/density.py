"""Density of the dependency graph against what it gains, by category (TGR, Fig. 4).

    python benchmarks/density.py [--base dense] [--graph rules] [--discriminator FOLDER] [--metric recall@5]

Every query of the datasets named (ToolBench's I1 sets by default, which share one library) belongs to the category of
its gold tools; a query whose gold spans several is left out. The density of a category is the share of its tools with
an edge; its gain is the mean over its queries of TGR's value less that of its base. The rank correlation is Spearman's
over categories with at least `--least` queries, of which there must be three; its p-value permutes the categories'
gains. All datasets must have the same tools: the graph and its densities are worked out once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from bench.base.errors import BenchError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.interface import History, Library, Queries
from bench.lab.graph.agreement import densities
from bench.methods.tgr.sources import GraphSource
from bench.metrics import evaluate, parse_metrics
from bench.registry import build_method, load_dataset
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals

I1 = ["toolbench-i1-inst", "toolbench-i1-tool", "toolbench-i1-cat"]
_PERMUTATIONS = 10_000
_BATCH = 64
#: Categories below which a rank correlation, and thirds of them, say nothing.
_FEWEST = 3


def per_query(spec: Spec, dataset: Dataset, metric: str) -> NDArray[np.float64]:
    """(judged test queries,) the metric's value."""
    rows = dataset.rows("test")
    rows = rows[dataset.gold.counts[rows] > 0]
    library = Library.of(dataset, dataset.card.template)
    history = History.of(dataset, library, rows)
    method = build_method(spec)
    method.preflight(library, history)
    method.fit(history)
    method.index(library)
    queries = Queries.of(dataset, rows)
    ranked = [
        method.rank(queries.take(np.arange(start, min(start + _BATCH, len(rows)))), 100).tools
        for start in range(0, len(rows), _BATCH)
    ]
    (parsed,) = parse_metrics([metric])
    return evaluate(np.concatenate(ranked), dataset.gold.take(rows), (parsed,)).column(parsed)


def categories_of(dataset: Dataset) -> list[str | None]:
    """The category of each judged test query; None where its gold spans several."""
    categories: list[str | None] = []
    for row in dataset.rows("test"):
        names = {dataset.tools[tool].category for tool in dataset.gold.row(int(row))}
        if names:
            categories.append(names.pop() if len(names) == 1 else None)
    return categories


def same_library(names: Sequence[str], load: Callable[[str], Dataset] = load_dataset) -> list[Dataset]:
    """The datasets of these names.

    Raises:
        UsageError: one of them has other tools, or other texts of them, than the first.
    """
    datasets = [load(name) for name in names]
    first = datasets[0]
    expected = Library.of(first, first.card.template).content_hash
    for name, dataset in zip(names, datasets, strict=True):
        # The tools beside the hash of their texts: categories and schemas need not be part of a text.
        same = dataset.tools == first.tools and Library.of(dataset, dataset.card.template).content_hash == expected
        if not same:
            raise UsageError(
                f"{name} has another library than {names[0]}, whose graph is taken for all: "
                "name datasets that share one."
            )
    return datasets


def enough(categories: int, least: int) -> None:
    """Raises `UsageError` where there are too few categories to correlate and to cut in thirds."""
    if categories < _FEWEST:
        raise UsageError(
            f"only {categories} categories have {least} queries or more, and a correlation needs {_FEWEST}: "
            "lower --least or name more datasets."
        )


def judged_units_of(datasets: Sequence[Dataset]) -> NDArray[np.int64]:
    """(judged test queries of all datasets,) their units of independence, by code from 0; each lies in a dataset."""
    parts, first = [], 0
    for dataset in datasets:
        rows = dataset.rows("test")
        codes = number_units(dataset.units[rows[dataset.gold.counts[rows] > 0]])
        parts.append(codes + first)
        first += int(codes.max()) + 1
    return np.concatenate(parts)


def interval(values: NDArray[np.float64], units: NDArray[np.int64]) -> str:
    """The mean and its 95% interval by units."""
    low, high = bca_intervals(values[:, None], units=number_units(units))[0]
    return f"{values.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="dense")
    parser.add_argument("--graph", default="rules")
    parser.add_argument("--discriminator", default="")
    parser.add_argument("--nearest", type=int, default=5)
    parser.add_argument("--within", choices=["library", "category"], default="category")
    parser.add_argument("--metric", default="recall@5")
    parser.add_argument("--least", type=int, default=5, help="queries that a category must have to be correlated")
    parser.add_argument("datasets", nargs="*", default=I1)
    chosen = parser.parse_args()
    base = parse(chosen.base)
    graph = {"graph": chosen.graph, "discriminator": chosen.discriminator}
    limits = {"nearest": chosen.nearest, "within": chosen.within}
    spec = Spec.of("tgr", {"base": base, **graph, **limits})
    gains: list[float] = []
    places: list[str | None] = []
    datasets = same_library(chosen.datasets)
    dataset = datasets[0]
    source = GraphSource(chosen.graph, discriminator=chosen.discriminator, **limits)
    edges = source.edges(Library.of(dataset, dataset.card.template))
    for dataset in datasets:
        values = per_query(spec, dataset, chosen.metric) - per_query(base, dataset, chosen.metric)
        gains.extend(values.tolist())
        places.extend(categories_of(dataset))
    gain, units = np.array(gains), judged_units_of(datasets)
    rows = densities(dataset.tools, edges)
    print(f"{spec}: {len(edges)} edges; {chosen.metric} less that of {base}")
    several = sum(place is None for place in places)
    size = f"{len(gain)} queries in {units.max() + 1} groups"
    print(f"all {size}: {interval(gain, units)}; {several} in several categories")
    print(f"{'category':32} tools  density  queries  gain")
    members = {row.category: np.array([place == row.category for place in places]) for row in rows}
    for row in rows:
        member_gains = gain[members[row.category]]
        if len(member_gains):
            print(
                f"{row.category:32} {row.tools:5}  {row.share:7.3f}  {len(member_gains):7}  {member_gains.mean():+.3f}"
            )
    kept = [row for row in rows if members[row.category].sum() >= chosen.least]
    enough(len(kept), chosen.least)
    share = np.array([row.share for row in kept])
    mean = np.array([gain[members[row.category]].mean() for row in kept])
    if np.ptp(share) == 0 or np.ptp(mean) == 0:
        print("the categories do not differ, so there is nothing to correlate")
        return
    rank = spearmanr(share, mean).statistic
    random = np.random.default_rng(0)
    permuted = [spearmanr(share, random.permutation(mean)).statistic for _ in range(_PERMUTATIONS)]
    p = (1 + np.count_nonzero(np.abs(permuted) >= abs(rank) - 1e-12)) / (1 + _PERMUTATIONS)
    print(f"rank correlation over {len(kept)} categories with {chosen.least} queries or more: {rank:+.3f}, p = {p:.4f}")
    thirds = np.array_split(np.arange(len(kept)), 3)
    for title, third in zip(("densest third", "middle third", "sparsest third"), thirds, strict=True):
        rows_of = np.any([members[kept[i].category] for i in third], axis=0)
        member_gains = gain[rows_of]
        ends = f"{share[third].min():.3f} to {share[third].max():.3f}"
        print(f"{title:15} density {ends}, {len(member_gains)} queries: {interval(member_gains, units[rows_of])}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")

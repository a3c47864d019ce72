"""Which untrained method is best on average: the choice of `recommended`, on past queries alone.

    python benchmarks/recommended.py [--limit 300] [--metric recall@5] [--candidate SPEC ...] [DATASET ...]

Every candidate is asked the dev and train queries of the datasets that have any, at most `--limit` of each dataset, by
the hash of their text. Test queries are never asked, and no candidate is shown past queries: parameters are fixed, and
the same on all datasets. The mean is that over sources of the mean over a source's datasets, with its 95% interval
(`bench.stats.macro`: by sources, and by units within). The last column compares with the best candidate: the difference
of the macro means and its interval over the same resamples.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.data.tables import SPLITS
from bench.interface import History, Library, Queries
from bench.metrics import evaluate, parse_metrics
from bench.registry import build_method, load_dataset
from bench.results.units import number_units
from bench.stats.macro import macro_intervals

DATASETS = [
    *("starter", "metatool", "metatool-single", "rectools", "sealtools"),
    *("toollens", "toollens-domains", "toollens-unseen"),
]

#: Each is one fixed recipe. Weights of hybrids are those of the first method.
CANDIDATES = [
    *("bm25", "bm25-fields", "tfidf", "names", "regex", "dense", "coverage", "server-first", "mcp-zero", "tgr"),
    *("server-first(base=dense)", "query-generation", "rrf", "rrf(methods=[bm25-fields, dense])"),
    *("rrf(methods=[bm25-fields, mcp-zero])", "rrf(methods=[bm25-fields, dense, query-generation])"),
    *(f"hybrid(weight={weight}, learn=false)" for weight in (0.2, 0.3, 0.4, 0.5)),
    *(f"hybrid(methods=[bm25, dense], weight={weight}, learn=false)" for weight in (0.3, 0.4)),
    *(f"hybrid(methods=[tfidf, dense], weight={weight}, learn=false)" for weight in (0.3, 0.4)),
    *(f"hybrid(methods=[regex, dense], weight={weight}, learn=false)" for weight in (0.3, 0.4, 0.5)),
    *("hybrid(methods=[bm25-fields, tgr], weight=0.4, learn=false)",),
    *(f"query-generation(base=hybrid(weight={weight}, learn=false))" for weight in (0.3, 0.4)),
    *(
        f"hybrid(methods=[names, hybrid(weight={inner}, learn=false)], weight={outer}, learn=false)"
        for inner in (0.3, 0.4, 0.5)
        for outer in (0.1, 0.2, 0.3)
    ),
    "hybrid(methods=[regex, hybrid(weight=0.4, learn=false)], weight=0.2, learn=false)",
]

_DEPTH = 100


def past_rows(dataset: Dataset, limit: int) -> NDArray[np.int64]:
    """Rows of judged dev and train queries, ascending; at most `limit`, those with the lowest hash of the text."""
    rows = np.flatnonzero((dataset.splits != SPLITS.index("test")) & (dataset.gold.counts > 0))
    keys = [hashlib.sha256(dataset.queries[row].text.encode("utf-8", "surrogatepass")).digest() for row in rows]
    chosen = sorted(range(len(rows)), key=lambda place: (keys[place], place))[:limit]
    return np.sort(rows[chosen])


def values_of(spec: str, dataset: Dataset, rows: NDArray[np.int64], metric: str) -> NDArray[np.float64]:
    """(rows,) the metric's value of each query; the method sees no past query."""
    library = Library.of(dataset, dataset.card.template)
    nothing = History.of(dataset, library, np.arange(len(dataset.queries)))
    method = build_method(parse(spec))
    method.preflight(library, nothing)
    method.fit(nothing)
    method.index(library)
    queries = Queries.of(dataset, rows)
    size = method.batch_size
    (parsed,) = parse_metrics([metric])
    ranked = np.full((len(rows), min(_DEPTH, len(library))), -1, dtype=np.int32)
    for start in range(0, len(rows), size):
        batch = method.rank(queries.take(np.arange(start, min(start + size, len(rows)))), _DEPTH).tools
        ranked[start : start + len(batch), : batch.shape[1]] = batch
    return evaluate(ranked, dataset.gold.take(rows), (parsed,)).column(parsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=300, help="queries of a dataset at most")
    parser.add_argument("--metric", default="recall@5")
    parser.add_argument("--candidate", action="append", help="a method; repeatable [default: those of this file]")
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    chosen = parser.parse_args()
    candidates: Sequence[str] = chosen.candidate or CANDIDATES
    tables, units, sources = [], [], []
    for name in chosen.datasets:
        dataset = load_dataset(name)
        rows = past_rows(dataset, chosen.limit)
        if not len(rows):
            print(f"{name} has no past queries and is left out")
            continue
        columns = []
        for spec in candidates:
            columns.append(values_of(spec, dataset, rows, chosen.metric))
            print(f"\r{name}: {len(columns)}/{len(candidates)} ", end="", file=sys.stderr, flush=True)
        tables.append(np.stack(columns, axis=1))
        units.append(number_units(dataset.units[rows]))
        sources.append(dataset.card.source or dataset.card.id)
        groups = int(units[-1].max()) + 1
        print(f"{name}: source {sources[-1]}, {len(rows)} queries in {groups} groups, {len(dataset.tools)} tools")
    print(f"\n{chosen.metric}; mean over {len(set(sources))} sources, 95% interval; difference from the best")
    macro = macro_intervals(tables, units=units, sources=sources)
    best = int(macro[:, 0].argmax())
    # A difference is a system of its own: of the same queries, groups and sources.
    gaps = macro_intervals([table - table[:, [best]] for table in tables], units=units, sources=sources)
    heads = " ".join(f"{name[:9]:>9}" for name in chosen.datasets[: len(tables)])
    print(f"{'':81} {'mean':>5}  {'':14}  {heads}")
    for place in np.argsort(-macro[:, 0], kind="stable"):
        cells = " ".join(f"{table[:, place].mean():9.3f}" for table in tables)
        mean, low, high = macro[place]
        gap = f"{gaps[place, 0]:+.3f} [{gaps[place, 1]:+.3f}, {gaps[place, 2]:+.3f}]"
        print(f"{candidates[place]:81} {mean:.3f} [{low:.3f}, {high:.3f}] {cells}  {gap}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")

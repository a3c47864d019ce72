"""What a dependency graph gains on ToolLinkOS, for queries whose gold the edges give and for the others.

    python benchmarks/toollinkos.py [--base dense] [--metric recall@5]

Gold of ToolLinkOS is the tool that is asked for with its prerequisites (`gold=all`), or that tool alone (`gold=main`).
A query is *derived* if its gold is what the annotated edges reach from that tool, all of it and nothing else: a method
that follows the edges then reads the gold off the graph, once it has found the tool. Each method is compared with the
base by the paired randomisation test over groups; p-values are corrected by Holm over all comparisons that are printed.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from density import per_query
from numpy.typing import NDArray

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.registry import load_dataset
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import Span
from bench.stats.multiple import holm
from bench.stats.paired import compare

METHODS = [
    "tgr(base={base})",
    "tgr(base={base}, graph=manual)",
    "tgr(base={base}, graph=manual, direction=prerequisite)",
    "tgr(base={base}, graph=manual, direction=dependent)",
    "graph-rag-tool-fusion(base={base}, graph=rules)",
    "graph-rag-tool-fusion(base={base})",
    "graph-rag-tool-fusion(base={base}, initial=1)",
]


def reached(dataset: Dataset, tool: int) -> set[int]:
    """The codes of a tool and all that it depends on, directly or not."""
    needs: dict[int, list[int]] = {}
    for edge in dataset.edges:
        needs.setdefault(dataset.tool_codes[edge.dependent], []).append(dataset.tool_codes[edge.prerequisite])
    known, pending = {tool}, [tool]
    while pending:
        for other in needs.get(pending.pop(), ()):
            if other not in known:
                known.add(other)
                pending.append(other)
    return known


def derived(whole: Dataset, main: Dataset) -> NDArray[np.bool_]:
    """(queries,) whether the gold of a query is what the edges reach from the tool that is asked for."""
    main_tools = [int(main.gold.row(row)[0]) for row in range(len(main.queries))]
    from_tool = {tool: reached(whole, tool) for tool in set(main_tools)}
    return np.array([set(whole.gold.row(row).tolist()) == from_tool[tool] for row, tool in enumerate(main_tools)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="dense")
    parser.add_argument("--metric", default="recall@5")
    chosen = parser.parse_args()
    methods = [method.format(base=chosen.base) for method in METHODS]
    whole, alone = load_dataset("toollinkos"), load_dataset("toollinkos(gold=main)")
    from_edges = derived(whole, alone)
    parts = {"all": np.ones(len(from_edges), dtype=np.bool_), "derived": from_edges, "not derived": ~from_edges}
    rows: list[tuple[str, str, str, NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]] = []
    for name, dataset in (("all", whole), ("main", alone)):
        base = per_query(parse(chosen.base), dataset, chosen.metric)
        for method in [chosen.base, *methods]:
            values = base if method == chosen.base else per_query(parse(method), dataset, chosen.metric)
            for part, kept in parts.items():
                rows.append(
                    (name, part, method, values[kept], number_units(dataset.units[kept]), (values - base)[kept])
                )
    tested = [place for place, row in enumerate(rows) if row[2] != chosen.base]
    comparisons = {
        place: compare(rows[place][5][:, None], units=rows[place][4], span=Span(-1, 1))[0] for place in tested
    }
    corrected = dict(zip(tested, holm([comparisons[place].p for place in tested]), strict=True))
    print(f"{chosen.metric}, 95% intervals by groups; p by Holm over {len(tested)} comparisons with {chosen.base}")
    for gold in ("all", "main"):
        for part in parts:
            members = [place for place, row in enumerate(rows) if row[:2] == (gold, part)]
            units = rows[members[0]][4]
            print(f"\ngold={gold}, {part}: {len(units)} queries in {units.max() + 1} groups")
            for place in members:
                _, _, method, values, units, _ = rows[place]
                low, high = bca_intervals(values[:, None], units=units, span=Span(0, 1))[0]
                line = f"{method:62} {values.mean():.3f} [{low:.3f}, {high:.3f}]"
                if place in comparisons:
                    pair = comparisons[place]
                    line += f"  {pair.difference:+.3f} [{pair.low:+.3f}, {pair.high:+.3f}]  p {corrected[place]:.4f}"
                print(line)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")

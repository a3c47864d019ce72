"""Candidate pruning for the dependency classifier: true edges kept, against pairs that remain to be classified.

    python benchmarks/candidates.py [DATASET ...]

Each row keeps the pairs of some signs. An annotated edge is kept if its pair is, whichever way it points; every pair of
the library is 100% of the calls. Datasets without annotated edges show the counts alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bench.data.dataset import Dataset
from bench.methods.tgr.candidates import Pairs, candidate_pairs, parent_pairs, schema_pairs, text_pairs
from bench.methods.tgr.documents import document
from bench.models.encoders import EMBEDDED, Encoder
from bench.registry import load_dataset


def as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in pairs}


def report(dataset: Dataset) -> None:
    tools = dataset.tools
    vectors = Encoder(EMBEDDED).encode([document(tool) for tool in tools])
    codes = dataset.tool_codes
    edges = {tuple(sorted((codes[edge.dependent], codes[edge.prerequisite]))) for edge in dataset.edges}
    every = len(tools) * (len(tools) - 1) // 2
    rows = {"schema": schema_pairs(tools), "parent": parent_pairs(tools)}
    for nearest in (5, 10, 20):
        rows[f"text, nearest {nearest}"] = text_pairs(tools, vectors, nearest)
    for nearest in (0, 5, 10, 20):
        rows[f"all three, nearest {nearest}"] = candidate_pairs(tools, vectors, nearest)
    if len({tool.category for tool in tools}) > 1:
        for nearest in (5, 10):
            rows[f"within categories, nearest {nearest}"] = candidate_pairs(tools, vectors, nearest, "category")
    started = time.perf_counter()
    candidate_pairs(tools, vectors)
    seconds = time.perf_counter() - started
    print(f"{dataset.spec}: {len(tools)} tools, {every} pairs, {len(edges)} annotated edges; found in {seconds:.2f} s")
    for name, pairs in rows.items():
        kept = f"  recall of edges {len(as_set(pairs) & edges) / len(edges):.3f}" if edges else ""
        print(f"  {name:32} pairs {len(pairs):7} ({len(pairs) / every:7.2%}){kept}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["starter", "apibank", "toolbench-i1-inst"])
    for name in parser.parse_args().datasets:
        report(load_dataset(name))


if __name__ == "__main__":
    np.seterr(all="raise")
    main()

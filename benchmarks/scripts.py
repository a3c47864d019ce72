"""Chinese requests for tools that are described in Chinese: lexical methods beside rank_bm25 with other tokens.

    BENCH_MIRROR=... python benchmarks/scripts.py

The library is LiveMCPBench's (527 tools, 61 of them described in Chinese), the requests are ours (`queries-zh.tsv`,
written by hand, one tool each), and tools are read as `name_description`. rank_bm25 splits at jieba's words, if jieba
is installed (`pip install jieba`), and into all pairs of neighbouring characters. Requests for one tool are one unit of
the intervals.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from bench.base.errors import is_installed
from bench.base.words import words
from bench.interface import Library, Queries
from bench.registry import build_method, load_dataset
from bench.search.topk import top_k
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import Span

METHODS = ("bm25", "bm25-fields", "tfidf", "names", "bm25-okapi", "bm25-okapi(tokens=words)", "regex", "dense")
DEPTH = 5


def character_pairs(text: str) -> list[str]:
    """Every two neighbouring characters, whatever they are."""
    lowered = text.lower()
    return [lowered[i : i + 2] for i in range(len(lowered) - 1)]


def jieba_words(text: str) -> list[str]:
    """The words that jieba's dictionary finds."""
    return [word for word in import_module("jieba").lcut(text.lower()) if any(sign.isalnum() for sign in word)]


def by_rank_bm25(texts: Sequence[str], queries: Sequence[str], split: Callable[[str], list[str]]) -> NDArray[np.int32]:
    """(queries, DEPTH) the best tools."""
    index = BM25Okapi([split(text) for text in texts])
    return top_k(np.array([index.get_scores(split(query)) for query in queries]), DEPTH).tools


def main() -> None:
    dataset = load_dataset("livemcpbench")
    library = Library.of(dataset, dataset.card.template)
    with Path(__file__).with_name("queries-zh.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    queries = tuple(row["query"] for row in rows)
    gold = np.array([dataset.tool_codes[row["tool"]] for row in rows])
    units = np.unique(gold, return_inverse=True)[1]
    print(f"{len(queries)} requests, {len(library)} tools\n")
    print("method                        recall@5  95% interval    first")
    answers = {}
    for spec in METHODS:
        method = build_method(spec)
        method.index(library)
        answers[spec] = method.rank(Queries(queries, np.arange(len(queries))), DEPTH).tools
    splits: dict[str, Callable[[str], list[str]]] = {"words of bench": words, "pairs of characters": character_pairs}
    if is_installed("jieba"):
        splits["jieba"] = jieba_words
    else:
        print("jieba is not installed: its row is left out", file=sys.stderr)
    for name, split in splits.items():
        answers[f"rank_bm25, {name}"] = by_rank_bm25(library.texts, queries, split)
    for name, tools in answers.items():
        right = tools == gold[:, None]
        values = right.any(axis=1, keepdims=True).astype(np.float64)
        ((low, high),) = bca_intervals(values, units=units, span=Span(0.0, 1.0))
        print(f"{name:30}{values.mean():8.3f}  [{low:.3f}, {high:.3f}]  {right[:, 0].mean():7.3f}")


if __name__ == "__main__":
    main()

"""The table of the study on incomplete gold follows from the data and the kept results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kit.datasets import loaded

from bench.comparison.rows import lenient_mean, order_results, reversals
from bench.evaluation.lenient import alternative_counts, lenient_gold
from bench.lookup.finding import latest
from bench.results.store import StoredResult
from bench.validation.ceilings import ceilings

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "board" / "results"
STUDY = ROOT / "docs" / "studies" / "2026-11-incomplete-gold.md"
KEPT = pytest.mark.slow("the kept results")
HEAD = "| dataset | gold tools | queries | recall@5, pass@5, ndcg@5 | bm25 | dense | tgr | changes places |"


def table() -> dict[str, str]:
    """Dataset -> its row of the table."""
    lines = STUDY.read_text("utf-8").splitlines()
    first = lines.index(HEAD) + 2
    rows = lines[first : lines.index("", first)]
    return {line.split("`")[1]: line for line in rows}


def whole_datasets() -> list[str]:
    """The datasets with kept results, without views and options."""
    manifests = RESULTS.glob("*/*/manifest.json")
    specs = {json.loads(path.read_text("utf-8"))["dataset"]["spec"] for path in manifests}
    return sorted(spec for spec in specs if "(" not in spec)


def row_of(name: str) -> str:
    """The row as the data and the kept results have it."""
    dataset = loaded(name)
    rows = dataset.rows(dataset.card.split)
    queries, judgements = alternative_counts(lenient_gold(dataset, rows), dataset.gold.take(rows))
    gold = dataset.gold.take(rows)
    total, judged = len(gold.tools), int(np.count_nonzero(gold.counts))
    results = [StoredResult.read(path.parent) for path in sorted((RESULTS / name).glob("*/manifest.json"))]
    parts = [item for item in results if item.manifest.dataset.spec == name and item.manifest.dataset.limit is None]
    board = order_results(latest(parts), "recall@5")
    assert board, f"no kept result on {name}"
    bounds = {item.metric: item.queries for item in ceilings(dataset).metrics}
    best = ", ".join(f"{bounds[metric]:.3f}" for metric in ("recall@5", "pass@5", "ndcg@5"))
    means = []
    for method in ("bm25", "dense", "tgr"):
        (result,) = (item for item in board if item.manifest.method.spec == method)
        usual, lenient = result.metrics.metrics["recall@5"].mean, lenient_mean(result, "recall@5")
        if lenient is None:
            # Its ranking was not stored.
            means.append(f"{usual:.3f} → ?")
        else:
            means.append(f"{usual:.3f}" if f"{usual:.3f}" == f"{lenient:.3f}" else f"{usual:.3f} → {lenient:.3f}")
    specs = [item.manifest.method.spec for item in board]
    turned = ", ".join(f"{specs[j]} above {specs[i]}" for i, j in reversals(board, "recall@5"))
    cells = [f"`{name}`", f"{judgements:,} of {total:,}", f"{queries:,} of {judged:,}", best, *means, turned]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


@pytest.mark.parametrize("name", table())
@KEPT
def test_a_row_follows_from_the_data_and_the_kept_results(mirror: Path, name: str) -> None:
    assert table()[name] == row_of(name)


@pytest.mark.parametrize(
    "name",
    [
        name if name in {"starter", "apibank", "livemcpbench"} else pytest.param(name, marks=KEPT)
        for name in whole_datasets()
    ],
)
def test_a_dataset_has_a_row_if_its_gold_has_alternatives(mirror: Path, name: str) -> None:
    dataset = loaded(name)
    rows = dataset.rows(dataset.card.split)
    _, judgements = alternative_counts(lenient_gold(dataset, rows), dataset.gold.take(rows))
    assert (name in table()) == (judgements > 0)

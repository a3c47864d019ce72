"""The board's methods that need no training on all its datasets: writes the tables of `docs/untrained.md`.

    python benchmarks/untrained.py [--check]

The values are those of the kept results (`board/results`); nothing is run. With `--check` nothing is written, and the
exit code is 1 if the page differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.evaluation.experiment import read_experiment
from bench.results.store import Result, find_results

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "untrained.md"
METRIC = "recall@5"

#: Methods of one table each, and what their table is about.
TABLES = {
    "By words and names": (
        *("random", "names", "tfidf", "bm25-okapi", "bm25", "bm25-fields", "coverage", "server-first"),
    ),
    "By embeddings, and with them": ("dense", "mcp-zero", "query-generation", "rrf", "tgr", "recommended"),
}
#: Of the experiment, but in no table: the gold itself, and a method that learns a weight where there are past queries.
LEFT_OUT = {"oracle", "hybrid"}

HEAD = f"""# Methods without training

{METRIC} on the judged test queries, with 95% intervals by [groups of dependent queries](protocol.md), of the
board's methods that need no training and no past queries, with their default parameters, on every dataset of
the board. The best value of a dataset over both tables is bold, which says nothing about significance: `bench
compare` and the boards test pairs. `query-generation` writes its queries by rules here, not by a language
model. `hybrid` is left out, because it learns its weight where there are past queries. Datasets of one source
share queries or tools, so no mean over rows is given; the boards take means over sources.

`make board` makes the results, and `python benchmarks/untrained.py` this page."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or compare it with what would be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    asked = parser.parse_args(arguments)
    text = page(kept())
    if asked.check:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


def kept() -> dict[tuple[str, str], Result]:
    """The kept results by dataset and method."""
    found = find_results(ROOT / "board" / "results")
    return {
        (item.manifest.dataset.spec, item.manifest.method.spec): item
        for item in found
        if isinstance(item, Result) and item.manifest.dataset.limit is None
    }


def page(results: Mapping[tuple[str, str], Result]) -> str:
    """The page.

    Raises:
        KeyError: a result is missing.
    """
    plans = list(read_experiment(ROOT / "board" / "experiments" / "without-history.toml").plans())
    datasets = list(dict.fromkeys(str(plan.dataset) for plan in plans))
    methods = {str(plan.method) for plan in plans}
    if methods != LEFT_OUT.union(*TABLES.values()):
        raise ValueError("the experiment's methods are not those of the tables")
    best = {
        dataset: max(results[dataset, method].metrics.metrics[METRIC].mean for method in methods - LEFT_OUT)
        for dataset in datasets
    }
    parts = [HEAD]
    for title, columns in TABLES.items():
        parts.append(f"\n## {title}\n")
        parts.append("| dataset | queries, groups | " + " | ".join(f"`{name}`" for name in columns) + " |")
        parts.append("|---" * (len(columns) + 2) + "|")
        for dataset in datasets:
            cells = [_cell(results[dataset, method], best[dataset]) for method in columns]
            about = results[dataset, columns[0]].manifest.dataset
            size = f"{about.judged:,}, {about.units:,}"
            parts.append(f"| {dataset} | {size} | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _cell(result: Result, best: float) -> str:
    value = result.metrics.metrics[METRIC]
    mean = f"{value.mean:.3f}"
    ends = "" if value.low is None or value.high is None else f" [{value.low:.3f}, {value.high:.3f}]"
    failed = f", {result.metrics.n_failed} failed" if result.metrics.n_failed else ""
    return f"{f'**{mean}**' if value.mean >= best else mean}{ends}{failed}"


if __name__ == "__main__":
    sys.exit(main())

"""The Python API of diagnosis: `bench.explain`, and the function that `bench.Result.tools` requests by name."""

from __future__ import annotations

from pathlib import Path

from bench.api.arguments import whole_number
from bench.api.results import Result, open_stored_result
from bench.base.config import current_session
from bench.diagnosis.explain import Explained, query_named
from bench.diagnosis.explain import explain as explained
from bench.diagnosis.tool_report import ToolsReport, count_ranking, tools_report
from bench.registry import load_dataset
from bench.results.store import StoredResult


def explain(
    result: Result | str | Path, query: str, *, repeat: int = 1, results: str | Path | None = None
) -> Explained:
    """Explain the rank of each gold tool of a query. The same as `bench explain`.

    Ranks and scores are the stored ones. For the reasons, the method is rebuilt and must give the stored scores.

    Args:
        result: a result, or the name of a stored one.
        query: the id of one of its queries, or an unambiguous beginning.
        repeat: which repeat to explain, if there are several.
        results: the folder to look up a name in; `$BENCH_RESULTS` or `results` if None.

    Raises:
        UsageError: there is no such result, query or repeat.
        ResultError: the dataset has changed, or the ranking is missing or damaged.

    Examples:
        >>> bench.explain(bench.run("bm25"), "0001")
        <Explained bm25 @ starter, query 0001: crateful.get_catalogue at 1, larderly.substitute at 54>
    """
    stored, progress = open_stored_result(result, results), current_session().progress
    dataset = load_dataset(stored.manifest.dataset.spec, progress)
    return explained(
        stored, dataset, query_named(stored, query, dataset), progress, repeat=whole_number("repeat", repeat)
    )


def report_tools(result: StoredResult, k: int, repeat: int) -> ToolsReport:
    """The report of `bench.Result.tools`, with its arguments and errors."""
    dataset = load_dataset(result.manifest.dataset.spec, current_session().progress)
    return tools_report(count_ranking(result, dataset, whole_number("k", k), whole_number("repeat", repeat)))

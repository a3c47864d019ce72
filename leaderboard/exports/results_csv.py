"""`results.csv`: one row per result and metric. `write` calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.base.text import one_line
from bench.leaderboard.boards.names import title_of
from bench.results.costs import money_per_query
from bench.results.store import StoredResult
from bench.show.tables import csv_text

COLUMNS = (
    *("dataset", "split", "limit", "content_hash", "protocol", "template", "depth"),
    *("result_id", "latest", "method", "cut", "oracle", "needs_llm", "run_file", "marks", "created"),
    *("judged", "failed", "tied", "latency_p50", "latency_p95", "tokens_top_5", "tokens_top_10", "tokens_answer"),
    *("cost_per_query", "title"),
    *("metric", "mean", "low", "high", "n", "tie_low", "tie_expected", "tie_high", "tie_draws"),
)


def results_csv(results: Sequence[StoredResult], latest: frozenset[str], marks: Mapping[str, Sequence[str]]) -> str:
    """The table as text.

    Args:
        results: in the order of the lines.
        latest: ids of results that are not superseded.
        marks: result id -> its marks.
    """
    lines = [csv_text([COLUMNS])]
    names: dict[str, str] = {}
    for result in results:
        manifest, metrics = result.manifest, result.metrics
        data, method, latency = manifest.dataset, manifest.method, manifest.latency
        head: list[object] = [data.spec, data.split, data.limit, data.content_hash, manifest.protocol]
        head += [data.tool_text, manifest.depth, manifest.result_id, manifest.result_id in latest]
        head += [method.spec, method.cut, method.oracle, method.needs_llm, method.run_file is not None]
        head += ["; ".join(marks.get(manifest.result_id, ())), manifest.environment.created]
        head += [metrics.n, metrics.n_failed, metrics.n_tied]
        head += [latency.p50, latency.p95] if latency else [None, None]
        head += [metrics.tokens.get(name) for name in ("top_5", "top_10", "answer")]
        head += [money_per_query(manifest), str(title_of(method))]
        shared = csv_text([map(_short, head)]).removesuffix("\n")
        for name, value in metrics.metrics.items():
            if name not in names:
                names[name] = csv_text([[_short(name)]]).removesuffix("\n")
            # Not the csv module: a large site has a hundred thousand lines that are mostly numbers.
            band = (value.tie_low, value.tie_expected, value.tie_high)
            draws = None if value.tie_expected is None else metrics.tie_draws(name)
            tail = (value.mean, value.low, value.high, value.n, *band, draws)
            numbers = ",".join(["" if item is None else repr(item) for item in tail])
            lines.append(f"{shared},{names[name]},{numbers}\n")
    return "".join(lines)


def _short(value: object) -> object:
    """A cell: numbers unchanged, text on one line."""
    return one_line(value, 2000) if isinstance(value, str) else value

"""Print results for `bench run`, `score` and `show`: one with its metrics and costs, or several in a table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.base.paths import results_folder
from bench.base.protocol import MAPPED, UNREAD
from bench.cli.output import console, say
from bench.comparison.rows import Usual, doubtful_leads, marks, order_results, usual
from bench.comparison.variants import best_by, stored_variants, words_of
from bench.lookup.unfinished import unfinished_marks
from bench.results.comparability import comparable
from bench.results.failures import sentences
from bench.results.manifest import Mark, MetricValue
from bench.results.repeats import chance_sentence, repeats_line
from bench.results.store import StoredResult
from bench.results.units import judged_sample
from bench.show.numbers import count, duration, format_fixed, interval, money, percent, several, size
from bench.show.tables import Cell, Style, Table, mean_cell

if TYPE_CHECKING:
    from rich.console import Console

    from bench.registry.differences import Differences

#: Metrics shown by default, besides `tracc` (`tracc@5` if no sets are recommended).
FIRST = ("recall@5", "ndcg@5", "pass@5", "mmrr@100")
#: Further metrics for tables, in the order in which they fill the width.
HEADLINE = (
    "recall@5",
    "recall@10",
    "ndcg@5",
    "ndcg@10",
    "pass@5",
    "pass@10",
    "mmrr@100",
    "map@100",
)
_SET_METRICS = ("tracc", "set_precision", "set_recall", "set_f1", "size_diff", "abstained", "answered", "false_returns")
#: Metrics that only some datasets define.
_FURTHER_METRICS = (
    *("forbidden@5", "forbidden", "excess_destructive@5", "excess_destructive"),
    *("abstained@5", "auroc", "aurc@5"),
)
#: Maximum failure reasons printed for one result, and for each of several.
_MOST_REASONS, _MOST_OF_SEVERAL = 5, 2
#: A narrower band is invisible at three decimals.
_NARROW = 0.0005


def set_metrics(result: StoredResult) -> tuple[str, ...]:
    """The set metrics of a result; those at cutoffs 5 and 10 if it recommends no sets."""
    names = tuple(name for name in (*_SET_METRICS, *_FURTHER_METRICS) if name in result.metrics.metrics)
    return names if "tracc" in names else ("tracc@5", "tracc@10", *names)


def first_metrics(results: Sequence[StoredResult]) -> tuple[str, ...]:
    """The five metrics shown by default; the first available ones if rankings are too short for these."""
    known = dict.fromkeys(name for result in results for name in result.metrics.metrics)
    names = (*FIRST, "tracc" if "tracc" in known else "tracc@5")
    return names if not known.keys().isdisjoint(names) else tuple(known)[: len(names)]


def print_result(result: StoredResult, metrics: Sequence[str] = (), everything: bool = False) -> None:
    """Print one result: its metrics with intervals and tie bands, its costs, and its folder.

    Args:
        result: the result.
        metrics: metrics to show besides the first five.
        everything: show all metrics and costs, and the differences from the method's paper.
    """
    from rich.text import Text

    out = console()
    manifest, scored = result.manifest, result.metrics
    data = manifest.dataset
    out.print(Text(result.label, style="bold"))
    if manifest.method.alias is not None:
        out.print(Text(f"method: {manifest.method.spec_label}", style="dim"))
    limit = "" if data.limit is None else f", limit {data.limit}"
    counts = f"{judged_sample(data)} ({data.split}{limit}), {scored.n_failed} failed"
    if scored.n_no_gold:
        counts += f", {scored.n_no_gold} without gold"
    depth = "from a run file" if manifest.method.run_file else f"depth {manifest.depth}"
    out.print(f"{counts}; {several(data.tools, 'tool')} as {data.tool_text}; history {data.history}; {depth}")
    for line in sentences(result, 50 if everything else _MOST_REASONS):
        out.print(Text(f"failed: {line}", style="yellow"))
    first = [*HEADLINE, *set_metrics(result), *scored.metrics] if everything else first_metrics([result])
    names = dict.fromkeys([*first, *metrics])
    shown = {name: scored.metrics[name] for name in names if name in scored.metrics}
    bands = {name: _band(value, scored.tie_draws(name)) for name, value in shown.items()}
    tied = any(bands.values())
    # If no gold tool has an alternative, the lenient mean equals the mean.
    lenient = scored.lenient.means if scored.lenient is not None and scored.lenient.queries else {}
    heads = ("metric", "mean", "95% interval", *(["lenient"] if lenient else []), *(["ties"] if tied else []))
    table = Table([*heads], right=(1,))
    for name, value in shown.items():
        ends = interval(value.low, value.high)
        extra = f" (n={value.n})" if value.n != scored.n else ""
        other = [format_fixed(lenient.get(name))] if lenient else []
        table.add(name + extra, format_fixed(value.mean), ends, *other, *([bands[name]] if tied else []))
    out.print(table)
    if scored.lenient is not None and lenient:
        out.print(
            f"lenient: a tool of another parent that reads like a gold tool counts ({scored.lenient.queries} queries "
            "have one)"
        )
    for name in metrics:
        if name not in shown:
            out.print(Text(f"note: no {name}: {_why_not(name, [result])}", style="yellow"))
    _print_repeats(out, result, list(shown))
    if tied:
        ties = several(scored.n_tied or 0, "query has ties", "queries have ties")
        out.print(f"tie band: the mean with ties broken worst and best ({ties})")
    _print_costs(out, result, everything)
    variants = stored_variants([result])[manifest.result_id]
    if words := words_of(len(variants), data.split, list(shown), best_by(variants, shown)):
        out.print(Text(f"note: {words}; a mean that was chosen by it is too high: choose on dev", style="yellow"))
    for warning in (*manifest.notes, *(f"{mark.text}: {mark.why}" for mark in unfinished_marks(result))):
        out.print(Text(f"note: {warning}", style="yellow"))
    differs = differences_in(result)
    if everything:
        _print_differences(out, differs)
    else:
        left = len(scored.metrics) - len(shown)
        # Ids are looked up only in the default folder.
        name = manifest.result_id if results_folder() in result.folder.parents else shlex.quote(str(result.folder))
        rows = sum(len(table.rows) for table in differs.values())
        more = f", all costs, what differs from the paper ({several(rows, 'row')})" if rows else " and all costs"
        hint = f"{several(left, 'more metric')}{more}: `bench show {name} --all`"
        out.print(Text(hint, style="dim"), soft_wrap=True)
    out.print(Text(f"stored in {result.folder}", style="dim"), soft_wrap=True)


def tell_names(results: Sequence[StoredResult]) -> None:
    """Report how tool names in answers were mapped to ids, and which fields of answers are not read."""
    for result in results:
        for name, value in result.manifest.facts.items():
            fact = name.rpartition(".")[2]  # a part of a method has its own name before it
            if fact == MAPPED:
                say(f"{result.label}: {value}")
            elif fact == UNREAD:
                say(f"{result.label}: answers have fields that are not read: {value}")


def _why_not(metric: str, results: Sequence[StoredResult]) -> str:
    """Why results have no value for a requested metric."""
    from bench.metrics.catalogue import parse_metric

    parsed = parse_metric(metric)
    if parsed.needs_sets and not any("tracc" in result.metrics.metrics for result in results):
        instead = f"; {metric}@5 uses the first five tools" if "k" in parsed.measure.cutoffs else ""
        return f"it scores recommended sets, and there are none{instead}"
    if parsed.measure.kind == "destructive":
        return "less than half of the tools have annotations (readOnlyHint, destructiveHint)"
    return "it is not defined for any evaluated query"


def _print_repeats(out: Console, result: StoredResult, names: Sequence[str]) -> None:
    """Print the variance within and between queries if there are repeats."""
    repeats = result.metrics.repeats
    if repeats is None:
        return
    heads = ("metric", "within", "between", "chance", "means of the repeats")
    table = Table([*heads], right=(1, 2, 3))
    for name in names:
        variance = repeats.metrics[name]
        means = [format_fixed(mean) for mean in variance.means]
        shown = means if len(means) <= _MOST_MEANS else [*means[: _MOST_MEANS - 1], "…"]
        share = "-" if variance.share is None else percent(variance.share)
        table.add(name, format_fixed(variance.within, 4), format_fixed(variance.between, 4), share, " ".join(shown))
    about = "Variance within and between queries, and the share of chance in the squared standard error"
    out.print(f"{repeats_line(result.metrics)}. {about}:")
    out.print(table)
    if sentence := next(filter(None, (chance_sentence(result.metrics, name) for name in names)), ""):
        out.print(sentence)


#: Maximum means of repeats in a line of a table.
_MOST_MEANS = 8


def _band(value: MetricValue, draws: int) -> str:
    """The tie band if it is wide enough to show; `draws` is the number of draws behind its expected value."""
    if value.tie_low is None or value.tie_high is None or value.tie_high - value.tie_low <= _NARROW:
        return ""
    drawn = f" ({draws} draws)" if draws else ""
    return f"{interval(value.tie_low, value.tie_high)}, expected {format_fixed(value.tie_expected)}{drawn}"


def _print_costs(out: Console, result: StoredResult, everything: bool) -> None:
    from bench.results.costs import break_even

    manifest, scored = result.manifest, result.metrics
    if manifest.timings and everything:
        stages = " · ".join(f"{name} {duration(value)}" for name, value in manifest.timings.items())
        memory = manifest.peak_memory_mib
        peak = "" if memory is None else f" · peak memory {size(round(memory * (1 << 20)))}"
        out.print(f"time: {stages}{peak}")
    if manifest.latency is not None:
        cached = ", embeddings from the cache" if manifest.latency.cached else ""
        latency = manifest.latency
        p99 = "" if latency.p99 is None else f", p99 {duration(latency.p99)}"
        out.print(
            f"one query: p50 {duration(latency.p50)}, p95 {duration(latency.p95)}{p99} (n={latency.queries}{cached})"
        )
    out.print(f"tokens of tool text: {_tokens(scored.tokens)}")
    if "answer" in scored.tokens:
        out.print(
            f"tokens of an answer, as the search sent it: {count(scored.tokens['answer'])} ({manifest.depth} tools "
            "requested)"
        )
    if everything and (against := break_even(manifest, scored)) is not None:
        out.print(f"break-even: {against.sentence}")
    if (use := manifest.model_use) is not None:
        cost = "unknown price" if use.cost is None else f"cost {money(use.cost)}"
        tokens = f"{several(use.input_tokens, 'token')} in, {count(use.output_tokens)} out"
        out.print(f"language model: {several(use.requests, 'request')}, {tokens}, {cost}")
    if manifest.facts and everything:
        out.print("about: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in manifest.facts.items()))


def differences_in(result: StoredResult) -> dict[str, Differences]:
    """Differences from the papers for the methods of a result; empty for scored run files."""
    from bench.registry.differences import differences_of

    method = result.manifest.method
    return {} if method.run_file else differences_of(method.spec)


def _print_differences(out: Console, differs: Mapping[str, Differences]) -> None:
    from rich.text import Text

    from bench.registry.differences import HEADS

    for name, differences in differs.items():
        out.print(Text(f"what differs in {name} from {differences.paper} <{differences.url}>", style="bold"))
        out.print(f"released code: {differences.code}")
        table = Table(HEADS)
        for row in differences.rows:
            table.add(*row.cells, rule=True)
        out.print(table)


def _tokens(tokens: Mapping[str, float]) -> str:
    if not tokens:
        return "not counted, because the tokenizer is not part of the base installation"
    names = {"top_5": "top 5", "top_10": "top 10", "recommended": "recommended", "library": "whole library"}
    return ", ".join(f"{words} {count(tokens[name])}" for name, words in names.items() if name in tokens)


def print_comparison(results: Sequence[StoredResult], metrics: Sequence[str] = (), everything: bool = False) -> None:
    """Print several results: per dataset the best first, with intervals below the means.

    Args:
        results: the results.
        metrics: metrics to show even if one table has no room for them.
        everything: show all metrics.
    """
    from rich.text import Text

    out = console()
    doubtful = False
    for members in comparable(results):
        data = members[0].manifest.dataset
        limit = "" if data.limit is None else f", limit {data.limit}"
        # Marks shared by all rows are above the table.
        shared = [mark for mark in data.marks if all(mark in member.manifest.dataset.marks for member in members)]
        about = "; ".join([judged_sample(data), *(mark.text for mark in shared)])
        out.print(Text(f"{data.spec} ({data.split}{limit}; {about})", style="bold"))
        most = usual(members)
        labels = [_method_label(member, most, shared) for member in members]
        room = _room(labels, out.width)
        names = _chosen(members, metrics, room, everything)
        if not names:
            out.print("no judged queries: nothing to compare")
            continue
        ranked = order_results(members, names[0])
        leads = {name: doubtful_leads(ranked, name) for name in names}
        doubtful = doubtful or any(any(flags) for flags in leads.values())
        for part in (names[i : i + room] for i in range(0, len(names), room)):
            table = Table(["method", *part, "failed"], right=range(1, len(part) + 2), whole=range(1, len(part) + 2))
            for i, member in enumerate(ranked):
                cells = [_cell(member, name, leads[name][i]) for name in part]
                style: Style = "dim" if member.manifest.method.oracle else ""
                label = _method_label(member, most, shared)
                table.add(label, *cells, str(member.metrics.n_failed), style=style)
            out.print(table)
    for name in metrics:
        if not any(name in result.metrics.metrics for result in results):
            out.print(Text(f"note: no {name}: {_why_not(name, results)}", style="yellow"))
    for result in results:
        for line in sentences(result, _MOST_OF_SEVERAL):
            out.print(Text(f"failed: {result.label}: {line}", style="yellow"))
    warnings = sorted({warning for result in results for warning in result.manifest.notes})
    for warning in warnings:
        out.print(Text(f"note: {warning}", style="yellow"))
    if doubtful:
        out.print("~ the lead over the next row depends only on tie-breaking")
    out.print(Text("below each mean: its 95% interval; `bench show RESULT --all` prints the rest", style="dim"))


def _room(labels: Sequence[str], width: int) -> int:
    """The number of metrics that fit next to the longest label."""
    label = min(30, max(map(len, labels)))
    # A mean with its interval takes nine characters, its column three more; the last one is `failed`.
    return max(2, (width - label - 12) // 12)


def _chosen(members: Sequence[StoredResult], metrics: Sequence[str], room: int, everything: bool) -> list[str]:
    """The metrics to show: all, or the named ones and as many of the default ones as fit."""
    usual = first_metrics(members)
    if everything:
        usual = (*usual, *HEADLINE, *(name for member in members for name in member.metrics.metrics))
    names = dict.fromkeys([*metrics, *usual])
    available = [name for name in names if any(name in member.metrics.metrics for member in members)]
    return available if everything else available[: max(room, sum(name in metrics for name in available))]


def _method_label(result: StoredResult, most: Usual, shared: Sequence[Mark]) -> str:
    label = result.manifest.method.label
    row_marks = [mark for mark in marks(result, most) if mark not in shared]
    return f"{label} ({', '.join(mark.text for mark in row_marks)})" if row_marks else label


def _cell(result: StoredResult, name: str, doubtful: bool) -> Cell:
    return mean_cell(result.metrics.metrics.get(name), "~" if doubtful else "")

"""Output: tables that fit the terminal, and JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bench.base.secrets import masked
from bench.base.text import clean, told
from bench.results.comparability import Usual, comparable, doubtful_leads, marks, ordered, usual
from bench.results.manifest import Mark, MetricValue
from bench.results.repeats import chance_sentence, repeats_line
from bench.results.store import StoredResult
from bench.results.units import judged_sample

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table

#: What a single result shows, and a comparison as far as the terminal is wide.
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
#: Of datasets that have what they are about.
_FURTHER_METRICS = ("forbidden@5", "forbidden", "abstained@5", "auroc", "aurc@5")
#: A band narrower than this does not show at three decimals.
_NARROW = 0.0005
_NO_TERMINAL_WIDTH = 100


def console() -> Console:
    """Standard output; a hundred columns when it is not a terminal."""
    from rich.console import Console

    class CleanConsole(Console):
        """Names come from run files and other people's results: the terminal must not obey what is in them."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=clean(segment.text))

        def on_broken_pipe(self) -> None:
            """A reader who has gone is no failure; left to itself, rich ends the process with 1."""
            raise BrokenPipeError

    width = None if sys.stdout is not None and sys.stdout.isatty() else _NO_TERMINAL_WIDTH
    # Texts of datasets and methods are printed: their brackets are brackets, not markup.
    return CleanConsole(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def whoever_reads() -> Iterator[None]:
    """What is printed inside may lose its reader (`head`, a closed pager) without ending the command.

    A check must come to its exit code: to bench's main program a reader who has gone is an end like any other.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(message: str) -> None:
    """A line for people on standard error; what files and services say may be in it."""
    click.echo(told(masked(message)), err=True)


def print_json(value: Any) -> None:
    """Indented JSON."""
    click.echo(harmless_json(json.dumps(value, indent=1, ensure_ascii=False)))


def harmless_json(text: str) -> str:
    """JSON in which what a terminal would obey is escaped; a program reads the same values."""
    return "\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def plain_table(*columns: str, right: Sequence[int] = ()) -> Table:
    """A table without vertical lines; columns at the positions in `right` are flush right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i in right else "left", overflow="fold")
    return table


def print_field(name: str, value: str) -> None:
    """A line of a card: a bold name and a text, indented where it wraps."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=max(13, len(name)), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, style="bold"), Text(value.strip()))
    console().print(grid)


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s" if value < 90 else f"{value / 60:.1f} min"


def set_metrics(result: StoredResult) -> tuple[str, ...]:
    """The set metrics that a result has; those of the first five and ten where it recommends no sets."""
    found = tuple(name for name in (*_SET_METRICS, *_FURTHER_METRICS) if name in result.metrics.metrics)
    return found if "tracc" in found else ("tracc@5", "tracc@10", *found)


def print_result(result: StoredResult, metrics: Sequence[str] = ()) -> None:
    """One result: its metrics with intervals and tie bands, its costs, and where it is."""
    from rich.text import Text

    out = console()
    manifest, scored = result.manifest, result.metrics
    data = manifest.dataset
    out.print(Text(result.label, style="bold"))
    counts = f"{judged_sample(data)} ({data.split}), {scored.n_failed} failed"
    if scored.n_no_gold:
        counts += f", {scored.n_no_gold} without gold"
    depth = "from a run file" if manifest.method.run_file else f"depth {manifest.depth}"
    out.print(f"{counts}; {data.tools} tools as {data.tool_text}; history {data.history}; {depth}")
    names = dict.fromkeys([*HEADLINE, *set_metrics(result), *metrics])
    shown = {name: scored.metrics[name] for name in names if name in scored.metrics}
    bands = {name: _band(value) for name, value in shown.items()}
    tied = any(bands.values())
    # Where no gold tool has an alternative, the lenient mean is the mean.
    lenient = scored.lenient.means if scored.lenient is not None and scored.lenient.queries else {}
    heads = ("metric", "mean", "95% interval", *(["lenient"] if lenient else []), *(["ties"] if tied else []))
    table = plain_table(*heads, right=(1,))
    for name, value in shown.items():
        interval = "-" if value.low is None else f"{number(value.low)} to {number(value.high)}"
        extra = f" (n={value.n})" if value.n != scored.n else ""
        other = [number(lenient.get(name))] if lenient else []
        table.add_row(name + extra, number(value.mean), interval, *other, *([bands[name]] if tied else []))
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
        out.print(f"tie band: the mean with ties broken worst and best ({scored.n_tied} queries have ties)")
    _print_costs(out, result)
    for warning in manifest.notes:
        out.print(Text(f"note: {warning}", style="yellow"))
    out.print(Text(f"stored in {result.folder}", style="dim"), soft_wrap=True)


def _why_not(metric: str, results: Sequence[StoredResult]) -> str:
    """Why results have no value of a metric that was asked for."""
    from bench.metrics.catalogue import parse_metric

    asked = parse_metric(metric)
    if asked.needs_sets and not any("tracc" in result.metrics.metrics for result in results):
        instead = f"; {metric}@5 is of the first five tools" if "k" in asked.measure.cutoffs else ""
        return f"it is of recommended sets, and none is recommended here{instead}"
    return "no evaluated query has what it is about"


def _print_repeats(out: Console, result: StoredResult, names: Sequence[str]) -> None:
    """The variance within and between queries, where there are repeats."""
    found = result.metrics.repeats
    if found is None:
        return
    heads = ("metric", "within", "between", "chance", "means of the repeats")
    table = plain_table(*heads, right=(1, 2, 3))
    for name in names:
        own = found.metrics[name]
        means = [number(mean) for mean in own.means]
        shown = means if len(means) <= _MOST_MEANS else [*means[: _MOST_MEANS - 1], "…"]
        share = "-" if own.share is None else f"{100 * own.share:.0f}%"
        table.add_row(name, number(own.within, 4), number(own.between, 4), share, " ".join(shown))
    about = "Variance within and between queries, and the share of chance in the squared standard error"
    out.print(f"{repeats_line(result.metrics)}. {about}:")
    out.print(table)
    if sentence := next(filter(None, (chance_sentence(result.metrics, name) for name in names)), ""):
        out.print(sentence)


#: Means of repeats that a line of a table has room for.
_MOST_MEANS = 8


def _band(value: MetricValue) -> str:
    """The tie band, where it is wide enough to show."""
    if value.tie_low is None or value.tie_high is None or value.tie_high - value.tie_low <= _NARROW:
        return ""
    return f"{number(value.tie_low)} to {number(value.tie_high)}, expected {number(value.tie_expected)}"


def _print_costs(out: Console, result: StoredResult) -> None:
    from bench.results.costs import break_even

    manifest, scored = result.manifest, result.metrics
    if manifest.timings:
        stages = " · ".join(f"{name} {seconds(value)}" for name, value in manifest.timings.items())
        peak = "" if manifest.peak_memory_mib is None else f" · peak memory {manifest.peak_memory_mib:.0f} MiB"
        out.print(f"time: {stages}{peak}")
    if manifest.latency is not None:
        cached = ", embeddings from the cache" if manifest.latency.cached else ""
        own = manifest.latency
        p99 = "" if own.p99 is None else f", p99 {seconds(own.p99)}"
        out.print(f"one query: p50 {seconds(own.p50)}, p95 {seconds(own.p95)}{p99} (n={own.queries}{cached})")
    out.print(f"tokens of tool text: {_tokens(scored.tokens)}")
    if "answer" in scored.tokens:
        out.print(
            f"tokens of an answer, as the search sent it: {scored.tokens['answer']:.0f} (asked for {manifest.depth} "
            "tools)"
        )
    if (against := break_even(manifest, scored)) is not None:
        out.print(f"break-even: {against.sentence}")
    if (use := manifest.model_use) is not None:
        cost = "price not known" if use.cost is None else f"cost {use.cost:.4g}"
        out.print(
            f"language model: {use.requests} requests, {use.input_tokens} tokens in, {use.output_tokens} out, {cost}"
        )
    if manifest.facts:
        out.print("about: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in manifest.facts.items()))


def _tokens(tokens: Mapping[str, float]) -> str:
    if not tokens:
        return "not counted, because the tokenizer is not part of the base installation"
    names = {"top_5": "top 5", "top_10": "top 10", "recommended": "recommended", "library": "whole library"}
    return ", ".join(f"{words} {tokens[name]:.0f}" for name, words in names.items() if name in tokens)


def print_comparison(results: Sequence[StoredResult], metrics: Sequence[str] = ()) -> None:
    """Several results: a table per dataset, best first, as many metrics as fit, intervals below the means."""
    from rich.text import Text

    out = console()
    doubtful = False
    for members in comparable(results):
        data = members[0].manifest.dataset
        limit = "" if data.limit is None else f", limit {data.limit}"
        # What is true of the queries of every row stands above the table and not in each row.
        shared = [mark for mark in data.marks if all(mark in member.manifest.dataset.marks for member in members)]
        about = "; ".join([judged_sample(data), *(mark.text for mark in shared)])
        out.print(Text(f"{data.spec} ({data.split}{limit}; {about})", style="bold"))
        most = usual(members)
        labels = [_method_label(member, most, shared) for member in members]
        names = _fitting(members, metrics, labels, out.width)
        if not names:
            out.print("no judged queries: nothing to compare")
            continue
        table = plain_table("method", *names, "failed", right=tuple(range(1, len(names) + 2)))
        for column in table.columns[1:]:
            column.no_wrap = True
        ranked = ordered(members, names[0])
        leads = {name: doubtful_leads(ranked, name) for name in names}
        doubtful = doubtful or any(any(found) for found in leads.values())
        for i, member in enumerate(ranked):
            cells = [_cell(member, name, leads[name][i]) for name in names]
            style = "dim" if member.manifest.method.oracle else None
            label = _method_label(member, most, shared)
            table.add_row(label, *cells, str(member.metrics.n_failed), style=style)
        out.print(table)
    for name in metrics:
        if not any(name in result.metrics.metrics for result in results):
            out.print(Text(f"note: no {name}: {_why_not(name, results)}", style="yellow"))
    warnings = sorted({warning for result in results for warning in result.manifest.notes})
    for warning in warnings:
        out.print(Text(f"note: {warning}", style="yellow"))
    if doubtful:
        out.print("~ the lead over the next row depends only on tie-breaking")
    out.print(Text("below each mean: its 95% interval; `bench show RESULT` prints the rest", style="dim"))


def _fitting(members: Sequence[StoredResult], metrics: Sequence[str], labels: Sequence[str], width: int) -> list[str]:
    """As many metrics as fit next to the longest label; requested ones come first."""
    preferred = [*metrics, "recall@5", "ndcg@5", "pass@5", "recall@10", "pass@10", "tracc", *HEADLINE]
    names = [name for name in dict.fromkeys(preferred) if any(name in item.metrics.metrics for item in members)]
    label = min(30, max(map(len, labels)))
    # A mean with its interval takes nine characters, its column three more; the last one is `failed`.
    return names[: max(2, (width - label - 12) // 12)]


def _method_label(result: StoredResult, most: Usual, shared: Sequence[Mark]) -> str:
    label = result.manifest.method.spec + (f" + {result.manifest.method.cut}" if result.manifest.method.cut else "")
    found = [mark for mark in marks(result, most) if mark not in shared]
    return f"{label} ({', '.join(mark.text for mark in found)})" if found else label


def _cell(result: StoredResult, name: str, doubtful: bool) -> str:
    return mean_cell(result.metrics.metrics.get(name), "~" if doubtful else "")


def mean_cell(value: MetricValue | None, mark: str = "") -> str:
    """A mean, and its interval on the line below; a dash where there is none."""
    if value is None:
        return "-"
    mean = mark + number(value.mean)
    if value.low is None or value.high is None:
        return mean
    low, high = (f"{end:.2f}".removeprefix("0") for end in (value.low, value.high))
    return f"{mean}\n{low}-{high}"

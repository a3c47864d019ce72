"""`bench explain`: why each gold tool of a query has its rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.paths import results_folder
from bench.base.text import one_line
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results
from bench.cli.output import console, print_json
from bench.show.numbers import format_fixed, several
from bench.show.tables import Cell as TableCell
from bench.show.tables import Emphasis, Style, Table

if TYPE_CHECKING:
    from bench.diagnosis.explain import Explained, ShownTool
    from bench.interface.explanation import Cell, ExplainedAnswer, Explanation, Reason

#: Metrics shown of the query.
_METRICS = ("recall@5", "ndcg@5", "recall@10", "ndcg@10", "mmrr@100", "tracc")
#: Maximum parts of a score on a line of a table.
_MOST_PARTS = 6
#: Maximum width of a tool's id; a longer one continues below.
_ID_WIDTH = 36
#: Longest method spec shown in a column heading.
_NAME_WIDTH = 24
#: A note is cut to the space that other columns leave, but not below this width.
_LEAST_NOTE = 30
#: Characters between two columns.
_BETWEEN = 3
#: Maximum characters of a query's untrusted text.
_MOST_TEXT = 1500


@click.command("explain", cls=VerbCommand, common=("results", "source", "json"))
@click.argument("result", shell_complete=complete_results)
@click.argument("query")
@click.option("--against", metavar="RESULT", default=None, help="Another result on the same data, shown side by side.")
@more_option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Which repeat of a result with repeats is explained [default: the first].",
)
def command(
    result: str,
    query: str,
    against: str | None,
    repeat: int,
    results: Path | None,
    as_json: bool,
) -> None:
    """Explain the rank of each gold tool of a query.

    RESULT is a folder, a result id or its prefix, METHOD@DATASET, or a run file as FILE@DATASET. QUERY is a query id
    or an unambiguous prefix. Ranks and scores are the stored ones. For the reasons, the method is rebuilt and must
    give the stored scores: shared words for sparse methods, nearest texts for dense ones, neighbours for graphs, past
    queries for methods that learn from them, truncation and reranking for rerankers.
    """
    from bench.base.bars import progress
    from bench.diagnosis.explain import check_same_data, explain, query_named
    from bench.evaluation.opening import open_result
    from bench.lookup.folder import ResultsFolder
    from bench.registry import load_dataset

    folder, bars = ResultsFolder(results or results_folder()), progress()
    opened = open_result(result, folder, progress=bars)
    data = opened.manifest.dataset.spec
    others = [] if against is None else [open_result(against, folder, data, bars)]
    for other in others:
        check_same_data(opened, other)
    dataset = load_dataset(data, bars)
    query_id = query_named(opened, query, dataset)
    for other in others:
        query_named(other, query_id, dataset)
    if all(item.manifest.repeats == 1 for item in (opened, *others)):
        opened.of_repeat(repeat)
    explained = [
        explain(item, dataset, query_id, bars, repeat=repeat if item.manifest.repeats > 1 else 1)
        for item in (opened, *others)
    ]
    if as_json:
        rows = [item.to_dict() for item in explained]
        print_json(rows[0] if against is None else {"query_id": query_id, "results": rows})
    elif against is None:
        _print_one(explained[0])
    else:
        _print_beside(explained[0], explained[1])


def _plain(text: str, most: int = _MOST_TEXT) -> str:
    """An untrusted text, without control characters for terminals."""
    return one_line(text, most)


def _print_one(explained: Explained) -> None:
    out = console()
    _print_query(explained, [explained])
    out.print(_gold_table(explained))
    if any(item.position.rank is None for item in explained.gold):
        known = any("(" in _rank(explained, item) for item in explained.gold)
        place = "in brackets: the rank in the whole library, " if known else "-: "
        out.print(f"{place}not in the stored ranking of {len(explained.ranking)} tools")
    if explained.recommended is not None:
        hits = len(set(explained.recommended) & explained.query.meeting.keys())
        names = ", ".join(explained.recommended) or "none"
        tools = several(len(explained.recommended), "tool")
        out.print(_plain(f"recommended set: {tools}, {hits} of them gold: {names}"))
    explanation = None if explained.answer is None else explained.answer.explanation
    out.print(_tools_table(_ranking(explained, explanation), explanation))
    if explained.missing:
        out.print(_plain(explained.missing))
    if explained.answer is not None:
        _print_notes(explained.answer.explanation)
        for base in explained.answer.explanation.bases:
            _print_base(base, explained)


def _print_query(explained: Explained, others: Sequence[Explained]) -> None:
    from rich.text import Text

    out = console()
    query = explained.query
    labels = " against ".join(item.result.label for item in others)
    out.print(Text(f"{_plain(labels)}, query {_plain(query.query_id)}", style="bold"))
    out.print(Text(_plain(query.text)))
    facts = [several(len(query.gold), "gold tool")]
    if query.any_of:
        facts += [f"{len(query.any_of)} of them with other tools that would do"]
    facts += [f"forbidden: {_plain(tool)}{_where(tool, others)}" for tool in query.forbidden]
    facts += [f"{_plain(name)} {_plain(value)}" for name, value in sorted(explained.slices.items())]
    out.print(Text("; ".join(facts), style="dim"))
    for name, item in zip(_names(others), others, strict=True):
        values = ", ".join(
            f"{metric} {format_fixed(item.values[metric])}" for metric in _METRICS if metric in item.values
        )
        failed = "failed; " if item.failed else ""
        count = item.result.manifest.repeats
        which = f"repeat {item.repeat} of {count} (--repeat N shows another); " if count > 1 else ""
        out.print(Text(f"{name}: {which}{failed}{values}", style="dim"))


def _names(explained: Sequence[Explained]) -> list[str]:
    """Short names of the results: alias or spec, or the method's name and the result's id if these are ambiguous."""
    methods = [item.result.manifest.method for item in explained]
    specs = [_plain(method.alias or method.spec) for method in methods]
    names = [spec if len(spec) <= _NAME_WIDTH else spec.partition("(")[0][:_NAME_WIDTH] for spec in specs]
    if len(set(names)) < len(names):
        names = [f"{name} {item.result.manifest.result_id[:6]}" for name, item in zip(names, explained, strict=True)]
    return names


def _where(tool: str, others: Sequence[Explained]) -> str:
    """The rank of a forbidden tool in each result, if any has it."""
    ranks = [str(item.ranking.index(tool) + 1) if tool in item.ranking else "-" for item in others]
    return f" (rank {' against '.join(ranks)})" if set(ranks) != {"-"} else ""


def _gold_table(explained: Explained) -> Table | str:
    if not explained.gold:
        return "The query has no gold tools; the correct answer is empty."
    reasons = {} if explained.answer is None else explained.answer.explanation.reasons
    because = any(reason.because for reason in reasons.values())
    table = Table(["gold tool", "rank", "score", *(["why not higher"] if because else [])], right=(1, 2))
    _fit(table, 0, ["gold tool", *(_plain(gold.title) for gold in explained.gold)])
    digits = _digits(item.position.score for item in explained.shown)
    for gold in explained.gold:
        why = _because(explained, gold)
        cells = [_plain(gold.title), _rank(explained, gold), format_fixed(gold.position.score, digits)]
        table.add(*cells, *([why] if because else []), style="good" if _stands_first(explained, gold) else "bad")
    return table


def _because(explained: Explained, gold: ShownTool) -> str:
    """Why a gold tool does not rank higher, in words."""
    reason = None if explained.answer is None else explained.answer.explanation.reasons.get(gold.tool)
    why = "" if reason is None else reason.because
    if reason is not None and not why and _stands_first(explained, gold):
        why = "only gold tools are ranked above it"
    tied = f"tied with {several(gold.tied, 'other')}: tool ids decide" if gold.tied else ""
    return _plain("; ".join(filter(None, [why, tied])))


def _stands_first(explained: Explained, gold: ShownTool) -> bool:
    """Whether only gold tools are ranked above it."""
    above = explained.ranking[: gold.position.rank - 1] if gold.position.rank is not None else ("?",)
    return set(above) <= set(explained.query.meeting)


def _rank(explained: Explained, gold: ShownTool) -> str:
    """The stored rank; beyond the stored ranking, its depth if known."""
    if gold.position.rank is not None:
        return str(gold.position.rank)
    place = None if explained.answer is None else explained.answer.positions[gold.tool].rank
    return "-" if place is None else f"({place})"


@dataclass(frozen=True)
class _Row:
    """A table row: the tool's rank and the reason. `after_gap`: tools between it and the previous one are left out."""

    rank: str
    entry: ShownTool
    score: float | None
    reason: Reason | None
    after_gap: bool = False


def _ranking(explained: Explained, explanation: Explanation | None) -> list[_Row]:
    """The displayed part of the stored ranking."""
    rows = []
    before: int | None = 0
    for entry in explained.shown:
        rank = entry.position.rank
        gap = before is not None and (rank is None or rank > before + 1)
        reason = None if explanation is None else explanation.reasons.get(entry.tool)
        rows.append(_Row(_rank(explained, entry), entry, entry.position.score, reason, gap))
        before = rank
    return rows


def _base_ranking(answer: ExplainedAnswer, explained: Explained) -> list[_Row]:
    """The same tools in the order of a base method."""
    last = len(answer.positions)
    rows = []
    for entry in sorted(explained.shown, key=lambda item: answer.positions[item.tool].rank or 10**9 + last):
        place = answer.positions[entry.tool]
        rank = "-" if place.rank is None else str(place.rank)
        rows.append(_Row(rank, entry, place.score, answer.explanation.reasons.get(entry.tool)))
    return rows


def _tools_table(rows: list[_Row], explanation: Explanation | None) -> Table:
    """Tools with their scores (if there are any), the columns of an explanation, and its reasons."""
    columns: tuple[str, ...] = ()
    titles: list[str] = []
    if explanation is not None and explanation.reasons:
        columns, titles = explanation.columns, [explanation.title]
    reasons = [row.reason for row in rows if row.reason is not None]
    digits = _digits(row.score for row in rows)
    scored = any(row.score is not None for row in rows)
    # A two-word name takes two lines: the column is as wide as its numbers.
    heads = ["rank", "", "tool", *(["score"] if scored else [])]
    before = len(heads)
    heads += [_plain(name).replace(" ", "\n") for name in columns]
    numeric = [i for i in range(len(columns)) if any(isinstance(r.cells[i], int | float) for r in reasons)]
    lines = []
    for row in rows:
        cells = [row.rank, "*" if row.entry.gold else "", _plain(row.entry.title)]
        cells += [format_fixed(row.score, digits)] if scored else []
        cells += [_cell(cell) for cell in row.reason.cells] if row.reason else [""] * len(columns)
        lines.append(cells)
    table = Table([*heads, *titles], right=(0, *([3] if scored else []), *(i + before for i in numeric)))
    _fit(table, 2, ["tool", *(line[2] for line in lines)])
    widths = [
        max(len(word) for text in column for word in text.split("\n")) for column in zip(heads, *lines, strict=True)
    ]
    widths[2] = min(_ID_WIDTH, widths[2])
    room = max(_LEAST_NOTE, console().width - sum(widths) - _BETWEEN * len(widths) - 2)
    for row, cells in zip(rows, lines, strict=True):
        if row.after_gap:
            table.add("…")
        why = [_why(row.reason, digits, room)] if titles and row.reason else []
        table.add(*cells, *why, style="gold" if row.entry.gold else "")
    return table


def _fit(table: Table, column: int, ids: Iterable[str]) -> None:
    """Reserve width for tool ids; if a line is too short, only the reasons shrink."""
    table.whole = [place for place in range(len(table.heads) - 1) if place != column]
    table.widths = {column: min(_ID_WIDTH, max((len(name) for name in ids), default=1))}


def _digits(scores: Iterable[float | None]) -> int:
    """Decimals of the scores: more if all of them are small."""
    return 3 if max((abs(score) for score in scores if score is not None), default=1.0) >= 0.1 else 5


def _cell(cell: Cell) -> str:
    if isinstance(cell, float):
        return format_fixed(cell)
    return "-" if cell is None else _plain(str(cell))


def _why(reason: Reason, digits: int, room: int) -> str:
    parts = [f"{part.name} {format_fixed(part.value, digits)}" for part in reason.parts[:_MOST_PARTS]]
    rest = reason.parts[_MOST_PARTS:]
    if rest:
        parts.append(f"{len(rest)} more {format_fixed(sum(part.value for part in rest), digits)}")
    note = _plain(reason.note, room)
    return " · ".join([*map(_plain, parts), *([note] if note else [])])


def _print_notes(explanation: Explanation) -> None:
    from rich.text import Text

    out = console()
    for note in explanation.notes:
        out.print(Text(_plain(note), style="dim"))


def _print_base(answer: ExplainedAnswer, explained: Explained) -> None:
    """A base method: the same tools in its order."""
    from rich.text import Text

    out = console()
    out.print(Text(f"\n{_plain(answer.label)} alone", style="bold"))
    explanation = answer.explanation
    out.print(_tools_table(_base_ranking(answer, explained), explanation))
    _print_notes(explanation)
    for base in explanation.bases:
        _print_base(base, explained)


def _print_beside(left: Explained, right: Explained) -> None:
    """Two results: the gold tools' ranks with reasons, and the two rankings."""
    from rich.text import Text

    out = console()
    both = (left, right)
    _print_query(left, both)
    names = _names(both)
    if left.gold:
        out.print(_gold_beside(both, names))
    table = Table(["rank", names[0], "score", names[1], "score"], right=(0, 2, 4))
    for rank, (one, two) in enumerate(zip_longest(_head(left), _head(right)), start=1):
        table.add(str(rank), *_rank_cells(one, left, right), *_rank_cells(two, right, left))
    out.print(table)
    out.print(Text("* gold; in brackets: the tool's rank in the other result", style="dim"))
    for name, item in zip(names, both, strict=True):
        if item.missing:
            out.print(f"{name}: {_plain(item.missing)}")


def _gold_beside(both: tuple[Explained, Explained], names: list[str]) -> Table:
    """The gold tools in both results, with the better rank of each in green."""
    table = Table(["gold tool", "result", "rank", "score", "why not higher"], right=(2, 3))
    _fit(table, 0, ["gold tool", *(_plain(gold.title) for gold in both[0].gold)])
    for gold in both[0].gold:
        pair = [next(item for item in explained.gold if item.tool == gold.tool) for explained in both]
        ranks = [item.position.rank or float("inf") for item in pair]
        for i, (explained, item) in enumerate(zip(both, pair, strict=True)):
            style: Style = "good" if ranks[i] < ranks[1 - i] else "bad" if ranks[i] > ranks[1 - i] else ""
            score = format_fixed(item.position.score, _digits(item.position.score for item in explained.shown))
            cells = [_plain(gold.title) if i == 0 else "", names[i], _rank(explained, item), score]
            table.add(*cells, _because(explained, item), style=style)
    return table


def _head(explained: Explained) -> Iterator[ShownTool]:
    from bench.diagnosis.explain import FIRST

    return (item for item in explained.shown if item.position.rank is not None and item.position.rank <= FIRST)


def _rank_cells(entry: ShownTool | None, item: Explained, other: Explained) -> list[TableCell]:
    """A tool and its score, as a cell of the side-by-side ranking."""
    if entry is None:
        return [TableCell(""), TableCell("")]
    rank = str(other.ranking.index(entry.tool_id) + 1) if entry.tool_id in other.ranking else "-"
    emphasis: Emphasis = "gold" if entry.gold else ""
    score = format_fixed(entry.position.score, _digits(entry.position.score for entry in item.shown))
    return [
        TableCell(f"{_plain(entry.title)} ({rank})", before="* " if entry.gold else "  ", emphasis=emphasis),
        TableCell(score, emphasis=emphasis),
    ]

"""`bench tools`: which tools are found when wanted, which are shown when not wanted, and behind which others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UsageError
from bench.base.paths import results_folder, write_text
from bench.base.plugins import function
from bench.base.secrets import mask
from bench.base.text import one_line
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import complete_results
from bench.cli.output import console, print_json
from bench.show.numbers import format_fixed, format_signed, interval, p_value, several
from bench.show.tables import Table, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.diagnosis.edits import EditReport, RankChange
    from bench.diagnosis.tool_report import Confusion, ToolDetail, ToolRow, ToolsReport

#: Maximum rows of the table, and maximum pairs of tools with their words.
_MOST_ROWS, _MOST_PAIRS = 15, 20
#: Maximum queries to print for one tool.
_MOST_QUERIES = 20
#: A longer tool id takes its own line.
_ID_WIDTH = 34
#: Characters between two columns, and minimum width of the last one.
_BETWEEN, _LEAST_RIVAL = 2, 20
#: Maximum rivals in a cell, names in a list, and characters of a query.
_MOST_RIVALS, _MOST_NAMES, _MOST_TEXT = 2, 12, 240


@click.command("tools", cls=VerbCommand, common=("results", "source", "json"))
@click.argument("result", shell_complete=complete_results)
@click.option(
    "--k", "k", type=click.IntRange(min=1), default=5, show_default=True, help="Tools of each ranking that are shown."
)
@click.option("--tool", metavar="ID", default=None, help="One tool, with the queries that miss it.")
@click.option(
    "--try",
    "edits",
    metavar="FILE",
    default=None,
    help="What an edit would do: tools in a form of `bench data import`, or a JSON object of descriptions by tool id.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Write the report to this file, a page that needs no other.",
)
@more_option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Which repeat of a result with repeats is counted [default: the first].",
)
def command(
    result: str,
    k: int,
    tool: str | None,
    edits: str | None,
    html: Path | None,
    repeat: int,
    results: Path | None,
    as_json: bool,
) -> None:
    """Report on each tool: found when wanted, shown when not wanted, behind which other tools and why.

    RESULT is a folder, a result id or its prefix, METHOD@DATASET, or a run file as FILE@DATASET. The tools that are
    missed most often come first. For the reasons, the method is rebuilt, as for `bench explain`; where that is not
    possible, the texts of the tools are compared with the query. --json has all tools of the library.

    --try asks the method all queries again, of the tools as they are and as FILE has them, and compares the answers
    query by query. Nothing is stored, and no dataset changes.
    """
    from bench.base.bars import progress
    from bench.diagnosis.tool_report import count_ranking, tools_report
    from bench.evaluation.opening import open_result
    from bench.registry import load_dataset

    if tool is not None and html is not None:
        raise UsageError("--html writes a page of all tools; leave out --tool.")
    if edits is not None and (tool is not None or html is not None):
        raise UsageError("--try has a report of its own; leave out --tool and --html.")
    bars = progress()
    opened = open_result(result, results or results_folder(), progress=bars)
    dataset = load_dataset(opened.manifest.dataset.spec, bars)
    if edits is not None:
        from bench.diagnosis.edits import read_edits, try_edits

        edited, fields = read_edits(edits, dataset)
        tried = try_edits(opened, dataset, edited, fields, k=k, repeat=repeat, progress=bars)
        if as_json:
            print_json(tried.model_dump(mode="json"))
        else:
            _print_edits(tried)
        return
    counts = count_ranking(opened, dataset, k, repeat)
    if html is not None:
        page_alone = function("tools-page", "no page can be written")
        write_text(html, mask(page_alone(counts, progress=bars)))
    if as_json:
        print_json(tools_report(counts, tool=tool, confused=_MOST_PAIRS, progress=bars).model_dump(mode="json"))
    elif html is not None:
        console().print(f"written to {html}", soft_wrap=True)
    elif tool is not None:
        _print_tool(tools_report(counts, tool=tool, progress=bars))
    else:
        _print_all(tools_report(counts, most=_MOST_ROWS, explained=0, confused=_MOST_PAIRS, progress=bars))


def _plain(text: str, most: int = 200) -> str:
    """An untrusted text, without control characters for terminals."""
    return one_line(text, most)


def _print_head(report: ToolsReport) -> None:
    out = console()
    which = "" if report.repeat is None else f", repeat {report.repeat}"
    out.print(f"{_plain(report.label)} ({report.split}{which})", style="bold")
    out.print(
        f"{several(report.library, 'tool')}, {report.wanted_tools} of them wanted by {report.judged} of "
        f"{several(report.queries, 'query')}; found in the first {report.k}: {report.found} of {report.requirements}"
    )
    for note in report.warnings:
        out.print(f"note: {_plain(note, 600)}", style="yellow")


def _print_all(report: ToolsReport) -> None:
    from bench.stats.noninferiority import FEWEST_UNITS

    out = console()
    _print_head(report)
    rows = [row for row in report.tools if row.missed or row.unwanted]
    if rows:
        _print_rows(rows)
        out.print(
            f"found: of the queries that want the tool; share: its 95% interval, for {FEWEST_UNITS} groups of queries "
            "or more; rank: median; unwanted: queries that show it and do not want it",
            style="dim",
        )
    if report.confused:
        _print_pairs(report)
    out.print()
    never = len(report.never_found)
    if never:
        names = ", ".join(_plain(name, 60) for name in report.never_found[:_MOST_NAMES])
        more = f" and {never - _MOST_NAMES} more" if never > _MOST_NAMES else ""
        out.print(f"never found, though wanted (not among the first {report.depth}): {never}: {names}{more}")
    unwanted = report.library - report.wanted_tools
    out.print(f"wanted by no query: {unwanted}; with a near-duplicate: {report.near_duplicate_tools}")
    if report.forbidden_shown:
        out.print(f"shown to queries that forbid them: {report.forbidden_shown}")
    left = report.library - len(report.tools)
    rest = f"{several(left, 'more tool')}: --json, --html FILE; " if left > 0 else ""
    out.print(f"{rest}one tool with its queries: --tool ID", style="dim")


def _print_rows(rows: list[ToolRow]) -> None:
    columns = {
        "found": [f"{row.found}/{row.wanted}" for row in rows],
        "groups": [str(row.groups) for row in rows],
        "share": [_share(row) for row in rows],
        "rank": [_rank(row) for row in rows],
        "unwanted": [str(row.unwanted) for row in rows],
        "forbidden": [f"{row.forbidden_shown}/{row.forbidden}" for row in rows],
        "tokens": [str(row.tokens) for row in rows],
    }
    says_something = {
        "groups": any(row.groups != row.wanted for row in rows),
        "share": any(row.low is not None for row in rows),
        "forbidden": any(row.forbidden for row in rows),
        "tokens": any(row.tokens is not None for row in rows),
    }
    heads = [head for head in columns if says_something.get(head, True)]
    numbers = list(zip(*(columns[head] for head in heads), strict=True))
    rivals = [[f"{_plain(pair.tool_id)} {pair.queries}" for pair in row.loses_to[:_MOST_RIVALS]] for row in rows]
    widest = max(len("tool"), *(len(_plain(row.tool_id)) for row in rows))
    longest = max([len("loses to"), *(len(name) for names in rivals for name in names)])
    out = console()
    taken = sum(max(len(head), *(len(cells[i]) for cells in numbers)) + _BETWEEN for i, head in enumerate(heads))
    if widest <= _ID_WIDTH and widest + taken + min(longest, _LEAST_RIVAL) + _BETWEEN <= out.width:
        table = Table(["tool", *heads, "loses to"], right=range(1, len(heads) + 1), tight=True)
        table.whole = range(1, len(heads) + 1)
        table.widths = {0: widest}
        for row, cells, names in zip(rows, numbers, rivals, strict=True):
            table.add(_plain(row.tool_id), *cells, lines(names))
        out.print(table)
        return
    # Ids with their servers leave no room beside them: each has its own lines and stays in one piece.
    for row, cells, names in zip(rows, numbers, rivals, strict=True):
        _print_id(row.tool_id)
        _print_below(", ".join(f"{head} {cell}" for head, cell in zip(heads, cells, strict=True) if cell))
        for name in names:
            _print_id(f"loses to {name}", indent=2)
    out.print()


def _print_id(text: str, indent: int = 0) -> None:
    """A line with an id that bench does not break, although a terminal may, so that it can be copied."""
    console().print(" " * indent + _plain(text, 400), soft_wrap=True)


def _share(row: ToolRow) -> str:
    """The interval of the share that is found, if there is one."""
    return interval(row.low, row.high, "short", none="")


def _rank(row: ToolRow) -> str:
    """The median rank; a dash if it is beyond the ranking."""
    return "-" if row.median_rank is None else f"{row.median_rank:g}"


def _print_pairs(report: ToolsReport) -> None:
    """The most frequent confusions, with the words that decide."""
    console().print("\nConfused most often: a tool that is wanted, and one shown in its place", style="bold")
    for pair in report.confused:
        place = "not ranked" if pair.rank is None else f"rank {pair.rank}"
        where = f"({several(pair.queries, 'query')}; best in {_plain(pair.example, 80)}, {place})"
        missed, behind = _plain(pair.missed), f"behind {_plain(pair.shown)} {where}"
        if len(missed) + len(behind) < console().width:
            _print_id(f"{missed} {behind}")
        else:
            _print_id(missed)
            _print_id(behind, indent=2)
        for sentence in pair.sentences():
            _print_below(sentence)
    if any(pair.by == "method" for pair in report.confused):
        told = "loses and gains by: what a word of the queries adds to one score more than to the other, on average"
        told += ", and in how many queries; decides: without it in the other text, it would be ahead; common words: "
        told += "function words, and those of more than a third of the descriptions"
        console().print(told, style="dim")
    if any(pair.by == "words" for pair in report.confused):
        note = f" {_plain(report.why_note, 400)}" if report.why_note else ""
        told = "Counted are words of the queries that one of the two texts has and the other has not."
        console().print(f"{told}{note}", style="dim")


def _print_below(text: str) -> None:
    """An indented continuation of the line above."""
    from rich.padding import Padding

    console().print(Padding(text, (0, 0, 0, 2)), style="dim")


def _print_sources(report: ToolsReport, pairs: list[Confusion]) -> None:
    """The source of these reasons, if they are not all the method's."""
    by_words = [pair.why_by == "words" for pair in pairs]
    if any(by_words):
        which = "Reasons" if all(by_words) else "Some reasons"
        note = f" {_plain(report.why_note, 400)}" if report.why_note else ""
        console().print(f"{which} compare the words of the texts with those of the queries.{note}", style="dim")


def _print_tool(report: ToolsReport) -> None:
    out = console()
    (row,), detail = report.tools, report.detail
    assert detail is not None
    _print_head(report)
    out.print(f"\n{_plain(row.tool_id)}", style="bold")
    out.print(_plain(_sentence(row, detail, report.k), 1000))
    if row.loses_to:
        table = Table(["loses to", "queries", "cosine", "why, and where it ranks best"], right=(1, 2))
        for pair in row.loses_to:
            why = f"{_plain(pair.why or '', 600)} ({_plain(pair.example)})"
            table.add(_plain(pair.tool_id), str(pair.queries), format_fixed(pair.cosine, 2), why)
        table.widths = {0: min(_ID_WIDTH, max(len("loses to"), *(len(pair.tool_id) for pair in row.loses_to)))}
        out.print(table)
        _print_sources(report, row.loses_to)
    if detail.missed:
        out.print(f"\nMissed: queries that want it, and what they show ({row.missed})", style="bold")
        for query in detail.missed[:_MOST_QUERIES]:
            rank = "not ranked" if query.rank is None else f"rank {query.rank}"
            out.print(f"{_plain(query.query_id)} ({rank}): {_plain(query.text, _MOST_TEXT)}")
            first = ", ".join(("*" if place.wanted else "") + _plain(place.tool_id, 60) for place in query.first)
            _print_below(f"first: {first or 'nothing'}")
            if query.why:
                _print_below(_plain(query.why, 400))
        _print_rest(row.missed, len(detail.missed))
    if detail.unwanted:
        out.print(f"\nNot wanted: queries that show it and want something else ({row.unwanted})", style="bold")
        for wrong in detail.unwanted[:_MOST_QUERIES]:
            wanted = ", ".join(_plain(name, 60) for name in wrong.wanted) or "no tool"
            banned = ", forbidden" if wrong.forbidden else ""
            out.print(f"{_plain(wrong.query_id)} (rank {wrong.rank}{banned}): {_plain(wrong.text, _MOST_TEXT)}")
            _print_below(f"wanted: {wanted}")
        _print_rest(row.unwanted, len(detail.unwanted))
    if detail.missed:
        out.print("* wanted by the query", style="dim")


def _print_edits(report: EditReport) -> None:
    """The effect of edited tools."""
    out = console()
    edited = [tool for tool in report.tools if tool.fields]
    out.print(f"{_plain(report.label)} ({report.split}), {several(len(edited), 'tool')} edited", style="bold")
    for note in report.notes:
        out.print(f"note: {_plain(note, 600)}", style="yellow")
    table = Table(["metric", "before", "after", "difference", "95% interval", "p, corr.", "better", "worse"])
    table.right = (1, 2, 3, 5, 6, 7)
    for change in report.metrics:
        ends = interval(change.low, change.high, sign=True)
        means = format_fixed(change.before), format_fixed(change.after), format_signed(change.difference)
        table.add(change.metric, *means, ends, p_value(change.p), str(change.better), str(change.worse))
    out.print(table)
    groups = "" if report.groups == report.queries else f" in {several(report.groups, 'group')}"
    out.print(
        f"{several(report.queries, 'judged query')}{groups}; interval: of the difference; p: paired randomisation test "
        f"over groups, corrected by Holm over {several(len(report.metrics), 'metric')}",
        style="dim",
    )
    out.print()
    for tool in report.tools[: len(edited) + _MOST_ROWS]:
        what = f" (edited: {', '.join(tool.fields)})" if tool.fields else ""
        _print_id(f"{tool.tool_id}{what}")
        found = f"found {tool.found_before} to {tool.found_after} of {tool.wanted}"
        _print_below(f"{found}; unwanted {tool.unwanted_before} to {tool.unwanted_after}")
    _print_moves("Found now, and not before", report.found, report.n_found)
    _print_moves("Lost", report.lost, report.n_lost)


def _print_moves(title: str, moves: Sequence[RankChange], count: int) -> None:
    if not count:
        return
    console().print(f"\n{title} ({count})", style="bold")
    for move in moves[:_MOST_ROWS]:
        console().print(f"{_plain(move.query_id, 80)}  {_plain(move.text, _MOST_TEXT)}")
        _print_below(f"{_plain(move.tool_id)}: rank {move.before or 'none'} to {move.after or 'none'}")
    if count > min(len(moves), _MOST_ROWS):
        console().print(f"and {count - min(len(moves), _MOST_ROWS)} more; --json lists {len(moves)}")


def _print_rest(count: int, listed: int) -> None:
    if count > min(listed, _MOST_QUERIES):
        more = f"; --json lists {listed}" if listed > _MOST_QUERIES else ""
        console().print(f"and {count - min(listed, _MOST_QUERIES)} more{more}")


def _sentence(row: ToolRow, detail: ToolDetail, k: int) -> str:
    """All counts of a tool in words."""
    if row.wanted:
        groups = f" in {several(row.groups, 'group')}" if row.groups != row.wanted else ""
        share = f" (95% interval of the share {_share(row)})" if row.low is not None else ""
        told = [f"Wanted by {several(row.wanted, 'query')}{groups}, found in the first {k} of {row.found}{share}"]
        told[0] += f", {row.by_other} of them by another tool of the requirement" if row.by_other else ""
        told.append(f"Median rank {_rank(row)}" + (f", not ranked at all in {row.absent}" if row.absent else ""))
    else:
        told = ["Wanted by no query"]
    if row.accepted:
        told.append(f"It may stand in for another tool in {row.accepted}")
    told.append(f"Shown in {several(row.shown, 'query')}, {row.unwanted} of which do not want it")
    if row.forbidden:
        told.append(f"Forbidden by {row.forbidden}, {row.forbidden_shown} of which show it")
    if detail.alternatives:
        told.append(f"The same words under another parent: {', '.join(detail.alternatives[:_MOST_NAMES])}")
    if row.nearest is not None and row.nearest_cosine is not None:
        more = f", the nearest of {row.near_duplicates}" if row.near_duplicates > 1 else ""
        told.append(f"Near-duplicate: {row.nearest} (cosine {format_fixed(row.nearest_cosine, 2)}{more})")
    if row.tokens is not None:
        told.append(several(row.tokens, "token"))
    return ". ".join(told) + "."

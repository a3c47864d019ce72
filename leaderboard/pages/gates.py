"""The gate over time: a chart and a table for each baseline, with the verdicts of `bench gate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.gating.report import EXIT_CODES, RuleReport
from bench.gating.wording import catalogue_lines, catalogue_title, moved_lines, query_title, tool_words
from bench.leaderboard.boards.gates import BaselineHistory, Event
from bench.leaderboard.pages import charts
from bench.leaderboard.pages.registry import Page, SiteData
from bench.leaderboard.pages.rendering import anchor, picture
from bench.show.numbers import format_signed, interval, several

#: Maximum events in a chart, the newest; the table has more.
_MOST_DRAWN = 40


def latest_verdicts(gates: Sequence[BaselineHistory]) -> list[tuple[str, int]]:
    """Outcome -> number of baselines with that last outcome; `new` if nothing was compared yet."""
    counts = Counter(gate.last.verdict or "new" for gate in gates)
    return [(name, counts[name]) for name in (*EXIT_CODES, "new") if counts[name]]


def _values(content: SiteData) -> dict[str, Any] | None:
    if not content.gates:
        return None
    parts = [(gate, anchor(gate.ledger.name), picture(_draw(gate))) for gate in content.gates]
    return {"parts": parts, "shown": content.shown, "rules": _rules, "changes": _changes, "moves": _moves}


def _draw(gate: BaselineHistory) -> str:
    stages = [
        charts.DatedMean(
            name="" if event.at.year == 1 else event.at.date().isoformat(),
            value=event.value,
            verdict=event.verdict,
            ring=event.version is not None,
        )
        for event in gate.events
        if event.value is not None
    ]
    return charts.trend(f"{gate.metric} of {gate.now.label} over time", stages[-_MOST_DRAWN:], gate.metric)


def _rules(event: Event) -> list[str]:
    """The outcome of each rule that did not pass, or why nothing was judged."""
    if event.report is None:
        return []
    return event.report.reasons or [_rule_line(rule) for rule in event.report.rules if rule.verdict != "pass"]


def _rule_line(rule: RuleReport) -> str:
    if rule.note and rule.verdict == "not run":
        return f"{rule.name}: {rule.note}"
    if rule.kind == "broken":
        return f"{rule.name}: {rule.broken} broken"
    if rule.kind in ("margin", "floor") and rule.difference is not None:
        bounds = f" ({interval(rule.lower, rule.upper, sign=rule.kind == 'margin')})" if rule.lower is not None else ""
        return f"{rule.name}, {rule.kind} {rule.threshold:g}: {format_signed(rule.difference)}{bounds}, {rule.verdict}"
    return f"{rule.name}: {rule.verdict}"


def _changes(event: Event) -> list[tuple[str, list[str]]]:
    """What differs from the baseline: sentences, each with its details."""
    report = event.report
    if report is None:
        return []
    tools = [f"{what} {tool}{f': {more}' if more else ''}" for what, tool, more in catalogue_lines(report)]
    changes = [(catalogue_title(report), tools), (query_title(report), [])]
    return [(title, details) for title, details in changes if title] + [(note, []) for note in report.warnings]


def _moves(event: Event) -> list[tuple[str, list[str]]]:
    """Queries that fail now or no longer, and tools with another rank: their number, and the first of them.

    Queries are named by their ids, because the site may not be allowed to show their texts.
    """
    report = event.report
    if report is None:
        return []
    moves = [
        (f"{several(count, 'query')} {title}", [query.query_id for query in queries], count)
        for moved in report.moved
        for title, count, queries in moved_lines(moved)
    ]
    if report.tools:
        tools = [f"{tool.tool_id}: {tool_words(tool)}" for tool in report.tools]
        moves.append((f"{several(report.n_tools, 'tool')} moved", tools, report.n_tools))
    return [
        (title, [*named, *([f"and {count - len(named)} more"] if count > len(named) else [])])
        for title, named, count in dict.fromkeys((title, tuple(named), count) for title, named, count in moves)
    ]


PAGE = Page("gates", "gates.html", values=_values, when=lambda frame: frame.gates, entry="Gates", order=8)

"""The text of a gate report, and the sentences that all formats share. `bench gate` and `forms` call it.

Ids, names and texts are untrusted. Line breaks and control characters are removed here; each format escapes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.base.text import one_line
from bench.gating.report import EXIT_CODES, GateReport, Moved, MovedQuery, RuleReport, Side, ToolMove
from bench.show.numbers import format_fixed, format_signed, interval, several, significant
from bench.show.tables import Cell, Table
from bench.show.tables import text as table_text

HEADINGS = ("verdict", "rule", "limit", "baseline", "candidate", "difference", "one-sided bounds", "detectable", "n")
#: Maximum characters of a query in a report.
LONGEST_TEXT = 200
#: Maximum moved tools to name per query.
_MOST_TOOLS = 5
#: Maximum number of queries to suggest.
_MOST_QUERIES = 10_000_000

MEANING = {
    "pass": "every rule holds",
    "regression": "a rule is violated",
    "inconclusive": "the measurements show neither a pass nor a regression",
    "not comparable": "candidate and baseline were measured under different conditions",
    "not run": "it could not be evaluated, which is not a pass",
}


def name_of_side(side: Side) -> str:
    """`tgr @ apibank (6a82e379f872)`."""
    return one_line(side.label) + (f" ({one_line(side.result_id)})" if side.result_id else "")


def blessing(report: GateReport) -> str:
    """Who blessed the baseline, when and why; empty if there is none."""
    side = report.baseline
    if side.blessed_at is None:
        return ""
    return f"blessed {one_line(side.blessed_at)} by {one_line(side.blessed_by or '')}: {one_line(side.reason or '')}"


def limit_of(rule: RuleReport) -> str:
    """`margin 0.02`, `floor 0.6`; for a metric where less is better, a floor is a ceiling."""
    if rule.kind == "broken":
        return f"at most {rule.threshold:g} broken"
    kind = {"floor": "floor" if rule.higher_is_better else "ceiling", "ratio": "at most", "budget": "at most"}
    return f"{kind.get(rule.kind, rule.kind)} {rule.threshold:g}"


def cells(rule: RuleReport) -> list[str]:
    """One cell per heading in `HEADINGS`, not yet escaped. Seconds and tokens have significant digits."""
    measured = rule.kind in {"ratio", "budget"}
    shown = significant if measured else format_fixed
    return [
        rule.verdict,
        one_line(rule.name),
        limit_of(rule),
        shown(rule.baseline),
        shown(rule.candidate),
        significant(rule.difference, sign=True) if measured else format_signed(rule.difference),
        interval(rule.lower, rule.upper, sign=rule.kind == "margin"),
        format_fixed(rule.detectable),
        "-" if rule.n is None else str(rule.n),
    ]


def rules_table(report: GateReport) -> Table:
    """A row per rule. Rules that did not pass stand out, and names are code."""
    table = Table(HEADINGS, right=range(3, len(HEADINGS)))
    for rule in report.rules:
        verdict, name, *rest = cells(rule)
        table.add(Cell(verdict, emphasis="" if verdict == "pass" else "best"), Cell(name, emphasis="code"), *rest)
    return table


def explanation(rule: RuleReport) -> str:
    """An explanation of a rule that is not met or has a note; empty for the others."""
    words = []
    if rule.verdict == "regression":
        if rule.kind == "margin":
            words.append(f"the loss is shown to be larger than {rule.threshold:g}; {_counts(rule)}")
        elif rule.kind == "broken":
            words.append(f"{several(rule.broken or 0, 'query')} broke; {_counts(rule)}")
        elif rule.kind == "floor":
            words.append(f"the mean is shown to be {'below' if rule.higher_is_better else 'above'} {rule.threshold:g}")
        else:
            words.append(f"more than {rule.threshold:g}")
    elif rule.verdict == "inconclusive" and rule.lower is not None:
        # If the note explains that there are too few queries, their bounds may well exclude the limit.
        limit = rule.threshold if rule.kind == "floor" or not rule.higher_is_better else -rule.threshold
        inside = rule.upper is not None and rule.lower <= limit <= rule.upper
        enclosed = ["the bounds contain the limit"] if inside else []
        words.append("; ".join([*enclosed, *([] if rule.better is None else [_counts(rule)]), _needed_line(rule)]))
    if rule.note:
        words.append(one_line(rule.note))
    return "; ".join(words)


def explanations(report: GateReport) -> list[tuple[str, str]]:
    """(name and limit, explanation) of the rules that have one."""
    explained = ((f"{one_line(rule.name)}, {limit_of(rule)}", explanation(rule)) for rule in report.rules)
    return [(head, sentence) for head, sentence in explained if sentence]


def _counts(rule: RuleReport) -> str:
    return f"{rule.better} queries better, {rule.worse} worse"


def _needed_line(rule: RuleReport) -> str:
    if rule.needed is None:
        return "no number of queries would decide, because the mean equals the limit"
    number = f"{rule.needed}" if rule.needed <= _MOST_QUERIES else f"more than {_MOST_QUERIES}"
    what = "queries" if rule.units in {None, rule.n} else "groups of dependent queries"
    return f"with the same mean and spread, {number} {what} would decide (there are {rule.units or rule.n})"


def query_title(report: GateReport) -> str:
    """`23 shared queries are judged; 1 query is new (q24)`; empty if no query changed."""
    queries = report.queries
    return "" if queries is None else f"{queries.shared} shared queries are judged; {queries.words}"


def catalogue_title(report: GateReport) -> str:
    """`1 tool edited, 0 added, 0 removed since mytools (a1b2c3d4e5f6)`; empty for one catalogue."""
    catalogue = report.catalogue
    if catalogue is None:
        return ""
    return f"{catalogue.words} since {one_line(catalogue.dataset)} ({catalogue.content_hash[:12]})"


def catalogue_lines(report: GateReport) -> list[tuple[str, str, str]]:
    """(`edited`, tool, its fields) of the first tools that differ; the last entry counts the others."""
    catalogue = report.catalogue
    if catalogue is None:
        return []
    shown = catalogue.lines()
    more = catalogue.size - len(shown)
    return [*shown, *([("and", f"{more} more", "")] if more else [])]


def tools_of(query: MovedQuery) -> list[tuple[str, str]]:
    """(tool, old and new rank) of the first moved tools of a query."""
    moved = [(one_line(tool.tool_id), tool.words) for tool in query.tools[:_MOST_TOOLS]]
    more = len(query.tools) - len(moved)
    return [*moved, *([(f"{more} more", "")] if more else [])]


def tool_words(tool: ToolMove) -> str:
    """In how many queries a tool moved, and how the catalogue changed it."""
    words = [f"lower in {several(tool.lower, 'query')}, higher in {tool.higher}"]
    words += ["removed"] if tool.removed else []
    words += [f"edited: {one_line(', '.join(tool.edited))}"] if tool.edited else []
    return "; ".join(words)


def moved_lines(moved: Moved) -> list[tuple[str, int, Sequence[MovedQuery]]]:
    """The non-empty lists of moved queries: title, number, and the named ones."""
    both = [("newly failing", moved.n_failing, moved.failing), ("newly fixed", moved.n_fixed, moved.fixed)]
    return [(title, count, queries) for title, count, queries in both if count]


def conclusion(report: GateReport) -> str:
    """The outcome in a sentence."""
    doubt = ", with a warning" if report.warnings else ""
    return f"{report.outcome}{doubt}: {MEANING[report.outcome]} (exit code {EXIT_CODES[report.outcome]})"


def text(report: GateReport) -> str:
    """The report as plain text."""
    lines = [f"gate: {name_of_side(report.candidate)} against {name_of_side(report.baseline)}"]
    lines += [f"      {blessing(report)}"] if blessing(report) else []
    lines += [f"      across catalogues: {catalogue_title(report)}"] if report.catalogue else []
    lines += [
        f"        {what} {one_line(tool)}{f': {one_line(more)}' if more else ''}"
        for what, tool, more in catalogue_lines(report)
    ]
    lines += [f"      queries changed since the baseline: {query_title(report)}"] if report.queries else []
    if report.rules:
        lines += ["", table_text(rules_table(report))]
    if explained := explanations(report):
        lines += ["", *(f"{head}: {sentence}" for head, sentence in explained)]
    for moved in report.moved:
        for title, count, queries in moved_lines(moved):
            lines += ["", f"{title} ({one_line(', '.join(moved.rules))}): {count}"]
            for query in queries:
                shown = "" if query.text is None else f"  {one_line(query.text, LONGEST_TEXT)}"
                lines.append(f"  {one_line(query.query_id)}{shown}")
                lines += [f"    {tool}{f': {where}' if where else ''}" for tool, where in tools_of(query)]
            lines += [f"  and {count - len(queries)} more"] if count > len(queries) else []
    if report.tools:
        lines += ["", f"tools that moved: {report.n_tools}"]
        lines += [f"  {one_line(tool.tool_id)}: {tool_words(tool)}" for tool in report.tools]
        lines += [f"  and {report.n_tools - len(report.tools)} more"] if report.n_tools > len(report.tools) else []
    if report.notes:
        lines += ["", *(f"note: {one_line(note)}" for note in report.notes)]
    lines += ["", *(f"WARNING: {one_line(warning)}" for warning in report.warnings)] if report.warnings else []
    lines += ["", *(one_line(reason) for reason in report.reasons), conclusion(report)]
    return "\n".join(lines) + "\n"

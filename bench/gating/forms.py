"""Report formats: Markdown, JUnit XML and GitHub workflow annotations. `bench gate` calls it.

Every id, name and text in a report is untrusted, so each format escapes all of them.
"""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ElementTree

from bench.base.text import clean, one_line
from bench.gating.report import GateReport, RuleReport
from bench.gating.wording import (
    HEADINGS,
    LONGEST_TEXT,
    blessing,
    catalogue_lines,
    catalogue_title,
    cells,
    conclusion,
    explanation,
    explanations,
    limit_of,
    moved_lines,
    name_of_side,
    query_title,
    rules_table,
    text,
    tool_words,
    tools_of,
)
from bench.show.tables import markdown as markdown_table
from bench.show.tables import markdown_code as code

#: Bytes; a comment on GitHub has at most 65,536 characters.
_LARGEST_COMMENT = 60_000

# Markdown -----------------------------------------------------------------------------------------------------------


def markdown(report: GateReport, command: str = "") -> str:
    """The report as GitHub's and GitLab's Markdown, short enough for a comment: the verdict first.

    Args:
        report: the report.
        command: the command to repeat it.
    """
    parts = [
        f"## Gate: {report.outcome}",
        conclusion(report).capitalize() + ".",
        f"{code(name_of_side(report.candidate))} against {code(name_of_side(report.baseline))}",
    ]
    parts += [f"> **Warning** {code(warning)}" for warning in report.warnings]
    if blessing(report):
        parts.append(f"Baseline {code(blessing(report))}")
    if report.queries:
        parts.append(f"**queries changed since the baseline**: {code(query_title(report))}")
    if report.rules:
        parts.append(markdown_table(rules_table(report)))
    if explained := explanations(report):
        parts.append("\n".join(f"- {code(head)}: {code(sentence)}" for head, sentence in explained))
    if report.reasons:
        parts.append("\n".join(f"- {code(line)}" for line in report.reasons))
    for moved in report.moved:
        for title, count, queries in moved_lines(moved):
            lines = [f"**{title}** ({code(', '.join(moved.rules))}): {count}", ""]
            for query in queries:
                shown = "" if query.text is None else f" {code(one_line(query.text, LONGEST_TEXT))}"
                lines.append(f"- {code(query.query_id)}{shown}")
                lines += [f"  - {code(tool)}{f' {code(where)}' if where else ''}" for tool, where in tools_of(query)]
            lines += [f"- and {count - len(queries)} more"] if count > len(queries) else []
            parts.append("\n".join(lines))
    if report.tools:
        lines = [f"**tools that moved**: {report.n_tools}", ""]
        lines += [f"- {code(tool.tool_id)} {code(tool_words(tool))}" for tool in report.tools]
        lines += [f"- and {report.n_tools - len(report.tools)} more"] if report.n_tools > len(report.tools) else []
        parts.append("\n".join(lines))
    if report.catalogue:
        lines = [f"**across catalogues**: {code(catalogue_title(report))}", ""]
        lines += [
            f"- {what} {code(tool)}{f' {code(more)}' if more else ''}" for what, tool, more in catalogue_lines(report)
        ]
        parts.append("\n".join(lines))
    if report.notes:
        parts.append("\n".join(f"- {code(line)}" for line in report.notes))
    if command:
        parts.append(f"The same on your machine: {code(command)}")
    kept, size = [], 0
    for part in parts:
        # A part ends what it opens, so that a report can end after each.
        size += len(part.encode("utf-8")) + 2
        if size > _LARGEST_COMMENT:
            kept.append("The report is too long for a comment; the log of the job has the rest.")
            break
        kept.append(part)
    return "\n\n".join([*kept, marker(report)]) + "\n"


def marker(report: GateReport) -> str:
    """The last line of the Markdown, invisible to readers, by which an earlier run's comment is found.

    Gates with different baselines have different ones.
    """
    digest = hashlib.sha256(report.baseline.label.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"<!-- bench gate {digest} -->"


# JUnit --------------------------------------------------------------------------------------------------------------


def junit(report: GateReport) -> str:
    """The report as JUnit XML: a test case per rule.

    Rules that are not shown to hold fail: a regression and an inconclusive rule are failures of their own type, and a
    rule that was not run is an error.
    """
    cases: list[tuple[str, str, str]] = [
        (f"{rule.name}, {limit_of(rule)}", rule.verdict, explanation(rule)) for rule in report.rules
    ]
    if not report.rules:
        cases = [("gate", report.outcome, "; ".join(report.reasons))]
    errors = sum(verdict == "not run" for _, verdict, _ in cases)
    failures = sum(verdict not in {"pass", "not run"} for _, verdict, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": str(errors)}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "bench gate", **counts, "skipped": "0"})
    for name, verdict, message in cases:
        attributes = {"name": one_line(name), "classname": one_line(report.candidate.label)}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        if verdict != "pass":
            kind = "error" if verdict == "not run" else "failure"
            problem = ElementTree.SubElement(case, kind, {"type": verdict, "message": one_line(message) or verdict})
            problem.text = one_line(message) or verdict
    ElementTree.SubElement(suite, "system-out").text = clean(text(report))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


# GitHub -------------------------------------------------------------------------------------------------------------


def workflow_commands(report: GateReport) -> list[str]:
    """Workflow commands that annotate a run on GitHub: errors for what is broken or was not run, else warnings."""
    title = f"bench gate: {one_line(report.candidate.label)}"
    if not report.rules:
        return [_annotation("error", title, f"{report.outcome}: {'; '.join(report.reasons)}")]
    rules = [
        _annotation(_LEVELS[rule.verdict], title, _rule_line(rule)) for rule in report.rules if rule.verdict in _LEVELS
    ]
    warnings = [_annotation("warning", title, warning) for warning in report.warnings]
    return [*rules, *warnings] or [_annotation("notice", title, conclusion(report))]


_LEVELS = {"regression": "error", "not run": "error", "inconclusive": "warning"}


def _rule_line(rule: RuleReport) -> str:
    values = dict(zip(HEADINGS, cells(rule), strict=True))
    words = [f"{values['rule']}, {values['limit']}: {rule.verdict}"]
    if rule.difference is not None:
        words.append(f"{values['baseline']} to {values['candidate']}, difference {values['difference']}")
    return "; ".join([*words, explanation(rule)]).removesuffix("; ")


def _annotation(level: str, title: str, message: str) -> str:
    """`::error title=...::message`, escaped as GitHub's own toolkit does."""
    data = one_line(message).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    key = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={key}::{data}"


def quote_for_github(shown: str, token: str) -> str:
    """A text that GitHub's runner prints without interpreting it, between commands that stop and resume commands.

    Args:
        shown: the text to print.
        token: a string that no text contains, such as from `secrets.token_hex`.
    """
    return f"::stop-commands::{token}\n{shown}\n::{token}::"

"""The forms of a report: nothing in an id, a name or a text is obeyed by who reads it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.gating.forms import junit, markdown, quote_for_github, workflow_commands
from bench.gating.report import (
    EXIT_CODES,
    GateReport,
    Moved,
    MovedQuery,
    Outcome,
    RuleReport,
    Side,
    ToolMove,
    not_judged,
)
from bench.gating.wording import text
from bench.results.across_catalogues import CatalogueChange, EditedTool, MovedTool
from bench.show.tables import markdown_code as code

NASTY = (
    "</testcase><script>alert(1)</script>",
    "a|b`c``d",
    "line\nbreak\r\n::error::planted",
    "@everyone #1 https://evil.example [x](y) <img src=x> **b**",
    "\x00\x1b[31mred\x1b[0m\u202egnp.exe",
    "100%25 ::set-output name=x::y,z",
    "\ud800 lone",
    "\ufffe",
    "]]>",
    "",
    "`",
    " | ",
)
ANY = st.one_of(st.sampled_from(NASTY), st.text(max_size=30))


def report(value: str, outcome: Outcome = "regression") -> GateReport:
    """A report in which everything that comes from outside is this value."""
    side = Side(label=value, result_id=value, blessed_by=value, blessed_at=value, reason=value)
    rules = [
        RuleReport(
            name=value,
            kind="margin",
            verdict=verdict,
            threshold=0.02,
            level=0.05,
            n=9,
            baseline=0.5,
            candidate=0.4,
            difference=-0.1,
            lower=-0.2,
            upper=0.01,
            detectable=0.1,
            needed=90,
            better=1,
            worse=2,
            note=value,
        )
        for verdict in ("regression", "inconclusive", "not run", "pass")
    ]
    fallen = MovedTool(tool_id=value, before=1, after=None, instead=value)
    moved = Moved(
        rules=[value], n_failing=3, n_fixed=1, failing=[MovedQuery(query_id=value, text=value, tools=[fallen])],
        fixed=[MovedQuery(query_id=value)],
    )  # fmt: skip
    change = CatalogueChange(
        dataset=value, content_hash="0" * 64, added=[value], removed=[value], gold_removed=[value], notes=[value],
        edited=[EditedTool(tool_id=value, fields=[value])],
    )  # fmt: skip
    return GateReport(
        outcome=outcome, exit_code=1, candidate=side, baseline=side, rules=rules, moved=[moved], notes=[value],
        reasons=[value], catalogue=change, n_tools=2,
        tools=[ToolMove(tool_id=value, lower=1, higher=0, edited=[value])],
    )  # fmt: skip


@given(ANY)
@settings(max_examples=100, deadline=None)
def test_junit_is_well_formed_and_keeps_its_counts_whatever_the_names_are(value: str) -> None:
    root = ElementTree.fromstring(junit(report(value)).encode("utf-8"))
    (suite,) = root
    assert suite.attrib | {"name": ""} == {"name": "", "tests": "4", "failures": "2", "errors": "1", "skipped": "0"}
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["failure"], ["error"], []]
    assert [child.attrib["type"] for case in cases for child in case] == ["regression", "inconclusive", "not run"]


@given(ANY)
@settings(max_examples=100, deadline=None)
def test_annotations_are_one_line_each_and_their_properties_end_where_they_should(value: str) -> None:
    result = workflow_commands(report(value))
    assert [line.partition(" ")[0] for line in result] == ["::error", "::warning", "::error"]
    for line in result:
        assert len(line.splitlines()) == 1
        level, title, message = re.fullmatch(r"::(\w+) title=([^:,]*)::(.*)", line).groups()  # type: ignore[union-attr]
        assert level in {"error", "warning"}
        # Each percent sign begins one of the toolkit's escapes.
        assert re.sub(r"%(25|0D|0A|3A|2C)", "", title).count("%") == 0
        assert re.sub(r"%25", "", message).count("%") == 0


@given(ANY)
@settings(max_examples=100, deadline=None)
def test_every_row_of_a_markdown_table_has_its_cells_and_text_stays_in_code_spans(value: str) -> None:
    shown = markdown(report(value), value)
    table = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(table) == 6
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 10
    *lines, marker = shown.splitlines()
    # What no reader sees is made of a digest.
    assert re.fullmatch("<!-- bench gate [0-9a-f]{16} -->", marker)
    outside = _outside_code("\n".join(lines))
    for sign in ("<", "@", "#1", "http", "](", "\x1b", "\u202e", "\x00"):
        assert sign not in outside
    assert "\x1b" not in shown


def test_a_row_of_a_markdown_table_begins_with_its_verdict_and_its_name() -> None:
    table = [line.split(" | ") for line in markdown(report("recall@5")).splitlines() if line.startswith("| ")]
    assert [row[:2] for row in table[2:]] == [
        ["| **regression**", "`recall@5`"],
        ["| **inconclusive**", "`recall@5`"],
        ["| **not run**", "`recall@5`"],
        ["| pass", "`recall@5`"],
    ]


def _outside_code(shown: str) -> str:
    """What is left of Markdown without its code spans, by CommonMark's rule: closed by as many backticks."""
    return "\n".join(re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", line) for line in shown.splitlines())


@given(st.text())
def test_a_code_span_is_closed_by_its_own_fence_alone(value: str) -> None:
    span = code(value)
    assert _outside_code(span) == ""
    assert len(span.splitlines()) == 1


@given(ANY)
def test_the_plain_text_controls_no_terminal(value: str) -> None:
    shown = text(report(value))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert shown.encode("utf-8")


def test_what_a_runner_prints_between_the_two_commands_is_not_obeyed() -> None:
    lines = quote_for_github("::error::planted\nmore", "token").splitlines()
    assert lines == ["::stop-commands::token", "::error::planted", "more", "::token::"]


@pytest.mark.parametrize("outcome", ["not comparable", "not run"])
def test_what_was_not_judged_has_every_form_too(outcome: Outcome) -> None:
    side = Side(label="x")
    result = not_judged(outcome, ["the split differs: a|b"], side, side)  # type: ignore[arg-type]
    assert result.exit_code == EXIT_CODES[outcome] != 0
    assert "the split differs" in text(result)
    assert "the split differs" in markdown(result)
    (line,) = workflow_commands(result)
    assert line.startswith("::error")
    (case,) = ElementTree.fromstring(junit(result))[0].findall("testcase")
    assert case[0].tag == ("error" if outcome == "not run" else "failure")
    assert case[0].text == case[0].attrib["message"] == "the split differs: a|b"


def test_a_pass_is_a_notice() -> None:
    rule = RuleReport(name="recall@5", kind="margin", verdict="pass", threshold=0.02)
    result = GateReport(outcome="pass", exit_code=0, candidate=Side(label="x"), baseline=Side(label="y"), rules=[rule])
    assert workflow_commands(result) == ["::notice title=bench gate%3A x::pass: every rule holds (exit code 0)"]


def test_the_number_of_queries_that_would_decide_is_said() -> None:
    shown = text(report("x"))
    assert "with the same mean and spread, 90 queries would decide (there are 9)" in shown
    assert "newly failing (x): 3" in shown
    assert "and 2 more" in shown


def test_a_report_that_is_too_long_for_a_comment_ends_after_a_whole_part() -> None:
    long = report("x" * 500)
    rules = [rule.model_copy(update={"note": "`" * 3 + "<b>" * 300}) for rule in long.rules * 40]
    shown = markdown(long.model_copy(update={"rules": rules}))
    assert len(shown.encode()) < 65_000
    *lines, last, _, marker = shown.splitlines()
    assert last == "The report is too long for a comment; the log of the job has the rest."
    assert marker.startswith("<!-- bench gate ")
    assert lines[0] == "## Gate: regression"
    assert "<" not in _outside_code("\n".join(lines))


def test_gates_with_different_baselines_have_comments_of_their_own() -> None:
    markers = {markdown(report(name)).splitlines()[-1] for name in ("a @ x", "b @ x", "a @ x")}
    assert len(markers) == 2

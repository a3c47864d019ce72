"""Comparisons with a margin: what is concluded of a difference, in words, in every form."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset
from scipy import stats

from bench.base.errors import UsageError
from bench.comparison.compare import ComparisonQuestion, compare_fields
from bench.comparison.comparison import Comparison
from bench.comparison.render import csv_text, latex, legend, markdown
from bench.comparison.report import MarginReport, SystemDifference
from bench.comparison.systems import Field, on_same_queries
from bench.comparison.tables import grid, verdict
from bench.data.card import Unit
from bench.data.tables import Query, Tool
from bench.evaluation.external import score_run_file
from bench.show.tables import text
from bench.stats.noninferiority import EquivalenceVerdict, PairVerdict


def difference(found: PairVerdict, within: EquivalenceVerdict | None, **more: Any) -> SystemDifference:
    margin = None
    if within is not None:
        margin = MarginReport(margin=0.01, low=-0.005, high=0.009, verdict=within, needed=more.pop("enough", None))
    values: dict[str, Any] = {"needed": None, "decided": True, "verdict": found, "margin": margin} | more
    return SystemDifference(
        system="s", difference=0.004, low=-0.1, high=0.1, p=0.5, corrected=0.5, p_t=0.5, p_wilcoxon=0.5, dz=0.1, wins=1,
        ties=1, losses=1, detectable=0.1, **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (difference("better", "within"), "better, by less than 0.01"),
        (difference("worse", "within"), "worse, by less than 0.01"),
        (difference("better", "undecided"), "better"),
        (difference("worse", "beyond"), "worse"),
        (difference("not decided", "within", needed=900), "the same within 0.01"),
        (difference("not decided", "undecided"), "not decided"),
        # Whichever of the two takes fewer groups; what there are already is not what is lacking.
        (
            difference("not decided", "undecided", needed=900, enough=1400),
            "not decided; about 900 groups would decide",
        ),
        (
            difference("not decided", "undecided", needed=9000, enough=1400),
            "not decided; about 1,400 groups would decide",
        ),
        (difference("not decided", "undecided", enough=1400), "not decided; about 1,400 groups would decide"),
        (difference("not decided", "undecided", needed=80, enough=1400), "not decided"),
        (difference("too few groups", "undecided", decided=False), "not decided: too few groups"),
        (difference("better", None), "better"),
        (difference("not decided", None, needed=900), "not decided; about 900 groups would decide"),
        (difference("not decided", None), "not decided"),
    ],
)
def test_a_difference_in_words(item: SystemDifference, words: str) -> None:
    assert verdict(item, 100) == words


TOOLS = [Tool(f"t{i:02}", f"t{i:02}", "Does it.", "", "") for i in range(40)]
#: The rank of the gold of the query `time` of the tool `need`.
RANKS: dict[str, Callable[[int, int], int]] = {
    "base": lambda need, time: 1 + need % 2,
    # One of ten queries falls by a rank for every other tool, and rises for the others.
    "nudged": lambda need, time: 1 + (need + (time == 0)) % 2,
    "better": lambda need, time: 1,
    "worse": lambda need, time: 10 + need % 2,
}


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """Systems by their ranks of the gold, on forty units of ten queries."""
    unit = Unit(by=["gold"], reason="made so")
    places = [(need, time) for need in range(40) for time in range(10)]
    queries = [Query(f"q{need:02}-{time}", f"request {need} {time}", {TOOLS[need].tool_id: 1}) for need, time in places]
    data = make_dataset(TOOLS, queries, id="margins", unit=unit)
    folder = tmp_path_factory.mktemp("margins")
    results = []
    for name, rank in RANKS.items():
        lines = []
        for query, (need, time) in zip(queries, places, strict=True):
            wrong = [tool.tool_id for tool in TOOLS if tool is not TOOLS[need]]
            place = rank(need, time) - 1
            tools = [*wrong[:place], TOOLS[need].tool_id, *wrong[place:]]
            lines.append(json.dumps({"query_id": query.query_id, "tools": tools}))
        run = "\n".join(lines).encode()
        results.append(score_run_file(run, f"{name}.jsonl", data, folder, name=name, command="x"))
    return on_same_queries(results)


def compared(part: Field, margin: float | None, *metrics: str) -> Comparison:
    return compare_fields([part], ComparisonQuestion(metrics or ("mrr@10",), moved=0, margin=margin), lambda _: None)


def test_both_a_difference_and_equivalence_can_hold(part: Field) -> None:
    (metric,) = compared(part, 0.5).datasets[0].metrics
    assert {item.system: verdict(item, metric.units) for item in metric.differences} == {
        "nudged": "the same within 0.5",
        "better": "better, by less than 0.5",
        "worse": "worse",
    }
    # The mean falls from 0.75 to 0.05.
    worse = metric.differences[2]
    assert worse.margin is not None
    assert worse.margin.verdict == "beyond"


def test_the_interval_is_that_of_two_t_tests_of_units(part: Field) -> None:
    (metric,) = compared(part, 0.02).datasets[0].metrics
    nudged = metric.differences[0]
    table, units = part.values("mrr@10").values, part.values("mrr@10").units
    d = table[:, 1] - table[:, 0]
    # Forty units of ten queries: the robust error is that of the mean of their means.
    means = np.array([d[units == unit].mean() for unit in range(40)])
    low, high = stats.t.interval(0.9, 39, means.mean(), means.std(ddof=1) / 40**0.5)
    assert nudged.margin is not None
    assert (nudged.margin.low, nudged.margin.high) == (pytest.approx(low), pytest.approx(high))
    assert nudged.margin.verdict == ("within" if low > -0.02 and high < 0.02 else "undecided")


def test_without_a_margin_nothing_is_called_the_same(part: Field) -> None:
    plain = compared(part, None)
    assert [item.verdict for item in plain.datasets[0].metrics[0].differences] == ["not decided", "better", "worse"]
    for said in (markdown(plain), latex(plain), csv_text(plain), legend(plain), str(plain), plain.model_dump_json()):
        assert "≈" not in said
        assert "the same" not in said
        assert "equal" not in said
        assert "tied" not in said


def test_every_form_names_the_margin_and_marks_what_is_the_same(part: Field) -> None:
    comparison = compared(part, 0.5)
    said = markdown(comparison)
    assert "### With a margin of 0.5" in said
    assert "| nudged | mrr@10 |" in said
    assert "the same within 0.5 |" in said
    assert "≈: the same as base within 0.5 (two one-sided tests at 5% each, not corrected" in said
    assert "better, by less than 0.5" in str(comparison)
    (table,) = grid(comparison, ["mrr@10"])
    marks = {row.cells[0].text: row.cells[1].mark for row in table.rows}
    assert marks == {"base": "", "nudged": "≈", "better": "‡≈", "worse": "‡"}
    assert "1.000‡≈" in text(table)
    assert r"better & \textbf{1.000}$^{\ddagger\approx}$ \\" in latex(comparison)
    assert r"$\approx$: the same within 0.5" in latex(comparison)
    rows = {row["system"]: row for row in csv.DictReader(io.StringIO(csv_text(comparison)))}
    assert rows["nudged"]["verdict"] == "the same within 0.5"
    assert float(rows["worse"]["margin_high"]) < -0.5
    assert rows["base"]["verdict"] == rows["base"]["margin_low"] == ""
    found = json.loads(comparison.model_dump_json())
    assert found["margin"] == 0.5
    kept = found["datasets"][0]["metrics"][0]["differences"][0]["margin"]
    assert (kept["margin"], kept["verdict"], kept["needed"]) == (0.5, "within", None)


@pytest.mark.parametrize("margin", [0.0, -0.01, float("nan"), float("inf"), "0.01"])
def test_a_margin_that_is_none_is_refused(margin: Any) -> None:
    with pytest.raises(UsageError, match="must be a number above 0"):
        ComparisonQuestion(margin=margin)

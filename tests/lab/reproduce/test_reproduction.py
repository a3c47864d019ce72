"""From recipes to a report, on methods whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bench.base.errors import BenchError, UsageError
from bench.base.progress import Progress
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.worker import RunCell as Work
from bench.lab.reproduce.cells import PrintedCell, Unit
from bench.lab.reproduce.claims import Claim
from bench.lab.reproduce.outcomes import CELL_VERDICTS, SAME
from bench.lab.reproduce.parts import cell_row, claim_state, lacking_text
from bench.lab.reproduce.recipes import RecipeQuestion
from bench.lab.reproduce.report import CellReport, Lacking, Reproduction
from bench.lab.reproduce.reproduction import look_ahead, metrics_of, plan_runs, reproduce
from bench.lab.reproduce.runs import MethodRuns, count_range
from bench.results.store import StoredResult

Written = Callable[[Sequence[PrintedCell], Sequence[dict[str, Any]]], None]
RunsOf = Callable[..., MethodRuns]


def cell(row: str, printed: str, metric: str = "recall@1", unit: Unit = "share", dataset: str = "D") -> PrintedCell:
    return PrintedCell("tgr-2", row, dataset, "", metric, printed, unit)


def recipe(row: str, method: str, **more: Any) -> dict[str, Any]:
    return {"rows": [row], "method": method, "on": ["tiny"], **more}


@pytest.fixture
def run(runs: RunsOf) -> Callable[..., Reproduction]:
    """Run the reproduction on datasets of the test's own."""

    def run(claims: Sequence[Claim] = (), tables: Sequence[str] = ("tgr-2",)) -> Reproduction:
        return reproduce(tables, claims, runs(*metrics_of(tables, claims)), "bench reproduce tgr-2")

    return run


def test_a_cell_is_measured_and_judged(written: Written, run: Callable[..., Reproduction]) -> None:
    written(
        [cell("A", "0.5"), cell("A", "0.9", "recall@5"), cell("A", "60.0", "ndcg@1", "percent")],
        [recipe("A", "half", differences=["other queries"], note="A note.")],
    )
    report = run()
    near, far, percent = report.cells
    # The same mean in forty queries shows no equivalence within 0.02.
    assert (near.verdict, near.published, near.difference, near.margin) == ("not decided", 0.5, 0.0, 0.02)
    assert near.measured is not None
    assert near.measured.mean == 0.5
    assert near.measured.low is not None
    assert near.measured.low_90 is not None
    assert near.measured.low < near.measured.low_90 < 0.5
    assert (far.verdict, far.reasons) == ("not reproduced", ["other queries"])
    assert (percent.published, percent.verdict) == (0.6, "not decided")
    (block,) = report.blocks
    assert block.other_data
    assert block.note == "A note."
    assert block.measurement is not None
    (data,) = block.measurement.data
    assert (data.dataset, data.queries, data.tools, data.template) == ("tiny", 40, 10, "description")
    assert [item.verdicts for item in report.tables] == [
        {"reproduced": 0, "not reproduced": 1, "not decided": 2, "direction only": 0, "not run": 0, SAME: 0}
    ]


def test_a_cell_is_reproduced_by_its_interval_and_the_margin_is_named(
    written: Written, run: Callable[..., Reproduction], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        cell("A", "0.5"),
        cell("A", "0.6", "recall@5"),
        cell("A", "0.9", "ndcg@1"),
        cell("B", "40.0%", unit="points"),
    ]
    written(cells, [recipe("A", "half"), recipe("B", "most", minus="half")])
    # Twenty of forty are right: the error is 0.08, and the 90% interval reaches 0.13 to either side.
    monkeypatch.setattr("bench.lab.reproduce.verdicts.MARGIN", 0.2)
    monkeypatch.setattr("bench.lab.reproduce.verdicts.DIFFERENCE_MARGIN", 0.25)
    report = run()
    assert [item.verdict for item in report.cells] == ["reproduced", "not decided", "not reproduced", "reproduced"]
    words = [cell_row(item, report.blocks[item.block])[-1] for item in report.cells]
    assert words == [
        "reproduced (±0.2)",
        "not decided (±0.2)",
        "not reproduced (±0.2), reason unknown",
        "reproduced (±0.25)",
    ]


def test_the_first_recipe_that_can_run_is_taken_and_the_others_are_named(
    written: Written, run: Callable[..., Reproduction]
) -> None:
    written(
        [cell("A", "0.9")],
        [
            recipe("A", "missing", needs=["the encoder small"]),
            recipe("A", "most", on=["elsewhere"], needs=["the data"]),
            recipe("A", "half"),
            recipe("A", "most"),
        ],
    )
    report = run()
    (block,) = report.blocks
    assert block.measurement is not None
    assert block.measurement.method == "half"
    assert [(item.method, item.needs, item.failed) for item in block.lacking] == [
        ("missing", ["the encoder small"], False),
        ("most", ["the data"], False),
    ]
    assert block.lacking[0].reason == "there is no encoder here."
    assert block.lacking[0].commands == ["bench run --method missing --dataset tiny"]
    assert (report.cells[0].verdict, report.cells[0].reasons) == ("not reproduced", [])


def test_what_will_be_run_is_known_ahead_and_run_once(written: Written, runs: RunsOf) -> None:
    written(
        [cell("A", "0.9"), cell("B", "0.5")],
        [
            recipe("A", "most", on=["elsewhere"]),
            recipe("A", "half"),
            recipe("A", "most"),
            recipe("B", "most", minus="half"),
        ],
    )
    ready = runs("recall@1")
    requests = plan_runs(look_ahead(["tgr-2"], (), ready))
    assert [str(plan.method) for plan in requests] == ["half", "most"]

    ran: list[str] = []

    class Recording:
        """Runs cells in this process; the methods of these tests are found in no other."""

        def run(self, cells: Sequence[Work], progress: Progress) -> Generator[Path | BenchError]:
            for work in cells:
                ran.append(work.label)
                yield ready.result(work.plan).folder

    ready.run_ahead(requests, Recording())
    assert ran == ["half @ tiny", "most @ tiny"]
    report = reproduce(["tgr-2"], (), ready, "bench reproduce tgr-2")
    assert [item.verdict for item in report.cells].count("not run") == 0
    # What is there is given to no executor again.
    ready.run_ahead(requests, Recording())
    assert len(ran) == 2


def test_one_cell_s_failure_ends_no_other(written: Written, run: Callable[..., Reproduction]) -> None:
    written(
        [cell("A", "0.5"), cell("B", "0.5"), cell("C", "0.5"), cell("D", "0.5"), cell("E", "0.5")],
        [
            recipe("A", "broken", needs=["patience"]),
            recipe("B", "no-such-method"),
            recipe("C", "half(colour=red"),
            recipe("D", "half"),
        ],
    )
    report = run()
    assert [item.verdict for item in report.cells] == ["not run", "not run", "not run", "not decided", "not run"]
    reasons = [block.lacking[0].reason if block.lacking else "" for block in report.blocks]
    assert "division by zero" in reasons[0]
    assert "there is no method 'no-such-method'" in reasons[1]
    assert "cannot read" in reasons[2]
    assert reasons[3:] == ["", ""]
    assert [block.lacking[0].failed for block in report.blocks[:3]] == [True, True, True]


def test_a_fault_of_ours_is_told_as_one(written: Written, runs: RunsOf) -> None:
    written([cell("A", "0.5"), cell("B", "0.5")], [recipe("A", "half"), recipe("B", "half", on=["tiny-2"])])
    here = runs("recall@1")

    def load(spec: Spec) -> Any:
        if spec.name == "tiny":
            raise KeyError("lost")
        return inner(spec)

    inner, here.load = here.load, load
    assert [item.plans is None for item in look_ahead(["tgr-2"], [], here)] == [True, False]
    report = reproduce(["tgr-2"], [], here, "bench reproduce tgr-2")
    assert [item.verdict for item in report.cells] == ["not run", "not decided"]
    assert report.blocks[0].lacking[0].reason == "an error of bench itself (KeyError: 'lost')."


def test_a_direction_is_tested_against_another_row(written: Written, run: Callable[..., Reproduction]) -> None:
    written(
        [cell("A", "0.5"), cell("B", "0.4"), cell("C", "0.6"), cell("D", "0.4")],
        [
            recipe("A", "most", against="B", rival="half"),  # published above, ours above
            recipe("B", "most", against="C", rival="half"),  # published below, ours above
            recipe("C", "same", against="A", rival="half"),  # ours are the same
            recipe("D", "most", against="B", rival="half"),  # the paper prints the same number
        ],
    )
    report = run()
    assert [item.verdict for item in report.cells] == ["direction only", "direction only", SAME, "direction only"]
    directions = [item.direction for item in report.cells]
    assert [item and item.outcome for item in directions] == ["as published", "opposite", None, "no direction"]
    first = directions[0]
    assert first is not None
    # Most is right on 36 of 40 and Half on 20 of those: 16 wins, all sign vectors enumerated.
    assert (first.n, first.wins, first.ties, first.losses) == (40, 16, 24, 0)
    assert first.difference == pytest.approx(0.4)
    assert first.p == 2 / 2**16
    # The value itself is told, too, though it does not compare with the printed one.
    assert [item.measured.mean for item in report.cells if item.measured] == pytest.approx([0.9, 0.9, 0.5, 0.9])
    assert [item.difference for item in report.cells] == [None] * 4
    assert cell_row(report.cells[0], report.blocks[0])[2] == "0.900 (+0.400)"
    # One test: A and B ask the same of the same data, C compares a system with itself, and D asks for no direction.
    assert first.corrected == pytest.approx(2 / 2**16)
    assert directions[1] is not None
    assert directions[1].corrected == first.corrected
    assert directions[3] is not None
    assert directions[3].corrected == directions[3].p
    row = cell_row(report.cells[2], report.blocks[2])
    assert (row[:3], row[4:]) == (["recall@1", "0.6", "0.500"], ["", SAME])
    assert report.cells[0].published_difference == pytest.approx(0.1)
    assert report.blocks[0].rival is not None
    assert report.blocks[0].rival.method == "half"


def test_a_direction_that_two_rows_show_is_one_test(written: Written, run: Callable[..., Reproduction]) -> None:
    """A against B and B against A on the same queries; other queries and other metrics are tests of their own."""
    written(
        [cell("A", "0.5"), cell("B", "0.4"), cell("C", "0.45"), cell("C", "0.45", "recall@5")],
        [
            recipe("A", "most", against="B", rival="half"),
            recipe("B", "half", against="A", rival="most"),
            recipe("C", "most", against="B", rival="half", slices={"kind": "even"}, measure={"recall@1": "recall@1"}),
            recipe("C", "most", against="A", rival="half", measure={"recall@5": "recall@1"}),
        ],
    )
    cells = [*run().cells]
    first, second, even = (item.direction for item in cells[:3])
    assert first
    assert second
    assert even
    assert first.difference == -second.difference
    # The fourth cell has no printed row to compare with, so it is not run and no test.
    assert cells[3].verdict == "not run"
    assert first.corrected == second.corrected == pytest.approx(2 * 2 / 2**16)
    # Of the even queries Most wins 12: the larger p of the two tests.
    assert even.p == pytest.approx(2 / 2**12)
    assert even.corrected == pytest.approx(2 / 2**12)


def test_what_no_run_can_measure_is_told_and_not_tried(written: Written, run: Callable[..., Reproduction]) -> None:
    never = {"runnable": False, "needs": ["the stars"], "commands": ["bench graph tiny"]}
    written(
        [cell("A", "0.5"), cell("B", "0.5")],
        [recipe("A", "half", **never), recipe("B", "half", **never), recipe("B", "half")],
    )
    report = run()
    assert [item.verdict for item in report.cells] == ["not run", "not decided"]
    for block in report.blocks:
        (lacking,) = block.lacking
        assert (lacking.needs, lacking.commands, lacking.failed) == (["the stars"], ["bench graph tiny"], False)
        assert lacking.reason == "no run of bench measures it without the stars."


def test_only_the_failures_among_the_judged_queries_are_counted(
    written: Written, run: Callable[..., Reproduction]
) -> None:
    """Silent answers nothing to every eighth query: five of 40, all of them among the ten odd ones."""
    written(
        [cell("A", "0.5"), cell("B", "0.5"), cell("C", "0.5")],
        [
            recipe("A", "silent"),
            recipe("B", "silent", slices={"kind": "odd"}),
            recipe("C", "silent", slices={"kind": "even"}),
        ],
    )
    measured = [block.measurement for block in run().blocks]
    assert [item and (item.queries, item.failed) for item in measured] == [(40, 5), (10, 5), (30, 0)]


@pytest.mark.parametrize(("tools", "connected"), [(101, 60), (10_439, 5_219), (16_000, 7_777), (49_999, 12_345)])
def test_connected_tools_are_every_count_that_the_rounded_share_allows(tools: int, connected: int) -> None:
    result = cast(
        StoredResult,
        SimpleNamespace(
            manifest=SimpleNamespace(
                dataset=SimpleNamespace(tools=tools), facts={"connected_share": round(connected / tools, 4)}
            )
        ),
    )
    least, most = count_range(result, "connected_tools")
    allowed = [
        count
        for count in range(connected - 9, connected + 10)
        if round(count / tools, 4) == round(connected / tools, 4)
    ]
    assert least <= connected <= most
    assert set(allowed) == set(range(int(least), int(most) + 1))
    assert count_range(result, "tools") == (tools, tools)


def test_a_direction_without_its_printed_row_is_not_run(written: Written, run: Callable[..., Reproduction]) -> None:
    written([cell("A", "0.5")], [recipe("A", "most", against="B", rival="half")])
    report = run()
    assert report.cells[0].verdict == "not run"
    assert "has no cell of B, D, recall@1" in report.blocks[0].lacking[0].reason


def test_the_protocol_s_own_way_stands_beside_the_paper_s(written: Written, run: Callable[..., Reproduction]) -> None:
    written(
        [cell("A", "0.5"), cell("A", "0.5", "mrr"), cell("B", "0.5"), cell("B", "0.9", "ndcg@1")],
        [
            recipe(
                "A", "half", follows=["naive tokeniser"], standard={"method": "most"}, measure={"recall@1": "recall@1"}
            ),
            recipe("B", "half", standard={"measure": {"ndcg@1": "recall@1"}}),
        ],
    )
    report = run()
    by = {(item.row, item.metric): item for item in report.cells}
    assert by["A", "recall@1"].standard is not None
    assert by["A", "recall@1"].standard.mean == 0.9
    # Another way for one metric alone: the other cell has none of its own.
    assert by["B", "recall@1"].standard is None
    assert by["B", "ndcg@1"].standard is not None
    assert by["B", "ndcg@1"].standard.metric == "recall@1"
    # A metric that no recipe measures is not run, next to one that is.
    assert by["A", "mrr"].verdict == "not run"


def test_a_table_of_differences_is_measured_query_by_query(written: Written, run: Callable[..., Reproduction]) -> None:
    cells = [
        cell("A", "40.0%", unit="points"),
        cell("B", "0.1", unit="difference"),
        cell("C", "-1%", unit="points"),
    ]
    written(
        cells,
        [
            recipe("A", "most", minus="half"),
            recipe("B", "most", minus="half"),
            recipe("C", "most", against="without it", rival="half"),
        ],
    )
    right, wrong, direction = run().cells
    assert right.measured is not None
    assert right.measured.mean == pytest.approx(0.4)
    assert right.measured.low is not None
    assert 0.2 < right.measured.low < 0.4
    assert (right.verdict, wrong.verdict) == ("not decided", "not reproduced")
    assert direction.published_difference == -0.01
    assert direction.direction is not None
    assert direction.direction.outcome == "opposite"


def test_counts_and_facts_are_compared_as_they_are(written: Written, run: Callable[..., Reproduction]) -> None:
    facts = {"tools": "tools", "connected": "connected_tools", "share": "fact:connected_share", "edges": "fact:edges"}
    written(
        [
            cell("A", "10", "tools", "count"),
            cell("A", "6", "connected", "count"),
            cell("A", "0.51", "share"),
            cell("B", "3", "edges", "count"),
        ],
        [recipe("A", "half", measure=facts), recipe("B", "half", measure=facts)],
    )
    report = run()
    assert [item.verdict for item in report.cells] == ["reproduced", "not reproduced", "reproduced", "not run"]
    assert report.cells[0].measured is not None
    assert (report.cells[0].measured.mean, report.cells[0].measured.low) == (10, None)
    assert "does not state its edges" in report.blocks[1].lacking[0].reason


def test_slices_and_several_datasets(written: Written, run: Callable[..., Reproduction]) -> None:
    written(
        [cell("A", "0.5"), cell("B", "0.5"), cell("C", "0.5")],
        [
            # Of the ten odd queries (0, 4, ..., 36) five are in the first half.
            recipe("A", "half", slices={"kind": "odd"}),
            recipe("B", "half", on=["tiny", "tiny-2"], pool="queries"),
            recipe("C", "half", slices={"kind": "blue"}),
        ],
    )
    report = run()
    blocks = report.blocks
    assert blocks[0].measurement is not None
    assert (blocks[0].measurement.queries, blocks[0].measurement.slices) == (10, {"kind": "odd"})
    assert blocks[1].measurement is not None
    assert blocks[1].measurement.queries == 80
    assert report.cells[1].measured is not None
    assert report.cells[1].measured.mean == 0.5
    assert "no judged query with kind=blue" in blocks[2].lacking[0].reason


def test_what_lacks_is_said_by_its_commands_unless_words_are_given() -> None:
    lacking = Lacking(method="m", data=["d"], failed=False, reason="there is no m.", needs=[], commands=["bench train"])
    assert lacking_text(lacking) == "Not here: m on d. To run it:"
    assert lacking_text(lacking.model_copy(update={"commands": []})) == "Not here: m on d: there is no m."
    assert (
        lacking_text(lacking.model_copy(update={"needs": ["an endpoint"]})) == "Not here: m on d. It needs an endpoint."
    )


def test_the_mean_over_a_slice_is_over_the_means_of_its_values(tiny: Dataset, runs: Callable[..., MethodRuns]) -> None:
    ask = runs().ask
    by_kind = ask("half", RecipeQuestion(on=("tiny",), pool="kind"), ["recall@1"])
    assert by_kind.groups.tolist() == [{"even": 0, "odd": 1}[query.slices["kind"]] for query in tiny.queries]
    assert not ask("half", RecipeQuestion(on=("tiny",)), ["recall@1"]).groups.any()
    with pytest.raises(UsageError, match="tiny has no slice 'colour' to take the mean over"):
        ask("half", RecipeQuestion(on=("tiny",), pool="colour"), ["recall@1"])
    two = ask("half", RecipeQuestion(on=("tiny", "tiny-2")), ["recall@1"])
    assert np.bincount(two.groups).tolist() == [40, 40]


def test_every_cell_has_exactly_one_verdict(written: Written, run: Callable[..., Reproduction]) -> None:
    metrics = ("recall@1", "recall@5", "mrr", "nonsense", "tools")
    cells = [cell(row, "0.5", metric, dataset=dataset) for row in "ABC" for dataset in "DE" for metric in metrics]
    written(
        cells,
        [
            recipe("A", "half", measure={"recall@1": "recall@1", "mrr": "mrr"}, places=["D"]),
            recipe("A", "missing"),
            recipe("B", "most", against="A", rival="half", measure={"recall@5": "recall@5"}),
        ],
    )
    report = run()

    def key(item: PrintedCell | CellReport) -> tuple[str, ...]:
        return (item.row, item.dataset, item.metric)

    assert sorted(map(key, report.cells)) == sorted(map(key, cells))
    assert {item.verdict for item in report.cells} <= set(CELL_VERDICTS)
    assert all(report.blocks[item.block].row == item.row for item in report.cells)
    (table,) = report.tables
    assert sum(table.verdicts.values()) == table.cells == len(cells)


# Claims -------------------------------------------------------------------------------------------------------------


def claim(*tests: dict[str, Any], **more: Any) -> Claim:
    made = [{"on": ["tiny"], "metrics": ["recall@1"], **test} for test in tests]
    return Claim.model_validate(
        {"id": "c", "paper": "tgr", "claim": "It helps.", "where": "here", "tests": made, **more}
    )


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ([{"better": "most", "worse": "half"}], "holds"),
        ([{"better": "half", "worse": "most"}], "does not hold"),
        # No query differs by the metric: one has another set, the other another order of what is not gold.
        ([{"better": "narrow", "worse": "wide"}], "does not hold"),
        ([{"better": "half", "worse": "turned"}], "does not hold"),
        ([{"better": "half", "worse": "same"}], SAME),
        ([{"better": "half", "worse": "same"}, {"better": "most", "worse": "half"}], SAME),
        ([{"better": "half", "worse": "same"}, {"better": "half", "worse": "most"}], "does not hold"),
        # Two orders of tools whose scores differ by rounding are one; on the early queries both are right.
        ([{"better": "level", "worse": "rounded"}], SAME),
        ([{"better": "most", "worse": "half", "slices": {"part": "early"}}], SAME),
        ([{"better": "most", "worse": "half"}, {"better": "half", "worse": "most"}], "does not hold"),
        ([{"better": "most", "worse": "half", "slices": {"kind": "odd"}}], "undecided"),
        ([{"better": "most", "worse": "missing"}], "not run"),
        ([{"better": "most", "worse": "half"}, {"better": "most", "worse": "missing"}], "holds"),
        ([], "not run"),
    ],
)
def test_a_claim_is_judged_by_its_tests(
    tests: list[dict[str, Any]], verdict: str, run: Callable[..., Reproduction]
) -> None:
    (result,) = run([claim(*tests, needs=["more"])], tables=[]).claims
    assert result.verdict == verdict
    assert len(result.tests) == len(tests)


def test_a_test_of_the_same_system_is_told_and_is_no_part_of_the_family(run: Callable[..., Reproduction]) -> None:
    better, same = {"better": "most", "worse": "half"}, {"better": "half", "worse": "same"}
    (result,) = run([claim(better, same)], tables=[]).claims
    assert claim_state(result) == "not tested: both are the same here (the same in 1 of 2 tests)"
    (first,), (second,) = (test.comparisons for test in result.tests)
    assert first.corrected == first.p < 0.001
    assert second.outcome == SAME


def test_a_difference_of_the_same_system_is_not_reproduced_by_construction(
    written: Written, run: Callable[..., Reproduction]
) -> None:
    written(
        [cell("A", "0.0%", unit="points"), cell("B", "40.0%", unit="points")],
        [recipe("A", "same", minus="half"), recipe("B", "most", minus="half")],
    )
    assert [item.verdict for item in run().cells] == [SAME, "not decided"]


def test_an_undecided_claim_says_what_would_have_shown(run: Callable[..., Reproduction]) -> None:
    (result,) = run([claim({"better": "most", "worse": "half", "slices": {"kind": "odd"}})], tables=[]).claims
    (comparison,) = result.tests[0].comparisons
    # Queries 20, 24, 28, 32 are won, the other six are ties: p = 2/16, and an effect of 0.46 would have shown.
    assert (comparison.wins, comparison.ties, comparison.p) == (4, 6, 0.125)
    assert comparison.detectable == pytest.approx(0.4575, abs=0.001)


def test_lower_is_better_where_a_metric_says_so(run: Callable[..., Reproduction]) -> None:
    # Narrow recommends the one gold tool on every query, Wide three: a smaller difference of sizes is the better one.
    narrow = {"better": "narrow", "worse": "wide", "metrics": ["size_diff"]}
    wide = {"better": "wide", "worse": "narrow", "metrics": ["size_diff"]}
    first, second = run([claim(narrow), claim(wide)], tables=[]).claims
    assert (first.verdict, second.verdict) == ("holds", "does not hold")
    assert first.tests[0].comparisons[0].difference == -2.0


def test_the_tests_of_a_claim_are_one_family(run: Callable[..., Reproduction]) -> None:
    test = {"better": "most", "worse": "half", "metrics": ["recall@1", "hit@1"]}
    (result,) = run([claim(test, test)], tables=[]).claims
    comparisons = [item for test in result.tests for item in test.comparisons]
    assert [item.corrected for item in comparisons] == pytest.approx([4 * 2 / 2**16] * 4)


def test_what_a_test_lacks_is_said_with_its_commands(run: Callable[..., Reproduction]) -> None:
    test = {"better": "most", "worse": "dense(encoder=$toollens-retriever)", "needs": ["a retriever"]}
    (result,) = run([claim(test)], tables=[]).claims
    lacking = result.tests[0].lacking
    assert lacking is not None
    assert not lacking.failed
    assert lacking.needs == ["a retriever"]
    assert "is not trained" in lacking.reason
    assert lacking.commands == ["bench reproduce train toollens-retriever"]

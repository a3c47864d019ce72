"""From recipes to a report: every cell gets one verdict, and a failing cell does not end the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.base.errors import BenchError
from bench.base.progress import QUIET, Progress
from bench.evaluation.plan import Plan
from bench.evaluation.runner import environment
from bench.interface import PROTOCOL_VERSION
from bench.lab.reproduce.cells import PrintedCell, paper_of, table_cells, table_info
from bench.lab.reproduce.claims import Claim
from bench.lab.reproduce.claimtests import question_of, run_claim, with_models
from bench.lab.reproduce.measuring import (
    compare_methods,
    decide,
    estimates,
    lacking_of,
    measurement_of,
    same_answers,
    unrunnable,
)
from bench.lab.reproduce.outcomes import CELL_VERDICTS, OF_DATA, SAME
from bench.lab.reproduce.recipes import Recipe, RecipeQuestion, is_fact, recipes_of
from bench.lab.reproduce.report import (
    Block,
    CellReport,
    Estimate,
    Lacking,
    Measurement,
    Reproduction,
    RunEstimate,
    TableReport,
)
from bench.lab.reproduce.runs import MethodRuns, count_range
from bench.lab.reproduce.summary import summarise
from bench.lab.reproduce.verdicts import judge_count, judge_fact, judge_value, margin_of
from bench.stats.multiple import holm
from bench.stats.noninferiority import enough_units


def metrics_of(tables: Sequence[str], claims: Sequence[Claim], models: Mapping[str, str] | None = None) -> list[str]:
    """The metrics needed for the recipes of these tables and the tests of these claims; `models` as in `MethodRuns`."""
    metrics: dict[str, None] = {}
    for table in tables:
        for cell in table_cells(table):
            for recipe in recipes_of(cell, models):
                if not recipe.runnable:
                    continue
                metrics[recipe.measure.get(cell.metric, cell.metric)] = None
                if recipe.standard and cell.metric in recipe.standard.measure:
                    metrics[recipe.standard.measure[cell.metric]] = None
    for claim in claims:
        metrics.update(dict.fromkeys(metric for test in claim.tests for metric in test.metrics))
        wanted = [test.precondition.metric for test in claim.tests if test.precondition is not None]
        metrics.update(dict.fromkeys(filter(None, wanted)))
    return [name for name in metrics if not is_fact(name)]


@dataclass(frozen=True)
class RecipePlans:
    """The methods of a recipe or a test, and their plans; None if one of them cannot run here."""

    methods: tuple[str, ...]
    question: RecipeQuestion
    plans: list[Plan] | None


def look_ahead(tables: Sequence[str], claims: Sequence[Claim], runs: MethodRuns) -> list[RecipePlans]:
    """What `reproduce` will run with these arguments, in order; nothing is run."""
    asked: list[RecipePlans] = []

    def ask(question: RecipeQuestion, *methods: str) -> bool:
        asked.append(RecipePlans(methods, question, runs.possible(methods, question)))
        return asked[-1].plans is not None

    for table in tables:
        for line in _lines(table_cells(table)):
            pending = list(line)
            for recipe in _recipes_of_line(line, runs.models):
                mine = [cell for cell in pending if recipe.covers(cell)]
                if mine and recipe.runnable and ask(recipe, *recipe.methods):
                    pending = [cell for cell in pending if cell not in mine]
    for claim in claims:
        for test in with_models(claim, runs.models).tests:
            ask(test, test.better, test.worse)
            if test.precondition is not None and test.precondition.fact is None:
                ask(question_of(test.precondition), test.precondition.better, test.precondition.worse)
    return asked


def plan_runs(asked: Sequence[RecipePlans]) -> list[Plan]:
    """The plans that can run here, each once."""
    return list(dict.fromkeys(plan for item in asked for plan in item.plans or ()))


def reproduce(
    tables: Sequence[str],
    claims: Sequence[Claim],
    runs: MethodRuns,
    command: str,
    progress: Progress = QUIET,
    show: Callable[[TableReport, list[CellReport], list[Block]], None] | None = None,
    estimate: RunEstimate | None = None,
) -> Reproduction:
    """Measure what can be measured of these tables and claims, and judge everything.

    Args:
        tables: names of tables.
        claims: claims to test.
        runs: runs methods and knows stored results.
        command, estimate: for the report.
        progress: receives a bar for each table, with one step per row and dataset, and one for the claims' tests.
        show: called with each table once it is judged, with all cells and blocks so far.
    """
    started = time.perf_counter()
    book = _Book(runs)
    judged = []
    for number, table in enumerate(tables, 1):
        lines = _lines(table_cells(table))
        begun = len(book.cells)
        with progress.stage(f"reproduce {table} ({number} of {len(tables)} tables)", len(lines), "rows") as stage:
            for line in lines:
                book.measure(line)
                stage.advance()
        book.correct(begun)
        judged.append(_table(table, book.cells))
        if show is not None:
            show(judged[-1], book.cells, book.blocks)
    with progress.stage("test claims", sum(len(claim.tests) for claim in claims), "tests") as stage:
        reports = [run_claim(claim, runs, stage.advance) for claim in claims]
    return Reproduction(
        protocol=PROTOCOL_VERSION,
        environment=environment(command),
        seconds=round(time.perf_counter() - started, 1),
        tables=judged,
        cells=book.cells,
        blocks=book.blocks,
        claims=reports,
        papers=summarise(book.cells, reports),
        estimate=estimate,
    )


def _lines(cells: Sequence[PrintedCell]) -> list[list[PrintedCell]]:
    """Cells of the same row and place together."""
    lines: dict[tuple[str, str], list[PrintedCell]] = {}
    for cell in cells:
        lines.setdefault((cell.row, cell.place), []).append(cell)
    return list(lines.values())


def _table(table: str, cells: Sequence[CellReport]) -> TableReport:
    info = table_info(table)
    mine = [cell.verdict for cell in cells if cell.table == table]
    return TableReport(
        table=table,
        paper=paper_of(table),
        title=info.title,
        data=info.data,
        cells=len(mine),
        verdicts={verdict: mine.count(verdict) for verdict in CELL_VERDICTS},
        unreadable=info.unreadable,
        notes=info.notes,
    )


@dataclass
class _Book:
    """The cells judged so far, and the blocks they were measured in."""

    runs: MethodRuns
    cells: list[CellReport] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def measure(self, line: Sequence[PrintedCell]) -> None:
        """Judge the cells of one row and place, each by the first of its recipes that can run."""
        pending = list(line)
        lacking: list[Lacking] = []
        for recipe in _recipes_of_line(line, self.runs.models):
            mine = [cell for cell in pending if recipe.covers(cell)]
            if not mine:
                continue
            if not recipe.runnable:
                lacking.append(unrunnable(recipe))
                continue
            try:
                block, judged = _measure(recipe, mine, self.runs, len(self.blocks))
            except Exception as error:  # whatever went wrong, even a bug, only affects this recipe
                lacking.append(lacking_of(recipe.methods, recipe, recipe.measures(mine), recipe.needs, error))
            else:
                self.blocks.append(block.model_copy(update={"lacking": list(lacking)}))
                self.cells += judged
                pending = [cell for cell in pending if cell not in mine]
        if pending:
            self.blocks.append(_block(pending[0], lacking=lacking))
            self.cells += [_report(cell, len(self.blocks) - 1, verdict="not run") for cell in pending]

    def correct(self, begun: int) -> None:
        """Correct the directions of one table, which are a family, and decide them.

        A comparison that several cells show, of either of the two rows, is one test. A cell with the published
        difference 0 has no direction.
        """
        directed = [
            (i, cell, cell.direction, cell.published_difference)
            for i, cell in enumerate(self.cells[begun:], begun)
            if cell.direction is not None and cell.published_difference is not None
        ]
        family: dict[tuple[object, ...], float] = {}
        for _, cell, direction, published in directed:
            if published != 0:
                test = _test_of(self.blocks[cell.block], direction.metric)
                family[test] = max(direction.p, family.get(test, 0.0))
        corrected = dict(zip(family, map(float, holm(list(family.values()))), strict=True))
        for i, cell, direction, published in directed:
            p = direction.p if published == 0 else corrected[_test_of(self.blocks[cell.block], direction.metric)]
            self.cells[i] = cell.model_copy(update={"direction": decide(direction, published, p)})


def _test_of(block: Block, metric: str) -> tuple[object, ...]:
    """The key of a direction's test: the two systems in either order, the metric, the data."""
    assert block.measurement is not None
    assert block.rival is not None
    ours = block.measurement
    data = tuple((item.dataset, item.split, item.template) for item in ours.data)
    systems = frozenset((ours.method, block.rival.method))
    return systems, metric, data, ours.pool, tuple(sorted(ours.slices.items()))


def _recipes_of_line(line: Sequence[PrintedCell], models: Mapping[str, str]) -> list[Recipe]:
    """The recipes of a line, each once, in the order in which to try them."""
    recipes: list[Recipe] = []
    for cell in line:
        recipes += [recipe for recipe in recipes_of(cell, models) if recipe not in recipes]
    return recipes


def _measure(
    recipe: Recipe, cells: Sequence[PrintedCell], runs: MethodRuns, block: int
) -> tuple[Block, list[CellReport]]:
    """A block and the judged cells of one recipe."""
    made = _block(
        cells[0],
        against=recipe.against,
        follows=list(recipe.follows),
        differences=list(recipe.differences),
        other_data=bool(OF_DATA.intersection(recipe.differences)),
        note=recipe.note,
    )
    if recipe.rival is not None:
        return _direction(recipe, cells, runs, made, block)
    names = recipe.measures(cells)
    answers, estimated = estimates(recipe.method, recipe, names, runs, recipe.minus)
    measurement = measurement_of(recipe.method, answers, recipe, recipe.minus)
    same = recipe.minus is not None and same_answers(answers, runs.ask(recipe.minus, recipe, names))
    standard, others = _standard(recipe, cells, names, runs)
    judged = []
    for cell, estimate, other in zip(cells, estimated, others, strict=True):
        margin = margin_of(cell.unit)
        if margin is None:
            verdict = judge_count(cell.value, *count_range(answers.results[0], estimate.metric))
        elif is_fact(estimate.metric):
            verdict = judge_fact(cell.value, estimate.mean, margin)
        else:
            decided = enough_units(answers.units)
            verdict = judge_value(cell.value, estimate.low_90, estimate.high_90, margin, decided)
        verdict = SAME if same else verdict
        difference = estimate.mean - cell.value
        reasons = list(recipe.differences) if verdict == "not reproduced" else []
        ours = {"measured": estimate, "difference": difference, "margin": None if same else margin, "reasons": reasons}
        judged.append(_report(cell, block, verdict=verdict, standard=other, **ours))
    return made.model_copy(update={"measurement": measurement, "standard": standard}), judged


def _standard(
    recipe: Recipe, cells: Sequence[PrintedCell], names: Sequence[str], runs: MethodRuns
) -> tuple[Measurement | None, list[Estimate | None]]:
    """The number by the protocol; None for cells measured that way anyway, or if it cannot run."""
    nothing: list[Estimate | None] = [None] * len(cells)
    standard = recipe.standard
    if standard is None:
        return None, nothing
    others = [standard.measure.get(cell.metric, name) for cell, name in zip(cells, names, strict=True)]
    method = standard.method or recipe.method
    try:
        answers, estimated = estimates(method, recipe, others, runs)
    except BenchError:
        return None, nothing
    changed = [standard.method is not None or other != name for other, name in zip(others, names, strict=True)]
    return measurement_of(method, answers, recipe), [
        estimate if different else None for estimate, different in zip(estimated, changed, strict=True)
    ]


def _direction(
    recipe: Recipe, cells: Sequence[PrintedCell], runs: MethodRuns, made: Block, block: int
) -> tuple[Block, list[CellReport]]:
    """Cells whose number is not comparable, but whose order relative to another row is."""
    assert recipe.rival is not None
    names = recipe.measures(cells)
    first, second, pairs = compare_methods(recipe.method, recipe.rival, recipe, names, runs)
    _, estimated = estimates(recipe.method, recipe, names, runs)
    judged = []
    for cell, pair, estimate in zip(cells, pairs, estimated, strict=True):
        measured = None if cell.is_difference else estimate
        if pair.outcome == SAME:
            judged.append(_report(cell, block, verdict=SAME, measured=measured))
            continue
        published = cell.value if cell.is_difference else cell.value - recipe.opponent(cell).value
        tested = {"published_difference": published, "direction": decide(pair, published, pair.p)}
        judged.append(_report(cell, block, verdict="direction only", measured=measured, **tested))
    update = {
        "measurement": measurement_of(recipe.method, first, recipe),
        "rival": measurement_of(recipe.rival, second, recipe),
    }
    return made.model_copy(update=update), judged


def _block(cell: PrintedCell, **fields: Any) -> Block:
    """The block of a cell's row and place."""
    return Block(table=cell.table, row=cell.row, dataset=cell.dataset, split=cell.split, **fields)


def _report(cell: PrintedCell, block: int, **fields: object) -> CellReport:
    made = {"paper": paper_of(cell.table), "published": cell.value, "block": block}
    return CellReport.model_validate({**asdict(cell), **made, **fields})

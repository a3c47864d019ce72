"""What perturbations do to methods: the records, the family of tests, the tables, and the file of a method.

The file is `stress.json` in the folder of the method's result on the unperturbed dataset, so that both are removed
together. It has ids and numbers, and no text of the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bench.base.errors import ResultError
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import Record
from bench.base.spec import parse
from bench.base.text import one_line
from bench.identity.reach import reach_modules
from bench.results.manifest import MetricValue
from bench.results.store import STRESS, StoredResult, to_json
from bench.robustness.perturbation import BUILT_IN, Kind, built_in, choose
from bench.show.numbers import NONE, count, dagger, estimate, format_fixed, format_signed, interval, percent, several
from bench.show.objects import Displayable
from bench.show.tables import Cell as TableCell
from bench.show.tables import Table, mean_cell
from bench.stats.multiple import LEVEL, holm

#: What the stored file is about, so that files of different results compare.
METRIC, SEED = "recall@5", 0
#: Code that makes results, and has hashes of its own there; and code that only shows or stores.
_OF_RESULTS = (
    *("bench.evaluation", "bench.identity", "bench.interface", "bench.lookup", "bench.metrics", "bench.models"),
    *("bench.registry", "bench.remote", "bench.results", "bench.robustness.report", "bench.show"),
)
#: Methods up to which a table has room for intervals, and for which it has columns at all.
_MOST_WITH_ENDS, _MOST_COLUMNS = 4, 8


class Worst(Record):
    """The query that loses most: its values, and its first tool, before and after."""

    query_id: str
    before: float
    after: float
    first_before: str | None
    first_after: str | None


class Capture(Record):
    """What attackers reach.

    Attributes:
        attackers: number of their tools.
        capture: the share of queries with an attacker among the first k.
        mean: ToolFlood's mean of D, the number of attackers among the first k.
        domination: ToolFlood's TDR, the share of queries in which all of the first k are attackers.
        pairs: pairs of an attacker and its target that are both among the first k of a query.
        above: the share of these pairs in which the attacker ranks above its target (arXiv 2505.18135 counts what a
            model then uses); None without pairs.
        tokens: mean tokens of an attacker's description; None without the tokeniser.
        captured: ids of the queries with an attacker among the first k.
    """

    attackers: int
    capture: MetricValue
    mean: float
    domination: float
    pairs: int
    above: float | None
    tokens: float | None
    captured: list[str]


class Separation(Record):
    """How well the score of the first tool separates requests from the same ones whose right tools are hidden.

    Attributes:
        auroc: the metric `auroc` over both, each request with its own unit of independence.
        rate: the share of false returns at which the cut was learnt.
        learnt_on: past queries of which it was learnt, 0 if there are too few.
        answered: the share of requests whose first tool reaches the cut; None without a cut.
        false_returns: the share of requests with hidden tools for which this is so.
    """

    auroc: MetricValue
    rate: float
    learnt_on: int = 0
    answered: float | None = None
    false_returns: float | None = None


class Effect(Record):
    """What one perturbation does to a method.

    Attributes:
        perturbation: its name with arguments.
        note: why there are no numbers, or what readers should know.
        n, units: judged queries that it may change, in units of independence.
        decided: whether the units are enough for a conclusion.
        before, after: means of the metric; of `growth` on the smaller and on the whole library.
        loss: before minus after, with the 95% interval of the paired comparison.
        p: two-sided, of the paired randomisation test; `corrected` by Holm over the family of the report.
        worse, better: queries.
        changed: the share of the queries whose first k tools are others.
        tools: number of tools in the perturbed library.
    """

    perturbation: str
    kind: Kind
    note: str = ""
    n: int = 0
    units: int = 0
    decided: bool = False
    before: float | None = None
    after: float | None = None
    loss: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = Field(default=None, ge=0, le=1)
    corrected: float | None = Field(default=None, ge=0, le=1)
    worse: int = 0
    better: int = 0
    changed: float | None = None
    tools: int = 0
    worst: Worst | None = None
    capture: Capture | None = None
    separation: Separation | None = None

    @model_validator(mode="after")
    def _has_all_numbers_or_none(self) -> Self:
        known = {value is not None for value in (self.before, self.after, self.loss, self.p)}
        if len(known) > 1 or (self.loss is None and self.decided):
            raise ValueError("an effect has a loss, both means and a p-value, or none of these")
        return self

    @property
    def mark(self) -> str:
        """The dagger of a loss or gain that is shown; empty without enough units."""
        return "" if self.corrected is None or not self.decided else dagger(self.corrected)


class MethodStress(Record):
    """What perturbations do to a method, whose result on the unperturbed dataset is `result_id`.

    `note` says that the method gives other numbers than that result when it is asked again.
    """

    schema_name: Literal["stress"] = "stress"
    schema_version: Literal[1] = 1
    result_id: str
    label: str
    method: str
    dataset: str
    content_hash: str
    metric: str
    k: int = Field(ge=1)
    seed: int
    code: str
    note: str = ""
    effects: list[Effect]

    @property
    def worst(self) -> Effect | None:
        """The largest loss under requests, descriptions and attacks with enough units; None without any."""
        losses = [effect for effect in self.effects if effect.decided and effect.kind != "growth"]
        return max(losses, key=lambda effect: effect.loss or 0.0, default=None)


class StressReport(Record):
    """Methods on one dataset; `corrected` p-values are of the family of all their losses."""

    schema_name: Literal["stress-report"] = "stress-report"
    schema_version: Literal[1] = 1
    level: float = LEVEL
    tests: int
    methods: list[MethodStress]


def with_family(methods: Sequence[MethodStress]) -> StressReport:
    """Methods with p-values corrected by Holm over all their losses; the one that loses least at worst is first."""
    p = [effect.p for method in methods for effect in method.effects if effect.p is not None]
    corrected = iter(holm(p).tolist() if p else [])
    made = [
        method.model_copy(
            update={
                "effects": [
                    effect if effect.p is None else effect.model_copy(update={"corrected": next(corrected)})
                    for effect in method.effects
                ]
            }
        )
        for method in methods
    ]

    def largest(method: MethodStress) -> tuple[float, str]:
        worst = method.worst
        return (0.0 if worst is None or worst.loss is None else worst.loss), method.method

    return StressReport(tests=len(p), methods=sorted(made, key=largest))


def code_of_stress() -> str:
    """The hash of the code of all built-in perturbations and measurements.

    That of methods, of asking them and of metrics belongs to the result.
    """
    modules = (*BUILT_IN, "measure", "separation")
    return reach_modules(*(f"{__package__}.{name}" for name in modules), without=_OF_RESULTS).hash()


def write_stress(folder: Path, method: MethodStress) -> None:
    """Write what built-in perturbations did to a method by `METRIC` with `SEED`; effects that it lacks are kept.

    Nothing is known of the code of other perturbations, so that what they did would stay when they change.
    """
    mine = [effect for effect in method.effects if parse(effect.perturbation).name in built_in()]
    if (method.metric, method.seed) != (METRIC, SEED) or not mine:
        return
    try:
        known = read_stress(folder)
    except ResultError:
        known = None
    kept: list[Effect] = []
    keys = ("result_id", "metric", "seed", "code", "note")
    if known is not None and all(getattr(known, key) == getattr(method, key) for key in keys):
        fresh = {effect.perturbation for effect in mine}
        kept = [effect for effect in known.effects if effect.perturbation not in fresh]
    write_text(folder / STRESS, to_json(method.model_copy(update={"effects": [*kept, *mine]})))


def read_stress(folder: Path) -> MethodStress | None:
    """The file in a result's folder; None if there is none.

    Raises:
        ResultError: it cannot be read.
    """
    path = folder / STRESS
    if path.is_symlink() or not path.exists():
        return None
    return Reader(str(path), ResultError, "; run `bench stress` again").read_record(MethodStress, path)


def read_current(result: StoredResult) -> MethodStress | None:
    """What today's code measured on a result, by `METRIC` with `SEED`; None if nothing was. Page and gate use it.

    Raises:
        ResultError: the file cannot be read, or does not hold for this result today.
    """
    method, manifest = read_stress(result.folder), result.manifest
    if method is None:
        return None
    again, where = "; run `bench stress` again", result.folder / STRESS
    if (method.result_id, method.content_hash) != (manifest.result_id, manifest.dataset.content_hash):
        raise ResultError(f"{where} is of another result{again}.")
    if method.code != code_of_stress():
        raise ResultError(f"{where} was made by other code{again}.")
    if (method.metric, method.seed) != (METRIC, SEED) or METRIC not in result.metrics.metrics:
        raise ResultError(f"{where} is not about {METRIC} of the result with seed {SEED}{again}.")
    if method.note:
        raise ResultError(f"{where} does not hold: {method.note}.")
    known = set(result.per_query["query_id"].to_pylist())
    captured = {query for effect in method.effects if effect.capture for query in effect.capture.captured}
    if not captured <= known:
        raise ResultError(f"{where} names queries that the result does not have{again}.")
    return method


def captured_queries(folder: Path) -> dict[str, list[str] | None]:
    """Each built-in attack with usual arguments, as `capture@k under ATTACK` -> ids of the queries that it captures.

    None for an attack that was not measured. The gate asks for it.

    Raises:
        ResultError: the file cannot be read, or does not hold for the result today.
    """
    method = read_current(StoredResult.read(folder))
    if method is None:
        return {}
    found = by_name(method)
    captures = {str(item): found[str(item)].capture if str(item) in found else None for item in choose(["attack"])}
    return {
        f"capture@{method.k} under {name}": None if capture is None else capture.captured
        for name, capture in captures.items()
    }


@dataclass(frozen=True, repr=False)
class Stress(Displayable):
    """What breaks some methods on a dataset, as `bench.stress` returns it.

    Attributes:
        report: the numbers.
        texts: query id -> its text.
        reworded: (perturbation, query id) -> the text of its worst query, if it changes requests.
    """

    report: StressReport
    texts: Mapping[str, str] = field(default_factory=dict)
    reworded: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The report, as `bench stress --json` prints it."""
        return self.report.model_dump(mode="json")

    def _line(self) -> str:
        parts = [
            f"{method.label}: {worst.perturbation} {format_signed(-(worst.loss or 0.0))}"
            for method in self.report.methods
            if (worst := method.worst) is not None
        ]
        return "; ".join(parts) or "nothing was measured"

    def _tables(self) -> list[Table]:
        methods = self.report.methods
        starts = range(0, len(methods), _MOST_COLUMNS)
        parts = [self.report.model_copy(update={"methods": methods[i : i + _MOST_COLUMNS]}) for i in starts]
        made = [*map(losses, parts), *map(growth, parts), attacks(self.report), absence(self.report)]
        return [table for table in made if table.rows]

    @property
    def worst_queries(self) -> list[str]:
        """A sentence for each perturbation of the first method: the query that loses most."""
        sentences = []
        for effect in self.report.methods[0].effects if self.report.methods else ():
            if (worst := effect.worst) is None:
                continue
            text = self.reworded.get((effect.perturbation, worst.query_id), self.texts.get(worst.query_id, ""))
            sentences.append(
                f"{effect.perturbation}: {worst.query_id} from {format_fixed(worst.before, 2)} to "
                f"{format_fixed(worst.after, 2)}, first {worst.first_after or 'nothing'}: {one_line(text, 160)}"
            )
        return sentences

    @property
    def notes(self) -> list[str]:
        """Sentences about what was not measured or stored, each once."""
        methods = self.report.methods
        found = [f"{method.label}: {method.note}" for method in methods if method.note]
        if methods and (methods[0].metric, methods[0].seed) != (METRIC, SEED):
            found.append(f"not stored: site and gate know what was measured by {METRIC} with seed {SEED}")
        effects = (effect for method in methods for effect in method.effects)
        return list(dict.fromkeys([*found, *(f"{one.perturbation}: {one.note}" for one in effects if one.note)]))


def by_name(method: MethodStress) -> dict[str, Effect]:
    """Perturbation -> effect."""
    return {effect.perturbation: effect for effect in method.effects}


def names_of(report: StressReport, *kinds: Kind) -> list[str]:
    """The perturbations of these kinds that some method has numbers for, in order."""
    effects = (effect for method in report.methods for effect in method.effects)
    return list(dict.fromkeys(effect.perturbation for effect in effects if effect.kind in kinds and _measured(effect)))


def _measured(effect: Effect) -> bool:
    return effect.loss is not None or effect.separation is not None


def _loss_cell(effect: Effect | None, ends: bool) -> TableCell:
    """A loss, shown as a negative number, with its dagger and, if there is room, its interval."""
    if effect is None or effect.loss is None:
        return TableCell(NONE)
    low, high = (None if end is None else -end for end in (effect.high, effect.low))
    below = interval(low, high, "brackets", sign=True, none="") if ends else ""
    return TableCell(format_signed(-effect.loss), mark=effect.mark, below=(below,) if below else ())


def _by_method(report: StressReport, names: Sequence[str], title: str, head: str) -> Table:
    """Rows are perturbations, columns methods; many methods are in narrow columns without intervals."""
    methods, ends = report.methods, len(report.methods) <= _MOST_WITH_ENDS
    columns = range(1, len(methods) + 1)
    table = Table([head, *(one_line(method.method, 60) for method in methods)], right=columns, title=title)
    if not ends:
        table.tight, table.whole, table.widths = True, columns, dict.fromkeys(columns, 7) | {0: 19}
    effects = [by_name(method) for method in methods]
    sizes = {name: max(known[name].n for known in effects if name in known) for name in names}
    for name, n in sizes.items():
        few = (several(n, "query"),) if n < max(sizes.values()) else ()
        table.add(TableCell(name, below=few), *(_loss_cell(known.get(name), ends) for known in effects))
    return table


def losses(report: StressReport) -> Table:
    """A row for each perturbation of requests, library and attacks, a column for each method."""
    first = report.methods[0]
    table = _by_method(
        report,
        names_of(report, "request", "library", "attack"),
        f"{first.dataset}: change of {first.metric}"
        + (", with 95% intervals" if len(report.methods) <= _MOST_WITH_ENDS else " (--json has intervals)"),
        "perturbation",
    )
    table.notes = [
        f"† corrected p < .05, ‡ < .01, by Holm over {report.tests} tests; methods by their worst loss, smallest first."
    ]
    return table


def growth(report: StressReport) -> Table:
    """The same for growing libraries: from each smaller library to the whole one."""
    names = names_of(report, "growth")
    return _by_method(report, names, "from a smaller library to the whole one", "smaller library")


def attacks(report: StressReport) -> Table:
    """A row for each attack and method."""
    k = report.methods[0].k
    heads = ["attack", "method", f"capture@{k}", "mean D", "TDR", "above target", "tokens", "attackers"]
    table = Table(heads, right=range(2, len(heads)))
    for name in names_of(report, "attack"):
        for method in report.methods:
            effect = by_name(method).get(name)
            if effect is None or (made := effect.capture) is None:
                continue
            above = NONE if made.above is None else f"{percent(made.above)} of {count(made.pairs)}"
            numbers = (format_fixed(made.mean, 2), percent(made.domination, 1), above)
            tokens = NONE if made.tokens is None else count(made.tokens)
            table.add(
                name, one_line(method.method, 60), mean_cell(made.capture), *numbers, tokens, count(made.attackers)
            )
    return table


def absence(report: StressReport) -> Table:
    """A row for each method: how well its scores tell that the right tools are hidden."""
    heads = ["method", "AUROC", "answered", "false returns", "cut learnt on"]
    table = Table(heads, right=range(1, len(heads)))
    for method in report.methods:
        for effect in method.effects:
            if (made := effect.separation) is None:
                continue
            auroc = estimate(made.auroc.mean, made.auroc.low, made.auroc.high)
            shares = (NONE if share is None else percent(share) for share in (made.answered, made.false_returns))
            table.add(
                one_line(method.method, 60), auroc, *shares, f"{made.learnt_on} queries" if made.learnt_on else NONE
            )
    return table

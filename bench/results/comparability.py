"""What compares with what (rule 8 of the protocol), and results side by side.

Two results compare if they answer the same question: the same content of the dataset, split, limit of queries and
version of the protocol, and unit of independence. One of their metrics compares if the same code computed it.
`differences` and `metric_difference` are the only places that decide this; everything that compares results
uses them. Where a user asks for it, results on the same queries compare across catalogues of tools
(`bench.results.across_catalogues`).
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from bench.base.errors import BenchError, ResultError
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.template import template_name
from bench.interface import CURRENT_VERSIONS
from bench.metrics.measure import measure_name
from bench.registry import method_class, method_names
from bench.results.manifest import DatasetIdentity, Manifest, Mark, Metrics, ScoringCode

#: Versions of the scoring code that are known to give the same numbers, made by
#: `python benchmarks/samescoring.py`.
SAME_SCORING = Path(__file__).with_name("same_scoring.json")


class ScoredResult(Protocol):
    """What has a question and numbers: a manifest, a baseline, a candidate of a gate."""

    @property
    def dataset(self) -> DatasetIdentity: ...
    @property
    def protocol(self) -> str: ...
    @property
    def scoring(self) -> ScoringCode: ...


class Stored(Protocol):
    """A stored result, as far as tables of results need it."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def label(self) -> str: ...


S = TypeVar("S", bound=Stored)

#: Means that differ by less are equal: rounding alone puts them apart.
_SAME = 1e-12
_MOST_NAMED = 3
#: Signs that are told of the name of a package and of a version.
_LONGEST_TOLD = 40
#: The text of the mark of the kind `gold`.
ORDER_DEPENDS_ON_GOLD = "order depends on gold"


def comparison_key(item: ScoredResult) -> tuple[object, ...]:
    """What results must share to compare. Depth and tool text may differ, as methods do: marks name them."""
    data = item.dataset
    return data.content_hash, data.split, data.limit, item.protocol, data.unit


@dataclass(frozen=True)
class ResultDifference:
    """One thing in which two results differ, so that they do not compare.

    Attributes:
        what: what differs, such as `the split`.
        first, second: the values.
        remedy: what to do.
    """

    what: str
    first: str
    second: str
    remedy: str

    def sentence(self, first: str, second: str) -> str:
        """The difference in words; `first` and `second` say whose values they are."""
        return f"{self.what} differs: {self.first} for {first}, {self.second} for {second}; {self.remedy}"


_SCORE_AGAIN = "`bench run` scores a stored ranking again, without running it"
_RESCORE = "`bench rescore` brings a stored result to the rules of today, without running it"
_SAME_QUERIES = "run both on the same queries of the same data"


def differences(first: ScoredResult, second: ScoredResult, *, across: bool = False) -> list[ResultDifference]:
    """Why two results do not compare; nothing where they answer the same question.

    With `across`, they may be on other contents: `bench.results.across_catalogues` says whether their queries agree.
    """
    one, other = first.dataset, second.dataset
    reasons = data_differences(first, second)
    if across:
        # Versions that have the same rules do not differ: a catalogue may have lost all alternatives of its gold.
        same_rules = {first.protocol, second.protocol} <= CURRENT_VERSIONS
        reasons = [] if same_rules else _protocol_difference(first, second)
    return [
        *reasons,
        *_differing("the split", one.split, other.split, _SAME_QUERIES),
        *_differing("the limit of queries", one.limit or "none", other.limit or "none", _SAME_QUERIES),
    ] or _differing("the unit of independence", one.unit or "none", other.unit or "none", _RESCORE)


def data_differences(first: ScoredResult, second: ScoredResult) -> list[ResultDifference]:
    """Why two results are not about the same data: its content, or the protocol by which it was used."""
    one, other = first.dataset, second.dataset
    reasons = []
    # Of one content under two names, the content decides.
    if one.content_hash != other.content_hash and one.spec != other.spec:
        reasons += _differing("the dataset", one.spec, other.spec, "name results on the same data")
    else:
        again = "the data has changed between them: run the older one again"
        reasons += _differing("the content of the dataset", one.content_hash[:12], other.content_hash[:12], again)
    return reasons + _protocol_difference(first, second)


def _protocol_difference(one: ScoredResult, other: ScoredResult) -> list[ResultDifference]:
    return _differing("the version of the protocol", one.protocol, other.protocol, _RESCORE)


def check_content(manifest: Manifest, dataset: Dataset) -> None:
    """Refuse a dataset that is not what a result was made on; raises `ResultError`."""
    identity = manifest.dataset
    if identity.content_hash != dataset.content_hash:
        raise ResultError(
            f"the result {manifest.result_id} was made on {identity.spec} as it was then (content hash "
            f"{identity.content_hash[:12]}, now {dataset.content_hash[:12]}); run it again."
        )


def metric_difference(first: ScoredResult, second: ScoredResult, metric: str) -> ResultDifference | None:
    """Why a metric of two results does not compare: other code computed it.

    None where it compares, and where one of them does not have the measure. A result that has numbers and hides their
    code is refused where it is read (`without_code`).
    """
    one, other = code_of(first.scoring, metric), code_of(second.scoring, metric)
    if one == other or not one or not other:
        return None
    what = f"the version of the scoring code of {metric.partition('@')[0]}"
    return ResultDifference(what, one[:12], other[:12], _SCORE_AGAIN)


def token_difference(first: ScoredResult, second: ScoredResult) -> ResultDifference | None:
    """Why token counts of two results do not compare; None where they do."""
    one, other = current_code("tokens", first.scoring.tokens), current_code("tokens", second.scoring.tokens)
    if one == other:
        return None
    return ResultDifference("the version of the code that counts tokens", one[:12], other[:12], _SCORE_AGAIN)


def _differing(what: str, one: object, other: object, remedy: str) -> list[ResultDifference]:
    return [] if one == other else [ResultDifference(what, str(one), str(other), remedy)]


def code_of(scoring: ScoringCode, metric: str) -> str:
    """sha256 of the code that computed a metric; that of today's where the older code is known to give its numbers.

    Empty where the result did not have the measure.
    """
    name = measure_name(metric)
    code = scoring.measures.get(name, "")
    known: dict[str, str] = same_scoring()["measures"].get(name, {})
    return known.get(code, code)


def without_code(scoring: ScoringCode, metrics: Collection[str]) -> list[str]:
    """The metrics of a result that does not say what code computed them: they would compare with anything."""
    measures = {measure_name(name) for name in metrics}
    lacking = {measure for measure in measures if not code_of(scoring, measure)}
    return [name for name in metrics if measure_name(name) in lacking] if lacking else []


def current_code(kind: Literal["intervals", "tokens", "lenient", "ties"], code: str) -> str:
    """sha256 of the code that made intervals, token counts, lenient means or tie bands, as `code_of` gives it."""
    known: dict[str, str] = same_scoring()[kind]
    return known.get(code, code)


def has_same_code(first: ScoringCode, second: ScoringCode, metrics: Iterable[str]) -> bool:
    """Whether the same code made the metrics, intervals and token counts of two results."""
    return (
        all(code_of(first, name) == code_of(second, name) for name in metrics)
        and current_code("intervals", first.intervals) == current_code("intervals", second.intervals)
        and current_code("tokens", first.tokens) == current_code("tokens", second.tokens)
    )


@cache
def same_scoring() -> dict[str, dict[str, Any]]:
    """What `python benchmarks/samescoring.py` has found: sha256 of older code -> that of code with the same numbers.

    For `intervals`, `tokens`, `lenient` and `ties`; and under `measures` for each measure by its name.
    """
    known: dict[str, dict[str, Any]] = json.loads(SAME_SCORING.read_text("utf-8"))
    return known


def comparable(results: Sequence[S]) -> list[list[S]]:
    """Groups of results on one dataset that answer the same question, in the order in which they come."""
    groups: defaultdict[tuple[str, tuple[object, ...]], list[S]] = defaultdict(list)
    for result in results:
        groups[result.manifest.dataset.spec, comparison_key(result.manifest)].append(result)
    return list(groups.values())


def order_results(results: Sequence[S], metric: str) -> list[S]:
    """Best first by the mean of a metric; oracles, which are no competitors, come last."""
    return sorted(results, key=lambda item: (item.manifest.method.oracle, -_mean(item, metric), item.label))


def doubtful_leads(rows: Sequence[Stored], metric: str) -> list[bool]:
    """(rows,) whether a row's lead over the next is within the tie bands (rule 1 of the protocol).

    Such a lead vanishes when ties are broken against the first method and for the second.
    """
    doubtful = [False] * len(rows)
    for i, (first, second) in enumerate(itertools.pairwise(rows)):
        a, b = first.metrics.metrics.get(metric), second.metrics.metrics.get(metric)
        if a is None or b is None or first.manifest.method.oracle != second.manifest.method.oracle:
            continue
        worst = a.mean if a.tie_low is None else a.tie_low
        best = b.mean if b.tie_high is None else b.tie_high
        doubtful[i] = a.mean > b.mean and worst <= best
    return doubtful


def lenient_mean(result: Stored, metric: str) -> float | None:
    """The lenient mean of a metric; None where the result has none."""
    lenient = result.metrics.lenient
    return None if lenient is None else lenient.means.get(metric)


def reversals(rows: Sequence[Stored], metric: str) -> list[tuple[int, int]]:
    """Pairs of rows whose order by a metric depends on tools that read like a gold tool.

    Any change of the sign of the difference counts, however small, since a table puts rows in the order of their means;
    which orders are established is for the ranks to say. Oracles are no competitors, and lenient means of other code do
    not compare.

    Returns:
        Positions of pairs: the first has the larger mean, and the second the larger lenient mean.
    """
    measured = [
        (i, row.metrics.metrics[metric].mean, lenient)
        for i, row in enumerate(rows)
        if metric in row.metrics.metrics
        and (lenient := lenient_mean(row, metric)) is not None
        and not row.manifest.method.oracle
    ]
    turned = [
        (i, j)
        for (i, mean, lenient), (j, other_mean, other_lenient) in itertools.permutations(measured, 2)
        if mean - other_mean > _SAME and other_lenient - lenient > _SAME
    ]
    return [(i, j) for i, j in turned if _same_code(rows[i], rows[j], metric)]


def _same_code(first: Stored, second: Stored, metric: str) -> bool:
    one, other = first.metrics.lenient, second.metrics.lenient
    return (
        one is not None
        and other is not None
        and current_code("lenient", one.code) == current_code("lenient", other.code)
        and metric_difference(first.manifest, second.manifest, metric) is None
    )


def reversal_marks(
    rows: Sequence[Stored], names: Sequence[str], metric: str, rivals: Collection[int] | None = None
) -> list[Mark | None]:
    """(rows,) the mark of a row whose place by a metric depends on tools that read like a gold tool; None for others.

    Args:
        rows: results that compare.
        names: (rows,) what they are called.
        metric: what they are ordered by.
        rivals: positions of the rows that each one is held against; all if None.
    """
    others = range(len(rows)) if rivals is None else rivals
    pairs = reversals(rows, metric)
    row_marks: list[Mark | None] = []
    for i in range(len(rows)):
        above = [names[j] for k, j in pairs if k == i and j in others]
        below = [names[k] for k, j in pairs if j == i and k in others]
        parts = [f"{where} {_list_names(them)}" for where, them in (("above", above), ("below", below)) if them]
        usual = f"{metric} puts it {' and '.join(parts)}"
        why = f"{usual}; if tools that read like a gold tool count, it is the other way round"
        row_marks.append(Mark(kind="gold", text=ORDER_DEPENDS_ON_GOLD, why=why) if parts else None)
    return row_marks


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


@dataclass(frozen=True)
class Usual:
    """What most results of a group have, so that it goes without saying.

    Attributes:
        template: the text of a tool.
        packages: the version of each package that numbers depend on.
    """

    template: str
    packages: Mapping[str, str]


def usual(results: Sequence[Stored]) -> Usual:
    """What most results of a group have; of several with as many results, the first by name."""
    packages: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        for name, version in numeric_packages(result.manifest.environment.packages).items():
            packages[name].append(version)
    return Usual(usual_template(results), {name: _most_often(versions) for name, versions in packages.items()})


def numeric_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """Of the packages that a result was made with, those that numbers depend on beside the code of bench.

    Of Python its minor version counts: what comes after it mends faults.
    """
    numeric = {name: version for name, version in packages.items() if name != "bench"}
    if "python" in numeric:
        numeric["python"] = ".".join(numeric["python"].split(".")[:2])
    return numeric


def other_packages(packages: Mapping[str, str], others: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Package -> its two versions, of those that both results depend on and that differ: texts of a line."""
    one, other = numeric_packages(packages), numeric_packages(others)
    shared = sorted(one.keys() & other.keys())
    differing = [name for name in shared if one[name] != other[name]]
    return {_short(name): (_short(one[name]), _short(other[name])) for name in differing}


def _short(text: str) -> str:
    return one_line(text, _LONGEST_TOLD)


def describe_packages(other: Mapping[str, tuple[str, str]], form: str) -> str:
    """Packages that differ, in words; `form` has a place for the name and for each of the two versions."""
    return _list_names([form.format(name, *versions) for name, versions in other.items()])


def marks(result: Stored, usual: Usual) -> list[Mark]:
    """What a reader must know of a row; `usual` is what most rows of its group have."""
    manifest = result.manifest
    row_marks = []
    if manifest.method.oracle:
        row_marks.append(Mark(kind="oracle", text="oracle", why="it is shown the gold: an upper bound, no competitor"))
    row_marks += [*manifest.marks, *manifest.dataset.marks]
    if manifest.method.run_file:
        why = "a scored run file: no method of this harness ran, and its cost is not known"
        row_marks.append(Mark(kind="run file", text="run file", why=why))
    elif manifest.depth != DEFAULT_DEPTH:
        why = f"it gave {manifest.depth} tools for a query instead of the protocol's {DEFAULT_DEPTH}"
        row_marks.append(Mark(kind="depth", text=f"depth {manifest.depth}", why=why))
    if manifest.repeats > 1:
        why = f"each value of a query is the mean of {manifest.repeats} answers; of other rows it is that of one"
        row_marks.append(Mark(kind="repeats", text=f"{manifest.repeats} repeats", why=why))
    if manifest.dataset.template != usual.template:
        why = f"its tools are indexed as {manifest.dataset.tool_text}; most rows have {template_name(usual.template)}"
        row_marks.append(Mark(kind="text", text=f"text: {manifest.dataset.tool_text}", why=why))
    if other := other_packages(manifest.environment.packages, usual.packages):
        told = describe_packages(other, "{} {} (most rows: {})")
        why = f"made with other versions of packages: {told}; a small difference may come from there"
        row_marks.append(Mark(kind="packages", text="other packages", why=why))
    return row_marks


def competes(result: Stored) -> bool:
    """Whether a result's method is neither a floor nor an oracle: these have tests and ranks of their own."""
    method = result.manifest.method
    return not method.oracle and (method.run_file is not None or not _is_floor(method.spec.partition("(")[0]))


@cache
def _is_floor(name: str) -> bool:
    # A result may name any `module:Class`: only what is registered is ever imported.
    if name not in method_names():
        return False
    try:
        return method_class(name).is_floor
    except BenchError:
        return False


def usual_template(results: Sequence[Stored]) -> str:
    """The tool text that most results of a group have."""
    return _most_often([result.manifest.dataset.template for result in results])


def _most_often(values: Sequence[str]) -> str:
    return max(sorted(set(values)), key=values.count)


def _mean(result: Stored, metric: str) -> float:
    value = result.metrics.metrics.get(metric)
    return -1.0 if value is None else value.mean

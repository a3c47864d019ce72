"""Which results compare (rule 8 of the protocol).

Two results compare if they answer the same question: the same content of the dataset, split, limit of queries and
version of the protocol, and unit of independence. One of their metrics compares if the same code computed it.
`differences` and `metric_difference` are the only places that decide this; all comparisons use them. On request,
results on the same queries compare across catalogues of tools (`bench.results.across_catalogues`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bench.base.errors import ResultError
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.interface import CURRENT_VERSIONS
from bench.results.manifest import DatasetIdentity, Manifest, Metrics, ScoringCode
from bench.results.scoring_code import code_of, current_code


class ScoredResult(Protocol):
    """Anything with a question and numbers: a manifest, a baseline, a candidate of a gate."""

    @property
    def dataset(self) -> DatasetIdentity: ...
    @property
    def protocol(self) -> str: ...
    @property
    def scoring(self) -> ScoringCode: ...


class Stored(Protocol):
    """The part of a stored result that tables of results need."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def label(self) -> str: ...


S = TypeVar("S", bound=Stored)

_MOST_NAMED = 3
#: Maximum characters shown of a package name and of a version.
_LONGEST_TOLD = 40


def comparison_key(item: ScoredResult) -> tuple[object, ...]:
    """What two results must share to compare. Depth and tool text may differ, as methods do: marks name them."""
    data = item.dataset
    return data.content_hash, data.split, data.limit, item.protocol, data.unit


@dataclass(frozen=True)
class ResultDifference:
    """A difference that makes two results not comparable.

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
_RESCORE = "`bench rescore` updates a stored result to today's rules, without running it"
_SAME_QUERIES = "run both on the same queries of the same data"


def differences(first: ScoredResult, second: ScoredResult, *, across: bool = False) -> list[ResultDifference]:
    """Why two results do not compare; empty if they answer the same question.

    With `across`, they may be on different contents: `bench.results.across_catalogues` says whether their queries
    agree.
    """
    one, other = first.dataset, second.dataset
    reasons = data_differences(first, second)
    if across:
        # Versions with the same rules count as equal: a catalogue may have lost all alternatives of its gold.
        same_rules = {first.protocol, second.protocol} <= CURRENT_VERSIONS
        reasons = [] if same_rules else _protocol_difference(first, second)
    return [
        *reasons,
        *_differing("the split", one.split, other.split, _SAME_QUERIES),
        *_differing("the limit of queries", one.limit or "none", other.limit or "none", _SAME_QUERIES),
    ] or _differing("the unit of independence", one.unit or "none", other.unit or "none", _RESCORE)


def data_differences(first: ScoredResult, second: ScoredResult) -> list[ResultDifference]:
    """Why two results are not about the same data: they differ in content or in the protocol."""
    one, other = first.dataset, second.dataset
    reasons = []
    # If one content has two names, the content decides.
    if one.content_hash != other.content_hash and one.spec != other.spec:
        reasons += _differing("the dataset", one.spec, other.spec, "name results on the same data")
    else:
        again = "the data has changed between them: run the older one again"
        reasons += _differing("the content of the dataset", one.content_hash[:12], other.content_hash[:12], again)
    return reasons + _protocol_difference(first, second)


def _protocol_difference(one: ScoredResult, other: ScoredResult) -> list[ResultDifference]:
    return _differing("the version of the protocol", one.protocol, other.protocol, _RESCORE)


def check_content(manifest: Manifest, dataset: Dataset) -> None:
    """Raise `ResultError` unless a result was made on this dataset."""
    identity = manifest.dataset
    if identity.content_hash != dataset.content_hash:
        raise ResultError(
            f"the result {manifest.result_id} was made on {identity.spec} as it was then (content hash "
            f"{identity.content_hash[:12]}, now {dataset.content_hash[:12]}); run it again."
        )


def metric_difference(first: ScoredResult, second: ScoredResult, metric: str) -> ResultDifference | None:
    """Why a metric of two results does not compare: different code computed it.

    None if it compares, or if one of them lacks the measure. A result with numbers of unstated code is refused when it
    is read (`without_code`).
    """
    one, other = code_of(first.scoring, metric), code_of(second.scoring, metric)
    if one == other or not one or not other:
        return None
    what = f"the version of the scoring code of {metric.partition('@')[0]}"
    return ResultDifference(what, one[:12], other[:12], _SCORE_AGAIN)


def token_difference(first: ScoredResult, second: ScoredResult) -> ResultDifference | None:
    """Why token counts of two results do not compare; None if they do."""
    one, other = current_code("tokens", first.scoring.tokens), current_code("tokens", second.scoring.tokens)
    if one == other:
        return None
    return ResultDifference("the version of the code that counts tokens", one[:12], other[:12], _SCORE_AGAIN)


def _differing(what: str, one: object, other: object, remedy: str) -> list[ResultDifference]:
    return [] if one == other else [ResultDifference(what, str(one), str(other), remedy)]


def comparable(results: Sequence[S]) -> list[list[S]]:
    """Groups of results on one dataset that answer the same question, in their order."""
    groups: defaultdict[tuple[str, tuple[object, ...]], list[S]] = defaultdict(list)
    for result in results:
        groups[result.manifest.dataset.spec, comparison_key(result.manifest)].append(result)
    return list(groups.values())


def numeric_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """The packages of a result that its numbers depend on, beside the code of bench.

    For Python, only the minor version counts: patch releases fix bugs.
    """
    numeric = {name: version for name, version in packages.items() if name != "bench"}
    if "python" in numeric:
        numeric["python"] = ".".join(numeric["python"].split(".")[:2])
    return numeric


def other_packages(packages: Mapping[str, str], others: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Package -> its two versions, for packages that both results use in different versions."""
    one, other = numeric_packages(packages), numeric_packages(others)
    shared = sorted(one.keys() & other.keys())
    differing = [name for name in shared if one[name] != other[name]]
    return {_short(name): (_short(one[name]), _short(other[name])) for name in differing}


def _short(text: str) -> str:
    return one_line(text, _LONGEST_TOLD)


def describe_packages(other: Mapping[str, tuple[str, str]], form: str) -> str:
    """Packages that differ, in words; `form` has placeholders for the name and the two versions."""
    return list_names([form.format(name, *versions) for name, versions in other.items()])


def list_names(names: Sequence[str]) -> str:
    """The first few names, and the number of others."""
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"

"""The records stored with a result: the manifest (rule 7) and the metrics, as versioned, strict models."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from bench.base.protocol import MOST_REPEATS
from bench.base.records import Record, Sparing
from bench.base.text import clean
from bench.data.origins import from_traces, synthetic
from bench.data.template import template_name
from bench.identity.used import Used
from bench.results.settings import EvaluatedSplit, RunSettings, TemplateText
from bench.stats.percentiles import percentiles

SCHEMA_VERSION = 1

#: Kinds of marks. A `method` mark comes from the method itself, such as that rules replace a language model.
MarkKind = Literal[
    "method",
    "trained on test",
    "near test",
    "tools seen",
    "declared training set",
    "near copies unknown",
    "from traces",
    "synthetic queries",
    "oracle",
    "run file",
    "origin",
    "depth",
    "repeats",
    "text",
    "failed",
    "bundles seen",
    "bundles unknown",
    "older scoring",
    "older version",
    "unfinished",
    "protocol",
    "gold",
    "packages",
    "variants",
]
#: Marks from the training cards of a method's models; each is a kind of its own.
_OF_MODELS: tuple[MarkKind, ...] = (
    *("trained on test", "near test", "tools seen"),
    *("declared training set", "near copies unknown"),
)


#: Maximum number of characters of an alias.
_LONGEST_ALIAS = 40


def valid_alias(text: str) -> str:
    """The alias, if it is valid as the name of a result; raises `ValueError` with the reason otherwise."""
    if not 1 <= len(text) <= _LONGEST_ALIAS:
        raise ValueError(f"it has {len(text)} characters, and a name has 1 to {_LONGEST_ALIAS}")
    if "@" in text:
        raise ValueError("it reads like METHOD@DATASET")
    odd = [sign for sign in text if unicodedata.category(sign)[0] not in "LMN" and sign not in "._-+"]
    if odd or unicodedata.normalize("NFKC", text) != text or unicodedata.category(text[0])[0] not in "LN":
        raise ValueError("a name has letters, digits, and `.`, `_`, `-` or `+` after the first of them")
    if _LIKE_AN_ID.fullmatch(text):
        raise ValueError("it reads like the id of a result")
    return text


_LIKE_AN_ID = re.compile("[0-9a-f]{4,12}")
#: Maximum number of characters of a spec or of the name of a scored run file.
_LONGEST_NAME = 2_000
#: Scripts with letters that look like Latin ones.
_ALIKE = frozenset({"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "DESERET", "GREEK", "LISU", "MATHEMATICAL"})


def name_fault(text: str) -> str:
    """Why a text is not a name that a reader can see as it is; empty if it is one.

    Names are refused where they are given, where a submission is checked and where a site is built.
    """
    if len(text) > _LONGEST_NAME:
        return f"it has {len(text)} characters, more than {_LONGEST_NAME}"
    odd = next((sign for sign in text if sign != " " and (sign.isspace() or clean(sign) != sign)), "")
    return f"it has the sign U+{ord(odd):04X} ({unicodedata.name(odd, 'control')}), which nobody sees" if odd else ""


def looks_latin(text: str) -> bool:
    """Whether a name has letters that are not Latin and look like Latin ones, or other forms of a letter."""
    if text.isascii():
        return False
    scripts = {unicodedata.name(sign, "").partition(" ")[0] for sign in text if sign.isalpha() and not sign.isascii()}
    return not scripts.isdisjoint(_ALIKE) or unicodedata.normalize("NFKC", text) != unicodedata.normalize("NFC", text)


class Mark(Record):
    """A remark that every table must show with a result: a short text for the row, and the full sentence."""

    kind: MarkKind
    text: str
    why: str = ""

    @staticmethod
    def from_method(text: str, why: str) -> Mark:
        """A mark of a run from its method, or from the training cards of the method's models."""
        return Mark(kind=next((kind for kind in _OF_MODELS if kind == text), "method"), text=text, why=why)


class ScoringCode(Record):
    """The code that made a result's numbers: sha256 for each measure by its name, for intervals, for token counts."""

    measures: dict[str, str]
    intervals: str
    tokens: str


class StoredSettings(RunSettings, Sparing):
    """The settings of a result, from which its command is printed and run again (`bench.results.commands`).

    Attributes:
        method, dataset: their specs; for a scored run file, the name of the system.
        file: the name of a scored run file; None if a method of bench ran.
        metrics: metrics beyond the default ones.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"file", "metrics", *RunSettings.model_fields})

    method: str
    dataset: str
    file: str | None = None
    metrics: list[str] = []


class DatasetIdentity(Record, Sparing):
    """The data of a result: equal hashes and splits mean the same queries, tools and gold."""

    spared: ClassVar[frozenset[str]] = frozenset({"origins", "repeated_gold"})

    spec: str
    title: str
    content_hash: str
    split: EvaluatedSplit
    limit: Annotated[int, Field(ge=1)] | None
    queries: int
    judged: int
    no_gold: int
    tools: int
    history: int
    template: TemplateText
    #: What makes queries dependent, such as `gold+group`, or `none`; empty in results of protocol 1, which treated all
    #: queries as independent.
    unit: str = ""
    #: Units of independence among the judged queries, and their effective number of independent queries.
    units: int | None = None
    effective: float | None = None
    #: The source of the queries: datasets of one source are not independent of each other.
    source: str = ""
    #: Evaluated queries that people did not write: `traces`, or `model NAME` -> their number.
    origins: dict[str, Annotated[int, Field(ge=1)]] = {}
    #: Judged queries whose gold set is also that of a past query (`bench.data.novelty`). None without past queries, and
    #: in results of versions that did not record it.
    repeated_gold: Annotated[int, Field(ge=0)] | None = None

    @property
    def tool_text(self) -> str:
        """The template for display: a user's own template by its hash."""
        return template_name(self.template)

    @property
    def marks(self) -> list[Mark]:
        """The marks that every result on these queries gets for their source."""
        logged, written = from_traces(self.origins, self.queries), synthetic(self.origins, self.queries)
        marks = [Mark(kind="from traces", text="from traces", why=logged)] if logged else []
        return [*marks, Mark(kind="synthetic queries", text="synthetic queries", why=written)] if written else marks


class MethodIdentity(Record, Sparing):
    """The method of a result: `hash` covers name, parameters, model revisions and code."""

    spared: ClassVar[frozenset[str]] = frozenset({"ranked_by", "alias", "used"})

    spec: str
    full_spec: str
    hash: str
    revisions: dict[str, str]
    code: str
    oracle: bool
    needs_llm: bool
    #: For scored run files: the file's name and sha256; no method of ours ran.
    run_file: str | None = None
    #: Remarks that every table must show: rules in place of a language model, a model that knew the test.
    marks: list[Mark] = []
    #: Whether it, or one of its parts, learnt from past queries; None for a run file.
    learns: bool | None = None
    #: How a set was cut from the ranking, if the method recommends none: `size=3`, `threshold=0.41`, ...
    cut: str | None = None
    #: The hash of the code that made the ranking, if it is older: `code` is known to give the same ranking, and the
    #: result was renamed (`bench.lookup.current.adopt_name`).
    ranked_by: str = ""
    #: What the code of a user's method has used (`bench.identity.used`); `code` is its hash.
    used: Used | None = None
    #: The display name that its user chose (`bench run --name`). Ids and digests do not cover it, and it may change.
    alias: Annotated[str, AfterValidator(valid_alias)] | None = None

    @property
    def name(self) -> str:
        """What commands take: its alias, or else its spec, with the cut."""
        return self.alias or self.spec_label

    @property
    def label(self) -> str:
        """Its name in tables; one with look-alike letters is quoted."""
        return f"“{self.name}”" if looks_latin(self.name) else self.name

    @property
    def spec_label(self) -> str:
        """Its spec, with the cut."""
        return self.spec + (f" + {self.cut}" if self.cut else "")


class Latency(Record, Sparing):
    """Seconds for one query on its own. `cached`: the embeddings came from the cache, so times lack encoding."""

    spared: ClassVar[frozenset[str]] = frozenset({"p99"})

    p50: float
    p95: float
    #: None for fewer than a hundred queries: it would be the slowest of them.
    p99: float | None = None
    queries: int
    cached: bool

    @staticmethod
    def of(seconds: Sequence[float], *, cached: bool) -> Latency:
        """Summarise the times of single queries, of which there is at least one."""
        p50, p95, p99 = percentiles(seconds)
        return Latency(
            p50=round(p50, 6),
            p95=round(p95, 6),
            p99=None if p99 is None else round(p99, 6),
            queries=len(seconds),
            cached=cached,
        )


class ModelUse(Record):
    """The use of language models for ranking all queries, without learning and indexing.

    Requests are counted once, including those answered from the journal. `cost` is the price of all their tokens at the
    configured prices, in their currency; None if no prices were configured, or if an earlier process answered some of
    the queries.
    """

    requests: int
    from_journal: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class FailureReason(Record):
    """Why queries failed or got an empty answer: their number, and the id of one of them."""

    text: str
    count: int = Field(ge=1)
    query_id: str = ""


class Environment(Record):
    """The environment in which a result was made."""

    command: str
    created: str
    packages: dict[str, str]
    commit: str | None
    dirty: bool | None
    hardware: dict[str, str | int]


class Manifest(Record, Sparing):
    """A result's manifest."""

    spared: ClassVar[frozenset[str]] = frozenset({"repeats", "settings", "failures", "omitted", "digest"})

    schema_name: Literal["manifest"] = "manifest"
    schema_version: Literal[1] = 1
    result_id: str
    protocol: str
    dataset: DatasetIdentity
    method: MethodIdentity
    depth: int = Field(ge=1)
    #: How often a nondeterministic method has answered every query. Latency and facts are those of the first repeat;
    #: timings and model use are sums over all repeats.
    repeats: int = Field(1, ge=1, le=MOST_REPEATS)
    #: None in results of versions that did not store them; `bench.results.commands` reads both.
    settings: StoredSettings | None = None
    #: Seeds of the statistics; a method's own seeds are among its parameters.
    seeds: dict[str, int]
    environment: Environment
    #: Seconds of each stage.
    timings: dict[str, float]
    latency: Latency | None
    peak_memory_mib: float | None
    #: None if no language model was asked, and in results of versions that did not count it.
    model_use: ModelUse | None = None
    facts: dict[str, str | int | float | bool]
    warnings: list[str]
    #: Most frequent first; empty in results of earlier versions; `bench.results.failures` reads both.
    failures: list[FailureReason] = []
    resumed: bool = False
    #: The code that computed numbers from the ranking; when it changes, the ranking is scored again.
    scoring: ScoringCode
    #: sha256 of every other file of the result.
    files: dict[str, str] = {}
    #: Files left out on purpose (`bench results rm --ranking`). Any other missing file is damage.
    omitted: list[Literal["run.parquet"]] = []
    #: sha256 of all the fields above except the method's alias; a manifest without it is damaged. It reveals accidents,
    #: not forgery.
    digest: str = ""

    def sealed(self) -> Manifest:
        """The manifest with the digest of its fields, as written to disk."""
        return self.model_copy(update={"digest": _digest(self.model_dump(mode="json"))})

    @property
    def marks(self) -> list[Mark]:
        """The marks of the run."""
        return self.method.marks

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader must know: the warnings, the marks, and a graph without edges."""
        told = [f"{mark.text}: {mark.why}" for mark in (*self.marks, *self.dataset.marks)]
        # A fact of methods that follow a graph.
        if self.facts.get("edges") == 0:
            told.append(f"{self.method.spec} found no edge here, so it answers as it would without a graph")
        return [*self.warnings, *told]


def seal_fault(fields: Mapping[str, Any]) -> str:
    """What is wrong with the digest of a manifest, given the fields in the file; empty if it fits."""
    if not fields.get("digest"):
        return "has no digest of its fields, so that a change of it would not show"
    return "" if fields["digest"] == _digest(fields) else "was changed: its fields do not give its digest"


def _digest(fields: Mapping[str, Any]) -> str:
    """sha256 of all fields of a manifest except its digest and the alias."""
    others = {name: value for name, value in fields.items() if name != "digest"}
    if isinstance(method := others.get("method"), Mapping):
        others["method"] = {name: value for name, value in method.items() if name != "alias"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


#: Number of drawn orders behind the expected values of tie bands, before these were exact.
OLDER_DRAWS = 100


class MetricValue(Record):
    """One metric over a result: mean over `n` queries with its 95% interval and its tie band."""

    mean: float
    low: float | None
    high: float | None
    n: int
    tie_low: float | None = None
    tie_expected: float | None = None
    tie_high: float | None = None


class Lenient(Record):
    """A result's means if a tool that reads the same counts as the gold tool (`bench.data.alternatives`).

    A gold tool has the best rank among itself and its alternatives, and a ranked tool counts for one gold tool. Each
    metric on rankings has such a mean, over the same queries as its strict mean, except metrics for reproduction.
    """

    #: sha256 of the code that finds alternatives and ranks: means of different code do not compare.
    code: str
    #: Judged queries with a gold tool that has alternatives, and judgements (query, gold tool) that have any.
    queries: int
    judgements: int
    means: dict[str, float]


class Ties(Record):
    """How the tie bands of a result were computed (`bench.metrics.ties`)."""

    #: sha256 of the code that computes them.
    code: str
    #: By metric: number of drawn orders, of each query with a tie, that `tie_expected` averages; other metrics are
    #: exact.
    draws: dict[str, Annotated[int, Field(ge=1)]] = {}


class Variation(Record):
    """How a metric varies over the repeats of a run (`bench.stats.repeats`).

    `means` are those of the repeats, in order. The squared standard error of the mean is
    (between + within / repeats) / n, and `share` the part of it that is due to chance. `error`, `between` and `share`
    are null for a single unit.
    """

    means: list[float]
    within: float = Field(ge=0)
    between: float | None = Field(ge=0)
    error: float | None = Field(ge=0)
    share: float | None = Field(ge=0, le=1)


class Repeats(Record):
    """What the repeats of a result show."""

    #: Judged queries that failed or got no answer, in each repeat.
    n_failed: list[int]
    #: For every metric of the result.
    metrics: dict[str, Variation]


class Metrics(Record, Sparing):
    """A result's metrics. In a run with repeats, the value of a query is the mean of its values in the repeats."""

    spared: ClassVar[frozenset[str]] = frozenset({"repeats", "ties"})

    schema_name: Literal["metrics"] = "metrics"
    schema_version: Literal[1] = 1
    result_id: str
    #: Judged queries, those without gold, and judged queries that failed or got no answer (they score 0) in at least
    #: one repeat.
    n: int
    n_no_gold: int
    n_failed: int
    #: Judged queries in which a tie involves a gold tool; with repeats, in the repeat that has most of them.
    n_tied: int | None
    metrics: dict[str, MetricValue]
    #: Mean tokens of the text of the first k tools (`top_5`, `top_10`) and of the recommended set (`recommended`), and
    #: tokens of the `library`, all with the template of the run. `definitions` of the library and of the first five
    #: tools (`definitions_top_5`), with the template `full`. `answer`: mean over the answered queries of the text that
    #: an external search sent. Empty without the tokenizer; results of earlier versions have only the first four.
    tokens: dict[str, float]
    #: None if the ranking is gone, and in results of versions that did not compute it.
    lenient: Lenient | None = None
    #: Only if the method ran several times.
    repeats: Repeats | None = None
    #: Only if a tie involves a gold tool; not in results of versions that drew `OLDER_DRAWS` orders for all metrics.
    ties: Ties | None = None

    def tie_draws(self, metric: str) -> int:
        """Number of drawn orders that the `tie_expected` of a metric averages; 0 if it is exact."""
        if self.ties is None:
            return OLDER_DRAWS if self.n_tied and self.metrics[metric].tie_expected is not None else 0
        return self.ties.draws.get(metric, 0)

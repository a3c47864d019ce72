"""What is stored with a result: the manifest (rule 7) and the metrics, as versioned, strict models."""

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
from bench.data.origins import from_traces, synthetic
from bench.data.template import template_name
from bench.identity.used import Used
from bench.results.settings import EvaluatedSplit, RunSettings, TemplateText
from bench.stats.percentiles import percentiles

SCHEMA_VERSION = 1

#: What a mark is about. `method` is what a method says of itself, such as that rules replace a language model.
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
#: Marks that come from the training cards of the models behind a method, and are kinds of their own.
_OF_MODELS: tuple[MarkKind, ...] = (
    *("trained on test", "near test", "tools seen"),
    *("declared training set", "near copies unknown"),
)


#: Signs of an alias.
_LONGEST_ALIAS = 40


def valid_alias(text: str) -> str:
    """An alias, if it can stand for a result wherever one is named; raises `ValueError` with what is wrong."""
    if not 1 <= len(text) <= _LONGEST_ALIAS:
        raise ValueError(f"it has {len(text)} signs, and a name has 1 to {_LONGEST_ALIAS}")
    if "@" in text:
        raise ValueError("it reads like METHOD@DATASET")
    odd = [sign for sign in text if unicodedata.category(sign)[0] not in "LMN" and sign not in "._-+"]
    if odd or unicodedata.normalize("NFKC", text) != text or unicodedata.category(text[0])[0] not in "LN":
        raise ValueError("a name has letters, digits, and `.`, `_`, `-` or `+` after the first of them")
    if _LIKE_AN_ID.fullmatch(text):
        raise ValueError("it reads like the id of a result")
    return text


_LIKE_AN_ID = re.compile("[0-9a-f]{4,12}")


class Mark(Record):
    """What every table must say of a result: a short text for the row, and the sentence behind it."""

    kind: MarkKind
    text: str
    why: str = ""

    @staticmethod
    def from_method(text: str, why: str) -> Mark:
        """A mark that a run gets from its method, or from the training cards of the models behind it."""
        return Mark(kind=next((kind for kind in _OF_MODELS if kind == text), "method"), text=text, why=why)


class ScoringCode(Record):
    """The code that made a result's numbers: sha256 for each measure by its name, for intervals, for token counts."""

    measures: dict[str, str]
    intervals: str
    tokens: str


class StoredSettings(RunSettings, Sparing):
    """What a result was asked for: by this its command is printed, and it is run again (`bench.results.commands`).

    Attributes:
        method, dataset: their specs; of a scored run file, the name of the system.
        file: the name of a scored run file; None if a method of bench ran.
        metrics: metrics in addition to the default ones.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"file", "metrics", *RunSettings.model_fields})

    method: str
    dataset: str
    file: str | None = None
    metrics: list[str] = []


class DatasetIdentity(Record, Sparing):
    """Which data: equal hashes and splits mean the same queries, tools and gold."""

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
    #: What makes queries dependent, such as `gold+group`, or `none`; empty in results of protocol 1, which took all
    #: queries as independent.
    unit: str = ""
    #: Units of independence among the judged queries, and how many independent queries they are worth.
    units: int | None = None
    effective: float | None = None
    #: Where the queries come from: datasets of one source are not independent of each other.
    source: str = ""
    #: Evaluated queries that people did not write: `traces`, or `model NAME` -> their number.
    origins: dict[str, Annotated[int, Field(ge=1)]] = {}
    #: Judged queries whose gold set is also that of a past query (`bench.data.novelty`). None where there were no
    #: past queries, and in results of versions that did not record it.
    repeated_gold: Annotated[int, Field(ge=0)] | None = None

    @property
    def tool_text(self) -> str:
        """The template for a reader: a template of a user's own by its hash."""
        return template_name(self.template)

    @property
    def marks(self) -> list[Mark]:
        """The marks that every result on these queries gets for where they come from."""
        logged, written = from_traces(self.origins, self.queries), synthetic(self.origins, self.queries)
        marks = [Mark(kind="from traces", text="from traces", why=logged)] if logged else []
        return [*marks, Mark(kind="synthetic queries", text="synthetic queries", why=written)] if written else marks


class MethodIdentity(Record, Sparing):
    """Which method: `hash` is taken over name, parameters, model revisions and code."""

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
    #: What every table must say of it: rules in place of a language model, a model that knew the test.
    marks: list[Mark] = []
    #: Whether it, or a method that it is built on, learnt from past queries; None for a run file.
    learns: bool | None = None
    #: How a set was cut from the ranking, when the method recommends none: `size=3`, `threshold=0.41`, ...
    cut: str | None = None
    #: The hash of the code that made the ranking, where that is older: `code` is known to give the same, and the result
    #: was renamed (`bench.lookup.current.adopt_name`).
    ranked_by: str = ""
    #: What the code of a user's method has used (`bench.identity.used`), which `code` is taken over.
    used: Used | None = None
    #: What its user calls it (`bench run --name`). It is part of no id and of no digest, and may change.
    alias: Annotated[str, AfterValidator(valid_alias)] | None = None

    @property
    def label(self) -> str:
        """What tables call it: its alias, or else its spec, with the cut."""
        return self.alias or self.spec_label

    @property
    def spec_label(self) -> str:
        """Its spec, with the cut."""
        return self.spec + (f" + {self.cut}" if self.cut else "")


class Latency(Record, Sparing):
    """Seconds for one query on its own. `cached`: the embeddings came from the cache, so encoding is not in them."""

    spared: ClassVar[frozenset[str]] = frozenset({"p99"})

    p50: float
    p95: float
    #: None of fewer than a hundred queries: it would be the slowest of them.
    p99: float | None = None
    queries: int
    cached: bool

    @staticmethod
    def of(seconds: Sequence[float], *, cached: bool) -> Latency:
        """Of the times of single queries, at least one."""
        p50, p95, p99 = percentiles(seconds)
        return Latency(
            p50=round(p50, 6),
            p95=round(p95, 6),
            p99=None if p99 is None else round(p99, 6),
            queries=len(seconds),
            cached=cached,
        )


class ModelUse(Record):
    """What language models were asked for the ranking of all queries, learning and indexing left out.

    Requests are counted once, including those answered from the journal. `cost` is that of all their tokens at the
    configured prices, in their currency; None if no prices were configured, or if an earlier process answered some
    of the queries.
    """

    requests: int
    from_journal: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class FailureReason(Record):
    """Why queries failed, or were answered with nothing: how many, and the id of one of them."""

    text: str
    count: int = Field(ge=1)
    query_id: str = ""


class Environment(Record):
    """With what and how it was made."""

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
    #: How often the method, in which chance has a part, has answered every query. Latency and facts are those of the
    #: first repeat; timings and model use add up all of them.
    repeats: int = Field(1, ge=1, le=MOST_REPEATS)
    #: None in results of versions that did not store them: `bench.results.commands` reads both.
    settings: StoredSettings | None = None
    #: Seeds of the statistics; a method's own seeds are among its parameters.
    seeds: dict[str, int]
    environment: Environment
    #: Seconds of each stage.
    timings: dict[str, float]
    latency: Latency | None
    peak_memory_mib: float | None
    #: None where no language model was asked, and in results of versions that did not count it.
    model_use: ModelUse | None = None
    facts: dict[str, str | int | float | bool]
    warnings: list[str]
    #: The most frequent first; in results of earlier versions empty: `bench.results.failures` reads both.
    failures: list[FailureReason] = []
    resumed: bool = False
    #: The code that made numbers of the ranking; when it changes, the ranking is scored again.
    scoring: ScoringCode
    #: sha256 of every other file of the result.
    files: dict[str, str] = {}
    #: Files that are not in the folder on purpose (`bench results rm --ranking`). Any other that is gone is damage.
    omitted: list[Literal["run.parquet"]] = []
    #: sha256 of all the fields above but the method's alias; a manifest without it is damaged. It shows accidents, not
    #: forgery.
    digest: str = ""

    def sealed(self) -> Manifest:
        """The manifest with the digest of its fields, as it is written."""
        return self.model_copy(update={"digest": _digest(self.model_dump(mode="json"))})

    @property
    def marks(self) -> list[Mark]:
        """The marks that the run got."""
        return self.method.marks

    @property
    def notes(self) -> list[str]:
        """What a reader must know, in sentences: the warnings, the marks, and a graph without edges."""
        told = [f"{mark.text}: {mark.why}" for mark in (*self.marks, *self.dataset.marks)]
        # What a method that follows a graph says of it.
        if self.facts.get("edges") == 0:
            told.append(f"{self.method.spec} found no edge here, so it answers as it would without a graph")
        return [*self.warnings, *told]


def seal_fault(fields: Mapping[str, Any]) -> str:
    """What is wrong with the digest of a manifest, by its fields as the file has them; empty if they give it."""
    if not fields.get("digest"):
        return "has no digest of its fields, so that a change of it would not show"
    return "" if fields["digest"] == _digest(fields) else "was changed: its fields do not give its digest"


def _digest(fields: Mapping[str, Any]) -> str:
    """sha256 of all fields of a manifest but its digest and the alias."""
    others = {name: value for name, value in fields.items() if name != "digest"}
    if isinstance(method := others.get("method"), Mapping):
        others["method"] = {name: value for name, value in method.items() if name != "alias"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


#: Orders that the expected values of tie bands were drawn from before they were exact.
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
    """A result's means where a tool that reads the same counts as the gold tool (`bench.data.alternatives`).

    A gold tool has the best rank among itself and its alternatives, and a ranked tool counts for one gold tool. Each
    metric on rankings has such a mean, over the same queries as the usual one; those for reproduction have none.
    """

    #: sha256 of the code that decides what an alternative is and makes the ranks: means of other code do not compare.
    code: str
    #: Judged queries with a gold tool that has alternatives, and judgements (query, gold tool) that have any.
    queries: int
    judgements: int
    means: dict[str, float]


class Ties(Record):
    """How the tie bands of a result were made (`bench.metrics.ties`)."""

    #: sha256 of the code that makes them.
    code: str
    #: Drawn orders of each query with a tie that `tie_expected` is the mean of, by metric; all others are exact.
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
    """What is known of a result because its method has answered each query several times."""

    #: Judged queries that failed or were not answered, in each repeat.
    n_failed: list[int]
    #: Of every metric of the result.
    metrics: dict[str, Variation]


class Metrics(Record, Sparing):
    """A result's metrics. Of a run with repeats, the value of a query is the mean of its values in the repeats."""

    spared: ClassVar[frozenset[str]] = frozenset({"repeats", "ties"})

    schema_name: Literal["metrics"] = "metrics"
    schema_version: Literal[1] = 1
    result_id: str
    #: Judged queries, those without gold, and judged queries that failed or were not answered (they score 0), if only
    #: in one of the repeats.
    n: int
    n_no_gold: int
    n_failed: int
    #: Judged queries in which a tie involves a gold tool; of several repeats, in the one that has most of them.
    n_tied: int | None
    metrics: dict[str, MetricValue]
    #: Mean tokens of the text of the first k tools (`top_5`, `top_10`) and of the recommended set (`recommended`), and
    #: tokens of the `library`, all by the template of the run. `definitions` of the library and of the first five tools
    #: (`definitions_top_5`), by the template `full`. `answer`: mean over the answered queries of the text that a search
    #: outside of bench sent. Empty without the tokenizer; results of earlier versions have only the first four.
    tokens: dict[str, float]
    #: None where the ranking is not known any more, and in results of versions that did not compute it.
    lenient: Lenient | None = None
    #: Only where the method has run several times.
    repeats: Repeats | None = None
    #: Only where a tie involves a gold tool; not in results of versions that drew `OLDER_DRAWS` orders for all metrics.
    ties: Ties | None = None

    def tie_draws(self, metric: str) -> int:
        """How many drawn orders the `tie_expected` of a metric is the mean of; 0 where it is exact."""
        if self.ties is None:
            return OLDER_DRAWS if self.n_tied and self.metrics[metric].tie_expected is not None else 0
        return self.ties.draws.get(metric, 0)

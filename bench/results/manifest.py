"""What is written beside a result: the manifest (rule 7) and the metrics, as versioned, strict models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from bench.data.tables import Template

SCHEMA_VERSION = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DatasetIdentity(_Strict):
    """Which data: equal hashes and splits mean the same queries, tools and gold."""

    spec: str
    title: str
    content_hash: str
    split: Literal["train", "dev", "test", "all"]
    limit: int | None
    queries: int
    judged: int
    no_gold: int
    tools: int
    history: int
    template: Template


class MethodIdentity(_Strict):
    """Which method: `hash` is taken over name, parameters, model revisions and code."""

    spec: str
    full_spec: str
    hash: str
    revisions: dict[str, str]
    code: str
    oracle: bool
    needs_llm: bool
    #: For scored run files: the file's name and sha256; no method of ours ran.
    run_file: str | None = None
    #: What must be on the row in every table: rules in place of a language model, a model that knew the test.
    marks: list[str] = []
    #: How a set was cut from the ranking, when the method recommends none: `size=3`, `threshold=0.41`, ...
    cut: str | None = None


class Latency(_Strict):
    """Seconds for one query on its own. `cached`: the embeddings came from the cache, so encoding is not in them."""

    p50: float
    p95: float
    queries: int
    cached: bool


class ModelUse(_Strict):
    """What language models were asked for the ranking of all queries, learning and indexing left out.

    Requests are counted once, those answered from the journal too. `cost` is that of all their tokens at the prices
    that the run was told, in the currency of these; None where it was told none, or where a part of the queries was
    answered by an earlier process.
    """

    requests: int
    from_journal: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class Environment(_Strict):
    """With what and how it was made."""

    command: str
    created: str
    packages: dict[str, str]
    commit: str | None
    dirty: bool | None
    hardware: dict[str, str | int]


class Manifest(_Strict):
    """A result's manifest."""

    schema_name: Literal["manifest"] = "manifest"
    schema_version: Literal[1] = 1
    result_id: str
    protocol: str
    dataset: DatasetIdentity
    method: MethodIdentity
    depth: int
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
    resumed: bool = False
    #: sha256 over the code that made numbers of the ranking; when it changes, the ranking is scored again.
    scoring: str
    #: sha256 of every other file of the result.
    files: dict[str, str] = {}


class MetricValue(_Strict):
    """One metric over a result: mean over `n` queries with its 95% BCa interval and its tie band."""

    mean: float
    low: float | None
    high: float | None
    n: int
    tie_low: float | None = None
    tie_expected: float | None = None
    tie_high: float | None = None


class Metrics(_Strict):
    """A result's metrics."""

    schema_name: Literal["metrics"] = "metrics"
    schema_version: Literal[1] = 1
    result_id: str
    #: Judged queries, those without gold, and judged queries that failed or were not answered (they score 0).
    n: int
    n_no_gold: int
    n_failed: int
    #: Judged queries in which a tie involves a gold tool.
    n_tied: int | None
    metrics: dict[str, MetricValue]
    #: Mean tokens of the text of the first k tools (`top_5`, `top_10`) and of the recommended set; of the library.
    tokens: dict[str, float]

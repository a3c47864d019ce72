"""Baselines: reviewed evidence in one small file under version control. `bless` writes them, `judge` reads them.

A baseline contains ids, numbers and digests, never a text: per-query values, their inputs, who blessed them, when and
why. Each distinct value is stored once, and each query's value as a position in that list.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bench.base.errors import ResultError
from bench.base.keys import refuse
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import Sparing, StrictRecord
from bench.base.text import slug
from bench.results.across_catalogues import Ranked, Snapshot, gold_ranks
from bench.results.manifest import DatasetIdentity, Latency, MethodIdentity, ScoringCode
from bench.results.scoring_code import without_code
from bench.results.stated import check_values
from bench.results.store import StoredResult

BASELINE_VERSION = 2

#: Decimals of values; a candidate's are rounded alike, so smaller differences do not count.
DECIMALS = 9
#: Metrics blessed by default, if the result has them.
USUAL_METRICS = (
    *("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mrr@10", "map@100", "mmrr@100"),
    *("tracc", "set_precision", "set_recall", "set_f1", "size_diff"),
)
#: Code of a query that the metric does not apply to.
_NOT_TAKEN = -1


class Values(StrictRecord):
    """A metric's values: query i has `levels[codes[i]]`, or none if `codes[i]` is -1."""

    levels: list[float]
    codes: list[Annotated[int, Field(ge=_NOT_TAKEN)]]

    @staticmethod
    def of(values: NDArray[np.float64]) -> Values:
        """From (queries,) values, NaN if the metric does not apply."""
        rounded = rounded_values(values)
        levels, codes = np.unique(rounded[~np.isnan(rounded)], return_inverse=True)
        level_codes = np.full(len(values), _NOT_TAKEN, dtype=np.int64)
        level_codes[~np.isnan(rounded)] = codes
        return Values(levels=[float(level) for level in levels], codes=[int(code) for code in level_codes])

    def array(self) -> NDArray[np.float64]:
        """(queries,) values; NaN if the metric does not apply."""
        return np.append(np.array(self.levels, dtype=np.float64), math.nan)[np.array(self.codes, dtype=np.int64)]


class Blessing(StrictRecord):
    """Who blessed it, when (UTC), and why."""

    by: str
    at: str
    reason: str
    bench: str


class Baseline(StrictRecord, Sparing):
    """A blessed result.

    Attributes:
        result_id: id of the result, whose full evidence is not in this file.
        dataset, method: their identities, with hashes.
        scoring: the code that computed the values.
        n, n_failed: judged queries, and those of them that failed or were not answered.
        latency, hardware: seconds for a single query, and the hardware.
        query_ids: sorted; all other lists have the same order.
        n_gold: number of gold tools of each query.
        units: the unit of independence of each query, as codes from 0 in order of first appearance.
        rankings: sha256 over the rankings and sets, to recognise a candidate with the same answers.
        values: metric -> its values.
        asked: the queries and tools, so that the catalogue may change; only for datasets that a user added.
        gold_ranks: the rank of each tool in `asked.gold`, in its form; 0 if it is not ranked.
        packages: package versions, as in the manifest; empty in baselines of older versions.
        sha256: of everything else. It detects accidents (a broken merge, a manual edit), not deliberate changes,
            which are for code review.
    """

    spared: ClassVar[frozenset[str]] = frozenset({"asked", "gold_ranks", "packages"})

    schema_name: Literal["baseline"] = "baseline"
    schema_version: Literal[2] = 2
    result_id: str
    protocol: str
    scoring: ScoringCode
    depth: int
    dataset: DatasetIdentity
    method: MethodIdentity
    n: int
    n_failed: int
    latency: Latency | None
    hardware: dict[str, str | int]
    tokens: dict[str, float]
    blessed: Blessing
    query_ids: list[str]
    n_gold: list[Annotated[int, Field(ge=0)]]
    units: list[Annotated[int, Field(ge=0)]]
    rankings: str
    values: dict[str, Values]
    asked: Snapshot | None = None
    gold_ranks: list[list[list[Annotated[int, Field(ge=0)]]]] | None = None
    packages: dict[str, str] = {}
    sha256: str

    @model_validator(mode="after")
    def _fits_together(self) -> Baseline:
        queries = len(self.query_ids)
        if not queries or self.query_ids != sorted(set(self.query_ids)):
            raise ValueError("query_ids must be sorted, each there once, and at least one")
        if len(self.n_gold) != queries:
            raise ValueError(f"n_gold has {len(self.n_gold)} entries for {queries} queries")
        if len(self.units) != queries or list(dict.fromkeys(self.units)) != list(range(len(set(self.units)))):
            raise ValueError(f"units must have a code for each of the {queries} queries, from 0 as they appear")
        for name, values in self.values.items():
            if len(values.codes) != queries:
                raise ValueError(f"values.{name} has {len(values.codes)} codes for {queries} queries")
            if max(values.codes) >= len(values.levels):
                raise ValueError(f"values.{name} has a code without a level")
        if self.asked is not None and len(self.asked.texts) != queries:
            raise ValueError(f"asked has {len(self.asked.texts)} texts for {queries} queries")
        if self.gold_ranks is not None and (self.asked is None or _shape(self.gold_ranks) != _shape(self.asked.gold)):
            raise ValueError("gold_ranks must have a rank for each tool of asked.gold")
        if lacking := without_code(self.scoring, self.values):
            raise ValueError(f"scoring does not say which code computed {lacking[0]}")
        return self

    @property
    def label(self) -> str:
        """`method @ dataset`, as people refer to it."""
        return label_of(self.method, self.dataset)

    def take(self, queries: Sequence[int], ids: Sequence[str]) -> Baseline:
        """The baseline of some of its queries, by position, under these ids; its counts stay those of all queries."""
        picked = {name: [getattr(self, name)[query] for query in queries] for name in ("n_gold", "units")}
        return self.model_copy(
            update={
                "query_ids": list(ids),
                "n_gold": picked["n_gold"],
                "units": in_order(np.array(picked["units"], dtype=np.int64)),
                "values": {
                    name: values.model_copy(update={"codes": [values.codes[query] for query in queries]})
                    for name, values in self.values.items()
                },
                "asked": None if self.asked is None else self.asked.take(queries),
                "gold_ranks": None if self.gold_ranks is None else [self.gold_ranks[query] for query in queries],
            }
        )

    def sealed(self) -> Baseline:
        """The same baseline with the right sha256."""
        return self.model_copy(update={"sha256": _payload_hash(self.model_dump(mode="json"))})

    def mean(self, metric: str) -> float:
        """Mean of a metric over the queries it applies to."""
        taken = self.values[metric].array()
        return float(np.nanmean(taken)) if not np.isnan(taken).all() else math.nan


def _shape(nested: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    return [[len(group) for group in groups] for groups in nested]


def in_order(units: NDArray[np.int64]) -> list[int]:
    """Codes of units, from 0 in order of first appearance."""
    codes: dict[int, int] = {}
    return [codes.setdefault(unit, len(codes)) for unit in units.tolist()]


def answers_digest(run: pa.Table, per_query: pa.Table) -> str:
    """sha256 over the answers to each query (and repeat): its ranking without scores, and its set."""
    digest = hashlib.sha256()
    for column in (run["query_id"], run["tool_id"], per_query["query_id"], per_query["recommended"]):
        digest.update(json.dumps(column.to_pylist(), ensure_ascii=True).encode())
    return digest.hexdigest()


def _payload_hash(raw: dict[str, Any]) -> str:
    """sha256 of everything but `sha256`, as JSON without spaces and with sorted keys."""
    payload = {key: value for key, value in raw.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def rounded_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values as a baseline stores them; -0 becomes 0."""
    rounded: NDArray[np.float64] = np.round(values, DECIMALS) + 0.0
    return rounded


def label_of(method: MethodIdentity, dataset: DatasetIdentity) -> str:
    """`method @ dataset` of two identities."""
    return f"{method.label} @ {dataset.spec}"


def make_baseline(
    result: StoredResult, blessing: Blessing, metrics: Sequence[str] = (), snapshot: Snapshot | None = None
) -> Baseline:
    """A result as a baseline.

    Args:
        result: a stored result.
        blessing: who, when, why.
        metrics: canonical names of further metrics.
        snapshot: the queries and tools; None if unknown or unable to change.

    Raises:
        UsageError: the result lacks one of these metrics.
        ResultError: its tables cannot be read.
    """
    manifest, scored = result.manifest, result.metrics
    kept = [name for name in USUAL_METRICS if name in result.per_query.column_names]
    values = {name: Values.of(result.values(name)) for name in dict.fromkeys([*kept, *metrics])}
    ranks = None
    if snapshot is not None and result.has_run:
        ranks = gold_ranks(snapshot, result.per_query["query_id"].to_pylist(), Ranked(result.of_repeat().run))
    made = Baseline(
        result_id=manifest.result_id,
        protocol=manifest.protocol,
        scoring=manifest.scoring,
        depth=manifest.depth,
        dataset=manifest.dataset,
        method=manifest.method,
        n=scored.n,
        n_failed=scored.n_failed,
        latency=manifest.latency,
        hardware=manifest.environment.hardware,
        tokens={name: round(value, DECIMALS) for name, value in scored.tokens.items()},
        blessed=blessing,
        query_ids=result.per_query["query_id"].to_pylist(),
        n_gold=result.per_query["n_gold"].to_pylist(),
        units=in_order(result.units),
        rankings=answers_digest(result.run, result.per_query if result.repeats is None else result.repeats),
        # A metric that applies to no query (tracc of a method without sets) has nothing to store.
        values={name: column for name, column in values.items() if column.levels},
        asked=snapshot,
        gold_ranks=ranks,
        packages=manifest.environment.packages,
        sha256="",
    )
    return made.sealed()


def read_baseline(path: Path) -> Baseline:
    """Read a baseline from its file.

    Raises:
        ResultError: it is missing, unreadable, of another schema version, inconsistent, or not as `bench bless`
            wrote it.
    """
    if not path.exists():
        raise ResultError(f"there is no baseline {path}; `bench bless RESULT --out {path}` creates one from a result.")
    return parse_baseline(Reader(f"the baseline {path}", ResultError).read_bytes(path), str(path))


def is_ours(path: Path) -> bool:
    """Whether a file says it is a baseline, even a damaged one; raises `ResultError` as above."""
    data = Reader(str(path), ResultError).read_bytes(path) if path.is_file() else b""
    return re.search(rb'"schema_name"\s*:\s*"baseline"', data) is not None


def parse_baseline(data: bytes, path: str) -> Baseline:
    """A baseline from the content of its file, called `path` in messages; errors as in `read_baseline`."""
    reader = Reader(f"the baseline {path}", ResultError, "; restore it from version control")
    raw = reader.parse(data)
    if not isinstance(raw, dict) or raw.get("schema_name") != "baseline":
        raise ResultError(f"{path} is not a baseline; `bench bless` writes them.")
    if raw.get("schema_version") != BASELINE_VERSION:
        raise ResultError(
            f"the baseline {path} has schema version {raw.get('schema_version')!r}; this bench reads "
            f"{BASELINE_VERSION}. Bring the blessed result to today's rules with `bench rescore`, and bless it again."
        )
    baseline = reader.validate(Baseline, raw)
    # Of the file as stored: a field that this version adds is no change of an older file.
    if baseline.sha256 != _payload_hash(raw):
        raise ResultError(
            f"the baseline {path} was changed after `bench bless` wrote it: its sha256 does not "
            "match; restore it from version control, or bless it again."
        )
    for name, values in baseline.values.items():
        check_values(np.array(values.levels, dtype=np.float64), name, reader.name)
    return baseline


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline: one line per key and metric, so that diffs are short.

    Raises:
        UsageError: it contains a key.
        StorageError: the file cannot be written; the previous content is kept.
    """
    refuse("the baseline", baseline.model_dump_json(exclude={"values", "asked"}))
    lines = []
    for key, value in baseline.model_dump(mode="json").items():
        if key in {"values", "asked"}:
            inner = ",\n".join(f"  {json.dumps(name)}: {_compact(content)}" for name, content in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {_compact(value)}")
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def file_name(result: StoredResult) -> str:
    """`dataset-method.json`; ids are escaped in paths."""
    manifest = result.manifest
    method = manifest.method
    spec = method.spec + (f"-{method.cut}" if method.cut else "")
    # From non-ASCII characters, nothing would be left in a file's name.
    name = method.alias if method.alias is not None and method.alias.isascii() else spec
    return f"{slug(f'{manifest.dataset.spec}-{name}', 100)}.json"

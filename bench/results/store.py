"""The store of results: one folder per run, readable by pandas, verified when read. All writers and readers use it.

RESULTS/<dataset>/<method>-<id>/
    manifest.json       who, what, with which code and data (schema `manifest`)
    metrics.json        means, intervals, tie bands, counts (schema `metrics`)
    run.parquet         query_id, rank, tool_id, score
    per_query.parquet   query_id, n_gold, failed, tied_beyond, tied_beyond_gold, recommended, one column per metric
    repeats.parquet     the same for each repeat, only for a run with several; run.parquet then holds all their rankings
    notes.parquet       repeat, query_id, note: how an answer came about, only for methods that write notes

Both tables with all repeats have a column `repeat`, from 1, and contain one repeat after the other. In
`per_query.parquet` of such a run, a metric is the mean over the repeats, `failed` means that some repeat failed, and
the other columns are those of the first repeat.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Container, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel

from bench.base.errors import ResultError, UsageError
from bench.base.locks import lock, replace_folder, standing
from bench.base.paths import sha256_of, write_text
from bench.base.progress import QUIET, Progress
from bench.base.reading import Reader
from bench.base.spec import parse
from bench.base.text import one_line, shorten, slug
from bench.data.dataset import Dataset
from bench.metrics import parse_metric
from bench.results.manifest import SCHEMA_VERSION, DatasetIdentity, Manifest, Metrics, seal_fault
from bench.results.scoring_code import without_code
from bench.results.stated import check_counts, check_means, check_values
from bench.stats.bounded import Span

MANIFEST = "manifest.json"
METRICS = "metrics.json"
RUN = "run.parquet"
PER_QUERY = "per_query.parquet"
REPEATS = "repeats.parquet"
NOTES = "notes.parquet"
#: What `bench stress` has measured on the result; it lies beside its files and is no part of it.
STRESS = "stress.json"

RUN_SCHEMA = pa.schema(
    [("query_id", pa.string()), ("rank", pa.int32()), ("tool_id", pa.string()), ("score", pa.float64())]
)
#: Fixed columns of per_query.parquet; every further column is a metric's canonical string, float64.
PER_QUERY_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("unit", pa.string()),
        ("n_gold", pa.int32()),
        ("failed", pa.bool_()),
        ("tied_beyond", pa.int32()),
        ("tied_beyond_gold", pa.list_(pa.string())),
        ("recommended", pa.list_(pa.string())),
    ]
)
#: In a run with repeats, the rows of each repeat follow those of the previous one.
_REPEAT = pa.field("repeat", pa.int32())
REPEATED_RUN_SCHEMA = pa.schema([_REPEAT, *RUN_SCHEMA])
REPEATS_SCHEMA = pa.schema([_REPEAT, *PER_QUERY_SCHEMA])
NOTES_SCHEMA = pa.schema([_REPEAT, ("query_id", pa.string()), ("note", pa.string())])

#: Columns whose cells may be empty: a method may return no scores, or no set.
_EMPTY = frozenset({"score", "recommended", "note"})

#: What to do about an unreadable file.
_AGAIN = "; run it again"
M = TypeVar("M", bound=BaseModel)
#: Maximum bytes of a manifest or a metrics file; submissions have a lower limit.
LARGEST_JSON = 64 << 20


@dataclass(frozen=True)
class StoredResult:
    """A stored result as the harness reads it; `bench.Result` shows it. Tables are read on first use."""

    folder: Path
    manifest: Manifest
    metrics: Metrics

    @staticmethod
    def read(folder: Path) -> StoredResult:
        """Open a result folder.

        Raises:
            ResultError: a file is missing or damaged, or belongs to another schema version or result.
        """
        manifest, fields, _ = _read_model(folder / MANIFEST, Manifest)
        metrics, _, data = _read_model(folder / METRICS, Metrics)
        if manifest.result_id != metrics.result_id:
            raise ResultError(
                f"{folder} mixes two results ({manifest.result_id} and {metrics.result_id}); run it again."
            )
        if manifest.files.get(METRICS) != hashlib.sha256(data).hexdigest():
            raise ResultError(
                f"{folder / METRICS} is truncated or changed: its sha256 is not the one in {MANIFEST}; run it again."
            )
        if not fits_repeats(manifest.repeats, metrics):
            raise ResultError(
                f"{folder / METRICS} does not describe the {manifest.repeats} repeats of {MANIFEST}; run it again."
            )
        if fault := seal_fault(fields) or files_fault(manifest):
            raise ResultError(f"{folder / MANIFEST} {fault}; run it again.")
        gone = [name for name in manifest.files if name not in manifest.omitted and not (folder / name).is_file()]
        if gone:
            from bench.results.commands import command

            what = "is not a regular file" if (folder / gone[0]).exists() else "is gone"
            raise ResultError(
                f"{folder / gone[0]} {what}: {MANIFEST} lists it and does not mark it as left out; restore it, "
                f"or make the result again: {one_line(command(manifest), 400)}"
            )
        if lacking := without_code(manifest.scoring, metrics.metrics):
            raise ResultError(
                f"{folder / MANIFEST} does not say which code computed {shorten(lacking[0], 40)!r}; run it again."
            )
        return StoredResult(folder, manifest, metrics)

    def verify(self) -> None:
        """Check the tables, which are otherwise read on first use; raises `ResultError`."""
        _ = self.run, self.per_query, self.repeats, self.notes

    def _read_values(self, name: str, schema: pa.Schema) -> pa.Table:
        """A table of values per query, for the same rankings even if a metric was added since this was opened."""
        known = self.manifest
        try:
            return _read_table(self.folder / name, known.files.get(name, ""), schema)
        except ResultError:
            now = _read_model(self.folder / MANIFEST, Manifest)[0]
            same = now.result_id == known.result_id and now.files.get(RUN) == known.files.get(RUN)
            if not same or now.files.get(name) == known.files.get(name):
                raise
            return _read_table(self.folder / name, now.files.get(name, ""), schema)

    def check_digests(self) -> None:
        """Check the files against their digests, and the counts and means against the values of queries.

        A ranking left out on purpose is not checked.

        Raises:
            ResultError: a file was changed, or a number does not follow from the values of queries.
        """
        for name, digest in self.manifest.files.items():
            if name in {REPEATS, NOTES, RUN} and (name != RUN or self.has_run):
                _read_verified(self.folder / name, digest)
        check_counts(self.manifest, self.metrics, self.per_query, str(self.folder / PER_QUERY))

    def check_ids(self, dataset: Dataset, *, ranking: bool = True) -> None:
        """Raise `ResultError` unless all queries and tools in the tables are in the dataset that it was made on.

        Args:
            ranking: whether to check the ranking too, by far the largest table; not every reader needs it.
        """
        columns: list[tuple[str, pa.Array, Container[str]]] = []
        for table in (self.per_query, self.repeats):
            if table is not None:
                columns.append(("query", table["query_id"], dataset.query_codes))
                chunks = (chunk for name in ("tied_beyond_gold", "recommended") for chunk in table[name].chunks)
                columns += [("tool", chunk.flatten(), dataset.tool_codes) for chunk in chunks]
        if ranking and self.has_run:
            query_ids = frozenset(self.per_query["query_id"].to_pylist())
            columns += [("query", self.run["query_id"], query_ids), ("tool", self.run["tool_id"], dataset.tool_codes)]
        for what, column, known in columns:
            strange = [name for name in column.unique().to_pylist() if name not in known]
            if strange:
                name = one_line(str(strange[0]), 80)
                raise ResultError(
                    f"{self.label} has the {what} {name!r}, which is not among those of {dataset.spec}; run it again."
                )

    @property
    def has_run(self) -> bool:
        """Whether it has its ranking; otherwise the ranking was left out on purpose (`omit_ranking`)."""
        return (self.folder / RUN).is_file()

    @cached_property
    def run(self) -> pa.Table:
        """The ranking: query_id, rank (from 1), tool_id, score (null if the method returns none).

        A run with repeats has the rankings of all, with the column `repeat`; `of_repeat` returns those of one.
        """
        if RUN in self.manifest.omitted and not self.has_run:
            raise ResultError(
                f"{self.label} has no ranking: {self.folder / RUN} was left out on purpose; run it again."
            )
        schema = RUN_SCHEMA if self.manifest.repeats == 1 else REPEATED_RUN_SCHEMA
        table = _read_table(self.folder / RUN, self.manifest.files.get(RUN, ""), schema)
        if not _ranks_are_whole(table):
            told = "is not in the order of query ids with the ranks 1, 2, 3, ... each once"
            raise ResultError(f"{self.folder / RUN} {told}; run it again.")
        return table

    @cached_property
    def per_query(self) -> pa.Table:
        """One row per evaluated query, in the order of query ids; all numbers of the result follow from them."""
        required = [field for field in PER_QUERY_SCHEMA if field.name != "unit" or self.manifest.dataset.unit]
        table = self._read_values(PER_QUERY, pa.schema(required))
        import pyarrow.compute as pc

        queries = table["query_id"].combine_chunks()
        if not pc.all(pc.less(queries[:-1], queries[1:]), min_count=0).as_py():
            path = self.folder / PER_QUERY
            raise ResultError(f"{path} is not in the order of query ids, or has one twice; run it again.")
        check_means(self.metrics, table, self.metrics.metrics, str(self.folder / PER_QUERY))
        return table

    @cached_property
    def repeats(self) -> pa.Table | None:
        """One row per repeat and query, with the columns of `per_query` and `repeat`; None without repeats."""
        if self.manifest.repeats == 1:
            return None
        table = self._read_values(REPEATS, REPEATS_SCHEMA)
        if len(table) != self.manifest.repeats * len(self.per_query):
            raise ResultError(
                f"{self.folder / REPEATS} does not have {self.manifest.repeats} rows for every query; run it again."
            )
        return table

    @cached_property
    def notes(self) -> pa.Table | None:
        """The method's notes on its answers: repeat (from 1), query_id, note; None if there are none."""
        if NOTES not in self.manifest.files:
            return None
        return _read_table(self.folder / NOTES, self.manifest.files[NOTES], NOTES_SCHEMA)

    def of_repeat(self, number: int = 1) -> StoredResult:
        """The result with the rankings and per-query values of one repeat; the means remain those of all repeats.

        A result without repeats is returned unchanged.

        Raises:
            UsageError: there is no such repeat.
            ResultError: the file of all repeats is missing or damaged.
        """
        count = self.manifest.repeats
        if not 1 <= number <= count:
            has = "has no repeats" if count == 1 else f"has the repeats 1 to {count}"
            raise UsageError(f"the result {self.manifest.result_id} {has}; there is no repeat {number}.")
        if self.repeats is None:
            return self
        queries = len(self.per_query)
        one = StoredResult(self.folder, self.manifest, self.metrics)
        # Cached properties read these first.
        vars(one)["per_query"] = self.repeats.slice((number - 1) * queries, queries).drop_columns(["repeat"])
        if "run" in vars(self) or self.has_run:
            import pyarrow.compute as pc

            repeat_run = self.run.filter(pc.equal(self.run["repeat"], pa.scalar(number, pa.int32())))
            vars(one)["run"] = repeat_run.drop_columns(["repeat"])
        return one

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """(queries,) the unit of independence of each query, by code.

        Raises:
            ResultError: it was made under protocol 1, which has no units.
        """
        if not self.manifest.dataset.unit:
            raise ResultError(
                f"{self.label} was made under protocol {self.manifest.protocol}, which took queries as independent; "
                f"`bench rescore {self.manifest.result_id}` computes its numbers again."
            )
        codes: NDArray[np.int64] = np.unique(self.per_query["unit"].to_pylist(), return_inverse=True)[1]
        return codes.astype(np.int64)

    def values(self, metric: str) -> NDArray[np.float64]:
        """(queries,) values of one metric; NaN for queries that it is not taken on."""
        if metric not in self.per_query.column_names:
            raise UsageError(f"the result {self.manifest.result_id} has no metric {metric!r}; `bench show` lists them.")
        # Not to_numpy, which imports pandas; a null becomes NaN.
        values = np.array(self.per_query[metric].to_pylist(), dtype=np.float64)
        check_values(values, metric, str(self.folder / PER_QUERY))
        return values

    @property
    def label(self) -> str:
        """`method @ dataset`, for display; an alias replaces the method."""
        return f"{self.manifest.method.label} @ {self.manifest.dataset.spec}"


def span_of(metric: str, results: Iterable[StoredResult] = ()) -> Span:
    """The range of a metric's mean on the queries of results.

    Args:
        metric: its name.
        results: the results; may be empty if the range does not depend on the queries.
    """
    return parse_metric(metric).span([count for result in results for count in result.per_query["n_gold"].to_pylist()])


def fits_repeats(repeats: int, metrics: Metrics) -> bool:
    """Whether the metrics describe this number of repeats for every metric, or no repeats if there is one."""
    stored = metrics.repeats
    if stored is None or repeats == 1:
        return stored is None and repeats == 1
    counts = {len(stored.n_failed), *(len(variation.means) for variation in stored.metrics.values())}
    return counts == {repeats} and stored.metrics.keys() == metrics.metrics.keys()


def files_fault(manifest: Manifest) -> str:
    """The required file that a manifest does not list, or the unknown file that it lists; empty if neither."""
    names = (METRICS, PER_QUERY, RUN, *([REPEATS] if manifest.repeats > 1 else []))
    if lacking := [name for name in names if name not in manifest.files]:
        return f"has no sha256 of {lacking[0]}"
    strange = sorted(manifest.files.keys() - {*names, NOTES})
    return f"lists the file {one_line(strange[0], 80)!r}, which no result has" if strange else ""


def _read_model(path: Path, model: type[M]) -> tuple[M, Any, bytes]:
    """A JSON file as a record, as a value and as bytes."""
    if not path.exists():
        raise ResultError(f"{path.parent} is not a bench result: it has no {path.name}.")
    reader = Reader(str(path), ResultError)
    data = reader.read_bytes(path, LARGEST_JSON)
    raw = reader.parse(data)
    if isinstance(raw, dict) and raw.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise ResultError(f"{path} has schema version {raw['schema_version']}; this bench reads {SCHEMA_VERSION}.")
    return reader.validate(model, raw), raw, data


def _read_verified(path: Path, digest: str) -> bytes:
    return Reader(str(path), ResultError, _AGAIN).read_verified(path, digest, MANIFEST)


def _read_table(path: Path, digest: str, schema: pa.Schema) -> pa.Table:
    """Read a table with the columns of the schema, without empty cells; other columns must have numbers of metrics."""
    data = _read_verified(path, digest)
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)  # read_table would import pandas
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ResultError(f"{path} is not a readable Parquet file ({one_line(first, 200)}){_AGAIN}.") from None
    names = table.column_names
    missing = [name for name in schema.names if name not in names]
    if missing:
        raise ResultError(f"{path} lacks the column {missing[0]!r}; it is not a result of this version.")
    for name, kind in zip(names, table.schema.types, strict=True):
        # A table without units, of protocol 1, may have the column.
        ours = schema if name in schema.names or name != "unit" else PER_QUERY_SCHEMA
        wanted = ours.field(name).type if name in ours.names else pa.float64()
        shown = repr(shorten(name, 40))
        if kind != wanted:
            raise ResultError(f"{path} has the column {shown} of the type {kind}, not {wanted}{_AGAIN}.")
        if names.count(name) > 1:
            raise ResultError(f"{path} has the column {shown} twice{_AGAIN}.")
        if name in schema.names and name not in _EMPTY and table[name].null_count:
            raise ResultError(f"{path} leaves cells of the column {shown} empty{_AGAIN}.")
    return table


def _ranks_are_whole(table: pa.Table) -> bool:
    """Whether the rows are in the order of repeats, queries and ranks, and the ranks of each query are 1, 2, 3, ..."""
    import pyarrow.compute as pc

    if not len(table):
        return True
    # Not `pa.scalar`, which would import pandas.
    first = table["rank"][0]
    one, two = table.slice(0, len(table) - 1), table.slice(1)
    same = pc.equal(one["query_id"], two["query_id"])
    later = pc.less(one["query_id"], two["query_id"])
    if "repeat" in table.column_names:
        stays = pc.equal(one["repeat"], two["repeat"])
        same, later = pc.and_(same, stays), pc.or_(pc.and_(later, stays), pc.less(one["repeat"], two["repeat"]))
    follows = pc.equal(two["rank"], pc.add(one["rank"], first))
    begins = pc.and_(later, pc.equal(two["rank"], first))
    return first.as_py() == 1 and bool(pc.all(pc.if_else(same, follows, begins), min_count=0).as_py())


def result_lock(results: Path, folder: Path, progress: Progress = QUIET) -> AbstractContextManager[None]:
    """Let only one process make a result at a time; lock files are in a hidden folder of the results folder."""
    return lock(results / ".locks" / f"{folder.name}.lock", f"making {folder.name}", progress)


def check_writable(results: Path) -> None:
    """Raise `StorageError` early rather than after an hour of work."""
    write_text(results / ".locks" / "probe", "")


def result_folder(results: Path, dataset: str, method: str, result_id: str) -> Path:
    """The folder of a result; ids are always escaped in paths."""
    return results / slug(dataset) / f"{slug(method)}-{result_id}"


def write_result(
    folder: Path,
    manifest: Manifest,
    metrics: Metrics,
    run: pa.Table | None,
    per_query: pa.Table,
    repeats: pa.Table | None = None,
    notes: pa.Table | None = None,
) -> StoredResult:
    """Write a result folder and move it into place as a whole. The caller holds the result's lock.

    A result whose ranking is kept elsewhere (`run` is None) keeps the ranking's sha256 in its manifest. Existing notes
    are kept unless new ones are passed.

    Returns:
        The result, with the sha256 of each file in its manifest.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous content is kept.
    """
    with replace_folder(folder) as fresh:
        given = {RUN: run, PER_QUERY: per_query, REPEATS: repeats, NOTES: notes}
        tables = {name: table for name, table in given.items() if table is not None}
        if notes is None and NOTES in manifest.files:
            shutil.copyfile(folder / NOTES, fresh / NOTES)
        if (folder / STRESS).is_file():
            shutil.copyfile(folder / STRESS, fresh / STRESS)
        for name, table in tables.items():
            _write_table(table, fresh / name)
        manifest = _describe(fresh, manifest, metrics, folder, tables)
    return StoredResult(folder, manifest, metrics)


def _write_table(table: pa.Table, path: Path) -> None:
    """Write a table in few bytes: only the first bytes of scores repeat, metrics have few values."""
    scores = [name for name in table.column_names if name == "score"]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=9,
        use_dictionary=[name for name in table.column_names if name not in scores],
        use_byte_stream_split=scores,
        write_statistics=False,
    )


def _describe(
    fresh: Path, manifest: Manifest, metrics: Metrics | None, standing_in: Path, tables: Iterable[str] = ()
) -> Manifest:
    """Write metrics and manifest beside the tables, some of them new; the alias of `standing_in` is kept."""
    if metrics is not None:
        (fresh / METRICS).write_text(to_json(metrics), "utf-8")
    files = manifest.files | {name: sha256_of(fresh / name) for name in (*tables, METRICS)}
    omitted = [] if RUN in tables else manifest.omitted
    manifest = _keep_alias(manifest.model_copy(update={"files": files, "omitted": omitted}).sealed(), standing_in)
    (fresh / MANIFEST).write_text(to_json(manifest), "utf-8")
    return manifest


def replace_metrics(result: StoredResult, metrics: Metrics, data: DatasetIdentity | None = None) -> StoredResult:
    """Replace the metrics of a stored result; unchanged files keep their bytes. The caller holds the result's lock.

    Args:
        result: the result.
        metrics: its new metrics.
        data: the new description of its dataset; None to keep the old one.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the previous content is kept.
    """
    folder = result.folder
    with replace_folder(folder) as fresh:
        for name in (RUN, PER_QUERY, REPEATS, NOTES, METRICS):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, fresh / name)
        manifest = result.manifest.model_copy(update={"dataset": data or result.manifest.dataset})
        manifest = _describe(fresh, manifest, None if metrics == result.metrics else metrics, folder)
    return StoredResult(folder, manifest, metrics)


def _keep_alias(manifest: Manifest, folder: Path) -> Manifest:
    """A manifest with the alias of the result that it replaces in a folder; unchanged if there is no such result."""
    try:
        standing_alias = StoredResult.read(folder).manifest.method.alias
    except ResultError:
        return manifest
    return with_alias(manifest, standing_alias) if standing_alias is not None else manifest


def with_alias(manifest: Manifest, alias: str | None) -> Manifest:
    """A manifest whose method has another alias; its digest stays, because it does not cover the alias."""
    return manifest.model_copy(update={"method": manifest.method.model_copy(update={"alias": alias})})


def omit_ranking(result: StoredResult) -> None:
    """Remove the ranking of a result, and record that in its manifest; its id and numbers stay.

    Raises:
        StorageError: the folder cannot be written.
    """
    with result_lock(result.folder.parent.parent, result.folder):
        manifest = StoredResult.read(result.folder).manifest.model_copy(update={"omitted": [RUN]}).sealed()
        # In this order: an existing ranking may be listed as left out, but a missing one must be listed.
        write_text(result.folder / MANIFEST, to_json(manifest))
        (result.folder / RUN).unlink(missing_ok=True)


def rename_result(result: StoredResult, manifest: Manifest) -> StoredResult:
    """Rename a result in its folder to the name of another manifest; its tables keep their bytes.

    An existing result of that name stays, and then this one is kept too, unless its tables are the same. The caller
    holds the result's lock.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the result remains in its old place.
    """
    root, spec = result.folder.parent.parent, parse(manifest.method.spec)
    folder = result.folder.with_name(result_folder(root, "", spec.name, manifest.result_id).name)
    tables = [name for name in (RUN, PER_QUERY, REPEATS, NOTES) if (result.folder / name).is_file()]
    with result_lock(root, folder):
        if not is_complete(folder):
            metrics = result.metrics.model_copy(update={"result_id": manifest.result_id})
            with replace_folder(folder) as fresh:
                for name in tables:
                    shutil.copyfile(result.folder / name, fresh / name)
                _describe(fresh, manifest, metrics, result.folder)
        stored = StoredResult.read(folder)
        if all(stored.manifest.files.get(name) == result.manifest.files.get(name) for name in tables):
            # The manifest goes first: an interrupted removal then leaves no result.
            (result.folder / MANIFEST).unlink()
            shutil.rmtree(result.folder)
            alias = result.manifest.method.alias
            if alias is not None and stored.manifest.method.alias is None:
                stored = StoredResult(folder, with_alias(stored.manifest, alias), stored.metrics)
                write_text(folder / MANIFEST, to_json(stored.manifest))
            return stored
    return result


def to_json(model: BaseModel) -> str:
    """Indented JSON text, keys in the order of the schema."""
    return json.dumps(model.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def is_complete(folder: Path) -> bool:
    """Whether the folder has a result."""
    return (folder / MANIFEST).is_file()


def folders_of(results: Path) -> list[Path]:
    """Folders of stored results, sorted, except those being written."""
    return standing([path.parent for path in results.glob(f"*/*/{MANIFEST}")])


def find_results(results: Path, without: Container[Path] = ()) -> Iterator[StoredResult | ResultError]:
    """Every result below a folder, sorted by path; unreadable ones come as errors with their folder.

    Args:
        results: the folder.
        without: folders to leave out.
    """
    for folder in folders_of(results):
        if folder in without:
            continue
        try:
            yield StoredResult.read(folder)
        except ResultError as error:
            error.folder = folder
            yield error

"""A real result of bm25 on starter, and hostile versions of it whose hashes are right all the same."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.results import seal as seal_manifest
from kit.tiny import instance, notes, run, runner, tiny

from bench.base.errors import UnavailableError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.leaderboard.submit.archive import MEMBERS
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import check_archive
from bench.leaderboard.submit.sandbox import check_sandbox
from bench.leaderboard.submit.submission import PARTS, SUBMISSION
from bench.leaderboard.zips import write_archive
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult

__all__ = ["instance", "notes", "run", "runner", "tiny"]

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Made:
    """A stored result and the bytes of its files."""

    result: StoredResult
    parts: dict[str, bytes]

    def members(self, **changes: Change) -> dict[str, bytes]:
        """The members of an archive after changes to `manifest`, `metrics`, `run`, `per_query`, or the `submission`.

        A change gets the JSON value or the table and returns another (or None where it changed the value in place).
        All hashes are made after it: this is what a cheater would submit.
        """
        parts = dict(self.parts)
        for name, change in changes.items():
            if f"{name}.parquet" in parts:
                table = pq.ParquetFile(pa.BufferReader(parts[f"{name}.parquet"])).read()
                parts[f"{name}.parquet"] = parquet(change(table))
            elif name == "metrics":
                parts["metrics.json"] = _changed(parts["metrics.json"], change)
        return sealed(parts, changes.get("manifest"), changes.get("submission"))


def sealed(
    parts: dict[str, bytes], manifest: Change | None = None, submission: Change | None = None
) -> dict[str, bytes]:
    """Members whose manifest and submission have the hashes of these parts."""

    def own_hashes(raw: dict[str, Any]) -> None:
        raw["files"] = {name: _sha256(parts[name]) for name in PARTS if name != "manifest.json"}

    parts["manifest.json"] = _changed(parts["manifest.json"], own_hashes)
    if manifest is not None:
        parts["manifest.json"] = _changed(parts["manifest.json"], manifest)
    parts["manifest.json"] = _changed(parts["manifest.json"], reseal)
    raw = json.loads(parts["manifest.json"])
    about = {
        "schema_name": "submission",
        "schema_version": 1,
        "result_id": raw["result_id"],
        "protocol": raw["protocol"],
        "dataset": raw["dataset"]["spec"],
        "content_hash": raw["dataset"]["content_hash"],
        "method": raw["method"]["spec"],
        "files": {name: _sha256(parts[name]) for name in PARTS},
    }
    if submission is not None:
        submission(about)
    return {**parts, SUBMISSION: (json.dumps(about, indent=1) + "\n").encode()}


def reseal(raw: Any) -> None:
    """The digest of the fields as they are, as somebody gives it who hides a change."""
    if isinstance(raw, dict) and isinstance(raw.get("method"), dict):
        seal_manifest(raw)


def _changed(data: bytes, change: Change) -> bytes:
    raw = json.loads(data)
    result = change(raw)
    return (json.dumps(raw if result is None else result, indent=1, ensure_ascii=False) + "\n").encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file.

    With the metadata `plain` the file does not say which Arrow types it had: columns coded by a dictionary are plain
    strings then, as small as they were.
    """
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", store_schema=b"plain" not in (table.schema.metadata or {}))
    return buffer.getvalue()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Made:
    """bm25 on starter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(shared_cache))
        patch.setenv("BENCH_OFFLINE", "1")
        runner = Runner(tmp_path_factory.mktemp("results"), load_dataset, build_method)
        (result,) = runner.run([Plan(Spec.of("starter"), Spec.of("bm25"))])
    assert isinstance(result, StoredResult)
    return Made(result, {name: (result.folder / name).read_bytes() for name in PARTS})


@pytest.fixture
def load(starter: Dataset) -> Callable[[str], Dataset]:
    """The registry, without reading starter for every test."""
    return lambda spec: starter if spec == "starter" else load_dataset(spec)


@pytest.fixture
def checked(tmp_path: Path, load: Callable[[str], Dataset]) -> Callable[..., CheckedSubmission]:
    """Check members or the bytes of an archive."""

    def checked(data: bytes | dict[str, bytes]) -> CheckedSubmission:
        path = tmp_path / "handed-in.zip"
        path.write_bytes(data if isinstance(data, bytes) else write_archive(data))
        before = sorted(tmp_path.rglob("*"))
        verdict = check_archive(path, load)
        # Whatever it held, nothing was written.
        assert sorted(tmp_path.rglob("*")) == before
        assert len(MEMBERS) == 5
        return verdict

    return checked


@pytest.fixture
def seal() -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Members of an archive with the hashes of these parts."""
    return sealed


@pytest.fixture
def of_result() -> Callable[[StoredResult], Made]:
    """Any stored result, to make hostile versions of."""
    return lambda result: Made(result, {name: (result.folder / name).read_bytes() for name in PARTS})


@pytest.fixture(scope="session")
def sandbox() -> None:
    """A test that asks for it is skipped where bubblewrap does not work; where CI says that it must work, it fails."""
    try:
        check_sandbox()
    except UnavailableError as error:
        if os.environ.get("BENCH_REQUIRE_SANDBOX"):
            pytest.fail(str(error))
        pytest.skip(str(error))

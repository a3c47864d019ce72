"""Results that many tests read, made once in a run; and changes to results, with their digests kept right."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Read only: bench run's own bookkeeping is not copied.
LOCKS = shutil.ignore_patterns(".locks")


@contextmanager
def of_this_run(shared_cache: Path) -> Iterator[None]:
    """The cache of this test run and no network, for what is made once: such fixtures come before a test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(shared_cache))
        patch.setenv("BENCH_OFFLINE", "1")
        yield


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a result, as it stands in its file."""
    report: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return report


def folder_of(results: Path, spec: str) -> Path:
    """The folder of the only result of a method, by its spec."""
    folders = [path.parent for path in results.glob("[!.]*/*/manifest.json")]
    (result,) = (folder for folder in folders if manifest(folder)["method"]["spec"] == spec)
    return result


def id_of(name: str) -> str:
    """An id for a result that a test makes, by a name that it has for it."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def another(folder: Path, result_id: str, dataset: str = "", **changes: Any) -> Path:
    """A copy of a result by another id, changed as `edit` does; in the folder of another dataset where one is named."""
    copy = (folder.parent.with_name(dataset) if dataset else folder.parent) / f"{folder.name[:-12]}{result_id}"
    shutil.copytree(folder, copy)
    edit(copy, result_id=result_id, metrics=changes.pop("metrics", {}) | {"result_id": result_id}, **changes)
    return copy


def edit(folder: Path, **changes: Any) -> None:
    """Change a manifest (`method__spec="x"` for what lies deeper) and metrics (`metrics={...}`), hashes kept."""
    told = manifest(folder)
    if "metrics" in changes:
        metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
        metrics |= changes.pop("metrics")
        data = json.dumps(metrics).encode()
        (folder / "metrics.json").write_bytes(data)
        told["files"]["metrics.json"] = hashlib.sha256(data).hexdigest()
    for name, value in changes.items():
        place = told
        *outer, last = name.split("__")
        for part in outer:
            place = place[part]
        place[last] = value
    _put(folder, told)


def seal(told: dict[str, Any]) -> None:
    """Give a manifest the digest of its fields, as they are now, as somebody would who hides a change."""
    fields = {name: value for name, value in told.items() if name != "digest"}
    fields["method"] = {name: value for name, value in fields["method"].items() if name != "alias"}
    told["digest"] = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _put(folder: Path, told: dict[str, Any]) -> None:
    seal(told)
    (folder / "manifest.json").write_text(json.dumps(told), "utf-8")


def rehash(folder: Path, name: str) -> None:
    """Update the manifest to the current table."""
    told = manifest(folder)
    told["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    _put(folder, told)


def older(numbers: Path, method: Path, result_id: str, created: str) -> Path:
    """A result as of another version of a method's code: the numbers of one result, and the question of another."""
    told = manifest(method)
    folder = method.with_name(f"{method.name.rpartition('-')[0]}-{result_id}")
    shutil.copytree(numbers, folder)
    edit(
        folder,
        metrics={"result_id": result_id},
        result_id=result_id,
        method=told["method"] | {"hash": result_id.ljust(64, "0")},
        dataset=told["dataset"],
        environment__created=created,
        environment__commit=result_id * 3,
    )
    return folder


def scored_by(code: str, metrics: Iterable[str]) -> dict[str, Any]:
    """As if other code had made all numbers of these metrics."""
    measures = {name.partition("@")[0]: code for name in metrics}
    return {"measures": measures, "intervals": code, "tokens": code}

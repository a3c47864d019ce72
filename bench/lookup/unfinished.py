"""Runs that started and have not finished: a stored result older than such a run may be out of date.

`bench run` writes a file beside the results of the dataset before it asks a method, and removes it once the result is
stored or known to be current. A remaining file tells `bench gate`, `bench show` and `bench compare` that the last run
of the same method with the same settings failed, was killed, or is still running.

    RESULTS/<dataset>/.<method>-<question>.begun
"""

from __future__ import annotations

import datetime
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

from bench.base.errors import BenchError, ResultError
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import Record
from bench.base.spec import Spec, Value, parse
from bench.lookup.consistency import resolved_settings
from bench.results.manifest import Manifest, Mark
from bench.results.settings import RunSettings
from bench.results.store import StoredResult, result_folder

#: The version of a service that the user states does not belong to the question: the question is about the same
#: service.
_VERSION = "revision"


class Begun(Record):
    """A run that has started.

    Attributes:
        method, dataset: their specs.
        begun: time of the start, in UTC.
        command: the command that repeats it.
    """

    schema_name: Literal["begun"] = "begun"
    schema_version: Literal[1] = 1
    method: str
    dataset: str
    begun: datetime.datetime
    command: str


def begin_run(results: Path, method: Spec, dataset: Spec, settings: RunSettings, command: str) -> None:
    """Record that a run starts now; raises `StorageError` if the file cannot be written."""
    now = datetime.datetime.now(datetime.UTC)
    begun = Begun(method=str(method), dataset=str(dataset), begun=now, command=command)
    write_text(_place(results, method, dataset, settings), begun.model_dump_json(indent=1) + "\n")


def end_run(results: Path, method: Spec, dataset: Spec, settings: RunSettings) -> None:
    """Remove the record of `begin_run`: the result is stored, or the existing one is known to be current."""
    with suppress(OSError):
        _place(results, method, dataset, settings).unlink(missing_ok=True)


def find_unfinished(result: StoredResult) -> Begun | None:
    """The run of the same method with the same settings that started after a result was made; None if there is none.

    Raises:
        ResultError: its record cannot be read.
    """
    manifest = result.manifest
    path = _place_of(result.folder.parent.parent, manifest)
    if path is None or not path.exists():
        return None
    reader = Reader(str(path), ResultError, f"; run {result.label} again, or remove the file")
    begun = reader.read_record(Begun, path)
    return begun if begun.begun >= _made(manifest) else None


def _made(manifest: Manifest) -> datetime.datetime:
    """The date of a result; before every run if its manifest has none."""
    try:
        made = datetime.datetime.fromisoformat(manifest.environment.created)
    except ValueError:
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return made if made.tzinfo else made.replace(tzinfo=datetime.UTC)


def unfinished_marks(result: StoredResult) -> list[Mark]:
    """The mark of a result older than the last run of its method; empty if no run started after it.

    Raises as `find_unfinished` does.
    """
    begun = find_unfinished(result)
    if begun is None:
        return []
    why = (
        f"a run of it started at {begun.begun.isoformat(timespec='seconds')} and has not finished; this result is "
        f"older, made at {result.manifest.environment.created}"
    )
    return [Mark(kind="unfinished", text="older than the last run", why=why)]


def _place_of(results: Path, manifest: Manifest) -> Path | None:
    settings = resolved_settings(manifest)
    if settings is None:
        return None
    with suppress(BenchError):
        return _place(results, parse(manifest.method.spec), parse(manifest.dataset.spec), settings)
    return None


def _place(results: Path, method: Spec, dataset: Spec, settings: RunSettings) -> Path:
    # Replaced data make a different result, but a failed run on the new data still is a later run of the same question.
    asked = {"method": str(_without_version(method)), **settings.model_dump(), "content_hash": ""}
    question = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
    folder = result_folder(results, str(dataset), method.name, question)
    return folder.with_name(f".{folder.name}.begun")


def _without_version(value: Value) -> Value:
    if isinstance(value, Spec):
        return Spec.of(value.name, {name: _without_version(v) for name, v in value.arguments if name != _VERSION})
    return tuple(map(_without_version, value)) if isinstance(value, tuple) else value

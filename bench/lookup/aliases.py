"""Aliases: users' names for results, shown instead of the method's spec and accepted by every command.

The manifest stores the alias, and its digest does not cover it. In one folder of results, an alias stands for one
system: for one method, and on each dataset for one set of settings. Results of the system on other datasets, and of its
older code, share it.
"""

from __future__ import annotations

import unicodedata
from contextlib import AbstractContextManager
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.keys import refuse
from bench.base.locks import lock, recover
from bench.base.paths import write_text
from bench.base.text import one_line
from bench.registry import method_names
from bench.results.commands import settings_of
from bench.results.manifest import Manifest, valid_alias
from bench.results.store import MANIFEST, StoredResult, find_results, result_lock, to_json, with_alias


def read_alias(text: str) -> str:
    """Check an alias from the user.

    Raises:
        UsageError: it is invalid, contains a key, or is the name of a method.
    """
    refuse("the name of the result", text)
    try:
        alias = valid_alias(text)
    except ValueError as error:
        raise UsageError(f"{one_line(text, 60)!r} cannot name a result: {error}.") from None
    if caseless(alias) in map(caseless, method_names()):
        raise UsageError(f"{alias!r} cannot name a result: it is the name of a method.")
    return alias


def check_free(results: Path, alias: str, spec: str) -> None:
    """Raise `UsageError` if an alias stands for a method other than that of a spec."""
    for item in _stored(results):
        if _uses(item.manifest, alias) and item.manifest.method.spec != spec:
            raise _taken(alias, item)


def set_alias(result: StoredResult, alias: str | None) -> StoredResult:
    """Set or remove the alias of a stored result; its id, numbers and digests stay. One process at a time does so.

    Args:
        result: the result.
        alias: from `read_alias`; None to show the method's spec again.

    Raises:
        UsageError: the alias stands for another system.
        ResultError: the result has been removed in the meantime.
        StorageError: the disk is full or the folder cannot be written; the old alias stays.
    """
    folder = result.folder
    results = folder.parent.parent
    with aliases_lock(results), result_lock(results, folder):
        recover(folder)
        standing = StoredResult.read(folder)
        if standing.manifest.method.alias == alias:
            return standing
        for item in [] if alias is None else _stored(results):
            if _uses(item.manifest, str(alias)) and not _is_same_system(item.manifest, standing.manifest):
                raise _taken(str(alias), item)
        manifest = with_alias(standing.manifest, alias)
        write_text(folder / MANIFEST, to_json(manifest))
    return StoredResult(folder, manifest, standing.metrics)


def aliases_lock(results: Path) -> AbstractContextManager[None]:
    """The lock for naming and removing results; acquire it before the lock of a result."""
    return lock(results / ".locks" / "aliases.lock", "naming or removing results")


def _stored(results: Path) -> list[StoredResult]:
    return [item for item in find_results(results) if isinstance(item, StoredResult)]


def _uses(manifest: Manifest, alias: str) -> bool:
    """Whether a result has this name: as its alias, or as the name of a run file's system."""
    named = {caseless(name) for name in (manifest.method.alias, manifest.method.spec) if name is not None}
    return caseless(alias) in named


def _is_same_system(one: Manifest, other: Manifest) -> bool:
    # The kind of cut, not its value, which is learnt anew on each dataset.
    asked, others = settings_of(one), settings_of(other)
    if (asked.method, asked.file is None, asked.cut) != (others.method, others.file is None, others.cut):
        return False
    return one.dataset.spec != other.dataset.spec or _settings(one) == _settings(other)


def _settings(manifest: Manifest) -> tuple[object, ...]:
    data = manifest.dataset
    return data.split, data.limit, data.template, manifest.depth, manifest.repeats


def caseless(text: str) -> str:
    """A name without differences of case and width."""
    return unicodedata.normalize("NFKC", text).casefold()


def _taken(alias: str, item: StoredResult) -> UsageError:
    manifest = item.manifest
    what = f"{one_line(manifest.method.spec_label, 120)} on {one_line(manifest.dataset.spec, 80)}"
    return UsageError(
        f"{alias!r} is taken: it names {manifest.result_id} ({what}). Choose another name, or give that result another "
        f"with `bench results mv {manifest.result_id} NAME`."
    )

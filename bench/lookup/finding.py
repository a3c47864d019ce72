"""Finds results by the names that users give: a folder, an id or its beginning, an alias, `method@dataset`."""

from __future__ import annotations

import datetime
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.base.errors import BenchError, ResultError, UsageError
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.spec import parse
from bench.base.text import one_line, slug
from bench.lookup.consistency import contradictions
from bench.lookup.current import Built, Today, adopt_name, is_of_today, today
from bench.lookup.folder import ResultsFolder, json_beginning, json_string
from bench.registry import method_names
from bench.registry.added import current_content
from bench.registry.methods import check_spec
from bench.results.commands import command
from bench.results.comparability import comparison_key
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, StoredResult

#: The date of results without a date: before all others.
FIRST_DATE = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_SHORTEST_ID = 4
#: A name followed by the id of a result of older code.
_WITH_ID = re.compile(rf"(?P<name>.+@.+)#(?P<id>[0-9a-f]{{{_SHORTEST_ID},12}})")


def find_result(results: Path | ResultsFolder, name: str, *, older: bool = False) -> StoredResult:
    """A result by its folder, its id (or at least four characters of its beginning), its alias, or `method@dataset`.

    `method@dataset` means the result that `bench run` would store today; `method@dataset#id` names one of older code.
    An alias can replace the method; alone, it means the newest result with this alias.

    Args:
        results: the folder of results, or a `ResultsFolder` if several names are looked up.
        name: the name.
        older: whether `method@dataset` may be a result of older code if there is none of today's.

    Raises:
        UsageError: no result or several match, or only results of older code.
        ResultError: it cannot be read, or a file of it has changed since it was stored.
    """
    result = name_result(results, name, older=older)
    result.check_digests()
    return result


def name_result(results: Path | ResultsFolder, name: str, *, older: bool) -> StoredResult:
    """Like `find_result`, without checking tables against their digests."""
    stored = ResultsFolder.of(results)
    # A long spec is not a folder name, and not an error.
    is_folder = os.path.isdir(name)
    if is_folder and (Path(name) / MANIFEST).is_file():
        return stored.read(Path(name))
    named_so = [] if "@" in name else _with_alias(stored, name)
    if len({item.manifest.dataset.spec for item in named_so}) > 1:
        datasets = ", ".join(sorted({f"{name}@{item.manifest.dataset.spec}" for item in named_so}))
        raise UsageError(f"{name!r} names results on several datasets: {datasets}. Name one of them.")
    if named_so:
        return latest(named_so, stored.built)[-1]
    if is_folder and "@" not in name:
        return stored.read(Path(name))
    if "@" in name:
        whole = _WITH_ID.fullmatch(name)
        method, _, dataset = (part.strip() for part in (whole["name"] if whole else name).rpartition("@"))
        matches = _find_method_results(stored, method, dataset)
        if not matches:
            method, dataset = _canonical_method(method), _canonical_dataset(dataset)
            matches = _find_method_results(stored, method, dataset)
        exact = [item for item in matches if f"{method} @ {dataset}" in {_named(item.manifest), _whole(item.manifest)}]
        if whole:
            matches = [item for item in matches if item.manifest.result_id.startswith(whole["id"])]
        else:
            matches = _of_today(_on_current_data(exact or matches, name), name, older=older, built=stored.built)
    elif len(name) < _SHORTEST_ID:
        raise UsageError(
            f"{name!r} is too short for a result id: give at least {_SHORTEST_ID} characters of it, or METHOD@DATASET."
        )
    else:
        matches = _with_id(stored, name)
    if len({question_of(item.manifest) for item in matches}) > 1:
        ids = "; ".join(
            f"{item.manifest.result_id} ({item.manifest.method.cut or 'no cut'}, {settings(item.manifest)})"
            for item in latest(matches, stored.built)
        )
        raise UsageError(f"{name!r} matches several results: {ids}. Name one by its id.")
    if not matches:
        raise UsageError(f"there is no result {name!r} in {stored.path}; `bench list results` lists them.")
    return latest(matches, stored.built)[0]


def _find_method_results(stored: ResultsFolder, method: str, dataset: str) -> list[StoredResult]:
    """The results of a method, with or without its cut, on a dataset.

    Unreadable results are left out; if there is no other, the error is raised.
    """
    label = f"{method} @ {dataset}"
    matches, damaged = list[StoredResult](), list[ResultError]()
    # The manifest also has the method's spec as a string, but the cut is a separate one.
    for folder in stored.containing(json_string(dataset), json_beginning(method.partition(" + ")[0])):
        try:
            item = stored.read(folder)
        except ResultError as error:
            named = folder.name.rpartition("-")[0] == slug(method.partition("(")[0].partition(" + ")[0])
            if named and folder.parent.name == slug(dataset):
                damaged.append(error)
            continue
        uncut = f"{item.manifest.method.spec} @ {item.manifest.dataset.spec}"
        if label in {_named(item.manifest), _whole(item.manifest), uncut}:
            matches.append(item)
    if damaged and not matches:
        # Better than reporting that there is no result.
        raise damaged[0]
    return matches


def _with_id(stored: ResultsFolder, start: str) -> list[StoredResult]:
    """The results whose id begins with this text. Folders end with the id; renamed ones are found by their manifests.

    Raises:
        ResultError: the only match cannot be read.
    """
    fits = [folder for folder in stored.folders if folder.name.rpartition("-")[2].startswith(start)]
    named = [stored.read(fits[0])] if len(fits) == 1 else list(stored.readable(fits))
    matches = [item for item in named if item.manifest.result_id.startswith(start)]
    others = stored.readable(stored.containing(json_beginning(start)))
    return matches or [item for item in others if item.manifest.result_id.startswith(start)]


def is_alias(results: Path | ResultsFolder, name: str) -> bool:
    """Whether a name is the alias of a stored result."""
    return bool(_with_alias(ResultsFolder.of(results), name))


def _with_alias(stored: ResultsFolder, alias: str) -> list[StoredResult]:
    found = stored.readable(stored.containing(b'"alias"', json_string(alias)))
    return [item for item in found if item.manifest.method.alias == alias]


def _canonical_method(text: str) -> str:
    """The name of a method in results, for any order and spelling of its arguments; unchanged if it is not a method.

    Only registered methods are imported: a result may name any `module:Class`.
    """
    spec, plus, cut = text.partition(" + ")
    try:
        parsed = parse(spec)
        canonical = check_spec(parsed) if parsed.name in method_names() else parsed
    except BenchError:
        return text
    return f"{canonical}{plus}{cut}"


def _canonical_dataset(text: str) -> str:
    """The name of a dataset in results; unchanged if there is no such dataset."""
    from bench.registry.datasets import resolve  # most names are names of results

    try:
        return resolve(text)[2]
    except BenchError:
        return text


def _on_current_data(stored: list[StoredResult], name: str) -> list[StoredResult]:
    """Select the results on the current data, if the user has replaced the dataset.

    Raises:
        UsageError: there are only results on the earlier data.
    """
    today = current_content(stored[0].manifest.dataset.spec) if stored else None
    if today is None:
        return stored
    current = [item for item in stored if item.manifest.dataset.content_hash == today]
    if not current:
        ids = ", ".join(item.manifest.result_id for item in latest(stored))
        raise UsageError(
            f"{name!r} was run on {stored[0].manifest.dataset.spec} as it was before it was replaced; run it again, or "
            f"name the earlier result by its id ({ids})."
        )
    return current


def _of_today(matches: list[StoredResult], name: str, *, older: bool, built: Built) -> list[StoredResult]:
    """Select the results of the current code of a method.

    Raises:
        UsageError: there are only results of other code.
    """
    # With an alias, the manifest names the module to import, and its author may be a stranger.
    states = [
        is_of_today(item.manifest, named=not _named_by_alias(item.manifest, name), built=built) for item in matches
    ]
    if True in states or older or not matches:
        return [item for item, state in zip(matches, states, strict=True) if state] or matches
    first = latest(matches, built)[0]
    named = not _named_by_alias(first.manifest, name)
    made = f"{first.manifest.result_id}, made {first.manifest.environment.created[:10]}"
    which = f"{made}, and {len(matches) - 1} more" if len(matches) > 1 else made
    if None in states:
        why = "the method cannot be built here" if named else "an alias does not import a method's code"
        why = next((one_line(fault, 400) for fault in contradictions(first.manifest)), why)
        spec = "" if named else f"its method, {one_line(_whole(first.manifest), 200).replace(' @ ', '@')}, or by "
        raise UsageError(
            f"whether {name} is of today's code cannot be known, because {why} ({which}); "
            f"name it by {spec}its id: {name}#{first.manifest.result_id}."
        )
    now, name_of_today = today(first.manifest, named=named, built=built), adopt_name(first.manifest, built)
    if now is not None and name_of_today is not None and now.identifier == name_of_today.result_id:
        way = f"`bench rescore {first.manifest.result_id}` renames it, as its ranking is known to be today's"
    else:
        way = f"`{command(first.manifest)}` makes a new one"
    older_name = f"{name}#{first.manifest.result_id}"
    only = "only results of older code" if now is None else _what_changed(first.manifest, now)
    raise UsageError(f"{name} has {only} ({which}); {way}; {older_name} names the older one.")


def _what_changed(manifest: Manifest, now: Today) -> str:
    """What changed in a method since an older result, in words: its code, or versions of models."""
    then = manifest.method.revisions
    changed = [name for name in now.models if then.get(name, now.models[name]) != now.models[name]]
    if manifest.method.code != now.code or not changed:
        return "only results of older code"
    versions = [
        f"{one_line(name, 200)} is {one_line(now.models[name], 80)} now and was {one_line(then[name], 80)}"
        for name in changed
    ]
    return f"only results of another version, because {', and '.join(versions)}"


def _named(manifest: Manifest) -> str:
    """Method and dataset as commands name them."""
    return f"{manifest.method.name} @ {manifest.dataset.spec}"


def _whole(manifest: Manifest) -> str:
    return f"{manifest.method.spec_label} @ {manifest.dataset.spec}"


def _named_by_alias(manifest: Manifest, name: str) -> bool:
    """Whether a name, `alias@dataset`, names a result by its alias."""
    alias = manifest.method.alias
    return alias is not None and name.rpartition("@")[0].strip() == alias


def settings(manifest: Manifest, usual: str = "") -> str:
    """The settings that distinguish a result from others of the same method on the same dataset, in words.

    `usual` is a tool text that need not be named.
    """
    data = manifest.dataset
    words = ["" if data.split == "test" else f"split {data.split}"]
    words.append("" if data.limit is None else f"limit {data.limit}")
    words.append("" if manifest.depth == DEFAULT_DEPTH or manifest.method.run_file else f"depth {manifest.depth}")
    words.append("" if manifest.repeats == 1 else f"{manifest.repeats} repeats")
    words.append("" if data.template == usual else f"text {data.tool_text}")
    words.append("run file" if manifest.method.run_file else "")
    return ", ".join(word for word in words if word)


def latest(results: Sequence[StoredResult], built: Built | None = None) -> list[StoredResult]:
    """For each question, the result of today's code or else the latest; the others are of other code versions.

    Args:
        results: the results.
        built: methods already built for other results.
    """
    groups: defaultdict[tuple[object, ...], list[StoredResult]] = defaultdict(list)
    for item in sorted(results, key=lambda item: (moment(item.manifest) or FIRST_DATE, item.manifest.result_id)):
        groups[question_of(item.manifest)].append(item)
    built = {} if built is None else built
    chosen = []
    for group in groups.values():
        current = [item for item in group if is_of_today(item.manifest, built=built)] if len(group) > 1 else []
        chosen.append((current or group)[-1])
    return chosen


def moment(made: Manifest | str) -> datetime.datetime | None:
    """The date of a result, or of an ISO date and time, in UTC; None if it is not a date."""
    try:
        parsed = datetime.datetime.fromisoformat(made if isinstance(made, str) else made.environment.created)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def question_of(manifest: Manifest) -> tuple[object, ...]:
    """The question of a result: its identity without the version of the method (code, models, defaults)."""
    data, method = manifest.dataset, manifest.method
    # Not the full spec: a version with one more parameter asks the same question at the parameter's default.
    conditions = (method.spec, method.cut, method.run_file, manifest.depth, manifest.repeats, data.template)
    return data.spec, comparison_key(manifest), *conditions

"""Results by the names that people give: a folder, an id or its beginning, an alias, `method@dataset`."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bench.base.errors import BenchError, ResultError, UsageError
from bench.base.paths import read_regular
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.spec import parse
from bench.base.text import one_line, slug
from bench.lookup.consistency import contradictions
from bench.lookup.current import Built, Today, adopt_name, is_of_today, today
from bench.registry import method_names
from bench.registry.added import current_content
from bench.registry.methods import check_spec
from bench.results.commands import command
from bench.results.comparability import comparison_key
from bench.results.manifest import Manifest
from bench.results.store import LARGEST_JSON, MANIFEST, StoredResult, folders_of

#: When what has no date was made: it was always there.
FIRST_DATE = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_SHORTEST_ID = 4
#: A name with the id of a result of older code.
_WITH_ID = re.compile(rf"(?P<name>.+@.+)#(?P<id>[0-9a-f]{{{_SHORTEST_ID},12}})")


def find_result(results: Path, name: str, *, older: bool = False) -> StoredResult:
    """A result by its folder, its id (or at least four characters of its beginning), its alias, or `method@dataset`.

    `method@dataset` is what `bench run` would store today. One of older code is named by `method@dataset#id`. An alias
    can take the place of the method; alone, it names the newest result that has it, as an id would.

    Args:
        results: the folder of results.
        name: the name.
        older: whether `method@dataset` may be one of older code, where there is none of today's.

    Raises:
        UsageError: none or several fit, or only results of older code do.
        ResultError: it cannot be read, or a file of it has changed since it was stored.
    """
    result = name_result(results, name, older=older)
    result.check_digests()
    return result


def name_result(results: Path, name: str, *, older: bool) -> StoredResult:
    """As `find_result`, but its tables are not held against their digests."""
    # A long spec is no name of a folder, and no error.
    is_folder = os.path.isdir(name)
    if is_folder and (Path(name) / MANIFEST).is_file():
        return StoredResult.read(Path(name))
    named_so = [] if "@" in name else _with_alias(results, name)
    if len({item.manifest.dataset.spec for item in named_so}) > 1:
        datasets = ", ".join(sorted({f"{name}@{item.manifest.dataset.spec}" for item in named_so}))
        raise UsageError(f"{name!r} names results on several datasets: {datasets}. Name one of them.")
    if named_so:
        return latest(named_so)[-1]
    if is_folder and "@" not in name:
        return StoredResult.read(Path(name))
    if "@" in name:
        whole = _WITH_ID.fullmatch(name)
        method, _, dataset = (part.strip() for part in (whole["name"] if whole else name).rpartition("@"))
        matches = _find_method_results(results, method, dataset)
        if not matches:
            method, dataset = _canonical_method(method), _canonical_dataset(dataset)
            matches = _find_method_results(results, method, dataset)
        exact = [item for item in matches if f"{method} @ {dataset}" in {item.label, _whole(item.manifest)}]
        if whole:
            matches = [item for item in matches if item.manifest.result_id.startswith(whole["id"])]
        else:
            matches = _of_today(_on_current_data(exact or matches, name), name, older=older)
    elif len(name) < _SHORTEST_ID:
        raise UsageError(f"{name!r} is too short for a result id: give at least {_SHORTEST_ID} characters.")
    else:
        matches = _with_id(results, name)
    if len({question_of(item.manifest) for item in matches}) > 1:
        ids = "; ".join(
            f"{item.manifest.result_id} ({item.manifest.method.cut or 'no cut'}, {settings(item.manifest)})"
            for item in latest(matches)
        )
        raise UsageError(f"{name!r} matches several results: {ids}. Name one by its id.")
    if not matches:
        raise UsageError(f"there is no result {name!r} in {results}; `bench list results` lists them.")
    return latest(matches)[0]


def _find_method_results(results: Path, method: str, dataset: str) -> list[StoredResult]:
    """The results of a method, with or without its cut, on a dataset.

    One that cannot be read is left out, or, if there is no other, its error is raised.

    Of thousands of results, most are passed over by the text of their manifests: JSON without a backslash has each of
    its strings as it is.
    """
    label, on = f"{method} @ {dataset}", json.dumps(dataset, ensure_ascii=False).encode("utf-8", "replace")
    matches, damaged = list[StoredResult](), list[ResultError]()
    for folder in folders_of(results):
        with suppress(OSError):
            text = read_regular(folder / MANIFEST, LARGEST_JSON)
            # The method's own spec is a string of the manifest, too, but its cut is another one.
            if b"\\" not in text and (
                on not in text or method.partition(" + ")[0].encode("utf-8", "replace") not in text
            ):
                continue
            try:
                item = StoredResult.read(folder)
            except ResultError as error:
                if folder.name.rpartition("-")[0] == slug(method.partition("(")[0].partition(" + ")[0]):
                    damaged.append(error)
                continue
            uncut = f"{item.manifest.method.spec} @ {item.manifest.dataset.spec}"
            if label in {item.label, _whole(item.manifest), uncut}:
                matches.append(item)
    if damaged and not matches:
        # Better than to say that there is none.
        raise damaged[0]
    return matches


def _with_id(results: Path, start: str) -> list[StoredResult]:
    """The results whose id begins so. Their folders end with the id; one that was renamed is found by its manifest.

    Raises:
        ResultError: the only one that fits cannot be read.
    """
    fits = [folder for folder in folders_of(results) if folder.name.rpartition("-")[2].startswith(start)]
    named = [StoredResult.read(folder) for folder in fits] if len(fits) == 1 else list(_readable(fits))
    matches = [item for item in named if item.manifest.result_id.startswith(start)]
    return matches or [item for item in _readable(folders_of(results)) if item.manifest.result_id.startswith(start)]


def is_alias(results: Path, name: str) -> bool:
    """Whether a name is the alias of a stored result."""
    return bool(_with_alias(results, name))


def _with_alias(results: Path, alias: str) -> list[StoredResult]:
    """The results that have an alias. Most are passed over by the text of their manifests, which has it as it is."""
    matches = []
    for folder in folders_of(results):
        with suppress(OSError, ResultError):
            text = read_regular(folder / MANIFEST, LARGEST_JSON)
            if b'"alias"' in text and alias.encode("utf-8", "replace") in text:
                item = StoredResult.read(folder)
                matches += [item] if item.manifest.method.alias == alias else []
    return matches


def _readable(folders: Iterable[Path]) -> Iterator[StoredResult]:
    for folder in folders:
        with suppress(ResultError):
            yield StoredResult.read(folder)


def _canonical_method(text: str) -> str:
    """A method as results name it, whatever the order and spelling of its arguments; unchanged if it is no method.

    Only what is registered is imported: a result may name any `module:Class`.
    """
    spec, plus, cut = text.partition(" + ")
    try:
        parsed = parse(spec)
        canonical = check_spec(parsed) if parsed.name in method_names() else parsed
    except BenchError:
        return text
    return f"{canonical}{plus}{cut}"


def _canonical_dataset(text: str) -> str:
    """A dataset as results name it; unchanged if there is none."""
    from bench.registry.datasets import resolve  # most names are those of results

    try:
        return resolve(text)[2]
    except BenchError:
        return text


def _on_current_data(stored: list[StoredResult], name: str) -> list[StoredResult]:
    """Of results on a dataset that its user has replaced, those on the data as they are now.

    Raises:
        UsageError: there are only results on the data as they were before.
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


def _of_today(matches: list[StoredResult], name: str, *, older: bool) -> list[StoredResult]:
    """Of results of a method, those of its code as it is now.

    Raises:
        UsageError: there are only results of other code.
    """
    built: Built = {}
    # An alias does not say which module is imported: the manifest does, and whoever gave the result away wrote it.
    states = [
        is_of_today(item.manifest, named=not _named_by_alias(item.manifest, name), built=built) for item in matches
    ]
    if True in states or older or not matches:
        return [item for item, state in zip(matches, states, strict=True) if state] or matches
    first = latest(matches)[0]
    named = not _named_by_alias(first.manifest, name)
    made = f"{first.manifest.result_id}, made {first.manifest.environment.created[:10]}"
    which = f"{made}, and {len(matches) - 1} more" if len(matches) > 1 else made
    if None in states:
        why = "the method cannot be built here" if named else "an alias imports no code of a method"
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
    """In words, what a method with an older result has now that it did not have then: code, or versions of models."""
    then = manifest.method.revisions
    changed = [name for name in now.models if then.get(name, now.models[name]) != now.models[name]]
    if manifest.method.code != now.code or not changed:
        return "only results of older code"
    versions = [
        f"{one_line(name, 200)} is {one_line(now.models[name], 80)} now and was {one_line(then[name], 80)}"
        for name in changed
    ]
    return f"only results of another version, because {', and '.join(versions)}"


def _whole(manifest: Manifest) -> str:
    return f"{manifest.method.spec_label} @ {manifest.dataset.spec}"


def _named_by_alias(manifest: Manifest, name: str) -> bool:
    """Whether a name, `alias@dataset`, names a result by its alias."""
    alias = manifest.method.alias
    return alias is not None and name.rpartition("@")[0].strip() == alias


def settings(manifest: Manifest, usual: str = "") -> str:
    """In words, what sets a result apart from another of the same method on the same dataset.

    `usual` is a tool text that goes without saying.
    """
    data = manifest.dataset
    words = ["" if data.split == "test" else f"split {data.split}"]
    words.append("" if data.limit is None else f"limit {data.limit}")
    words.append("" if manifest.depth == DEFAULT_DEPTH or manifest.method.run_file else f"depth {manifest.depth}")
    words.append("" if manifest.repeats == 1 else f"{manifest.repeats} repeats")
    words.append("" if data.template == usual else f"text {data.tool_text}")
    words.append("run file" if manifest.method.run_file else "")
    return ", ".join(word for word in words if word)


def latest(results: Sequence[StoredResult]) -> list[StoredResult]:
    """The answer of today's code to each question, or else the latest: others are of other versions of the code."""
    groups: defaultdict[tuple[object, ...], list[StoredResult]] = defaultdict(list)
    for item in sorted(results, key=lambda item: (moment(item.manifest) or FIRST_DATE, item.manifest.result_id)):
        groups[question_of(item.manifest)].append(item)
    built: Built = {}
    chosen = []
    for group in groups.values():
        current = [item for item in group if is_of_today(item.manifest, built=built)] if len(group) > 1 else []
        chosen.append((current or group)[-1])
    return chosen


def moment(made: Manifest | str) -> datetime.datetime | None:
    """When a result was made, or what an ISO date and time says, in UTC; None where it is no date."""
    try:
        parsed = datetime.datetime.fromisoformat(made if isinstance(made, str) else made.environment.created)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def question_of(manifest: Manifest) -> tuple[object, ...]:
    """What was asked of whom: all of a result's identity but the version of the method: its code, models, defaults."""
    data, method = manifest.dataset, manifest.method
    # Not the full spec: a version that has a parameter more asks the same when it is left at its default.
    conditions = (method.spec, method.cut, method.run_file, manifest.depth, manifest.repeats, data.template)
    return data.spec, comparison_key(manifest), *conditions

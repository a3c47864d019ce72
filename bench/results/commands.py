"""What makes a stored result again: its settings, as data, and whether all that its manifest says of them agrees."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Any, get_args

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.data.entries import dataset_entries
from bench.registry.methods import check_spec, is_registered
from bench.results.manifest import Manifest, StoredSettings
from bench.results.settings import CutKind, RunSettings, option

#: Settings whose defaults are those of the dataset.
_OF_DATASET = ("split", "template")
_CUT = re.compile(r"cut=(size|threshold|gap)\(([^,()]{1,40})(, given)?\)")


def stored_settings(
    method: str, dataset: str, settings: RunSettings, metrics: Sequence[object] = (), file: str | None = None
) -> StoredSettings:
    """What a manifest stores of a run, or of a scored run file."""
    extra = [*map(str, metrics)]
    return StoredSettings(method=method, dataset=dataset, metrics=extra, file=file, **settings.non_defaults())


def print_command(stored: StoredSettings) -> str:
    """The command that makes such a result."""
    words = ["bench", "run", "--method", stored.method, "--dataset", stored.dataset]
    if stored.file is not None:
        words = ["bench", "score", stored.file, "--dataset", stored.dataset, "--name", stored.method]
    for name, value in stored.non_defaults().items():
        words += [option(name), str(value)]
    for metric in stored.metrics:
        words += ["--metric", metric]
    return shlex.join(words)


def settings_of(manifest: Manifest) -> StoredSettings:
    """The settings of a result; of an older one, which did not store them, by what else its manifest says."""
    if manifest.settings is not None:
        return manifest.settings
    stated, usual = _stated_settings(manifest), _defaults(manifest.dataset.spec)
    return StoredSettings(**{name: value for name, value in stated.items() if value != usual.get(name)})


def _stated_settings(manifest: Manifest) -> dict[str, Any]:
    """The settings that other fields of a manifest state as well."""
    data, method = manifest.dataset, manifest.method
    stated = {"method": method.spec, "dataset": data.spec, "split": data.split, "template": data.template}
    if method.run_file is not None:
        # Of a run file, nothing else can be set.
        return RunSettings().model_dump() | stated | {"file": method.run_file.removesuffix(f" sha256:{method.hash}")}
    cut, cut_at = _read_cut(method.cut)
    others = {"limit": data.limit, "depth": manifest.depth, "repeats": manifest.repeats, "cut": cut, "cut_at": cut_at}
    return {**stated, **others, "file": None}


def _read_cut(name: str | None) -> tuple[CutKind, float | None]:
    """The kind of a cut as a manifest names it, `cut=size(3, given)`, and its value if that was given."""
    if parts := _CUT.fullmatch(name or ""):
        with suppress(ValueError):
            kind: CutKind = next(known for known in get_args(CutKind) if known == parts[1])
            return kind, float(parts[2]) if parts[3] else None
    return "none", None


def _defaults(spec: str) -> dict[str, str]:
    """Split and template that a dataset has if none is named; empty if it is not known here."""
    entry = dataset_entries().get(spec.partition("(")[0])
    return {} if entry is None else {"split": entry.card.split, "template": entry.card.template}


def command(manifest: Manifest) -> str:
    """The command that makes a result like it today; what a manifest says is quoted."""
    scored = manifest.method.run_file is not None
    # Who scores a run file may give the command: it may have been in memory.
    return manifest.environment.command if scored else print_command(settings_of(manifest))


def contradictions(manifest: Manifest) -> list[str]:
    """Where the settings, the command and the conditions of a manifest contradict each other; one sentence each."""
    asked, stated = settings_of(manifest), _stated_settings(manifest)
    # None says that the default is the dataset's.
    said = {name: stated[name] if name in _OF_DATASET and value is None else value for name, value in asked}
    faults = [
        f"its settings say {name.replace('_', ' ')} {said[name]}, and its conditions {value}"
        for name, value in sorted(stated.items())
        if said[name] != value
    ]
    if manifest.method.cut is not None and stated["cut"] == "none":
        faults.append(f"its conditions have {manifest.method.cut}, which is no cut of a ranking that a method made")
    if not _is_command_of(manifest):
        written = manifest.environment.command
        faults.append(f"its command is `{written}`, and its conditions are those of `{print_command(asked)}`")
    return faults


def _is_command_of(manifest: Manifest) -> bool:
    """Whether the command in a manifest is the one that its settings print."""
    written, asked = manifest.environment.command, settings_of(manifest)
    data, spec = manifest.dataset, manifest.method.spec
    if manifest.method.run_file is not None:
        return not written.startswith("bench run ")
    if manifest.settings is not None:
        return written == print_command(asked)
    # An older command has the method as it was typed, and may name the defaults of the dataset or leave them out.
    stated = {"split": data.split, "template": data.template}
    usual = stated | _defaults(data.spec)
    splits, templates = ({value, None if value == usual[name] else value} for name, value in stated.items())
    for split, template in product(splits, templates):
        variant = asked.model_copy(update={"method": "", "split": split, "template": template})
        begin, _, end = print_command(variant).partition("''")
        if written.startswith(begin) and written.endswith(end):
            typed = written.removeprefix(begin).removesuffix(end).strip("'")
            with suppress(BenchError):
                if typed == spec or (is_registered(parse(typed)) and str(check_spec(parse(typed))) == spec):
                    return True
    return False


def resolved_settings(manifest: Manifest) -> RunSettings | None:
    """The settings of a result, with split and template named, as its id covers them.

    None of a scored run file, and where the manifest's command says something else.
    """
    if manifest.method.run_file is not None or not _is_command_of(manifest):
        return None
    data = manifest.dataset
    stated = {"split": data.split, "limit": data.limit, "template": data.template}
    stated |= {"depth": manifest.depth, "repeats": manifest.repeats}
    return RunSettings(**settings_of(manifest).non_defaults() | stated)

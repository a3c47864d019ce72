"""What makes a stored result again: its settings, as data, and whether all that its manifest says of them agrees."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.data.entries import dataset_entries
from bench.registry.methods import check_spec, is_registered
from bench.results.ids import Conditions
from bench.results.manifest import DatasetIdentity, Manifest, StoredSettings
from bench.results.settings import CutKind, RunSettings, known_settings, option

_CUT = re.compile(r"cut=([a-z]+)\(([^,()]{1,40})(, given)?\)")


def stored_settings(
    method: str, dataset: str, settings: RunSettings, metrics: Sequence[object] = (), file: str | None = None
) -> StoredSettings:
    """What a manifest stores of a run, or of a scored run file."""
    extra = [*map(str, metrics)]
    return StoredSettings(method=method, dataset=dataset, metrics=extra, file=file, **settings.chosen())


def chosen(stored: StoredSettings) -> dict[str, Any]:
    """Name -> value of the settings that are not at their defaults."""
    return RunSettings(**{name: getattr(stored, name) for name in known_settings()}).chosen()


def print_command(stored: StoredSettings) -> str:
    """The command that makes such a result."""
    words = ["bench", "run", "--method", stored.method, "--dataset", stored.dataset]
    if stored.file is not None:
        words = ["bench", "score", stored.file, "--dataset", stored.dataset, "--name", stored.method]
    for name, value in chosen(stored).items():
        words += [option(name), str(value)]
    for metric in stored.metrics:
        words += ["--metric", metric]
    return shlex.join(words)


def settings_of(manifest: Manifest) -> StoredSettings:
    """The settings of a result; of an older one, which did not store them, by the conditions in its manifest.

    What is the default of its dataset is then left out, where the dataset is known here.
    """
    if manifest.settings is not None:
        return manifest.settings
    data, method = manifest.dataset, manifest.method
    usual = _defaults(data.spec) or {}
    stated: dict[str, Any] = {"split": data.split, "template": data.template}
    stated = {name: value for name, value in stated.items() if value != usual.get(name)}
    if method.run_file is not None:
        file = method.run_file.removesuffix(f" sha256:{method.hash}")
        return StoredSettings(method=method.spec, dataset=data.spec, file=file, **stated)
    cut, cut_at = read_cut(method.cut)
    stated |= {"limit": data.limit, "depth": manifest.depth, "cut": cut, "cut_at": cut_at, "repeats": manifest.repeats}
    return StoredSettings(method=method.spec, dataset=data.spec, **stated)


def read_cut(name: str | None) -> tuple[CutKind, float | None]:
    """The kind of a cut as a manifest names it, `cut=size(3, given)`, and its value if that was given."""
    parts = _CUT.fullmatch(name or "")
    kind: CutKind = next((known for known in get_args(CutKind) if parts and known == parts[1]), "none")
    if parts is None or kind == "none" or not parts[3]:
        return kind, None
    try:
        return kind, float(parts[2])
    except ValueError:
        return "none", None


def command(manifest: Manifest) -> str:
    """The command that makes a result like it today; what a manifest says is quoted."""
    scored = manifest.method.run_file is not None
    # Who scores a run file may give the command: it may have been in memory.
    return manifest.environment.command if scored else print_command(settings_of(manifest))


def contradictions(manifest: Manifest) -> list[str]:
    """Where the settings, the command and the conditions of a manifest contradict each other; one sentence each."""
    asked, data, method = settings_of(manifest), manifest.dataset, manifest.method
    stated: dict[str, Any] = {"method": method.spec, "dataset": data.spec, "split": data.split}
    stated["template"] = data.template
    if method.run_file is None:
        stated |= {"limit": data.limit, "depth": manifest.depth, "repeats": manifest.repeats}
    said = {name: getattr(asked, name) for name in stated}
    # None says that the default is the dataset's.
    said |= {name: stated[name] for name in ("split", "template") if said[name] is None}
    faults = [
        f"its settings say {name.replace('_', ' ')} {said[name]}, and its conditions {value}"
        for name, value in stated.items()
        if said[name] != value
    ]
    cut = read_cut(method.cut)
    if (cut[0] == "none") != (method.cut is None) or cut != (asked.cut, asked.cut_at):
        faults.append(f"its settings say {_cut_words(asked)}, and its conditions {method.cut or 'no cut'}")
    file = None if method.run_file is None else method.run_file.removesuffix(f" sha256:{method.hash}")
    if asked.file != file:
        faults.append(f"its settings say {asked.file or 'no run file'}, and its conditions {file or 'no run file'}")
    if not is_command_of(manifest):
        written = manifest.environment.command
        faults.append(f"its command is `{written}`, and its conditions are those of `{print_command(asked)}`")
    return faults


def is_command_of(manifest: Manifest) -> bool:
    """Whether the command in a manifest is the one that its settings print."""
    written, asked, method = manifest.environment.command, settings_of(manifest), manifest.method
    if method.run_file is not None:
        return not written.startswith("bench run ")
    if manifest.settings is not None:
        return written == print_command(asked)
    return any(_is_written(written, variant, method.spec) for variant in _variants(asked, manifest.dataset))


def _variants(settings: StoredSettings, data: DatasetIdentity) -> list[StoredSettings]:
    """The settings with defaults of the dataset left out, and given: an older command may have had either."""
    usual = _defaults(data.spec)
    both = {
        name: {value, None} if usual is None or usual[name] == value else {value}
        for name, value in (("split", data.split), ("template", data.template))
    }
    return [settings.model_copy(update=dict(zip(both, values, strict=True))) for values in product(*both.values())]


def _defaults(spec: str) -> dict[str, str] | None:
    """Split and template that a dataset has if none is named; None if it is not known here."""
    entry = dataset_entries().get(spec.partition("(")[0])
    return None if entry is None else {"split": entry.card.split, "template": entry.card.template}


def _is_written(written: str, settings: StoredSettings, spec: str) -> bool:
    """Whether an older command says these settings, with the method as it was typed."""
    end = print_command(settings.model_copy(update={"method": ""})).removeprefix("bench run --method ''")
    typed = written.removesuffix(end).removeprefix("bench run --method ").strip("'")
    if not written.endswith(end) or typed == spec:
        return written.endswith(end)
    try:
        return is_registered(parse(typed)) and str(check_spec(parse(typed))) == spec
    except BenchError:
        return False


def _cut_words(settings: StoredSettings) -> str:
    return f"cut {settings.cut}" + ("" if settings.cut_at is None else f" at {settings.cut_at:g}")


def conditions_of(manifest: Manifest) -> Conditions | None:
    """What was asked of a method; None of a scored run file, and where the manifest's command says something else."""
    if manifest.method.run_file is not None or not is_command_of(manifest):
        return None
    data, asked = manifest.dataset, settings_of(manifest)
    return Conditions(
        data.content_hash,
        data.split,
        data.limit,
        manifest.depth,
        data.template,
        asked.cut,
        asked.cut_at,
        manifest.repeats,
    )

"""How to reproduce a stored result: its settings as data, and the command for it, which reports and errors print."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

from bench.data.entries import known_entry
from bench.results.manifest import Manifest, StoredSettings
from bench.results.settings import CutKind, RunSettings, option

_CUT = re.compile(r"cut=(size|threshold|gap)\(([^,()]{1,40})(, given)?\)")


def stored_settings(
    method: str, dataset: str, settings: RunSettings, metrics: Sequence[object] = (), file: str | None = None
) -> StoredSettings:
    """The settings in a manifest for a run or a scored run file."""
    extra = [*map(str, metrics)]
    return StoredSettings(method=method, dataset=dataset, metrics=extra, file=file, **settings.non_defaults())


def print_command(stored: StoredSettings) -> str:
    """The command that makes a result with these settings."""
    words = ["bench", "run", "--method", stored.method, "--dataset", stored.dataset]
    if stored.file is not None:
        words = ["bench", "score", stored.file, "--dataset", stored.dataset, "--name", stored.method]
    for name, value in stored.non_defaults().items():
        words += [option(name), str(value)]
    for metric in stored.metrics:
        words += ["--metric", metric]
    return shlex.join(words)


def settings_of(manifest: Manifest) -> StoredSettings:
    """The settings of a result; for older results, which did not store them, read from the rest of the manifest."""
    if manifest.settings is not None:
        return manifest.settings
    stated, usual = stated_settings(manifest), dataset_defaults(manifest.dataset.spec)
    return StoredSettings(**{name: value for name, value in stated.items() if value != usual.get(name)})


def stated_settings(manifest: Manifest) -> dict[str, Any]:
    """The settings that other fields of a manifest state too."""
    data, method = manifest.dataset, manifest.method
    stated = {"method": method.spec, "dataset": data.spec, "split": data.split, "template": data.template}
    if method.run_file is not None:
        # A run file has no other settings.
        return RunSettings().model_dump() | stated | {"file": method.run_file.removesuffix(f" sha256:{method.hash}")}
    cut, cut_at = _read_cut(method.cut)
    others = {"limit": data.limit, "depth": manifest.depth, "repeats": manifest.repeats, "cut": cut, "cut_at": cut_at}
    return {**stated, **others, "file": None}


def _read_cut(name: str | None) -> tuple[CutKind, float | None]:
    """The kind of a cut as a manifest names it, `cut=size(3, given)`, and its value if the user gave it."""
    if parts := _CUT.fullmatch(name or ""):
        with suppress(ValueError):
            kind: CutKind = next(known for known in get_args(CutKind) if known == parts[1])
            value = float(parts[2])
            if math.isfinite(value):
                return kind, value if parts[3] else None
    return "none", None


def dataset_defaults(spec: str) -> dict[str, str]:
    """The default split and template of a dataset; empty if the dataset is unknown."""
    entry = known_entry(spec.partition("(")[0])
    return {} if entry is None else {"split": entry.card.split, "template": entry.card.template}


def command(manifest: Manifest) -> str:
    """The command that makes the same result today; values from the manifest are quoted."""
    scored = manifest.method.run_file is not None
    # A caller that scores a run file may pass the command, as for a file in memory.
    return manifest.environment.command if scored else print_command(settings_of(manifest))

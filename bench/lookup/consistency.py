"""Whether the settings, the command and the other fields of a manifest agree, and the settings that follow from them.

Used wherever a manifest identifies a result: names, ids by today's code, submissions and `bench run RESULT`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.registry.methods import check_spec, is_registered
from bench.results.commands import dataset_defaults, print_command, settings_of, stated_settings
from bench.results.manifest import Manifest, StoredSettings
from bench.results.settings import RunSettings

#: Settings with defaults from the dataset.
_OF_DATASET = ("split", "template")


def contradictions(manifest: Manifest) -> list[str]:
    """Contradictions between the settings, the command and the conditions of a manifest; one sentence each."""
    asked, stated = settings_of(manifest), stated_settings(manifest)
    # None means the default of the dataset.
    said = {name: stated[name] if name in _OF_DATASET and value is None else value for name, value in asked}
    faults = [
        f"its settings say {name.replace('_', ' ')} {said[name]}, and its conditions {value}"
        for name, value in sorted(stated.items())
        if said[name] != value
    ]
    if manifest.method.cut is not None and stated["cut"] == "none":
        faults.append(f"its conditions have {manifest.method.cut}, which is not a cut of a method's ranking")
    if not _is_command_of(manifest, asked):
        written = manifest.environment.command
        faults.append(f"its command is `{written}`, and its conditions are those of `{print_command(asked)}`")
    return faults


def _is_command_of(manifest: Manifest, asked: StoredSettings) -> bool:
    """Whether the command in a manifest follows from its settings."""
    written, data, spec = manifest.environment.command, manifest.dataset, manifest.method.spec
    if manifest.method.run_file is not None:
        return not written.startswith("bench run ")
    if manifest.settings is not None:
        return written == print_command(asked)
    # An older command has the method as the user typed it, and may name the defaults of the dataset or omit them.
    stated = {"split": data.split, "template": data.template}
    usual = stated | dataset_defaults(data.spec)
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

    None for a scored run file, and if the manifest's command contradicts them.
    """
    if manifest.method.run_file is not None:
        return None
    asked = settings_of(manifest)
    if not _is_command_of(manifest, asked):
        return None
    data = manifest.dataset
    stated = {"split": data.split, "limit": data.limit, "template": data.template}
    stated |= {"depth": manifest.depth, "repeats": manifest.repeats}
    return RunSettings(**asked.non_defaults() | stated)

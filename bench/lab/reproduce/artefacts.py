"""Trained models that recipes need: how to train them, where they are stored, and the commands for missing ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.base.errors import BenchError, DataError, UsageError
from bench.base.parameters import check_parameters, suggestion
from bench.base.paths import data_folder
from bench.base.records import Record, toml_table, validate_record
from bench.base.spec import Spec, format_value, parse
from bench.data.entries import dataset_entry
from bench.lab.reproduce.recipes import RecipeQuestion, is_fact
from bench.lab.training.train import trainer_class
from bench.metrics import DEFAULT_METRICS
from bench.models.trainingcard import Kind, TrainingCard, read_card

FILE = Path(__file__).parent / "artefacts.toml"
_REFERENCE = re.compile(r"\$([a-z0-9][a-z0-9-]*)")
#: With the text before it in the same word, as in `local:$NAME`: the two are one value.
_VALUE = re.compile(r"([\w.:/-]*)\$([a-z0-9][a-z0-9-]*)")


class Artefact(Record):
    """A model that `bench train` makes.

    Attributes:
        kind, dataset, base, settings: the arguments of `bench train`; `$NAME` in a text refers to another artefact.
        summary: a description.
    """

    kind: Kind
    dataset: str
    base: str | None = None
    settings: dict[str, str | int | float | bool] = {}
    summary: str

    def needs(self) -> list[str]:
        """Names of the artefacts it is made from."""
        texts = [self.base or "", *(value for value in self.settings.values() if isinstance(value, str))]
        return [name for text in texts for name in _REFERENCE.findall(text)]


@cache
def artefacts() -> dict[str, Artefact]:
    """Every artefact by name, in the order of the file."""
    return read_artefacts(FILE)


def read_artefacts(path: Path) -> dict[str, Artefact]:
    """Read artefacts from a TOML file; raises `DataError`."""
    tables = toml_table(path, "the artefacts", DataError)
    by_name = {
        name: validate_record(Artefact, table, f"the artefact {name} in {path}", DataError)
        for name, table in tables.items()
    }
    known: set[str] = set()
    for name, artefact in by_name.items():
        if missing := [needed for needed in artefact.needs() if needed not in known]:
            raise DataError(f"{path}: {name} is made from {missing[0]}, which must come first.")
        known.add(name)
    return by_name


def artefact(name: str) -> Artefact:
    """The artefact of that name; raises `UsageError` with the nearest one."""
    known = artefacts()
    if name not in known:
        raise UsageError(f"there is no artefact {name!r}{suggestion(name, known)}; there are {', '.join(known)}.")
    return known[name]


def folder_of(name: str) -> Path:
    """Where an artefact is stored."""
    return data_folder() / "models" / name


def is_there(name: str) -> bool:
    """Whether an artefact has been made; raises `DataError` if its card cannot be read, or is of another model."""
    card = read_card(folder_of(name))
    if card is None:
        return False
    if wrong := _differences(artefact(name), card):
        raise DataError(
            f"{folder_of(name)} contains a model other than {name}: {'; '.join(wrong)}. Move it away; "
            "then bench reproduce train trains the right one."
        )
    return True


def _differences(wanted: Artefact, card: TrainingCard) -> list[str]:
    """How a card differs from an artefact's definition, if that changes the model.

    A referenced artefact may have been elsewhere at the time, so references are not compared. Settings newer than the
    card had their default then: new settings do not invalidate old trainings.
    """
    if card.kind != wanted.kind:
        return [f"it is a {card.kind} and not a {wanted.kind}"]
    trainer = trainer_class(wanted.kind)
    settings = check_parameters(trainer.Parameters, Spec(wanted.kind, tuple(wanted.settings.items())), "training")
    pairs: list[tuple[str, object, object]] = [
        ("dataset", wanted.dataset, card.dataset),
        ("base", wanted.base or trainer.default_base, card.base),
        *(
            (name, value, card.settings.get(name, trainer.Parameters.model_fields[name].default))
            for name, value in settings.model_dump(mode="json").items()
        ),
    ]
    return [
        f"{name} is {actual!r} and not {value!r}"
        for name, value, actual in pairs
        if value != actual and name != "checkpoint_every" and not _REFERENCE.search(str(value))
    ]


def with_needed(names: list[str]) -> list[str]:
    """These artefacts and everything they are made from, in the order of training."""
    wanted = set(names)
    for name in reversed(artefacts()):
        if name in wanted:
            wanted.update(artefact(name).needs())
    return [name for name in artefacts() if name in wanted]


def command(name: str) -> list[str]:
    """The words of the command that makes an artefact, after `bench`."""
    chosen = artefact(name)
    words = ["train", chosen.kind, "--dataset", chosen.dataset, "--out", str(folder_of(name))]
    if chosen.base is not None:
        words += ["--base", _plain(chosen.base)]
    for key, value in chosen.settings.items():
        words += ["--set", f"{key}={_plain(value) if isinstance(value, str) else format_value(value)}"]
    return words


def _plain(text: str) -> str:
    return _REFERENCE.sub(lambda match: str(folder_of(match[1])), text)


def names_in(spec: str) -> list[str]:
    """Names of the artefacts in a spec's text, each once; raises `UsageError` for an unknown one."""
    names = list(dict.fromkeys(_REFERENCE.findall(spec)))
    for name in names:
        artefact(name)
    return names


def resolve_references(spec: str) -> str:
    """A spec's text with every `$NAME` replaced by its folder, quoted as in specs."""
    return _VALUE.sub(lambda match: format_value(f"{match[1]}{folder_of(match[2])}"), spec)


def commands_for(methods: Sequence[str], question: RecipeQuestion, metrics: Sequence[str]) -> list[str]:
    """The commands needed before these methods can be measured: add the data, train the models.

    What exists already is left out. If nothing of this kind is missing, it is the run itself, which names what is.
    """
    datasets = [resolve_references(text) for text in question.on]
    names = with_needed([name for method in methods for name in names_in(method)])
    missing = [name for name in names if not is_there(name)]
    run = ["bench", "run"]
    for method in methods:
        run += ["--method", str(parse(resolve_references(method)))]
    for dataset in datasets:
        run += ["--dataset", dataset]
    if question.template is not None:
        run += ["--template", question.template]
    if question.split is not None:
        run += ["--split", question.split]
    for metric in dict.fromkeys(metrics):
        if metric not in DEFAULT_METRICS and not is_fact(metric):
            run += ["--metric", metric]
    needed = dict.fromkeys([*datasets, *(artefact(name).dataset for name in missing)])
    added = [line for dataset in needed if (line := adding_command(dataset))]
    trained = [shlex.join(["bench", "reproduce", "train", *missing])] if missing else []
    return [*added, *trained] or [shlex.join(run)]


def adding_command(dataset: str) -> str | None:
    """The command that adds a dataset whose files the user must supply and has not; None for any other."""
    try:
        entry = dataset_entry(parse(dataset).name)
    except BenchError:
        return None
    missing = entry.card.obtain and entry.module is not None
    return f"bench data add {entry.card.id} --from FOLDER" if missing else None

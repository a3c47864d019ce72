"""Add user datasets (BEIR folders, Parquet exports, full-size upstream archives) for `bench data add` and `import`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.base.errors import BenchError, DataError, UnavailableError, UsageError
from bench.base.keys import refuse
from bench.base.locks import lock, recover, replace_folder
from bench.base.paths import data_folder
from bench.data.beir import import_beir, read_about
from bench.data.card import ID_PATTERN, MANIFEST, Card, Relation, Unit, cards_from
from bench.data.dataset import Dataset
from bench.data.entries import DatasetEntry, installed_entries
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import Tables, Tool
from bench.registry.versions import earlier_folders, keep_earlier


def add_datasets(
    name: str,
    source: Path,
    *,
    drop_unknown_gold: bool = False,
    replace: bool = False,
    unit: Sequence[Relation] | None = None,
) -> Iterator[Dataset]:
    """Read a folder and store its tables as one or more user datasets.

    Args:
        name: the id of a card whose files the user must provide (`apibank-full`), the folder name of several such
            cards (`toolbench`: all cards whose files are in `source`), or a new id for a BEIR folder or an export
            of `bench data export --format parquet`.
        source: the folder to read.
        drop_unknown_gold: for a BEIR folder: drop gold that names tools outside the corpus.
        replace: replace a dataset that was added under the same id.
        unit: the relations that make queries dependent (see `bench.data.units`), for the card; None keeps the unit of
            the card or export, or the default if neither has one.

    Raises:
        UsageError: the id is taken, or the format of the folder is unknown.
        UnavailableError: the folder lacks the files of the requested dataset.
        DataError: a file is malformed.
    """
    check_id(name)
    if not source.is_dir():
        raise UsageError(f"{source} is not a folder.")
    installed = installed_entries()
    brought = [
        entry for entry in installed.values() if entry.card.obtain and name in {entry.card.id, entry.folder.name}
    ]
    if brought:
        tables = _import_folder(brought[0], source)
        entries = [entry for entry in brought if entry.card.id in tables]
        if not entries:
            raise UnavailableError(f"{source} does not contain the files of {name}: {brought[0].card.obtain}")
        for entry in entries:
            yield keep(Dataset.build(entry.card.id, with_unit(entry.card, unit), tables[entry.card.id]), replace)
        return
    check_free(name)
    if (source / MANIFEST).is_file():
        stored = read_dataset(source)
        mine: dict[str, Any] = {"id": name, "aliases": [], "upstream": [], "counts": None, "obtain": "", "variant": ""}
        mine["source"] = stored.source
        card = cards_from({**stored.card.model_dump(), **mine}, name)[0]
        yield keep(Dataset.build(name, with_unit(card, unit), stored.rows_again()), replace)
    elif (source / "corpus.jsonl").is_file():
        notes: list[str] = []
        rows = import_beir(source, drop_unknown_gold=drop_unknown_gold, notes=notes)
        card = cards_from(_card(name, source, notes), name)[0]
        yield keep(Dataset.build(name, with_unit(card, unit), rows), replace)
    else:
        raise UsageError(
            f"{source} has an unknown format: it has neither corpus.jsonl (BEIR) nor {MANIFEST} "
            f"(Parquet), and {name!r} is not a dataset that needs your files."
        )


_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)\d)(\.|$)", re.IGNORECASE)


def check_id(name: str) -> None:
    """Raise `UsageError` unless the name is a valid dataset id."""
    if not re.fullmatch(ID_PATTERN, name):
        raise UsageError(
            f"{name!r} is not a valid dataset id: use up to 64 letters, digits, dots, hyphens and underscores."
        )
    if _DEVICE.match(name):
        raise UsageError(f"{name!r} is not a valid dataset id: on Windows it is the name of a device, not of a folder.")


def check_free(name: str) -> None:
    """Raise `UsageError` if the name is the id or an alias of a built-in or plug-in dataset."""
    installed = installed_entries().values()
    if name.casefold() in {word.casefold() for entry in installed for word in (entry.card.id, *entry.card.aliases)}:
        raise UsageError(f"a dataset {name!r} already exists; choose another name.")


def with_unit(card: Card, by: Sequence[Relation] | None) -> Card:
    """The card with the unit chosen by its user; unchanged for None."""
    if by is None:
        return card
    return card.model_copy(update={"unit": Unit(by=list(by), reason="Chosen by the user who added the dataset.")})


def _import_folder(entry: DatasetEntry, source: Path) -> dict[str, Tables]:
    assert entry.module is not None
    importer = importlib.import_module(entry.module.rpartition(".")[0] + ".importer")
    try:
        tables: dict[str, Tables] = importer.read(source)
    except BenchError:
        raise
    except Exception as error:
        raise DataError(f"the files in {source} are not as expected ({type(error).__name__}: {error}).") from error
    return tables


def _card(name: str, source: Path, notes: Sequence[str]) -> dict[str, Any]:
    about = read_about(source)
    return {
        "id": name,
        "title": name,
        "summary": f"Added from {source.name} in BEIR format.",
        "licence": "not stated",
        "redistribution": False,
        "template": "name_description",
        **about,
        "known_issues": [*about.get("known_issues", []), *(f"On import: {note}." for note in notes)],
    }


def check_absent(name: str, replace: bool) -> None:
    """Raise `UsageError` if a dataset was added under the name, unless it may be replaced."""
    if not replace and _folder(name).exists():
        raise UsageError(f"a dataset {name!r} already exists; use --replace to replace it.")


def stored_tools(name: str) -> list[Tool]:
    """The tools of the dataset that was added under the name, preceded by the tools of its earlier contents."""
    tools: list[Tool] = []
    for folder in (*reversed(earlier_folders(name)), _folder(name)):
        with suppress(BenchError):
            tools += read_dataset(folder).tools
    return tools


def _folder(name: str) -> Path:
    return data_folder() / "datasets" / name


def keep(dataset: Dataset, replace: bool) -> Dataset:
    """Store a user dataset atomically.

    Raises:
        UsageError: a dataset was added under its id and may not be replaced, or the new one contains a key.
        StorageError: it cannot be written; an existing dataset is unchanged.
    """
    refuse(f"the dataset {dataset.card.id}", *map(repr, (dataset.card, dataset.tools, dataset.queries)))
    folder = _folder(dataset.card.id)
    with lock(data_folder() / ".locks" / f"{folder.name}.lock", f"adding {folder.name}"):
        recover(folder)
        check_absent(dataset.card.id, replace)
        keep_earlier(folder, dataset.content_hash)
        with replace_folder(folder) as fresh:
            write_dataset(dataset, fresh)
    return dataset

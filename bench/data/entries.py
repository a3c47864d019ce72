"""Available datasets, by their cards: folders of `bench.datasets`, entry points of that name, and added ones.

Listing them needs neither NumPy nor pyarrow; `bench.registry.datasets` loads them.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bench
from bench.base.errors import DataError, UsageError
from bench.base.locks import standing
from bench.base.parameters import ParameterSet, suggestion
from bench.base.paths import data_folder
from bench.base.plugins import installed_points
from bench.base.reading import Reader
from bench.data.card import ID_PATTERN, MANIFEST, Card, cards_from, read_cards


class NoOptions(ParameterSet):
    """The options of a loader that declares none."""


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset that can be loaded: its card, and the location of its loader or stored tables."""

    card: Card
    folder: Path
    module: str | None  # the loader's module; None for an added dataset, whose folder holds the tables

    def options(self) -> type[ParameterSet]:
        """The options of the dataset: the loader's, and those of libraries."""
        from bench.data.libraries import with_library_options

        return with_library_options(self.own_options())

    def own_options(self) -> type[ParameterSet]:
        """The loader's option class for this card; for a dataset that a user added, the views of its queries."""
        from bench.data.queryviews import ViewOptions

        if self.module is None or self.card.obtain:
            return ViewOptions
        try:
            declared = getattr(importlib.import_module(self.module), "Options", NoOptions)
        except Exception as error:
            raise DataError(
                f"the loader of {self.card.id} cannot be imported ({type(error).__name__}: {error})."
            ) from error
        if isinstance(declared, dict):
            declared = declared.get(self.card.variant, NoOptions)
        if not (isinstance(declared, type) and issubclass(declared, ParameterSet)):
            raise DataError(f"the loader of {self.card.id} declares Options that are not a ParameterSet.")
        return declared


@dataclass(frozen=True)
class _KnownDatasets:
    """Datasets by id, and why the others cannot be used: a broken dataset does not hide the rest."""

    entries: dict[str, DatasetEntry]
    broken: dict[str, str]


@cache
def _installed_datasets() -> _KnownDatasets:
    """Built-in datasets and those of installed plug-ins."""
    registry = _KnownDatasets({}, {})
    for place in bench.__path__:
        root = Path(place) / "datasets"
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            if (folder / "card.toml").is_file():
                _read_cards(registry, folder.name, folder, f"bench.datasets.{folder.name}.loader")
    for point in installed_points(group="bench.datasets"):
        try:
            package = importlib.util.find_spec(point.value)
        except (ImportError, ValueError):
            package = None
        places = list(package.submodule_search_locations or []) if package else []
        if not places:
            registry.broken[point.name] = (
                f"the plug-in dataset {point.name!r} ({point.value}) is not an installed package."
            )
        for place in places:
            _read_cards(registry, point.name, Path(place), f"{point.value}.loader")
    return registry


@cache
def _own_folder_entry(name: str) -> DatasetEntry | None:
    """The built-in dataset whose folder has its name, as most have: reading all other cards takes a while."""
    if not re.fullmatch(ID_PATTERN, name):
        return None
    module = name.replace("-", "_")
    registry = _KnownDatasets({}, {})
    for place in bench.__path__:
        folder = Path(place) / "datasets" / module
        if (folder / "card.toml").is_file():
            _read_cards(registry, module, folder, f"bench.datasets.{module}.loader")
    return registry.entries.get(name)


def _read_cards(registry: _KnownDatasets, name: str, folder: Path, module: str) -> None:
    try:
        for card in read_cards(folder / "card.toml"):
            registry.entries.setdefault(card.id, DatasetEntry(card, folder, module))
    except DataError as error:
        registry.broken[name] = str(error)


def _added_datasets() -> _KnownDatasets:
    """Datasets the user added with `bench data add`."""
    root = data_folder() / "datasets"
    registry, reader = _KnownDatasets({}, {}), Reader("it", DataError)
    for folder in standing(list(root.iterdir())) if root.is_dir() else []:
        path = folder / MANIFEST
        try:
            if path.is_file():
                card = cards_from(reader.parse(reader.read_bytes(path))["card"], str(path))[0]
                registry.entries[card.id] = DatasetEntry(card, folder, None)
        except (OSError, KeyError, TypeError, AttributeError, DataError) as error:
            registry.broken[folder.name] = (
                f"{path} is damaged or cannot be read ({str(error).rstrip('.')}); remove {folder} and add the dataset "
                "again."
            )
    return registry


def installed_entries() -> dict[str, DatasetEntry]:
    """Datasets that have a card in this installation, by id."""
    return _installed_datasets().entries


def dataset_entries() -> dict[str, DatasetEntry]:
    """Every dataset by id, sorted: built-in and added ones."""
    return dict(sorted({**_installed_datasets().entries, **_added_datasets().entries}.items()))


def known_entry(name: str) -> DatasetEntry | None:
    """The dataset with this id; None if there is none, or if it is damaged."""
    return _added_datasets().entries.get(name) or _installed_datasets().entries.get(name)


def broken_datasets() -> dict[str, str]:
    """Name -> why the dataset cannot be used, for damaged cards and folders."""
    return {**_installed_datasets().broken, **_added_datasets().broken}


def dataset_entry(name: str) -> DatasetEntry:
    """The dataset with this id or alias.

    Raises:
        UsageError: it does not exist; the message suggests the nearest id.
        DataError: it exists but is damaged.
    """
    if name not in _added_datasets().entries and (entry := _own_folder_entry(name)) is not None:
        return entry
    entries = dataset_entries()
    if name in entries:
        return entries[name]
    aliases = {alias.lower(): entry for entry in entries.values() for alias in entry.card.aliases}
    if name.lower() in aliases:
        return aliases[name.lower()]
    if name in (broken := broken_datasets()):
        raise DataError(broken[name])
    known = [*entries, *(alias for entry in entries.values() for alias in entry.card.aliases)]
    raise UsageError(
        f"there is no dataset {name!r}{suggestion(name, known)}; `bench list datasets` lists them, "
        "and `bench data add` adds your own."
    )

"""Load datasets by name; `bench.data.entries` finds them, and every command that needs a dataset calls this.

A dataset folder holds `card.toml` and `loader.py`. The loader has a function

    def load(files: Files, options: Options, card: Card) -> Tables

and may declare a class `Options(ParameterSet)`, whose fields users set as in `rectools(split=bundle-disjoint)`; a
loader of several cards may declare a dict of such classes by the cards' `variant`. A loader whose queries have searches
may declare `bench.data.queryviews.ViewOptions` and returns the requests; this module builds the views.
If users must provide the files of some cards (`obtain`), the folder also holds `importer.py` with

    def read(folder: Path) -> dict[str, Tables]

which returns the tables of these cards, by card id, if their files are in the user's folder.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from dataclasses import replace
from pathlib import Path

from bench.base.errors import BenchError, DataError, UnavailableError, UsageError
from bench.base.keys import refuse
from bench.base.parameters import ParameterSet, check_parameters, short_spec
from bench.base.paths import cache_folder
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec, parse
from bench.data.card import MANIFEST, Card, UnitSizes
from bench.data.dataset import Dataset
from bench.data.entries import DatasetEntry, dataset_entry
from bench.data.files import Files
from bench.data.libraries import LibraryOptions, check_library, is_drawn, with_library
from bench.data.parents import parent_of
from bench.data.parquet import FORMAT_VERSION, read_dataset, write_dataset
from bench.data.queryviews import ViewOptions, with_view
from bench.data.tables import SPLITS, Tables
from bench.data.units import judged_units, unit_sizes
from bench.identity.reach import reach_modules

#: Modules that build a dataset from a loader's tables and store it.
_STORING = ("bench.data.dataset", "bench.data.parquet")


def resolve(spec: Spec | str) -> tuple[DatasetEntry, ParameterSet, str]:
    """Return the entry, checked options and canonical spec of a dataset, without loading it."""
    spec = parse(spec) if isinstance(spec, str) else spec
    refuse("the dataset", str(spec))
    entry = dataset_entry(spec.name)
    if not (entry.module or "").startswith("bench.datasets."):
        # Texts of a card are stored with results, exported and published. Built-in cards are public anyway.
        refuse(f"the card of the dataset {entry.card.id}", repr(entry.card))
    options = check_parameters(entry.options(), Spec(entry.card.id, spec.arguments), "dataset")
    library = _library(options)
    check_library(library, entry.card.id, own_seed="seed" in entry.own_options().model_fields)
    named = {field: getattr(library, field) for field in ("distractors", "no_tool")}
    ids = {field: _other(entry, name, field).card.id for field, name in named.items() if name}
    options = options.model_copy(update=ids)
    return entry, options, str(short_spec(entry.card.id, options))


def _library(options: ParameterSet) -> LibraryOptions:
    """The part of a dataset's options that selects the tools of its library."""
    assert isinstance(options, LibraryOptions)
    return options


def _own(entry: DatasetEntry, options: ParameterSet) -> ParameterSet:
    """The part of a dataset's options declared by its loader."""
    declared = entry.own_options()
    return declared.model_validate({name: getattr(options, name) for name in declared.model_fields})


def _other(entry: DatasetEntry, name: str, field: str) -> DatasetEntry:
    """The dataset from which another takes distractors or queries."""
    other = dataset_entry(name)
    if other.card.id == entry.card.id:
        what = "tools" if field == "distractors" else "queries"
        raise UsageError(f"{entry.card.id} has its own {what} already; name another dataset in {field}=.")
    return other


def load_dataset(spec: Spec | str, progress: Progress = QUIET) -> Dataset:
    """Load a dataset by its spec: from the cache of normalised tables, else from upstream files.

    The current session determines the source of upstream files and whether they may be downloaded.

    Raises:
        UsageError: unknown dataset, or an unknown or unsuitable option.
        UnavailableError: a file is missing and must not or cannot be downloaded.
        DataError: a file is corrupt, or the tables differ from the card.
    """
    entry, options, canonical = resolve(spec)
    loader_options = _own(entry, options)
    if entry.module is None and not is_drawn(_library(options)):
        assert isinstance(loader_options, ViewOptions)
        return with_view(check_hash(read_dataset(entry.folder)), loader_options.view)
    check_brought(entry)
    folder = stored_folder(entry, options)
    if (folder / MANIFEST).is_file():
        try:
            return read_dataset(folder)
        except DataError as error:
            # The cache can be rebuilt.
            progress.note(f"{error} Building it again.")
    dataset = build_dataset(entry, options, canonical, progress)
    write_dataset(dataset, folder)
    return dataset


def check_brought(entry: DatasetEntry) -> None:
    """Raise `UnavailableError` if the user must provide the files of the dataset and has not."""
    if entry.card.obtain and entry.module:
        raise UnavailableError(
            f"{entry.card.id} is not available: {entry.card.obtain} Then run `bench data add "
            f"{entry.card.id} --from FOLDER`."
        )


def stored_folder(entry: DatasetEntry, options: ParameterSet) -> Path:
    """The folder of a dataset's normalised tables."""
    if is_drawn(_library(options)):
        return cache_folder() / "datasets" / f"{entry.card.id}-{_drawn_key(entry, options)[:20]}"
    if entry.module is None:
        return entry.folder
    return cache_folder() / "datasets" / f"{entry.card.id}-{_key(entry, _own(entry, options))[:20]}"


def check_hash(dataset: Dataset) -> Dataset:
    """Return the dataset after checking its stored content hash against its rows."""
    if replace(dataset).content_hash != dataset.content_hash:
        raise DataError(f"{dataset.spec} does not match its stored content hash; add it again.")
    return dataset


def build_dataset(entry: DatasetEntry, options: ParameterSet, canonical: str, progress: Progress = QUIET) -> Dataset:
    """Build a dataset from checked upstream files; raises as `load_dataset` does."""
    library, options = _library(options), _own(entry, options)
    if is_drawn(library):
        return draw_library(load_dataset(short_spec(entry.card.id, options), progress), library, canonical, progress)
    from bench.data.sources import Sources  # most datasets are stored

    assert entry.module is not None
    card = entry.card
    local = Sources.from_session(progress).fetch(card.files())
    # Also by path alone; if two upstreams share a path, the first keeps it and the other needs its full name.
    paths: dict[str, Path] = {}
    for name, path in local.items():
        paths[name] = path
        paths.setdefault(name.split("/", 3)[3], path)
    tables = _run_loader(entry.module, Files(paths, entry.folder), options, card)
    dataset = Dataset.build(canonical, card, tables)
    if canonical == card.id:
        check_counts(dataset)
    return with_view(dataset, options.view) if isinstance(options, ViewOptions) else dataset


def draw_library(dataset: Dataset, options: LibraryOptions, canonical: str, progress: Progress) -> Dataset:
    """A dataset with the library selected by the options; raises as `load_dataset` does."""
    distractors = load_dataset(Spec(options.distractors), progress) if options.distractors else None
    no_tool = load_dataset(Spec(options.no_tool), progress) if options.no_tool else None
    if no_tool is not None and no_tool.tools:
        raise UsageError(
            f"{no_tool.spec} has tools, which may answer its queries; name a set of queries without tools "
            "in no_tool=, such as masstool."
        )
    return with_library(dataset, options, distractors, canonical, no_tool)


def _run_loader(module: str, files: Files, options: ParameterSet, card: Card) -> Tables:
    """Call a loader; exceptions become an error that names the dataset."""
    try:
        tables = importlib.import_module(module).load(files, options, card)
    except BenchError:
        raise
    except Exception as error:
        raise DataError(
            f"the loader of {card.id} failed, or its files are not as it expects ({type(error).__name__}: {error})."
        ) from error
    if not isinstance(tables, Tables):
        raise DataError(f"the loader of {card.id} returned a {type(tables).__name__} instead of Tables.")
    return tables


def _key(entry: DatasetEntry, options: ParameterSet) -> str:
    """Hash of all inputs of the normalised tables: card, options, code, and the files in the folder.

    Args:
        options: the options declared by the loader.
    """
    if entry.module is None:
        # The manifest of an added dataset contains its content hash and the digests of its tables.
        manifest = (entry.folder / MANIFEST).read_bytes()
        return hashlib.sha256(options.model_dump_json().encode() + b"\n" + manifest).hexdigest()
    digest = hashlib.sha256(f"{FORMAT_VERSION}\n{options.model_dump_json()}\n{entry.card.model_dump_json()}".encode())
    digest.update(reach_modules(entry.module, *_STORING).hash().encode())
    for path in sorted(entry.folder.iterdir()):
        if path.is_file() and path.name != "card.toml" and path.suffix not in {".py", ".pyc"}:
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _drawn_key(entry: DatasetEntry, options: ParameterSet) -> str:
    """Hash of all inputs of a drawn dataset: its tables, the tables of distractors, options and code."""
    library = _library(options)
    parts = [_key(entry, _own(entry, options)), options.model_dump_json(), reach_modules("bench.data.libraries").hash()]
    for name in filter(None, (library.distractors, library.no_tool)):
        other = dataset_entry(name)
        parts.append(_key(other, other.own_options()()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check_counts(dataset: Dataset) -> None:
    """Raise `DataError` unless the dataset has the counts stated in its card."""
    counts = dataset.card.counts
    if counts is None:
        return
    golds = dataset.gold.counts
    judged = golds[golds > 0]
    actual: dict[str, int | UnitSizes] = {
        "tools": len(dataset.tools),
        "parents": len({parent_of(tool) for tool in dataset.tools}),
        **{split: len(dataset.rows(split)) for split in SPLITS},
        "no_gold": int((golds == 0).sum()),
        "edges": len(dataset.edges),
        # A catalogue without queries has no gold.
        "gold_min": int(judged.min()) if len(judged) else 0,
        "gold_max": int(judged.max(initial=0)),
    }
    if counts.dependence is not None:
        actual["dependence"] = unit_sizes(judged_units(dataset))
    wrong = [
        f"{key} {value} instead of {getattr(counts, key)}"
        for key, value in actual.items()
        if value != getattr(counts, key)
    ]
    if wrong:
        raise DataError(f"{dataset.spec} does not match its card: {', '.join(wrong)}.")

"""The training sets that a third-party model declares on its card, or that the registry here lists for it.

A model card of the Hugging Face Hub is a `README.md` with YAML front matter, whose key `datasets` lists the ids of the
training sets (https://huggingface.co/docs/hub/model-cards). It says neither which split was used nor that the list is
complete. Many cards have no such list; `trainingsets.toml` beside this module lists the training sets of some models.
Marks of results use both.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bench.base.config import current_session
from bench.base.errors import DataError
from bench.base.records import StrictRecord, read_toml
from bench.models.files import EMBEDDED, embedded_model

#: Maximum bytes of a model card to read.
_MOST_BYTES = 1 << 20
_MOST_SETS, _LONGEST = 500, 200
_REGISTRY = Path(__file__).parent / "trainingsets.toml"

Text = Annotated[str, Field(min_length=1)]


class TrainingSets(StrictRecord):
    """The training sets of models with matching names.

    Attributes:
        models: Hub ids; * matches anything.
        datasets: as named by the source.
        source: where this is stated.
    """

    models: list[Text]
    datasets: list[Text]
    source: Text


class _Registry(StrictRecord):
    entries: list[TrainingSets]


@cache
def registry() -> tuple[TrainingSets, ...]:
    """All entries of `trainingsets.toml`."""
    return tuple(read_toml(_Registry, _REGISTRY, "the registry of training sets", DataError).entries)


def registered_training_sets(name: str) -> tuple[TrainingSets, ...]:
    """The entries of the registry that match a model.

    Args:
        name: a model as methods name it. A Hub id must match as a whole, a folder by its last part.
    """
    folder = Path(name).expanduser().is_dir()

    def fits(pattern: str) -> bool:
        known, actual = (pattern.rpartition("/")[2], Path(name).name) if folder else (pattern, name)
        return fnmatchcase(actual.casefold(), known.casefold())

    return tuple(entry for entry in registry() if any(map(fits, entry.models)))


def declared_training_sets(name: str) -> tuple[str, ...]:
    """The ids of the training sets that a model's card lists.

    Args:
        name: a model as methods name it: the embedded one, a folder, or a Hub id whose files are cached.

    Returns:
        The ids as written, in order; empty for a model without a card, or with a card that lists none.
    """
    return _declared(name, "datasets")


def declared_languages(name: str) -> tuple[str, ...]:
    """The language codes that a model's card lists; as in `declared_training_sets`, an empty list is no claim.

    Args:
        name: a model as methods name it.
    """
    return _declared(name, "language")


def _declared(name: str, key: str) -> tuple[str, ...]:
    """The texts under a key of a card's front matter, as written and in order."""
    card = _card(name)
    if card is None:
        return ()
    try:
        from huggingface_hub.repocard import metadata_load

        if not card.is_file() or card.stat().st_size > _MOST_BYTES:
            return ()
        metadata = metadata_load(card)
    except Exception:  # A model is usable without a card, and so with a card whose YAML cannot be read.
        return ()
    declared = metadata.get(key) if isinstance(metadata, dict) else None
    names = declared if isinstance(declared, list) else [declared]
    return tuple(item for item in names[:_MOST_SETS] if isinstance(item, str) and 0 < len(item) <= _LONGEST)


def _card(name: str) -> Path | None:
    if name == EMBEDDED:
        return embedded_model() / "README.md"
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder / "README.md"
    return _hub_card(name)


def _hub_card(name: str) -> Path | None:
    """The card of a Hub model used here: downloaded unless offline, because models are cached without it."""
    try:
        from huggingface_hub import hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        return None
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            return None
        return Path(hf_hub_download(name, "README.md", local_files_only=current_session().offline))
    except (HFValidationError, HfHubHTTPError, OSError, ValueError):
        return None  # not a name on the Hub, or no card there

"""What the registry knows about the datasets and methods of results. Boards and pages of methods use it.

A name alone never imports third-party code.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError, UnavailableError
from bench.base.parameters import method_parameters
from bench.base.progress import QUIET, Progress
from bench.data.card import MANIFEST, Card
from bench.data.dataset import Dataset
from bench.data.entries import known_entry
from bench.data.novelty import novelty
from bench.interface.method import OracleMethod
from bench.interface.parts import learns
from bench.registry import method_class, method_names
from bench.registry.datasets import load_dataset, resolve, stored_folder
from bench.registry.differences import Differences, differences

#: Why a board has no data, as a sentence, if its dataset could not be had.
NOT_HERE = "The dataset was not available when this page was built."


@dataclass(frozen=True)
class MethodParameter:
    """A parameter of a method, as text."""

    name: str
    default: str
    description: str


@dataclass(frozen=True)
class MethodDescription:
    """A method of this installation."""

    name: str
    summary: str
    text: tuple[str, ...]
    parameters: tuple[MethodParameter, ...]
    oracle: bool
    needs_llm: bool
    learns: bool
    #: Names of the parameters that are methods.
    methods: frozenset[str]
    #: Differences from its paper; None if no table lists them.
    differs: Differences | None


@dataclass(frozen=True)
class BoardData:
    """A board's dataset.

    Attributes:
        card: None if this installation has no dataset of that name.
        dataset: None if the content that the results were made on is not here.
        why_not: the reason then, as a sentence.
        may_show: whether its card allows its texts to be redistributed.
    """

    card: Card | None
    dataset: Dataset | None
    why_not: str

    @property
    def may_show(self) -> bool:
        """Whether texts of queries and tools may be on a page."""
        return self.dataset is not None and self.card is not None and self.card.redistribution


def bring_data(specs: Collection[str], progress: Progress = QUIET) -> None:
    """Build the datasets that can be had without a network and are not stored yet: embedded ones, and those whose files
    are in the mirror or the cache. What cannot be had stays away, and `data_of` says so.
    """
    missing = [spec for spec in specs if _is_buildable(spec)]
    if not missing:
        return
    with config_context(offline=True), progress.stage("datasets", len(missing), "datasets") as stage:
        for spec in missing:
            with suppress(Exception):  # a plug-in's loader may raise any exception
                load_dataset(spec)
            stage.advance()


def _is_buildable(spec: str) -> bool:
    """Whether this installation has the dataset, and its tables are not stored."""
    try:
        entry, options, _ = resolve(spec)
        return not (stored_folder(entry, options) / MANIFEST).is_file()
    except Exception:  # a plug-in's loader may raise any exception
        return False


def data_of(spec: str, content_hash: str) -> BoardData:
    """The card of a dataset and, if it can be had without a network, its data."""
    try:
        entry = resolve(spec)[0]
    except BenchError:
        return BoardData(None, None, "This installation has no dataset of that name.")
    except Exception as error:  # a plug-in's loader may raise any exception
        return BoardData(None, None, f"Its loader fails ({type(error).__name__}).")
    try:
        with config_context(offline=True):
            dataset = load_dataset(spec)
    except UnavailableError:
        return BoardData(entry.card, None, NOT_HERE)
    except Exception:  # a plug-in's loader may raise any exception
        return BoardData(entry.card, None, "The dataset's files were unreadable when this page was built.")
    if dataset.content_hash != content_hash:
        return BoardData(entry.card, None, "The dataset has changed since these results were computed.")
    # Use its own card: with distractors, it names the licences of both.
    return BoardData(dataset.card, dataset, "")


def state_of_data(spec: str) -> str:
    """A summary of all that `data_of` reads: it differs whenever `data_of` may return something else."""
    parts = []
    try:
        entry, options, _ = resolve(spec)
        parts.append(entry.card.model_dump_json())
        folder = stored_folder(entry, options)
        for path in sorted(folder.iterdir()):
            status = path.stat()
            parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    except Exception as error:  # a plug-in's loader may raise any exception
        parts.append(type(error).__name__)
    return "\n".join(parts)


def card_of(spec: str) -> Card | None:
    """The card of a dataset that this installation knows."""
    entry = known_entry(spec.partition("(")[0])
    return None if entry is None else entry.card


@cache
def describe_method(name: str) -> MethodDescription | None:
    """The description of a method of this installation; None for an unknown name."""
    # A result may name any `module:Class`: import only registered methods.
    if name not in method_names():
        return None
    try:
        kind = method_class(name)
        fields = kind.Parameters.model_fields
        text = inspect.getdoc(kind) or ""
        module = inspect.getdoc(inspect.getmodule(kind)) or ""
    except BenchError:
        return None
    whole = (module or text).split("\n\n")
    return MethodDescription(
        name=name,
        summary=" ".join(whole[0].split()),
        text=tuple(part for part in (*whole[1:], *(text.split("\n\n") if module else ())) if part.strip()),
        parameters=tuple(
            MethodParameter(key, _show_value(field.get_default()), field.description or "")
            for key, field in fields.items()
        ),
        oracle=issubclass(kind, OracleMethod),
        needs_llm=kind.needs_llm,
        learns=learns(kind),
        methods=method_parameters(kind.Parameters),
        differs=differences(name),
    )


def _show_value(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_show_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == "" else str(value)


def novelty_masks(dataset: Dataset, query_ids: list[str], judged: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """`seen`, `unseen` -> (judged queries,) which have gold only of that kind; empty without train queries."""
    if not len(dataset.rows("train")):
        return {}
    known = novelty(dataset.queries, {tool.tool_id: tool.tool_id for tool in dataset.tools})
    kinds = np.array([known.get(query, "") for query in query_ids], dtype=object)[judged]
    masks = {name: kinds == name for name in ("seen", "unseen")}
    return {name: mask for name, mask in masks.items() if mask.any()}

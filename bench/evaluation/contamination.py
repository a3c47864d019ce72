"""Detection of models trained on the evaluated queries, on near copies, or on their gold tools. The runner asks.

Models trained by bench have a training card with digests of all their training texts, so exact copies are always found.
Near copies need the texts themselves, which come from the training datasets if they are available. For other models,
bench knows what their model cards and its registry of training sets declare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError
from bench.data.dataset import Dataset
from bench.data.nearcopies import near_copies
from bench.data.tables import Tool
from bench.models.declared import declared_training_sets, registered_training_sets
from bench.models.trainingcard import TrainingCard, read_card, text_digest, tool_digest

#: Marks of a row; the sentences beside them give the numbers.
LEAKED, NEAR, SEEN, DECLARED = "trained on test", "near test", "tools seen", "declared training set"
UNKNOWN = "near copies unknown"


def training_leaks(
    models: Iterable[str], dataset: Dataset, rows: NDArray[np.int64], load: Callable[[str], Dataset]
) -> dict[str, str]:
    """The overlap of the training data of models with the evaluated queries and their gold tools.

    Args:
        models: names of the models, the keys of the method's revisions. For a model that bench trained, its training
            card is read; for others, the model card and the registry of training sets. Nothing is known, or reported,
            about a model without any of them.
        dataset, rows: the evaluated queries.
        load: loads the dataset of a spec, here those of training cards. It is called offline: this check downloads
            nothing.

    Returns:
        Mark -> sentence; empty if there is no overlap.

    Raises:
        DataError: a training card cannot be read.
    """
    judged = [row for row in rows if dataset.gold.counts[row]]
    # A query with several calls contributes each of them.
    queries = [text for row in judged for text in dataset.queries[row].calls or (dataset.queries[row].text,)]
    gold = np.unique(dataset.gold.take(np.array(judged, dtype=np.int64)).members().tools)
    tools = [dataset.tools[tool] for tool in gold]
    leaks: dict[str, list[str]] = {mark: [] for mark in (LEAKED, NEAR, SEEN, DECLARED, UNKNOWN)}
    for name in sorted(set(models)):
        card = read_card(Path(name).expanduser())
        if card is not None:
            _look(leaks, name, card, queries, tools, load)
            continue
        if sets := [item for item in declared_training_sets(name) if _plain(item) in _names(dataset)]:
            leaks[DECLARED].append(
                f"the card of the model {Path(name).name} names {', '.join(sets)} among its training sets, and does "
                "not say whether the evaluated queries were part of it"
            )
        for entry in registered_training_sets(name):
            if sets := [item for item in entry.datasets if _plain(item) in _names(dataset)]:
                leaks[DECLARED].append(
                    f"the model {Path(name).name} was trained on {', '.join(sets)} by {entry.source}; whether the "
                    "evaluated queries were part of it is not known"
                )
    return {mark: "; ".join(sentences) for mark, sentences in leaks.items() if sentences}


def _look(
    leaks: dict[str, list[str]],
    name: str,
    card: TrainingCard,
    queries: list[str],
    tools: list[Tool],
    load: Callable[[str], Dataset],
) -> None:
    """Report the overlap of one model that has a training card."""
    what = f"the {card.kind} {Path(name).name} (trained on {', then '.join([*card.before, card.dataset])})"
    past = _Past.of(card, load)
    exact, near = _copies(queries, [text_digest(text) for text in queries], set(card.queries), past.queries)
    if exact:
        leaks[LEAKED].append(f"{what} was trained on {exact} of these {len(queries)} queries")
    if near:
        leaks[NEAR].append(f"{what} was trained on near copies of {near} of these {len(queries)} queries")
    digests = [tool_digest(tool) for tool in tools]
    exact, near = _copies([_tool_text(tool) for tool in tools], digests, set(card.tools), past.tools)
    if exact or near:
        parts = [f"on {exact}"] * bool(exact) + [f"on near copies of {near}"] * bool(near)
        leaks[SEEN].append(f"{what} was trained {' and '.join(parts)} of the {len(tools)} tools that are gold here")
    if past.missing:
        absent = f": {', '.join(past.absent)} is not on this machine" if past.absent else ""
        leaks[UNKNOWN].append(
            f"{what} was trained on {past.missing} texts that no dataset here has{absent}; near copies of them were "
            "not looked for"
        )


@dataclass(frozen=True)
class _Past:
    """The texts of a model's training queries and tools, as far as datasets on this machine have them.

    Attributes:
        queries, tools: the texts.
        missing: number of training texts not found.
        absent: specs of the training datasets that are not on this machine.
    """

    queries: list[str]
    tools: list[str]
    missing: int
    absent: list[str]

    @staticmethod
    def of(card: TrainingCard, load: Callable[[str], Dataset]) -> _Past:
        queries, tools = set(card.queries), set(card.tools)
        query_texts: dict[str, str] = {}
        tool_texts: dict[str, str] = {}
        absent: list[str] = []
        for spec in dict.fromkeys([*card.before, card.dataset]):
            try:
                with config_context(offline=True):
                    dataset = load(spec)
            except BenchError:
                absent.append(spec)
                continue
            query_texts |= {digest: q.text for q in dataset.queries if (digest := text_digest(q.text)) in queries}
            tool_texts |= {digest: _tool_text(t) for t in dataset.tools if (digest := tool_digest(t)) in tools}
        missing = len(queries) - len(query_texts) + len(tools) - len(tool_texts)
        return _Past(list(query_texts.values()), list(tool_texts.values()), missing, absent)


def _copies(texts: list[str], digests: list[str], known: set[str], past: list[str]) -> tuple[int, int]:
    """How many texts are in the training data exactly, and how many others nearly."""
    others = [text for text, digest in zip(texts, digests, strict=True) if digest not in known]
    return len(texts) - len(others), int(near_copies(others, past).sum())


def _tool_text(tool: Tool) -> str:
    """The text of a tool that is compared: the words of `tool_digest`."""
    words = (tool.name, tool.description) if tool.description.strip() else (tool.category, tool.parent, tool.name)
    return " ".join(words)


def _names(dataset: Dataset) -> set[str]:
    """Names that others may use for a dataset, and the sources of its files."""
    card = dataset.card
    upstream = [item.repository.rpartition("/")[2] for item in card.upstream]
    return {_plain(name) for name in (card.id, card.source, *card.aliases, *upstream)} - {""}


def _plain(name: str) -> str:
    """The last part of a dataset's id, without case and punctuation."""
    return re.sub(r"[\W_]+", "", name.rpartition("/")[2].casefold())

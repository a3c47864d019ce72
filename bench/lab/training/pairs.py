"""Labelled tool pairs, and the assembly of training sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.data.parents import parent_of
from bench.data.tables import Tool
from bench.methods.tgr.documents import document
from bench.methods.tgr.edges import LABELS, NEITHER, coded
from bench.models.trainingcard import tool_digest

Label = Literal[0, 1, 2]


@dataclass(frozen=True)
class ToolPair:
    """A labelled pair of tools a and b.

    Attributes:
        first, second: the documents of a and b.
        label: position in `LABELS`.
        group: pairs of one group are on the same side of the split into training and validation.
        tools: digests of a and b, if they are tools of a dataset (`tool_digest`).
    """

    first: str
    second: str
    label: Label
    group: str
    tools: tuple[str, ...] = ()

    def turn(self) -> ToolPair:
        """The same pair in the other order."""
        label: Label = 2 if self.label == 0 else 0 if self.label == 2 else 1
        return ToolPair(self.second, self.first, label, self.group, self.tools[::-1])


def encode_edges(dataset: Dataset) -> NDArray[np.int32]:
    """(edges, 2) codes [dependent, prerequisite] of a dataset's annotated edges."""
    return coded(list(dataset.edges), dataset.tool_codes, dataset.spec)


def group_of(tool: Tool) -> str:
    """Tools of one parent belong together; a tool without a parent is its own group."""
    return json.dumps(parent_of(tool))


def annotate_pairs(
    tools: Sequence[Tool],
    edges: NDArray[np.int32],
    candidates: NDArray[np.int32],
    random: np.random.Generator,
) -> list[ToolPair]:
    """The candidates of a library with their true categories, and every edge that is not a candidate.

    They are as imbalanced as in use. Each pair occurs once, in an order drawn by `random`.

    Args:
        edges: (edges, 2) [dependent, prerequisite].
        candidates: (pairs, 2), the lower code first.
    """
    labels: dict[tuple[int, int], Label] = {(int(a), int(b)): NEITHER for a, b in candidates}
    groups: dict[tuple[int, int], int] = {}
    for dependent, prerequisite in edges.tolist():
        pair = (min(dependent, prerequisite), max(dependent, prerequisite))
        labels[pair] = 0 if dependent < prerequisite else 2
        groups[pair] = dependent
    texts = [document(tool) for tool in tools]
    pairs = []
    for pair, label in sorted(labels.items()):
        a, b = pair
        digests = (tool_digest(tools[a]), tool_digest(tools[b]))
        made = ToolPair(texts[a], texts[b], label, group_of(tools[groups.get(pair, a)]), digests)
        pairs.append(made.turn() if random.random() < 0.5 else made)
    return pairs


def balance(
    dependent: Sequence[ToolPair], unrelated: Sequence[ToolPair], random: np.random.Generator
) -> list[ToolPair]:
    """Equally many pairs of each category: each dependency in both orders, and unrelated pairs.

    Half of the unrelated ones come from `unrelated` if there are enough; the others combine tools of different groups
    from pairs with a dependency.
    """
    wanted = len(dependent)
    hard = random.permutation(len(unrelated))[: (wanted + 1) // 2]
    neither = [unrelated[i] for i in sorted(hard.tolist())]
    partners = random.permutation(wanted)
    for i in range(wanted):
        if len(neither) == wanted:
            break
        one = dependent[i]
        # The first tool of another group, searching from a random position.
        for step in range(wanted):
            other = dependent[partners[(i + step) % wanted]]
            if other.group != one.group:
                digests = (*one.tools[:1], *other.tools[1:])
                neither.append(ToolPair(one.first, other.second, NEITHER, one.group, digests))
                break
    return [*dependent, *(pair.turn() for pair in dependent), *neither]


def split_by_group(
    pairs: Sequence[ToolPair], share: float, random: np.random.Generator
) -> tuple[list[ToolPair], list[ToolPair]]:
    """Pairs for training and validation: whole groups, until validation has its share of the dependencies.

    With fewer than two groups with a dependency, single pairs are drawn instead.
    """
    counts: dict[str, int] = {}
    for pair in pairs:
        counts[pair.group] = counts.get(pair.group, 0) + (pair.label != NEITHER)
    groups = sorted(counts)
    if sum(count > 0 for count in counts.values()) < 2:
        chosen = set(random.permutation(len(pairs))[: round(share * len(pairs))].tolist())
        held = [i in chosen for i in range(len(pairs))]
    else:
        wanted = share * sum(counts.values())
        taken, out = 0, set()
        for i in random.permutation(len(groups)).tolist():
            if taken < wanted:
                out.add(groups[i])
                taken += counts[groups[i]]
        held = [pair.group in out for pair in pairs]
    train = [pair for pair, away in zip(pairs, held, strict=True) if not away]
    return train, [pair for pair, away in zip(pairs, held, strict=True) if away]


def label_counts(pairs: Iterable[ToolPair]) -> NDArray[np.int64]:
    """(3,) the number of pairs of each category."""
    return np.bincount([pair.label for pair in pairs], minlength=len(LABELS))


def pairs_digest(pairs: Iterable[ToolPair]) -> str:
    """sha256 over texts and labels."""
    texts = (json.dumps([pair.first, pair.second, pair.label]) for pair in pairs)
    return hashlib.sha256("".join(texts).encode()).hexdigest()

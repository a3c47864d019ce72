"""Detecting models that were trained on the evaluated queries or their gold tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.models.trainingcard import read_card, text_digest, tool_digest

#: Marks on the row; the sentences next to them give the numbers.
LEAKED, SEEN = "trained on test", "tools seen"


def training_marks(models: Iterable[str], dataset: Dataset, rows: NDArray[np.int64]) -> dict[str, str]:
    """Marks for a method whose models knew evaluated queries, or the tools that are gold for them.

    Args:
        models: what the method's revisions are named by; a folder with a training card is looked at.
        dataset, rows: the queries that are asked.

    Returns:
        Mark -> sentence; empty when no model of bench's training is among them. A model that others trained says
        nothing of what it knows, and is not marked.

    Raises:
        DataError: a training card cannot be read.
    """
    judged = [row for row in rows if dataset.gold.counts[row]]
    texts = [text_digest(dataset.queries[row].text) for row in judged]
    gold = np.unique(dataset.gold.take(np.array(judged, dtype=np.int64)).tools)
    tools = [tool_digest(dataset.tools[tool]) for tool in gold]
    leaked: list[str] = []
    seen: list[str] = []
    for name in sorted(set(models)):
        card = read_card(Path(name).expanduser())
        if card is None:
            continue
        what = f"the {card.kind} {Path(name).name} (trained on {', then '.join([*card.before, card.dataset])})"
        queries, digests = set(card.queries), set(card.tools)
        known = sum(text in queries for text in texts)
        if known:
            leaked.append(f"{what} was trained on {known} of these {len(judged)} queries")
        known = sum(digest in digests for digest in tools)
        if known:
            seen.append(f"{what} was trained on {known} of the {len(tools)} tools that are gold here")
    found = {LEAKED: "; ".join(leaked), SEEN: "; ".join(seen)}
    return {mark: sentence for mark, sentence in found.items() if sentence}

"""Training cards: digests of a model's training data, to detect training on test queries.

A trained model's folder contains `training.json` next to the model. It stores digests of texts: enough to recognise a
query, without a copy of the dataset. Training writes it, marks of results read it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from bench.base.errors import DataError
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import Record
from bench.data.tables import Tool

CARD = "training.json"
Kind = Literal["retriever", "reranker", "classifier", "discriminator", "generator"]


class Evaluation(Record):
    """One evaluation on the validation examples."""

    step: int
    loss: float
    value: float


class TrainingCard(Record):
    """The card of one trained model.

    Attributes:
        base, base_revision: the initial model, and the sha256 over its files (empty: trained from scratch).
        before: the datasets that the base was trained on, in order, if bench trained it.
        dataset, content_hash, split, template: the source of its examples.
        examples: their number; `queries` and `tools`: digests of the texts of the training queries and of their
            gold tools (`tool_digest`). A kind trained on tools alone has the split `tools`, no queries, and all tools
            of its examples. Both include what the base was trained on.
        validation: the queries that the best state was chosen on; `measure`: the criterion.
    """

    schema_name: Literal["training"] = "training"
    schema_version: Literal[2] = 2
    kind: Kind
    base: str
    base_revision: str
    dataset: str
    content_hash: str
    split: str
    template: str
    examples: int
    queries: list[str]
    tools: list[str]
    settings: dict[str, str | int | float | bool | None]
    validation: str
    measure: str
    evaluations: list[Evaluation]
    best_step: int
    steps: int
    seconds: float
    resumed: int
    command: str
    created: str
    packages: dict[str, str]
    hardware: dict[str, str | int]
    facts: dict[str, str | int | float | bool] = {}
    before: list[str] = []


def text_digest(text: str) -> str:
    """Sixteen hexadecimal digits that identify a text; case and white space do not count."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tool_digest(tool: Tool) -> str:
    """The digest of what a model may learn about a tool: its name and description.

    Ids do not count: datasets share upstream's tools under different ids, and give different tools equal ids. Without a
    description a name carries little information, so the parent counts too.
    """
    words = (tool.name, tool.description) if tool.description.strip() else (tool.category, tool.parent, tool.name)
    return text_digest("\0".join(words))


def write_card(folder: Path, card: TrainingCard) -> None:
    """Write `training.json` completely."""
    write_text(folder / CARD, json.dumps(card.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")


def read_card(folder: Path) -> TrainingCard | None:
    """The card in a model's folder; None for a model that bench did not train.

    Raises:
        DataError: the card exists and cannot be read, so what the model was trained on is unknown.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    return Reader(f"the training card {path}", DataError, "; train the model again").read_record(TrainingCard, path)

"""Training cards: digests of a model's training data, to detect training on test queries.

A trained model's folder contains `training.json` next to the model. It stores digests of texts: enough to recognise a
query, without a copy of the dataset.
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
    """One look at the validation examples."""

    step: int
    loss: float
    value: float


class TrainingCard(Record):
    """The card of one trained model.

    Attributes:
        base, base_revision: the model it began as, and the sha256 over that model's files (empty: from scratch).
        before: the datasets that the base had learnt from, in their order, where bench trained it.
        dataset, content_hash, split, template: what its examples were made of.
        examples: how many there were; `queries` and `tools`: digests of the texts of the training queries and of
            the tools that were gold for them (`tool_digest`). A kind that learns from tools alone has the split
            `tools`, no queries, and all tools of its examples. What the base had learnt from is among both.
        validation: which queries the best state was chosen on; `measure`: by what.
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
    """Sixteen hexadecimal digits that represent a text; case and white space do not count."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tool_digest(tool: Tool) -> str:
    """The digest of what a model may learn of a tool: its name and description.

    Ids do not count: datasets share upstream's tools under other ids, and give other tools the same ones. Where there
    is no description a name says little, and whose tool it is counts too.
    """
    words = (tool.name, tool.description) if tool.description.strip() else (tool.category, tool.parent, tool.name)
    return text_digest("\0".join(words))


def write_card(folder: Path, card: TrainingCard) -> None:
    """Write `training.json` whole."""
    write_text(folder / CARD, json.dumps(card.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n")


def read_card(folder: Path) -> TrainingCard | None:
    """The card of a model's folder; None for a model that bench did not train.

    Raises:
        DataError: the card is there and cannot be read: what the model knows is unknown, which is no reason to
            assume the best.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    return Reader(f"the training card {path}", DataError, "; train the model again").read_record(TrainingCard, path)

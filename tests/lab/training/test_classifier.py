"""Training the classifier of queries by the number of parents that they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.base.errors import UsageError
from bench.base.spec import Spec, Value
from bench.data.dataset import Dataset
from bench.lab.training.train import train_model
from bench.models.classifiers import SequenceModel
from bench.models.trainingcard import TrainingCard

SETTINGS: dict[str, Value] = {
    "batch_size": 8,
    "epochs": 8,
    "learning_rate": 0.003,
    "precision": "float32",
    "checkpoint_every": 1000,
    "most_tokens": 24,
}


def trained(lessons: Dataset, out: Path, base: str, **more: Value) -> TrainingCard:
    return train_model("classifier", lessons, out, base=base, settings=Spec.of("classifier", {**SETTINGS, **more}))


def test_it_learns_to_tell_one_parent_from_several(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    card = trained(lessons, tmp_path / "model", tiny_models["encoder"])
    parents = {tool.tool_id: tool.parent for tool in lessons.tools}
    several = {query.text: len({parents[tool] for tool in query.gold}) > 1 for query in lessons.queries}
    train, dev = ([query.text for query in lessons.queries if query.split == split] for split in ("train", "dev"))
    assert card.facts["train_queries_of_one_parent"] == sum(not several[text] for text in train)
    share = np.mean([several[text] for text in dev])
    assert card.facts["majority_accuracy"] == pytest.approx(max(share, 1 - share))
    model = SequenceModel(str(tmp_path / "model"))
    assert model.labels == ("single", "multi")
    result = model.logits([(text,) for text in train]).argmax(axis=1) == 1
    assert np.mean(result == [several[text] for text in train]) > 0.9
    best = next(seen.value for seen in card.evaluations if seen.step == card.best_step)
    result = model.logits([(text,) for text in dev]).argmax(axis=1) == 1
    assert best == pytest.approx(np.mean(result == [several[text] for text in dev]))
    assert best > share


def test_a_training_cut_off_goes_on_to_the_same_model(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], cut_off: Callable[[str, int], None]
) -> None:
    trained(lessons, tmp_path / "whole", tiny_models["encoder"], epochs=2)
    cut_off("classifier", 5)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", tiny_models["encoder"], epochs=2, checkpoint_every=1)
    assert trained(lessons, tmp_path / "cut", tiny_models["encoder"], epochs=2, checkpoint_every=1).resumed == 1
    left, right = (SequenceModel(str(tmp_path / name)).logits([("rain and mail",)]) for name in ("whole", "cut"))
    assert left == pytest.approx(right, abs=1e-5)


def test_queries_that_are_all_alike_are_refused(lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]) -> None:
    tables = lessons.rows_again()
    tools = [replace(tool, parent="one") for tool in tables.tools]
    alike = Dataset.build("alike", lessons.card, replace(tables, tools=tools))
    with pytest.raises(UsageError, match="all train queries of alike take one parent"):
        trained(alike, tmp_path / "model", tiny_models["encoder"])

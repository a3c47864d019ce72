"""Training a cross-encoder: which pairs it learns from, a model that `rerank` uses, and kills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.data.dataset import Dataset
from bench.errors import UnavailableError
from bench.models.crossencoders import CrossEncoder
from bench.models.trainingcard import TrainingCard, text_digest
from bench.specs.spec import Spec, Value
from bench.training import train
from bench.training.reranker import RerankerTrainer
from bench.training.train import train_model

SETTINGS: dict[str, Value] = {
    "batch_size": 16,
    "epochs": 20,
    "learning_rate": 0.003,
    "precision": "float32",
    "checkpoint_every": 1,
    "most_tokens": 32,
    "hard_negatives": 2,
    "mining_depth": 5,
}


def trained(lessons: Dataset, out: Path, models: dict[str, str], **more: Value) -> TrainingCard:
    settings = {**SETTINGS, "retriever": models["encoder"], **more}
    return train_model("reranker", lessons, out, base=models["encoder"], settings=Spec.of("reranker", settings))


def prepared(lessons: Dataset, models: dict[str, str], **more: Value) -> RerankerTrainer:
    chosen = RerankerTrainer.Parameters.model_validate({**SETTINGS, "retriever": models["encoder"], **more})
    trainer = RerankerTrainer(chosen, models["encoder"])
    trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
    return trainer


def test_it_learns_from_gold_and_from_what_the_retriever_ranks_high(
    lessons: Dataset, tiny_models: dict[str, str]
) -> None:
    trainer = prepared(lessons, tiny_models)
    assert len(trainer) == 32 * 3
    by_text = {query.text: query.gold for query in lessons.queries}
    for (query, tool), relevant in zip(trainer._pairs, trainer._relevant, strict=True):
        assert (lessons.tools[tool].tool_id in by_text[trainer._queries[query]]) == bool(relevant)
    assert np.bincount(trainer._pairs[:, 0]).tolist() == [3] * 32
    assert trainer._relevant.sum() == 32


def test_a_tool_that_no_train_query_needs_is_not_learnt_as_wrong(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    queries = [query for query in lessons.queries if query.split != "train" or "mail" not in query.gold]
    held_out = Dataset.build("lessons", lessons.card, replace(lessons.rows_again(), queries=queries))
    trainer = prepared(held_out, tiny_models, mining_depth=8, hard_negatives=8)
    assert {lessons.tools[tool].tool_id for tool in trainer._pairs[:, 1]} == {
        tool.tool_id for tool in lessons.tools if tool.tool_id != "mail"
    }


def test_a_bound_on_the_examples_takes_fewer_queries(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    trainer = prepared(lessons, tiny_models, most_examples=20)
    assert len(trainer) == 20
    assert trainer.facts()["queries"] == 7  # 6 with all three pairs, one with two


def test_the_loss_falls_and_the_model_scores_pairs(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    card = trained(lessons, tmp_path / "model", tiny_models)
    losses = [seen.loss for seen in card.evaluations]
    assert losses[-1] < 0.8 * losses[0]
    train = {text_digest(query.text) for query in lessons.queries if query.split == "train"}
    assert set(card.queries) == train
    assert card.facts["queries"] == 32
    scorer = CrossEncoder(str(tmp_path / "model"))
    scorer.preflight()
    query = next(query for query in lessons.queries if query.split == "train")
    scores = scorer.score([(query.text, tool.description) for tool in lessons.tools])
    gold = np.array([tool.tool_id in query.gold for tool in lessons.tools])
    assert scores[gold].mean() > scores[~gold].mean()


def test_a_training_cut_off_goes_on_to_the_same_model(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], cut_off: Callable[[str, int], None]
) -> None:
    trained(lessons, tmp_path / "whole", tiny_models, epochs=2)
    cut_off("reranker", 5)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", tiny_models, epochs=2)
    assert trained(lessons, tmp_path / "cut", tiny_models, epochs=2).resumed == 1
    pairs = [("send mail", "send a letter"), ("rain", "the price")]
    left, right = (CrossEncoder(str(tmp_path / name)).score(pairs) for name in ("whole", "cut"))
    assert left == pytest.approx(right, abs=1e-5)


def test_a_cross_encoder_as_base_keeps_its_head(lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]) -> None:
    chosen = RerankerTrainer.Parameters.model_validate({**SETTINGS, "retriever": tiny_models["encoder"]})
    heads = []
    for base in ("reranker", "classifier"):
        trainer = RerankerTrainer(chosen, tiny_models[base])
        trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
        heads.append(trainer.classified([("send", "mail")])[0, 0])
    expected = CrossEncoder(tiny_models["reranker"]).score([("send", "mail")])[0]
    assert heads[0] == pytest.approx(expected, abs=1e-4)
    assert heads[1] != pytest.approx(expected, abs=1e-4)


def test_a_missing_base_or_retriever_is_refused_in_a_sentence(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    with pytest.raises(UnavailableError, match="/nowhere"):
        trained(lessons, tmp_path / "model", {"encoder": "/nowhere"})
    with pytest.raises(UnavailableError, match="/nowhere"):
        trained(lessons, tmp_path / "model", tiny_models, retriever="/nowhere")
    assert not (tmp_path / "model").exists()


def test_another_retriever_at_the_same_place_is_another_training(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    identities: list[str] = []

    def stop(trainer: object, work: Path, identity: str, progress: object) -> None:
        identities.append(identity)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run_loop", stop)
    retriever = tmp_path / "retriever"
    for changed in (False, False, True):
        shutil.copytree(tiny_models["encoder"], retriever, dirs_exist_ok=True)
        if changed:
            config = json.loads((retriever / "config.json").read_text())
            (retriever / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
        with pytest.raises(KeyboardInterrupt):
            trained(lessons, tmp_path / "model", tiny_models, retriever=str(retriever))
    assert identities[0] == identities[1] != identities[2]

"""Training a cross-encoder: which lists it learns from, a model that `rerank` uses, and kills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UnavailableError
from bench.base.spec import Spec, Value
from bench.data.dataset import Dataset
from bench.lab.training import train
from bench.lab.training.reranker import RerankerTrainer, fit_offset, fit_weight
from bench.lab.training.train import train_model
from bench.models.crossencoders import CrossEncoder, probability
from bench.models.encoders import Encoder
from bench.models.trainingcard import TrainingCard, text_digest
from bench.search.dense import normalize

SETTINGS: dict[str, Value] = {
    "batch_size": 16,
    "epochs": 20,
    "learning_rate": 0.003,
    "precision": "float32",
    "checkpoint_every": 1000,
    "most_tokens": 32,
    "hard_negatives": 2,
    "mining_depth": 5,
    "frozen_layers": 0,
}


def trained(lessons: Dataset, out: Path, models: dict[str, str], **more: Value) -> TrainingCard:
    settings = {**SETTINGS, "retriever": models["encoder"], **more}
    return train_model("reranker", lessons, out, base=models["encoder"], settings=Spec.of("reranker", settings))


def prepared(lessons: Dataset, models: dict[str, str], base: str = "encoder", **more: Value) -> RerankerTrainer:
    chosen = RerankerTrainer.Parameters.model_validate({**SETTINGS, "retriever": models["encoder"], **more})
    trainer = RerankerTrainer(chosen, models[base])
    trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
    trainer.begin_epoch(0, Path("unused"))
    return trainer


def give_a_head(trainer: RerankerTrainer) -> None:
    """Logits that are not 0, as after some steps."""
    import torch

    random = torch.Generator().manual_seed(0)
    for name, part in trainer.model.named_parameters():
        if name == "classifier.weight":
            part.data.normal_(generator=random)


def test_it_learns_from_gold_and_from_what_the_retriever_ranks_high(
    lessons: Dataset, tiny_models: dict[str, str]
) -> None:
    trainer = prepared(lessons, tiny_models)
    assert len(trainer) == 32
    gold = {query.text: query.gold for query in lessons.queries}
    for text, positives, negatives in zip(
        trainer._queries, trainer._drawn_positives, trainer._drawn_negatives, strict=True
    ):
        right = {lessons.tools[tool].tool_id for tool in positives if tool >= 0}
        assert right <= set(gold[text])
        assert len(right) == min(2, len(gold[text]))
        assert len(negatives) == 2
        assert not {lessons.tools[tool].tool_id for tool in negatives} & set(gold[text])


def test_a_tool_that_no_train_query_needs_is_not_learnt_as_wrong(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    queries = [query for query in lessons.queries if query.split != "train" or "mail" not in query.gold]
    held_out = Dataset.build("lessons", lessons.card, replace(lessons.rows_again(), queries=queries))
    trainer = prepared(held_out, tiny_models, mining_depth=8, hard_negatives=8)
    seen = np.unique(np.concatenate([trainer._drawn_positives, trainer._drawn_negatives], axis=1))
    assert {lessons.tools[tool].tool_id for tool in seen if tool >= 0} == {
        tool.tool_id for tool in lessons.tools if tool.tool_id != "mail"
    }


def test_it_begins_with_the_ranking_of_its_retriever(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    for base in ("encoder", "reranker"):
        trainer = prepared(lessons, tiny_models, base)
        assert trainer.classify([("send", "mail"), ("rain", "the price")]).tolist() == [[0.0], [0.0]]
        trainer.model.eval()
        assert round(trainer.validate(), 4) == trainer.facts()["retriever_recall"]


def test_word_vectors_and_the_lowest_layers_stay_as_they_are(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    from safetensors.numpy import load_file

    trained(lessons, tmp_path / "model", tiny_models, epochs=1, frozen_layers=1)
    before, after = (
        load_file(Path(folder) / "model.safetensors") for folder in (tiny_models["encoder"], tmp_path / "model")
    )
    same = {
        name.removeprefix("bert.")
        for name, part in after.items()
        if np.array_equal(part, before.get(name.removeprefix("bert."), -1))
    }
    assert "embeddings.word_embeddings.weight" in same
    assert "encoder.layer.0.output.dense.weight" in same
    assert "encoder.layer.1.output.dense.weight" not in same


def test_the_loss_falls_and_the_model_corrects_its_retriever(
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
    stated = scorer.retriever
    assert stated is not None
    assert stated.revision == Encoder(tiny_models["encoder"]).revision == card.facts["retriever"]
    query = next(query for query in lessons.queries if query.split == "train")
    texts = [tool.description for tool in lessons.tools]
    vectors = normalize(Encoder(tiny_models["encoder"]).encode([query.text, *texts]))
    scores = stated.weight * (vectors[1:] @ vectors[0]) + scorer.score([(query.text, text) for text in texts])
    gold = np.array([tool.tool_id in query.gold for tool in lessons.tools])
    assert scores[gold].mean() > scores[~gold].mean()


def test_a_training_cut_off_goes_on_to_the_same_bytes(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], cut_off: Callable[[str, int], None]
) -> None:
    # In the second epoch, whose negatives the model had mined before it was cut off.
    more: dict[str, Value] = {"epochs": 3, "batch_size": 8, "evaluate_every": 3}
    trained(lessons, tmp_path / "whole", tiny_models, **more)
    cut_off("reranker", 6)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", tiny_models, **more, checkpoint_every=1)
    assert trained(lessons, tmp_path / "cut", tiny_models, **more, checkpoint_every=1).resumed == 1
    left, right = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.name != "training.json"}
        for name in ("whole", "cut")
    )
    assert left == right


def test_later_epochs_take_the_negatives_that_the_model_puts_high(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    trainer = prepared(lessons, tiny_models, mining_depth=4)
    trainer.begin_epoch(1, tmp_path)
    # Its logits are 0 still, so its order is the retriever's, of which the first half is kept.
    mined = trainer._mined[:, :2]
    assert all(set(drawn) == set(first) for drawn, first in zip(trainer._drawn_negatives, mined, strict=True))
    give_a_head(trainer)
    assert not np.array_equal(trainer._hardest(), mined)


def test_the_loss_is_that_of_each_query_alone_with_the_retrievers_part(
    lessons: Dataset, tiny_models: dict[str, str]
) -> None:
    trainer = prepared(lessons, tiny_models)
    give_a_head(trainer)
    trainer.model.eval()
    lists = np.array([5, 0, 2])
    vectors = {
        name: normalize(Encoder(tiny_models["encoder"]).encode(texts))
        for name, texts in (("queries", trainer._queries), ("tools", trainer._texts))
    }
    expected = []
    for query in lists:
        parts = []
        for drawn in (trainer._drawn_positives[query], trainer._drawn_negatives[query]):
            tools = drawn[drawn >= 0]
            logits = trainer.classify([(trainer._queries[query], trainer._texts[tool]) for tool in tools])[:, 0]
            parts.append(logits + trainer._weight * (vectors["tools"][tools] @ vectors["queries"][query]))
        right, wrong = parts
        # -log p of each positive among itself and the negatives.
        expected.append(np.mean([np.log(np.exp(one) + np.exp(wrong).sum()) - one for one in right]))
    # Queries with one gold tool and with two are in one batch.
    assert {int((trainer._drawn_positives[query] >= 0).sum()) for query in lists} == {1, 2}
    assert float(trainer.loss(lists).detach()) == pytest.approx(np.mean(expected), abs=1e-4)


def test_the_weight_of_the_retriever_by_hand() -> None:
    cosines = np.array([[0.9, 0.8], [0.9, 0.8], [0.5, 0.1]])
    relevant = np.array([[True, False], [True, False], [False, False]])
    # Where the retriever is always right, the more the better; the last row says nothing.
    assert fit_weight(cosines, np.zeros((3, 2)), relevant) > 900
    # One right, one wrong of equal margins d: log(1 + e^-wd) + log(1 + e^wd) is least at w = 0.
    relevant[1] = [False, True]
    assert fit_weight(cosines, np.zeros((3, 2)), relevant) < 0.1
    # Three right of four with margins of 0.1: the relevance must be 3/4 = logistic(w / 10), so w = 10 log 3.
    cosines, relevant = np.tile([0.9, 0.8], (4, 1)), np.array([[True, False]] * 3 + [[False, True]])
    assert fit_weight(cosines, np.zeros((4, 2)), relevant) == pytest.approx(10 * np.log(3), rel=1e-3)
    # The logits have said half of it already.
    logits = np.tile([np.log(3) / 2, 0.0], (4, 1))
    assert fit_weight(cosines, logits, relevant) == pytest.approx(5 * np.log(3), rel=1e-3)
    assert fit_weight(cosines, np.zeros((4, 2)), np.zeros((4, 2), dtype=np.bool_)) == 1.0


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=30), st.integers(0, 1000))
def test_with_the_offset_the_mean_relevance_is_right(scores: list[float], seed: int) -> None:
    values = np.array(scores)
    relevant = np.random.default_rng(seed).random(len(values)) < 0.3
    offset = fit_offset(values, relevant)
    wanted = np.clip(relevant.sum(), 0.5, len(values) - 0.5)
    assert probability(values + offset).sum() == pytest.approx(wanted, abs=1e-6)


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

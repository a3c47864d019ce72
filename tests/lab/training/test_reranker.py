"""Training a cross-encoder: which pairs it learns from, a model that `rerank` uses, and kills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.base.errors import UnavailableError, UsageError
from bench.base.spec import Spec, Value
from bench.data.dataset import Dataset
from bench.lab.training import train
from bench.lab.training.reranker import RerankerTrainer, margin_error
from bench.lab.training.train import train_model
from bench.models.crossencoders import CrossEncoder
from bench.models.trainingcard import TrainingCard, text_digest

SETTINGS: dict[str, Value] = {
    "batch_size": 16,
    "epochs": 20,
    "learning_rate": 0.003,
    "precision": "float32",
    "checkpoint_every": 1000,
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


@pytest.mark.parametrize("more", [{}, {"loss": "listwise", "distillation": 0.1, "batch_size": 6}])
def test_a_training_cut_off_goes_on_to_the_same_model(
    lessons: Dataset,
    tmp_path: Path,
    tiny_models: dict[str, str],
    cut_off: Callable[[str, int], None],
    more: dict[str, Value],
) -> None:
    trained(lessons, tmp_path / "whole", tiny_models, epochs=2, **more)
    cut_off("reranker", 5)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", tiny_models, epochs=2, **more, checkpoint_every=1)
    assert trained(lessons, tmp_path / "cut", tiny_models, epochs=2, **more, checkpoint_every=1).resumed == 1
    pairs = [("send mail", "send a letter"), ("rain", "the price")]
    left, right = (CrossEncoder(str(tmp_path / name)).score(pairs) for name in ("whole", "cut"))
    assert left == pytest.approx(right, abs=1e-5)


def test_the_listwise_loss_is_that_of_each_query_alone(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    trainer = prepared(lessons, tiny_models, loss="listwise", positives=2, dropout=0.0)
    assert len(trainer) == 32
    trainer.model.eval()
    lists = np.array([5, 0, 2])
    expected = []
    for query in lists:
        rows = np.flatnonzero(trainer._pairs[:, 0] == query)
        logits = trainer.classify([(trainer._queries[q], trainer._texts[t]) for q, t in trainer._pairs[rows]])[:, 0]
        right, wrong = logits[trainer._relevant[rows] > 0], logits[trainer._relevant[rows] == 0]
        # -log p of each positive among itself and the negatives.
        below = [np.log(np.exp(one) + np.exp(wrong).sum()) - one for one in right.astype(np.float64)]
        expected.append(np.mean(below))
    # Queries with one gold tool and with two are in one batch.
    assert {int((trainer._pairs[:, 0] == query).sum()) for query in lists} == {3, 4}
    assert float(trainer.loss(lists).detach()) == pytest.approx(np.mean(expected), abs=1e-5)


def test_margins_by_hand() -> None:
    import torch

    scores = torch.tensor([[3.0, 1.0, 0.0], [2.0, 5.0, -1e4]])
    taught = torch.tensor([[2.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    positive = torch.tensor([[True, False, False], [True, False, False]])
    negative = torch.tensor([[False, True, True], [False, True, False]])
    # Margins 2, 3 and -3; taught 1, 1 and 0; the empty cell does not count.
    assert float(margin_error(scores, taught, positive, negative)) == pytest.approx((1 + 4 + 9) / 3)
    assert float(margin_error(scores, taught, positive, torch.zeros_like(negative))) == 0


def test_distillation_brings_the_margins_to_those_of_the_retriever(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    errors = []
    for number, distillation in enumerate((0.0, 1.0)):
        folder = tmp_path / str(number)
        card = trained(lessons, folder, tiny_models, loss="listwise", distillation=distillation, batch_size=6, epochs=6)
        assert card.settings["distillation"] == distillation
        assert card.evaluations[-1].loss < card.evaluations[0].loss
        teacher = prepared(lessons, tiny_models)
        pairs = [(teacher._queries[query], teacher._texts[tool]) for query, tool in teacher._pairs]
        logits, right = CrossEncoder(str(folder)).score(pairs).reshape(32, 3), teacher._relevant.reshape(32, 3) > 0
        taught = teacher._taught.reshape(32, 3)
        margins = [(values[right][:, None] - values[~right].reshape(32, 2)) for values in (logits, taught)]
        errors.append(float(((margins[0] - margins[1]) ** 2).mean()))
    assert errors[1] < 0.7 * errors[0]


def test_distillation_needs_lists(lessons: Dataset, tiny_models: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="set loss=listwise"):
        prepared(lessons, tiny_models, distillation=1.0)


def test_a_cross_encoder_as_base_keeps_its_head(lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]) -> None:
    chosen = RerankerTrainer.Parameters.model_validate({**SETTINGS, "retriever": tiny_models["encoder"]})
    heads = []
    for base in ("reranker", "classifier"):
        trainer = RerankerTrainer(chosen, tiny_models[base])
        trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
        heads.append(trainer.classify([("send", "mail")])[0, 0])
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

"""Cross-encoders and batches by a token budget: the same scores however they are asked for, and cached by content."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.interpreter import Interpreter

from bench.base.config import config_context, time_without_cache
from bench.base.errors import UnavailableError, UsageError
from bench.models.cache import token_batches
from bench.models.classifiers import SequenceModel
from bench.models.crossencoders import CrossEncoder, Retriever, probability
from bench.models.encoders import Encoder

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("own_cache")
PAIRS = [
    ("send a letter", "post: send mail"),
    ("rain tomorrow?", "the weather " * 30),
    ("", ""),
    ("find a ticket", "train"),
    ("find a ticket " * 40, "book"),
    ("x", "stock price and " * 5),
]


@pytest.fixture
def reranker(tiny_models: dict[str, str]) -> str:
    """The folder of an untrained cross-encoder."""
    return tiny_models["reranker"]


# Batches ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 300), max_size=80), st.integers(1, 1000))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) * longest <= budget or len(batch) == 1
    together = [lengths[i] for batch in batches for i in batch]
    assert together == sorted(together, reverse=True)


def test_batches_are_filled_by_hand() -> None:
    # Longest first: 9 alone (2 of them would be 18), then 5 and 4 (10), then 3, 1, 1 (9).
    assert [batch.tolist() for batch in token_batches([1, 5, 9, 3, 4, 1], 10)] == [[2], [1, 4], [3, 0, 5]]


# Scores -------------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_model_itself(reranker: str) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(reranker),
        AutoTokenizer.from_pretrained(reranker),
    )
    expected = []
    for query, tool in PAIRS:
        tokens = tokenizer([query], [tool], truncation=True, max_length=48, return_tensors="pt")
        with torch.inference_mode():
            expected.append(float(model(**tokens).logits[0, 0]))
    scorer = CrossEncoder(reranker)
    scorer.preflight()
    scores = scorer.score(PAIRS)
    assert scores == pytest.approx(expected, abs=1e-4)
    assert len(set(np.round(scores, 3))) > 3
    assert probability(scores) == pytest.approx(1 / (1 + np.exp(-np.array(expected))), abs=1e-4)


def test_a_score_does_not_depend_on_the_company_or_the_order(reranker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_NO_CACHE", "1")
    scorer = CrossEncoder(reranker)
    together = scorer.score(PAIRS)
    assert scorer.score(PAIRS[::-1])[::-1] == pytest.approx(together, abs=1e-5)
    assert np.concatenate([scorer.score([pair]) for pair in PAIRS]) == pytest.approx(together, abs=1e-5)


def test_scored_pairs_come_from_the_cache_bit_for_bit(reranker: str) -> None:
    first = CrossEncoder(reranker)
    scores = first.score([*PAIRS, PAIRS[0]])
    assert first.facts() == {"pairs_scored": len(PAIRS), "pairs_from_cache": 0}
    again = CrossEncoder(reranker)
    assert again.score(PAIRS[:3]).tolist() == scores[:3].tolist()
    assert again.facts() == {"pairs_scored": 0, "pairs_from_cache": 3}
    # The border between the two texts counts.
    again.score([("send a letterpost", ": send mail")])
    assert again.model.computed == 1


def test_a_full_cache_needs_no_torch(reranker: str, interpreter: Interpreter, tmp_path: Path) -> None:
    CrossEncoder(reranker).score(PAIRS)
    program = f"""
import sys
from bench.models.crossencoders import CrossEncoder
scorer = CrossEncoder({reranker!r})
scorer.preflight()
scorer.score({PAIRS!r})
assert scorer.facts()["pairs_scored"] == 0
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    interpreter(program, folder=tmp_path, path=(ROOT,))


def test_other_weights_are_another_cache(reranker: str, tmp_path: Path) -> None:
    CrossEncoder(reranker).score(PAIRS)
    copy = tmp_path / "copy"
    shutil.copytree(reranker, copy)
    (copy / "training.json").write_text("{}")  # a card changes no score
    same = CrossEncoder(str(copy))
    same.score(PAIRS)
    assert same.facts()["pairs_from_cache"] == len(PAIRS)
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 12}))
    other = CrossEncoder(str(copy))
    assert other.score(PAIRS[1:2]) != pytest.approx(same.score(PAIRS[1:2]))
    assert other.facts()["pairs_scored"] == 1


def test_latency_is_measured_on_fresh_scores_once_the_model_is_loaded(reranker: str) -> None:
    with config_context():
        scorer = CrossEncoder(reranker)
        scores = scorer.score(PAIRS)
        with time_without_cache() as timing:
            assert scorer.score(PAIRS) == pytest.approx(scores, abs=1e-5)
    assert not timing.cached
    # What is measured is no part of the run.
    assert scorer.facts() == {"pairs_scored": len(PAIRS), "pairs_from_cache": 0}


def test_no_pairs_are_no_scores(reranker: str) -> None:
    assert CrossEncoder(reranker).score([]).shape == (0,)


def test_a_classifier_of_single_texts_has_a_number_for_each_label(tiny_models: dict[str, str]) -> None:
    model = SequenceModel(tiny_models["classifier"])
    model.preflight()
    assert model.labels == ("single", "multi")
    assert model.logits([("send a letter",), ("rain",)]).shape == (2, 2)
    # A pair is no text of both.
    assert (model.logits([("send a letter", "rain")]) != model.logits([("send a letter rain",)])).any()


# Refusals -----------------------------------------------------------------------------------------------------------


def test_without_a_model_the_sentence_says_how_to_train_one() -> None:
    with pytest.raises(UsageError, match="bench train reranker"):
        CrossEncoder("").preflight()


def test_a_model_that_was_trained_anew_in_its_place_gives_its_own_scores(reranker: str, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(reranker, place)
    before = CrossEncoder(str(place))
    old = before.score(PAIRS[:2])
    retrained(place)
    new = CrossEncoder(str(place)).score(PAIRS)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(place, elsewhere)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_NO_CACHE", "1")
        assert CrossEncoder(str(elsewhere)).score(PAIRS).tolist() == pytest.approx(new.tolist(), abs=1e-5)
    assert new[:2] != pytest.approx(old, abs=1e-3)
    # One that is still in use goes on as what it was.
    assert before.score(PAIRS[:2]).tolist() == old.tolist()
    assert before.score(PAIRS[2:3]) == pytest.approx(CrossEncoder(reranker).score(PAIRS[2:3]), abs=1e-5)


def test_a_model_that_is_replaced_before_it_is_loaded_stores_no_score(reranker: str, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(reranker, place)
    scorer = CrossEncoder(str(place))
    scorer.revisions()
    retrained(place)
    with pytest.raises(UnavailableError, match="was replaced just now; run the same command again"):
        scorer.score(PAIRS)
    assert CrossEncoder(reranker).model._open_cache().get([]) == {}
    fresh = CrossEncoder(reranker)
    fresh.score(PAIRS)
    assert fresh.facts()["pairs_from_cache"] == 0


def retrained(folder: Path) -> None:
    """Other weights of the same shapes in a model's folder."""
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.classifier.weight.data *= -2
    model.save_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("classifier", "2 outputs instead of one"),
        ("encoder", "is not a sequence classifier"),
        ("missing", "model folder .* does not exist"),
    ],
)
def test_other_models_are_refused_in_a_sentence(tiny_models: dict[str, str], name: str, match: str) -> None:
    with pytest.raises(UnavailableError, match=match):
        CrossEncoder(tiny_models.get(name, "/nowhere/at/all")).preflight()


@pytest.mark.parametrize(
    "config",
    ["", "[]", "{", '{"architectures": 3}', '{"architectures": ["XForSequenceClassification"], "id2label": 3}'],
)
def test_damaged_settings_are_refused_in_a_sentence(reranker: str, tmp_path: Path, config: str) -> None:
    shutil.copytree(reranker, tmp_path / "damaged")
    (tmp_path / "damaged" / "config.json").write_text(config)
    with pytest.raises(UnavailableError, match="is not a sequence classifier"):
        CrossEncoder(str(tmp_path / "damaged")).preflight()


def _cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


def _cut_in_the_header(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])


def _promise_too_much(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")


def _no_tensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")


def _leave_out_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _leave_out_a_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (_cut, r"model.safetensors is cut off: it has [\d,]+ of [\d,]+ bytes; copy or download"),
        (_cut_in_the_header, "its header cannot be read"),
        (_promise_too_much, "its header cannot be read"),
        (_no_tensors, "its header cannot be read"),
        (_leave_out_weights, "has no weights"),
        (_leave_out_a_shard, "model-00002-of-00002.safetensors, which is missing"),
    ],
)
@pytest.mark.parametrize("kind", [CrossEncoder, Encoder])
def test_a_folder_that_is_not_whole_is_refused_in_a_sentence_before_the_run(
    reranker: str, tmp_path: Path, damage: Callable[[Path], None], match: str, kind: type[CrossEncoder | Encoder]
) -> None:
    shutil.copytree(reranker, tmp_path / "damaged")
    damage(tmp_path / "damaged")
    with pytest.raises(UnavailableError, match=match) as refused:
        kind(str(tmp_path / "damaged")).preflight()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [CrossEncoder, Encoder])
def test_weights_of_another_network_are_refused_in_a_sentence(
    reranker: str, tmp_path: Path, kind: type[CrossEncoder | Encoder]
) -> None:
    shutil.copytree(reranker, tmp_path / "damaged")
    settings = json.loads((tmp_path / "damaged" / "config.json").read_text())
    (tmp_path / "damaged" / "config.json").write_text(json.dumps({**settings, "hidden_size": 7}))
    model = kind(str(tmp_path / "damaged"))
    model.preflight()
    with pytest.raises(UnavailableError, match="cannot be loaded"):
        model.score(PAIRS) if isinstance(model, CrossEncoder) else model.encode(["a text"])


def test_a_statement_of_the_retriever_is_read_or_refused(reranker: str, tmp_path: Path) -> None:
    assert CrossEncoder(reranker).retriever is None
    shutil.copytree(reranker, tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "config.json").read_text())

    def state(retriever: object) -> CrossEncoder:
        (tmp_path / "model" / "config.json").write_text(json.dumps({**settings, "retriever": retriever}))
        return CrossEncoder(str(tmp_path / "model"))

    assert state({"revision": "abc", "weight": 12.5}).retriever == Retriever(revision="abc", weight=12.5)
    for wrong in (
        {"revision": "abc"},
        {"revision": "abc", "weight": -1},
        {"revision": "abc", "weight": "much"},
        "minilm",
    ):
        with pytest.raises(UnavailableError, match="does not say which retriever"):
            state(wrong).retriever  # noqa: B018


# OpenVINO -----------------------------------------------------------------------------------------------------------


def test_a_backend_that_is_not_installed_is_refused_before_the_run(
    reranker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.models.compiled._openvino", lambda: None)
    with pytest.raises(UnavailableError, match="pip install openvino"):
        CrossEncoder(reranker, backend="openvino").preflight()


def test_openvino_gives_nearly_the_same_scores_under_an_identity_of_its_own(reranker: str) -> None:
    torch_scorer, other = CrossEncoder(reranker), CrossEncoder(reranker, backend="openvino")
    assert other.score(PAIRS) == pytest.approx(torch_scorer.score(PAIRS), abs=1e-3)
    assert other.revisions() != torch_scorer.revisions()
    assert other.facts()["pairs_from_cache"] == 0

"""Training a query generator: rewards and filters by hand, both stages on a tiny decoder, kills, calibration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET
from bench.base.spec import Spec, Value, parse
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import History, Library, Queries
from bench.interface.parts import preflight
from bench.lab.training.drafts import Searcher, distribution, drafts_in, keep_drafts
from bench.lab.training.generator import TEMPERATURES, GeneratorTrainer, gold_lines
from bench.lab.training.train import train_model
from bench.models.causal import Sampling, load_causal
from bench.models.trainingcard import TrainingCard
from bench.registry import build_method

SETTINGS: dict[str, Value] = {
    "hidden": 32,
    "layers": 2,
    "heads": 2,
    "vocabulary": 320,
    "context": 64,
    "most_tokens": 24,
    "batch_size": 8,
    "learning_rate": 0.01,
    "retriever": parse("bm25"),
    "precision": "float32",
    "checkpoint_every": 1000,
}
ALIGNING: dict[str, Value] = {
    **SETTINGS,
    "stage": "align",
    "epochs": 2,
    "utterances": 12,
    "drafts": 3,
    "learning_rate": 0.001,
}


def trained(lessons: Dataset, out: Path, base: str | None = None, **settings: Value) -> TrainingCard:
    chosen = {**(ALIGNING if base else SETTINGS), **settings}
    return train_model("generator", lessons, out, base=base, settings=Spec.of("generator", chosen))


@pytest.fixture
def generator(lessons: Dataset, once_trained: Callable[..., tuple[Path, TrainingCard]]) -> str:
    """A decoder trained on the lessons."""
    return str(once_trained("generator", lambda folder: trained(lessons, folder, epochs=25))[0])


# Targets, rewards, filters ------------------------------------------------------------------------------------------


def test_the_target_is_one_description_a_line() -> None:
    tools = [Tool("a", "A", "posts\n letters"), Tool("b", "B", ""), Tool("c", "C", "posts letters")]
    assert gold_lines(tools) == "posts letters\nB"


def searcher(lessons: Dataset, spec: str = "bm25", include_utterance: bool = False) -> Searcher:
    return Searcher(parse(spec), lessons, "description", include_utterance, QUIET)


def test_rewards_by_hand(lessons: Dataset) -> None:
    codes = lessons.tool_codes
    gold = Gold.of([{codes["mail"]: 1, codes["rain"]: 1}] * 2)
    lines = [["send mail", "rain"], ["rain"]]
    # The first draft finds both at ranks 1 and 2. The second finds rain, and mail shares no word with it.
    rewards = [searcher(lessons).rewards(["x", "x"], lines, gold, reward, 8) for reward in ("mmrr", "map", "recall")]
    assert rewards[0][0] == rewards[1][0] == rewards[2][0] == 1
    tools = searcher(lessons).ranks(["x"], [["rain"]], gold.take(np.array([0])), 8)
    second = min(int(tools.ranks[0, 1]), 9)
    assert tools.ranks[0, 0] == 1
    assert rewards[0][1] == pytest.approx(1.5 / ((1 + second) / 2))
    precision = 2 / second if second <= 8 else 0
    assert rewards[1][1] == pytest.approx((1 + precision) / 2)


def test_a_draft_without_lines_is_worth_nothing(lessons: Dataset) -> None:
    gold = Gold.of([{lessons.tool_codes["mail"]: 1}])
    assert searcher(lessons, include_utterance=True).rewards(["send mail"], [[]], gold, "mmrr", 8).tolist() == [0]


def test_the_utterance_is_searched_with_at_last(lessons: Dataset) -> None:
    gold = Gold.of([{lessons.tool_codes["mail"]: 1}])
    for included, rank in ((False, None), (True, 2)):
        ranks = searcher(lessons, include_utterance=included).ranks(["send mail"], [["rain"]], gold, 2)
        assert (int(ranks.ranks[0, 0]) if ranks.ranks[0, 0] <= 2 else None) == rank


@pytest.mark.parametrize("spec", ["nearest-query", "oracle", "ptr(llm=some-model)"])
def test_a_retriever_that_knows_the_gold_cannot_reward(lessons: Dataset, spec: str) -> None:
    with pytest.raises(UsageError, match="cannot reward"):
        searcher(lessons, spec)


def test_the_filter_of_algorithm_1_by_hand() -> None:
    rewards = np.array([[0.2, 0.9, 0.9, 0.1], [0.04, 0.03, 0.0, 0.04], [0.5, 0.5, 0.3, 0.6]])
    texts = [["a", "b", "b", "c"], ["d", "e", "f", "g"], ["h", "i", "j", ""]]
    # The best of each: b (the first of two), d below r_min, h (the blank one does not count).
    assert keep_drafts(rewards, texts, 1, 0.05, 100) == [(0, 1), (2, 0)]
    assert keep_drafts(rewards, texts, 1, 0, 100) == [(0, 1), (1, 0), (2, 0)]
    # Two of each: b, a; h, i. Of all six the best half are b, h and i; 50% of equal ones are not cut apart.
    assert keep_drafts(rewards, texts, 2, 0.05, 100) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert keep_drafts(rewards, texts, 2, 0.05, 50) == [(0, 1), (2, 0), (2, 1)]
    assert keep_drafts(rewards, texts, 2, 0.05, 33) == [(0, 1), (2, 0), (2, 1)]
    assert keep_drafts(rewards, texts, 1, 0.95, 100) == []
    assert keep_drafts(np.zeros((1, 1)), [[""]], 1, 0, 100) == []


def test_the_distribution_by_hand() -> None:
    result = distribution(np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.01]]), 0.05)
    assert result["mean"] == pytest.approx(0.1683, abs=1e-4)
    assert result["median"] == 0.15
    assert result["at_least_r_min"] == pytest.approx(4 / 6, abs=1e-4)
    assert result["lower_quartile"] < result["median"] < result["upper_quartile"]


def test_drafts_that_were_cut_off_go_on_behind_the_last_whole_block(tmp_path: Path) -> None:
    path = tmp_path / "scratch" / "drafts.jsonl"
    made: list[list[int]] = []

    def make(rows: Sequence[int]) -> list[list[str]]:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(list(rows))
        return [[f"draft of {row}"] for row in rows]

    rows = [4, 7, 9, 12, 15]
    with pytest.raises(KeyboardInterrupt):
        drafts_in(path, "one", rows, make, 2)
    path.write_bytes(path.read_bytes() + b'[15, ["half a li')
    made.clear()
    assert drafts_in(path, "one", rows, make, 2) == [[f"draft of {row}"] for row in rows]
    assert made == [[15]]
    made.clear()
    assert drafts_in(path, "one", rows, make, 2)[4] == ["draft of 15"]
    assert made == []
    # Drafts of another training are not taken for these.
    assert drafts_in(path, "two", [4], make, 2) == [["draft of 4"]]
    assert made == [[4]]


# Training -----------------------------------------------------------------------------------------------------------


def test_supervised_training_learns_the_descriptions(lessons: Dataset, generator: str) -> None:
    card = json.loads((Path(generator) / "training.json").read_text())
    losses = [seen["loss"] for seen in card["evaluations"]]
    assert losses[-1] < 0.3 * losses[0]
    assert (card["kind"], card["base"], card["base_revision"], card["examples"]) == ("generator", "scratch", "", 32)
    assert card["facts"]["prompt"] == "utterance"
    model = load_causal(generator)
    assert model.trained_prompt == "utterance"
    # What it writes is what it was validated with, and what the method searches with.
    best = next(seen["value"] for seen in card["evaluations"] if seen["step"] == card["best_step"])
    method = build_method(f'query-generation(base=bm25, llm="local:{generator}", most_tokens=24)')
    library, rows = Library.of(lessons, "description"), lessons.rows("dev")
    preflight(method, library, History.of(lessons, library, rows))
    method.index(library)
    tools = method.rank(Queries.of(lessons, rows), 5).tools
    recall = np.mean([np.isin(lessons.gold.row(int(row)), tools[i]).mean() for i, row in enumerate(rows)])
    assert recall == pytest.approx(best)
    facts = check_facts(method)
    assert facts["prompt"] == "utterance"
    assert int(facts["queries_generated"]) >= len(rows) - int(facts["replies_unusable"])


def test_the_loss_is_that_of_the_answer_alone(lessons: Dataset) -> None:
    import torch

    trainer = GeneratorTrainer(GeneratorTrainer.Parameters(**_plain(SETTINGS)), "scratch")
    rows = lessons.rows("train")
    trainer.prepare(lessons, "description", rows, lessons.rows("dev"))
    trainer.model.eval()
    with torch.no_grad():
        together = float(trainer.loss(np.array([0, 1])))
        total, tokens = 0.0, 0
        for row in (0, 1):
            prompt, answer = trainer._examples[row]
            logits = trainer.model(torch.tensor([[*prompt, *answer]])).logits[0]
            for place, token in enumerate(answer):
                total -= float(torch.log_softmax(logits[len(prompt) + place - 1], dim=0)[token])
            tokens += len(answer)
            assert answer[-1] == trainer._causal.tokenizer.eos_token_id
    assert together == pytest.approx(total / tokens, rel=1e-4)


def _plain(settings: dict[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in settings.items() if name != "retriever"} | {"retriever": "bm25"}


def test_alignment_learns_from_its_own_best_drafts(lessons: Dataset, generator: str, tmp_path: Path) -> None:
    card = trained(lessons, tmp_path / "aligned", generator, calibrate=True, validation_queries=4)
    facts = card.facts
    for iteration in (1, 2):
        assert facts[f"drafts_made_{iteration}"] == 36
        assert 0 < int(facts[f"drafts_kept_{iteration}"]) <= 12
        assert 0 <= float(facts[f"reward_mean_{iteration}"]) <= float(facts[f"reward_best_mean_{iteration}"]) <= 1
    # Learnt from the kept drafts, in batches of 8.
    assert card.steps == sum(-(-int(facts[f"drafts_kept_{iteration}"]) // 8) for iteration in (1, 2))
    assert card.base == generator
    assert card.base_revision
    measured = {t: float(facts[f"recall@5_at_temperature_{t}"]) for t in TEMPERATURES}
    assert measured[float(facts["best_temperature"])] == max(measured.values())
    assert (TEMPERATURES[0], TEMPERATURES[1], TEMPERATURES[-1]) == (0.0, 0.2, 1.6)
    assert load_causal(str(tmp_path / "aligned")).trained_prompt == "utterance"


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_alignment_cut_off_goes_on_with_its_drafts_to_the_same_model(
    lessons: Dataset,
    generator: str,
    tmp_path: Path,
    once_trained: Callable[..., tuple[Path, TrainingCard]],
    cut_off: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
) -> None:
    blocks: list[int] = []
    draw = GeneratorTrainer._drafts
    monkeypatch.setattr(GeneratorTrainer, "_drafts", lambda self, *args: blocks.append(1) or draw(self, *args))

    def train(folder: Path) -> None:
        trained(lessons, folder, generator)
        (folder / "blocks").write_text(str(len(blocks)))

    folder, whole = once_trained("generator-aligned", train)
    blocks.clear()
    cut_off("generator", steps)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", generator, checkpoint_every=1)
    card = trained(lessons, tmp_path / "cut", generator, checkpoint_every=1)
    assert len(blocks) == int((folder / "blocks").read_text())
    assert card.facts == whole.facts
    assert [seen.value for seen in card.evaluations] == [seen.value for seen in whole.evaluations]
    assert [seen.loss for seen in card.evaluations] == pytest.approx([seen.loss for seen in whole.evaluations])


def test_drafts_of_which_none_is_good_enough_end_the_alignment(
    lessons: Dataset, generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GeneratorTrainer, "_drafts", lambda self, rows, epoch: [[""] * 3 for _ in rows])
    with pytest.raises(UsageError, match="no draft of iteration 1"):
        trained(lessons, tmp_path / "aligned", generator)


def test_alignment_needs_a_model_to_begin_with(lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--base"):
        trained(lessons, tmp_path / "model", stage="align")
    with pytest.raises(UsageError, match="heads"):
        trained(lessons, tmp_path / "model", hidden=32, heads=5)
    with pytest.raises(UnavailableError):
        trained(lessons, tmp_path / "model", str(tmp_path / "none"))


def test_the_rate_depends_on_where_the_model_begins(generator: str) -> None:
    parameters = GeneratorTrainer.Parameters()
    assert GeneratorTrainer(parameters, "scratch").parameters.learning_rate == 1e-3
    assert GeneratorTrainer(parameters, generator).parameters.learning_rate == 2e-5
    given = GeneratorTrainer.Parameters(learning_rate=0.5)
    assert GeneratorTrainer(given, generator).parameters.learning_rate == 0.5


def test_a_pretrained_model_is_asked_by_the_prompt_of_the_setting(lessons: Dataset, generator: str) -> None:
    chosen = GeneratorTrainer.Parameters(**{**_plain(SETTINGS), "prompt": "intent", "vocabulary": 320})
    trainer = GeneratorTrainer(chosen, generator)
    trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
    assert trainer.facts()["prompt"] == "intent"
    config: Any = trainer.model.config
    assert config.query_prompt == "intent"


def test_any_causal_model_with_a_tokenizer_can_be_the_base(lessons: Dataset, generator: str, tmp_path: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = load_causal(generator).tokenizer
    # As of many pretrained models: no chat format, no padding.
    tokenizer.chat_template = None
    tokenizer.pad_token = None
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=32, n_layer=2, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    tokenizer.save_pretrained(tmp_path / "gpt2")
    card = trained(lessons, tmp_path / "model", str(tmp_path / "gpt2"), stage="sft", epochs=2)
    assert (card.facts["prompt"], card.facts["learning_rate"]) == ("plain", 0.001)
    assert card.evaluations[1].loss < card.evaluations[0].loss
    again = load_causal(str(tmp_path / "model"))
    assert again.trained_prompt == "plain"
    assert again.context == 256


def test_the_identity_holds_the_content_of_the_retriever(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    retriever = tmp_path / "retriever"
    collected = []
    for eps in (1e-12, 1e-12, 0.1):
        shutil.copytree(tiny_models["encoder"], retriever, dirs_exist_ok=True)
        config = json.loads((retriever / "config.json").read_text())
        (retriever / "config.json").write_text(json.dumps({**config, "layer_norm_eps": eps}))
        chosen = GeneratorTrainer.Parameters(**{**_plain(SETTINGS), "retriever": f"dense(encoder={retriever})"})
        trainer = GeneratorTrainer(chosen, "scratch")
        trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
        collected.append((trainer.revisions()["retriever"], trainer._identity))
    assert collected[0] == collected[1]
    assert not set(collected[0]) & set(collected[2])


def test_a_calibration_survives_a_kill(
    lessons: Dataset, tmp_path: Path, cut_off: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([])  # type: ignore[var-annotated]
    monkeypatch.setattr(GeneratorTrainer, "validate", lambda self: next(values))
    settings: dict[str, Any] = {"calibrate": True, "epochs": 3, "validation_queries": 4, "most_tokens": 8}
    settings["checkpoint_every"] = 1
    # The best model is that of the first epoch; the training is cut off in the second.
    values = iter([0.9, 0.5, 0.4])
    whole = trained(lessons, tmp_path / "whole", **settings)
    values = iter([0.9, 0.5, 0.4])
    cut_off("generator", 6)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", **settings)
    card = trained(lessons, tmp_path / "cut", **settings)
    assert (card.resumed, card.best_step) == (1, 4)
    assert card.facts["best_temperature"] in TEMPERATURES
    assert card.facts == whole.facts


def test_settings_of_generation_that_come_with_a_model_change_nothing(generator: str, tmp_path: Path) -> None:
    import torch

    shutil.copytree(generator, tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    given = json.loads(path.read_text())
    # As chat models have them, but for the strength.
    others = {"repetition_penalty": 5.0, "do_sample": True, "top_k": 2, "temperature": 0.7, "min_new_tokens": 12}
    path.write_text(json.dumps({**given, **others}))
    collected = []
    for name in (generator, str(tmp_path / "model")):
        model = load_causal(name)
        random = torch.Generator().manual_seed(3)
        with torch.no_grad():
            # Weights at random say more than the few lines that were learnt.
            for weights in model.network.parameters():
                weights.copy_(torch.randn(weights.shape, generator=random))
        prompts = [model.prompt(str, text, 12) for text in ("send mail and a letter", "rain")]
        greedy, drawn = Sampling(0.0, most_tokens=12), Sampling(1.0, most_tokens=12)
        collected.append([model.generate(prompts, [(1,), (2,)], sampling) for sampling in (greedy, drawn)])
    assert collected[0] == collected[1]

"""Training a query generator: rewards and filters by hand, both stages on a tiny decoder, kills, calibration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.chatserver import ChatServer

from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET
from bench.base.spec import Spec, Value, parse
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Tool
from bench.evaluation.method_errors import check_facts
from bench.interface import History, Library, Queries
from bench.interface.parts import preflight
from bench.lab.training import lora
from bench.lab.training.drafts import Searcher, distribution, drafts_in, keep_drafts
from bench.lab.training.generator import TEMPERATURES, GeneratorTrainer, gold_lines
from bench.lab.training.train import train_model
from bench.methods.query_generation.prompts import query_prompt
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


# LoRA ---------------------------------------------------------------------------------------------------------------


ADAPTING: dict[str, Value] = {"stage": "sft", "lora_rank": 4, "epochs": 2, "learning_rate": 0.01}


def adapting(lessons: Dataset, base: str, **settings: Value) -> GeneratorTrainer:
    chosen = GeneratorTrainer.Parameters(**{**_plain(SETTINGS), **ADAPTING, **settings})
    trainer = GeneratorTrainer(chosen, base)
    trainer.prepare(lessons, "description", lessons.rows("train"), lessons.rows("dev"))
    return trainer


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_with_lora_only_adapters_learn_and_only_from_the_answer(
    lessons: Dataset, generator: str, precision: str
) -> None:
    import torch

    trainer = adapting(lessons, generator, frozen_precision=precision)
    learnt = {name: part for name, part in trainer.model.named_parameters() if part.requires_grad}
    assert all(".lora_" in name for name in learnt)
    assert {part.dtype for part in learnt.values()} == {torch.float32}
    frozen = [part for name, part in trainer.model.named_parameters() if name not in learnt]
    assert {part.dtype for part in frozen} == {getattr(torch, precision)}
    facts = trainer.facts()
    assert facts["learnt_parameters"] == sum(part.numel() for part in learnt.values()) < int(facts["parameters"]) / 4
    # The logits that have a gradient are those that foretell the answer.
    seen: list[torch.Tensor] = []
    forward = trainer.model.forward

    def keep(**given: Any) -> Any:
        output = forward(**given)
        output.logits.retain_grad()
        seen.append(output.logits)
        return output

    trainer.model.forward = keep
    trainer.loss(np.array([0])).backward()
    prompt, answer = trainer._examples[0]
    grad = seen[0].grad
    assert grad is not None
    places = torch.nonzero(grad[0].abs().sum(dim=1)).flatten().tolist()
    assert places == list(range(len(prompt) - 1, len(prompt) + len(answer) - 1))
    assert all(part.grad is None for part in frozen)
    assert any(part.grad is not None and bool(part.grad.abs().sum()) for part in learnt.values())


def test_a_model_with_merged_adapters_is_one_as_any_other(lessons: Dataset, generator: str, tmp_path: Path) -> None:
    import torch

    trainer = adapting(lessons, generator)
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, part in trainer.model.named_parameters():
            if ".lora_B." in name:
                part.copy_(torch.randn(part.shape, generator=random) / 10)
    trainer.model.eval()
    trainer.save(tmp_path / "merged")
    merged, base = load_causal(str(tmp_path / "merged")), load_causal(generator)
    assert [name for name, _ in merged.network.named_parameters()] == [
        name for name, _ in base.network.named_parameters()
    ]
    assert merged.trained_prompt == "utterance"
    tokens = torch.tensor([trainer._prompts[0]])
    with torch.no_grad():
        expected, found, before = (network(tokens).logits for network in (trainer.model, merged.network, base.network))
    assert torch.allclose(expected, found, atol=1e-4)
    assert not torch.allclose(expected, before, atol=1e-2)


def test_a_training_of_adapters_cut_off_ends_with_the_same_bytes(
    lessons: Dataset, generator: str, tmp_path: Path, cut_off: Callable[[str, int], None]
) -> None:
    import torch

    card = trained(lessons, tmp_path / "whole", generator, **ADAPTING)
    cut_off("generator", 5)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", generator, **ADAPTING, checkpoint_every=1)
    record = torch.load(tmp_path / ".cut.training" / "checkpoint.pt", weights_only=True)
    # A checkpoint does not repeat the base.
    assert all(".lora_" in name for name in record["model"])
    again = trained(lessons, tmp_path / "cut", generator, **ADAPTING, checkpoint_every=1)
    assert (again.resumed, again.steps) == (1, card.steps)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1] != (Path(generator) / "model.safetensors").read_bytes()
    method = build_method(f'query-generation(base=bm25, llm="local:{tmp_path / "cut"}", most_tokens=24)')
    method.index(Library.of(lessons, "description"))
    assert len(method.rank(Queries.of(lessons, lessons.rows("dev")), 5).tools) == 8


def test_a_model_that_does_not_fit_is_refused_by_its_config_alone(lessons: Dataset, tmp_path: Path) -> None:
    from transformers import LlamaConfig

    sizes: dict[str, Any] = {"hidden_size": 1 << 20, "intermediate_size": 1 << 20, "num_hidden_layers": 1}
    LlamaConfig(**sizes, vocab_size=8, num_attention_heads=64).save_pretrained(tmp_path / "huge")
    base = str(tmp_path / "huge")
    # Four matrices of attention and three of the layer behind, 8 embeddings and as many outputs, 3 norms.
    parameters = 7 * 2**40 + 19 * 2**20
    cases: list[tuple[dict[str, Value], int, str]] = [
        ({}, 16 * parameters, "set lora_rank=16 and frozen_precision=bfloat16"),
        ({"lora_rank": 8}, 4 * parameters, "set frozen_precision=bfloat16, or"),
        ({"lora_rank": 8, "frozen_precision": "bfloat16"}, 2 * parameters, "; choose a smaller --base"),
    ]
    for settings, needed, remedy in cases:
        with pytest.raises(UsageError, match=f"at least {needed // 10**12}") as raised:
            trained(lessons, tmp_path / "model", base, stage="sft", **settings)
        assert remedy in str(raised.value)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("rank", "memory", "fits"),
    [(0, 16 * 1000, True), (0, 16 * 1000 - 1, False), (2, 4 * 900 + 16 * 100, True), (2, 4 * 900 + 1599, False)],
)
def test_memory_by_hand(monkeypatch: pytest.MonkeyPatch, rank: int, memory: int, fits: bool) -> None:
    monkeypatch.setattr(lora, "_count_parameters", lambda base, rank: (100, 900) if rank else (1000, 0))
    monkeypatch.setattr(lora, "_machine_memory", lambda: memory)
    if fits:
        assert lora.check_memory("base", rank, "float32").startswith(
            f"training base takes at least {memory / 1e9:.3g} GB"
        )
    else:
        with pytest.raises(UsageError, match="choose a smaller --base"):
            lora.check_memory("base", rank, "float32")


def test_lora_needs_a_base_and_peft(
    lessons: Dataset, generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="--base"):
        trained(lessons, tmp_path / "model", lora_rank=4)
    monkeypatch.setattr("bench.base.errors.is_installed", lambda module: module != "peft")
    with pytest.raises(UnavailableError, match=r"pip install .*\[lora\]"):
        trained(lessons, tmp_path / "model", generator, **ADAPTING)


# Drafts of an endpoint ----------------------------------------------------------------------------------------------


def test_an_endpoint_writes_the_drafts_and_a_kill_repeats_none(
    lessons: Dataset,
    generator: str,
    tmp_path: Path,
    chat_server: ChatServer,
    cut_off: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A good draft now and then, and one that says nothing.
    replies = {0: "- send mail\n- the weather: rain", 1: "Sure, here you are:", 2: "find a train"}
    count = iter(range(1000))
    chat_server.answer = lambda body: replies[next(count) % 3]
    cut_off("generator", 0)
    settings: dict[str, Value] = {"drafts_from": "teacher", "utterances": 6, "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "model", generator, **settings)
    assert len(chat_server.requests) == 18
    chat_server.close()
    # The second iteration needs new drafts; those of the first are there.
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="lacks 18 of the replies of teacher"):
        trained(lessons, tmp_path / "model", generator, **settings)
    card = trained(lessons, tmp_path / "one", generator, **{**settings, "epochs": 1})
    assert len(chat_server.requests) == 18
    assert card.facts["drafts_made_1"] == 18
    assert card.facts["drafts_empty_1"] == 6
    assert 0 < int(card.facts["drafts_kept_1"]) <= 6
    body = chat_server.requests[0]
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("teacher", 1.0, 0.9, 24)
    # The base was trained on utterances alone, which would tell an endpoint nothing of what it is to do.
    asked = {query_prompt("plain", query.text, 5) for query in lessons.queries}
    assert {one["messages"][0]["content"] for one in chat_server.requests} < asked
    with pytest.raises(UsageError, match="stage=align"):
        trained(lessons, tmp_path / "other", generator, stage="sft", drafts_from="teacher")


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

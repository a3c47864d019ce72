"""Training a dual encoder: the loss by hand, mined negatives, a model that `dense` uses, and kills."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.base.spec import Spec, Value
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.tables import Split
from bench.evaluation.contamination import LEAKED, training_leaks
from bench.identity.reach import Reached, reach_modules
from bench.interface import History, Library, Queries
from bench.interface.parts import preflight
from bench.lab.training import train
from bench.lab.training.lora import check_memory
from bench.lab.training.mining import draw, hard_negatives, keep_in, used_tools
from bench.lab.training.pretrained import outputs_by_length, transformer_folder
from bench.lab.training.retriever import RetrieverTrainer, progressive_loss, ranking_loss
from bench.lab.training.train import KINDS, train_model, trainer_class
from bench.models.encoders import Encoder
from bench.models.trainingcard import TrainingCard, text_digest, tool_digest
from bench.registry import build_method

SETTINGS: dict[str, Value] = {
    "batch_size": 8,
    "epochs": 6,
    "learning_rate": 0.003,
    "mining_depth": 4,
    "precision": "float32",
    "checkpoint_every": 1000,
    "most_tokens": 24,
}


def trained(lessons: Dataset, out: Path, base: str, **more: Value) -> TrainingCard:
    return train_model("retriever", lessons, out, base=base, settings=Spec.of("retriever", {**SETTINGS, **more}))


# The loss -----------------------------------------------------------------------------------------------------------


def test_the_loss_by_hand() -> None:
    import torch

    scores = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 2.0]])
    positive = torch.tensor([[True, True, False], [False, True, False]])
    # Query 1: its positives 2 and 1, each against the negative 0 alone. Query 2: 3 against 1 and 2.
    first = [math.log(1 + math.exp(0 - 2)), math.log(1 + math.exp(0 - 1))]
    second = -math.log(math.exp(3) / (math.exp(3) + math.exp(1) + math.exp(2)))
    assert float(ranking_loss(scores, positive)) == pytest.approx((sum(first) / 2 + second) / 2, rel=1e-6)


def test_a_batch_that_holds_nothing_but_gold_teaches_nothing() -> None:
    import torch

    scores = torch.tensor([[0.5, 0.2]], requires_grad=True)
    loss = ranking_loss(scores, torch.tensor([[True, True]]))
    loss.backward()
    assert float(loss.detach()) == 0
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0, 0]]


def test_the_progressive_loss_by_hand() -> None:
    import torch

    tools = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    queries = torch.tensor([[0.8, 0.6], [0.6, -0.8]])
    positive = torch.tensor([[True, True, False], [False, False, True]])
    order = torch.tensor([[1, 0, -1], [2, -1, -1]])

    def against(wanted: float, *others: float) -> float:
        return math.log(1 + sum(math.exp((other - wanted) / 0.5) for other in others))

    # Query 1, step 1: 0.8, 0.6 and, wrong, 0.96. Query 2: the right one has -0.28, the others 0.6 and -0.8.
    first = (against(0.8, 0.96) + against(0.6, 0.96)) / 2
    other = against(-0.28, 0.6, -0.8)
    # Step 2, query 1 less tool 1 is (0.8, -0.4): tool 0 has 0.8, the wrong one 0.16, and tool 1 is out.
    second = against(0.8, 0.16)
    result = progressive_loss(queries, tools, positive, order, 0.5)
    assert float(result) == pytest.approx((first + other + second) / 3, rel=1e-6)


def test_with_a_single_step_the_progressive_loss_is_the_ranking_loss() -> None:
    import torch

    random = torch.Generator().manual_seed(0)
    queries, tools = (torch.nn.functional.normalize(torch.randn(6, 4, generator=random), dim=1) for _ in range(2))
    positive = torch.eye(6, dtype=torch.bool)
    result = progressive_loss(queries, tools, positive, torch.arange(6)[:, None], 0.05)
    assert float(result) == pytest.approx(float(ranking_loss(queries @ tools.T / 0.05, positive)), rel=1e-6)


# Negatives ----------------------------------------------------------------------------------------------------------


def test_outputs_come_in_the_order_of_the_texts() -> None:
    import torch

    lengths = [3, 9, 1, 5, 4]
    outputs = outputs_by_length(lengths, 8, lambda batch: torch.tensor(lengths)[torch.from_numpy(batch)])
    assert outputs.tolist() == lengths


def test_hard_negatives_are_the_nearest_tools_that_are_not_gold() -> None:
    tools = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.5, 0.5]], dtype=np.float32)
    queries = np.array([[1, 0], [0, 1]], dtype=np.float32)
    gold = Gold.of([{0: 1}, {2: 1, 3: 1, 0: 1}])
    every = np.ones(4, dtype=bool)
    # From the first query: 1, 3, 2 (0 is gold). From the second: 1 alone, since the others are gold.
    assert hard_negatives(queries, tools, gold, 2, every).tolist() == [[1, 3], [1, -1]]
    assert hard_negatives(queries, tools, gold, 9, every).tolist() == [[1, 3, 2, -1], [1, -1, -1, -1]]


def test_a_tool_that_is_gold_for_no_query_is_no_negative() -> None:
    tools = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.5, 0.5]], dtype=np.float32)
    queries = np.array([[1, 0], [0, 1]], dtype=np.float32)
    gold = Gold.of([{0: 1}, {2: 1, 3: 1, 0: 1}])
    among = used_tools(gold, 4)
    assert among.tolist() == [True, False, True, True]
    assert hard_negatives(queries, tools, gold, 9, among).tolist() == [[3, 2, -1, -1], [-1, -1, -1, -1]]


def test_negatives_are_drawn_from_all_that_were_mined() -> None:
    mined = np.array([[5, 6, 7, -1], [8, -1, -1, -1]], dtype=np.int32)
    seen = [draw(mined, 2, np.random.default_rng(seed)) for seed in range(40)]
    assert {int(tool) for draw in seen for tool in draw[0]} == {5, 6, 7}
    assert all(len(set(draw[0].tolist())) == 2 for draw in seen)
    assert all(sorted(draw[1].tolist()) == [-1, 8] for draw in seen)
    assert draw(mined, 6, np.random.default_rng(0)).shape == (2, 6)


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"nonsense"])
def test_what_was_mined_is_kept_and_a_damaged_file_is_made_again(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "scratch" / "negatives.npy"
    first = keep_in(path, lambda: np.array([[1, 2]], dtype=np.int32))
    assert keep_in(path, lambda: np.array([[3, 4]], dtype=np.int32)).tolist() == first.tolist() == [[1, 2]]
    path.write_bytes(damage)
    assert keep_in(path, lambda: np.array([[3, 4]], dtype=np.int32)).tolist() == [[3, 4]]


# Training -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry whenever negatives are mined."""
    collected: list[int] = []
    mine = RetrieverTrainer._mine
    monkeypatch.setattr(RetrieverTrainer, "_mine", lambda self: collected.append(1) or mine(self))
    return collected


@pytest.fixture
def one_epoch(
    lessons: Dataset, tiny_models: dict[str, str], once_trained: Callable[..., tuple[Path, TrainingCard]]
) -> tuple[Path, TrainingCard]:
    """A model of one epoch, for what does not depend on how well it has learnt."""
    base = tiny_models["encoder"]
    return once_trained("retriever", lambda folder: trained(lessons, folder, base, epochs=1))


def test_the_loss_falls_and_dense_uses_the_model(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], mined: list[int]
) -> None:
    base = tiny_models["encoder"]
    card = trained(lessons, tmp_path / "model", base)
    assert len(mined) == 6, "once an epoch"
    losses = [seen.loss for seen in card.evaluations]
    assert losses[-1] < 0.7 * losses[0]
    assert card.evaluations[-1].value > recall(lessons, base) + 0.1
    best = next(seen.value for seen in card.evaluations if seen.step == card.best_step)
    assert recall(lessons, str(tmp_path / "model")) == pytest.approx(best)
    # Where it was cut in training, it is cut in use.
    encoder = Encoder(str(tmp_path / "model"))
    long = "send a letter " * 20
    same, other = encoder.encode([long, long + "rain"])
    assert (same == other).all()


def recall(dataset: Dataset, encoder: str) -> float:
    """recall@5 of `dense` with this encoder on the dev queries."""
    library = Library.of(dataset, "description")
    method = build_method("dense", {"encoder": encoder})
    preflight(method, library, History.of(dataset, library, dataset.rows("dev")))
    method.index(library)
    rows = dataset.rows("dev")
    tools = method.rank(Queries.of(dataset, rows), 5).tools
    return float(np.mean([np.isin(dataset.gold.row(int(row)), tools[i]).mean() for i, row in enumerate(rows)]))


def test_what_was_learnt_step_by_step_is_found_step_by_step(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    card = trained(lessons, tmp_path / "one", tiny_models["encoder"], progressive=True, positives=3)
    assert card.settings["progressive"] is True
    losses = [seen.loss for seen in card.evaluations]
    assert losses[-1] < losses[0]
    library = Library.of(lessons, lessons.card.template)
    method = build_method(f"protip(base=dense(encoder={tmp_path / 'one'}))")
    history = History.of(lessons, library, lessons.rows("test"))
    preflight(method, library, history)
    method.fit(history)
    method.index(library)
    rows = lessons.rows("dev")
    ranked = method.rank(Queries.of(lessons, rows), 5).tools
    gold = lessons.gold.take(rows)
    result = float(np.mean([np.isin(gold.row(i), ranked[i]).mean() for i in range(len(rows))]))
    best = next(seen.value for seen in card.evaluations if seen.step == card.best_step)
    assert result == pytest.approx(best)


def test_the_card_says_what_it_was_trained_on(lessons: Dataset, one_epoch: tuple[Path, TrainingCard]) -> None:
    _, card = one_epoch
    train = [query for query in lessons.queries if query.split == "train"]
    assert card.queries == sorted(text_digest(query.text) for query in train)
    by_id = {tool.tool_id: tool for tool in lessons.tools}
    assert card.tools == sorted({tool_digest(by_id[tool]) for query in train for tool in query.gold})
    assert (card.kind, card.examples, card.validation) == ("retriever", 32, "dev (8 queries)")
    assert card.facts["pairs"] == sum(len(query.gold) for query in train)
    text_digests = {text_digest(query.text) for query in lessons.queries if query.split == "test"}
    assert not text_digests & set(card.queries)


@pytest.mark.parametrize("steps", [1, 4, 6, 11])
def test_a_training_cut_off_goes_on_to_the_same_model(
    lessons: Dataset,
    tmp_path: Path,
    tiny_models: dict[str, str],
    once_trained: Callable[..., tuple[Path, TrainingCard]],
    cut_off: Callable[[str, int], None],
    mined: list[int],
    steps: int,
) -> None:
    base = tiny_models["encoder"]
    folder, whole = once_trained("retriever-3", lambda folder: trained(lessons, folder, base, epochs=3))
    mined.clear()
    cut_off("retriever", steps)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "cut", base, epochs=3, checkpoint_every=1)
    assert not (tmp_path / "cut").exists()
    card = trained(lessons, tmp_path / "cut", base, epochs=3, checkpoint_every=1)
    assert card.resumed == 1
    # An epoch that was cut in its middle goes on with the negatives of its beginning.
    assert len(mined) == 3
    assert [seen.value for seen in card.evaluations] == [seen.value for seen in whole.evaluations]
    assert [seen.loss for seen in card.evaluations] == pytest.approx([seen.loss for seen in whole.evaluations])
    left, right = (Encoder(str(item)).encode(["send a letter"]) for item in (folder, tmp_path / "cut"))
    assert left == pytest.approx(right, abs=1e-6)


def test_without_mining_the_batch_alone_gives_negatives(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RetrieverTrainer, "_mine")
    card = trained(lessons, tmp_path / "model", tiny_models["encoder"], epochs=1, hard_negatives=0)
    assert card.steps == 4


def test_a_model_trained_from_a_trained_model_has_learnt_from_both(
    lessons: Dataset, tmp_path: Path, one_epoch: tuple[Path, TrainingCard]
) -> None:
    # What is test in the second dataset was train in the first.
    rows = lessons.rows_again()
    swap: dict[str, Split] = {"train": "test", "test": "train", "dev": "train"}
    turned = [replace(query, split=swap[query.split]) for query in rows.queries]
    other = Dataset.build("turned", lessons.card, replace(rows, queries=turned))
    first = one_epoch[1]
    shutil.copytree(one_epoch[0], tmp_path / "first")
    second = trained(other, tmp_path / "second", str(tmp_path / "first"), epochs=1)
    third = trained(other, tmp_path / "third", str(tmp_path / "second"), epochs=1)
    assert (first.before, second.before, third.before) == ([], ["lessons"], ["lessons", "turned"])
    assert set(first.queries) < set(second.queries) == set(third.queries)
    assert set(first.tools) <= set(second.tools)
    assert second.examples < len(second.queries)

    def leaks(model: str) -> dict[str, str]:
        return training_leaks([model], other, other.rows("test"), {"lessons": lessons, "turned": other}.__getitem__)

    for name in ("second", "third"):
        assert "was trained on 32 of these 32 queries" in leaks(str(tmp_path / name))[LEAKED]
    assert "the retriever second (trained on lessons, then turned)" in leaks(str(tmp_path / "second"))[LEAKED]
    # A base whose card cannot be read may know anything.
    (tmp_path / "first" / "training.json").write_text("{")
    with pytest.raises(DataError, match="training card"):
        trained(other, tmp_path / "fourth", str(tmp_path / "first"), epochs=1)


def test_a_model_may_be_put_into_the_folder_that_one_is_in(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    trained(lessons, Path(), tiny_models["encoder"], epochs=1)
    assert (tmp_path / "here" / "training.json").is_file()


@pytest.mark.parametrize("damage", ["{}", "{", '{"model_type": "no-such-model"}'])
def test_a_base_that_is_no_model_is_refused_in_a_sentence(lessons: Dataset, tmp_path: Path, damage: str) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text(damage)
    (tmp_path / "base" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UnavailableError, match=r"^the model .*base' cannot be loaded from .*base: "):
        trained(lessons, tmp_path / "model", str(tmp_path / "base"))


@pytest.mark.parametrize("load", [transformer_folder, lambda name: check_memory(name, 0, "float32")])
def test_a_base_that_asks_for_code_of_its_own_is_refused(tmp_path: Path, load: Callable[[str], object]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "auto_map": {"AutoConfig": "own.Evil"}}')
    with pytest.raises(UsageError, match=r"config\.json requests custom code"):
        load(str(tmp_path))


def test_a_seed_that_no_generator_takes_is_refused(
    lessons: Dataset, tmp_path: Path, tiny_models: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="seed"):
        trained(lessons, tmp_path / "model", tiny_models["encoder"], seed=1 << 64)


def modules_of(reached: Reached) -> set[str]:
    return {item.module for item in reached.definitions}


def test_what_a_training_is_identified_by_reaches_its_modules(
    lessons: Dataset,
    tmp_path: Path,
    tiny_models: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    cut_off: Callable[[str, int], None],
) -> None:
    hashed: list[Reached] = []

    def seen(*modules: str) -> Reached:
        hashed.append(reach_modules(*modules))
        return hashed[0]

    monkeypatch.setattr(train, "reach_modules", seen)
    cut_off("retriever", 0)
    with pytest.raises(KeyboardInterrupt):
        trained(lessons, tmp_path / "model", tiny_models["encoder"], epochs=1)
    parts = ("train", "loop", "trainer", "retriever", "mining", "pretrained")
    assert {f"bench.lab.training.{part}" for part in parts} < modules_of(hashed[0])


def test_every_module_of_the_training_is_part_of_an_identity() -> None:
    every = {f"bench.lab.training.{path.stem}" for path in Path(train.__file__).parent.glob("[!_]*.py")}
    every.remove("bench.lab.training.command")
    kinds = [reach_modules(train.__name__, trainer_class(kind).__module__) for kind in KINDS]
    assert every <= set().union(*map(modules_of, kinds))
    for kind, part in [("discriminator", "weak"), ("discriminator", "generated"), ("generator", "drafts")]:
        reached = reach_modules(train.__name__, f"bench.lab.training.{kind}")
        assert f"bench.lab.training.{part}" in modules_of(reached)

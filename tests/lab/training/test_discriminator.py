"""Training the dependency discriminator on a tiny model: losses, stages, resuming, and the graph that comes of it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kit.models import untrained_bert
from kit.once import Once

from bench.base.errors import UnavailableError, UsageError
from bench.base.spec import Spec, Value
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.interface import History, Library
from bench.interface.parts import preflight, revisions
from bench.lab.training.discriminator import DiscriminatorTrainer, stage_loss
from bench.lab.training.train import train_model
from bench.methods.tgr.discriminator import SETTINGS, Discriminator, best_threshold, edges_above, mean_of_orders
from bench.methods.tgr.documents import document
from bench.methods.tgr.edges import LABELS
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.trainingcard import TrainingCard, tool_digest
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method

#: So many that a bare `id` in all of their responses says nothing.
_THINGS = "order ticket parcel room lesson table flight letter car visit meal".split()


@pytest.fixture(scope="session")
def base(once: Once) -> str:
    """An untrained model that knows the words of the library below."""
    words = [*_THINGS, *(f"{thing}s" for thing in _THINGS)]
    words += ["find", "cancel", "count", "id", "needs", "gives", "text", "total", "status", ":", ".", ","]
    return str(once("shop-words", lambda folder: untrained_bert(folder, words, length=64, hidden_dropout_prob=0.0)))


def tool(thing: str, verb: str, takes: str, gives: str) -> Tool:
    returns = json.dumps(dict.fromkeys(gives.split(), "str"))
    parameters = tuple(Parameter(name) for name in takes.split())
    return Tool(f"{thing}.{verb}", f"{verb} {thing}", "", thing, thing.title(), parameters, returns)


@pytest.fixture
def shops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Dataset:
    """Parents with three tools each, of which one needs another; the encoder's vectors are planted."""
    tools, edges = [], []
    for thing in _THINGS:
        tools += [
            tool(thing, "find", "text", f"{thing}_id total"),
            tool(thing, "cancel", f"{thing}_id", "status"),
            tool(thing, "count", "text", "total"),
        ]
        edges.append(Edge(f"{thing}.cancel", f"{thing}.find", "result"))
    card = Card(id="shops", title="Shops", summary="", licence="CC0-1.0", redistribution=True, template="description")
    made = Dataset.build("shops", card, Tables(tools, [Query("q", "find", {"car.find": 1})], edges))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))
    cache = VectorCache(Encoder(EMBEDDED).identity)
    random = np.random.default_rng(0)
    cache.put({text_key(document(tool)): random.normal(size=8).astype(np.float32) for tool in made.tools})
    cache.close()
    return made


SETTINGS_OF_TESTS: dict[str, Value] = {
    "annotated": "shops",
    "batch_size": 16,
    "learning_rate": 0.003,
    "precision": "float32",
    "checkpoint_every": 1000,
    "most_tokens": 48,
    "variants": 1,
    "epochs": 6,
    "pretraining_epochs": 3,
}


def trained(shops: Dataset, out: Path, base: str, **more: Value) -> TrainingCard:
    settings = Spec.of("discriminator", {**SETTINGS_OF_TESTS, **more})
    return train_model("discriminator", shops, out, base=base, settings=settings)


@pytest.fixture
def whole(
    shops: Dataset, base: str, once_trained: Callable[..., tuple[Path, TrainingCard]]
) -> tuple[Path, TrainingCard]:
    """A training that nothing interrupted."""
    return once_trained("discriminator", lambda folder: trained(shops, folder, base))


@pytest.fixture
def model(whole: tuple[Path, TrainingCard], tmp_path: Path) -> str:
    """The model that came of it, to be changed."""
    return str(shutil.copytree(whole[0], tmp_path / "model"))


# Losses -------------------------------------------------------------------------------------------------------------
# Four pairs of probabilities (1/2, 1/4, 1/4), in categories 0, 1, 1, 2: losses ln 2, ln 4, ln 4, ln 4.


def logits_of_half() -> object:
    import torch

    return torch.log(torch.tensor([[0.5, 0.25, 0.25]] * 4))


def test_equation_1_is_the_mean_cross_entropy() -> None:
    import torch

    loss = stage_loss(logits_of_half(), torch.tensor([0, 1, 1, 2]), None)  # type: ignore[arg-type]
    assert float(loss) == pytest.approx((math.log(2) + 3 * math.log(4)) / 4)


def test_equation_2_averages_over_each_category_and_adds_up() -> None:
    import torch

    # N = 4, N_k = 1, 2, 1: each category counts the same, however many pairs it has.
    weights = torch.tensor([4.0, 2.0, 4.0])
    whole = stage_loss(logits_of_half(), torch.tensor([0, 1, 1, 2]), weights)  # type: ignore[arg-type]
    assert float(whole) == pytest.approx(math.log(2) + (math.log(4) + math.log(4)) / 2 + math.log(4))
    # Over an epoch of batches of equal size the mean is the same.
    halves = [stage_loss(logits_of_half()[:2], torch.tensor(part), weights) for part in ([0, 1], [1, 2])]  # type: ignore[index]
    assert float(sum(halves)) / 2 == pytest.approx(float(whole))


def test_the_second_stage_weighs_categories_by_their_size(shops: Dataset, base: str) -> None:
    trainer = prepared(shops, base)
    counts = np.array([int(part) for part in str(trainer.facts()["second_stage"]).split(" + ")])
    assert counts[1] > counts[0] != counts[2]
    for epoch, expected in ((4, counts), (5, counts[::-1])):
        trainer.begin_epoch(epoch, Path())
        assert trainer._weights == pytest.approx(expected.sum() / expected), "every second epoch turns the pairs"


def prepared(shops: Dataset, base: str, **more: Value) -> DiscriminatorTrainer:
    kind = DiscriminatorTrainer
    trainer = kind(kind.Parameters.model_validate({**SETTINGS_OF_TESTS, **more}), base)
    nothing = np.empty(0, dtype=np.int64)
    trainer.prepare(shops, "description", nothing, nothing)
    return trainer


# Stages -------------------------------------------------------------------------------------------------------------


def test_the_first_stage_is_balanced_and_the_second_is_the_candidates(shops: Dataset, base: str) -> None:
    trainer = prepared(shops, base)
    first = str(trainer.facts()["first_stage"]).split(" + ")
    assert first[0] == first[1] == first[2] != "0"
    sizes = []
    for epoch in range(6):
        trainer.begin_epoch(epoch, Path())
        sizes.append(len(trainer))
    assert len(set(sizes[:3])) == len(set(sizes[3:])) == 1
    assert sizes[0] == 3 * int(first[0])


def test_what_is_validated_on_is_learnt_from_in_neither_stage(shops: Dataset, base: str) -> None:
    trainer = prepared(shops, base)
    held = {pair.group for pair in trainer._validation}
    assert sum(pair.label != 1 for pair in trainer._validation) in {2, 3}, "a fifth of eleven edges"
    for stage in trainer._stages:
        assert not held & {pair.group for pair in stage}


def test_without_a_first_stage_training_begins_with_the_second(shops: Dataset, base: str) -> None:
    trainer = prepared(shops, base, pretraining_epochs=0)
    assert trainer.facts()["first_stage"] == "0 + 0 + 0"
    assert len(trainer) == len(trainer._stages[1])


def test_annotated_edges_can_be_the_first_stage_too(shops: Dataset, base: str) -> None:
    trainer = prepared(shops, base, source="edges")
    assert trainer.facts()["first_stage"] in {"8 + 8 + 8", "9 + 9 + 9"}


def test_a_library_without_schemas_or_edges_is_refused(shops: Dataset, base: str, tmp_path: Path) -> None:
    rows = shops.rows_again()
    plain = Dataset.build("plain", shops.card, replace(rows, tools=[Tool(t.tool_id, t.name, "") for t in rows.tools]))
    cache = VectorCache(Encoder(EMBEDDED).identity)
    cache.put({text_key(document(tool)): np.ones(8, dtype=np.float32) for tool in plain.tools})
    with pytest.raises(UsageError, match="plain gives no pairs for the first stage with source=weak"):
        prepared(plain, base, annotated="plain")
    with pytest.raises(UsageError, match="bare has no annotated edges for the second stage"):
        prepared(Dataset.build("bare", shops.card, replace(rows, edges=())), base, annotated="bare")
    with pytest.raises(UsageError, match="source=llm needs functions=PATH and llm=MODEL"):
        prepared(shops, base, source="llm")


# Training -----------------------------------------------------------------------------------------------------------


def test_it_learns_dependencies_and_keeps_the_best(shops: Dataset, tmp_path: Path, base: str) -> None:
    card = trained(shops, tmp_path / "model", base, epochs=40, pretraining_epochs=4)
    assert card.split == "tools"
    assert card.queries == []
    assert set(card.tools) == {tool_digest(tool) for tool in shops.tools}
    assert "of them dependencies, not learnt from" in card.validation
    model = Discriminator(str(tmp_path / "model"))
    pairs = model.candidates(shops.tools)
    probabilities = model.probabilities(shops.tools, pairs)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(pairs)))
    codes = shops.tool_codes
    edges = {(codes[edge.dependent], codes[edge.prerequisite]) for edge in shops.edges}
    got = {(int(a), int(b)) for a, b in model.edges(shops.tools)}
    assert len(got & edges) / len(got | edges) > 0.7
    best = next(seen.value for seen in card.evaluations if seen.step == card.best_step)
    assert best == max(seen.value for seen in card.evaluations)
    assert model.settings.edges >= 2


@pytest.mark.parametrize("kill_at", [3, 8, 14])
def test_a_training_cut_off_in_either_stage_goes_on_to_the_same_model(
    shops: Dataset,
    tmp_path: Path,
    base: str,
    whole: tuple[Path, TrainingCard],
    cut_off: Callable[[str, int], None],
    kill_at: int,
) -> None:
    cut_off("discriminator", kill_at)
    with pytest.raises(KeyboardInterrupt):
        trained(shops, tmp_path / "cut", base, checkpoint_every=1)
    card = trained(shops, tmp_path / "cut", base, checkpoint_every=1)
    assert (card.resumed, card.steps) == (1, whole[1].steps)
    assert card.evaluations == whole[1].evaluations
    assert (tmp_path / "cut" / SETTINGS).read_text() == (whole[0] / SETTINGS).read_text()
    pairs = np.array([[0, 1], [3, 5]], dtype=np.int32)
    left, right = (
        Discriminator(str(folder)).probabilities(shops.tools, pairs) for folder in (whole[0], tmp_path / "cut")
    )
    assert left == pytest.approx(right, abs=1e-5)


def test_other_pairs_are_another_training(
    shops: Dataset, tmp_path: Path, base: str, cut_off: Callable[[str, int], None]
) -> None:
    cut_off("discriminator", 4)
    with pytest.raises(KeyboardInterrupt):
        trained(shops, tmp_path / "model", base, checkpoint_every=1)
    rows = shops.rows_again()
    fewer = Dataset.build("shops", shops.card, replace(rows, edges=list(rows.edges)[:-1]))
    assert trained(fewer, tmp_path / "model", base, checkpoint_every=1).resumed == 0


# In use -------------------------------------------------------------------------------------------------------------


def test_it_does_not_matter_which_tool_is_named_first(shops: Dataset, model: str) -> None:
    discriminator = Discriminator(model)
    pairs = np.array([[0, 1], [2, 9]], dtype=np.int32)
    there, back = (
        discriminator.probabilities(shops.tools, pairs),
        discriminator.probabilities(shops.tools, pairs[:, ::-1]),
    )
    assert there == pytest.approx(back[:, ::-1])


def test_tgr_takes_its_graph_from_the_discriminator(shops: Dataset, model: str) -> None:
    method = build_method(f"tgr(base=bm25, graph=discriminator, discriminator={model})")
    assert set(revisions(method)) == {model, EMBEDDED}
    library = Library.of(shops, "description")
    preflight(method, library, History.of(shops, library, shops.rows("test")))
    method.index(library)
    edges = Discriminator(model).edges(shops.tools)
    assert method.facts()["edges"] == len(edges)
    # Another model is another method, and so is another copy of the same folder with other settings.
    before = revisions(method)[model]
    path = Path(model) / SETTINGS
    path.write_text(path.read_text().replace('"threshold": 0', '"threshold": 0.0'))
    assert revisions(build_method(f"tgr(base=bm25, graph=discriminator, discriminator={model})"))[model] != before


def test_a_missing_or_foreign_model_is_told_with_the_command_that_makes_one(
    tmp_path: Path, model: str, tiny_models: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="graph=discriminator needs discriminator=FOLDER; `bench train discriminator"):
        revisions(build_method("tgr(base=bm25, graph=discriminator)"))
    for folder in (tiny_models["classifier"], tiny_models["encoder"]):
        with pytest.raises(UnavailableError):
            Discriminator(folder).settings  # noqa: B018
    (Path(model) / SETTINGS).write_text('{"threshold": 7}')
    with pytest.raises(UnavailableError, match="does not contain a readable dependency discriminator; `bench train"):
        Discriminator(model).settings  # noqa: B018
    with pytest.raises(UnavailableError, match=r"the model folder .* does not exist"):
        Discriminator(str(tmp_path / "nowhere")).settings  # noqa: B018


def test_the_probabilities_of_both_orders_are_averaged() -> None:
    # One pair: (0.6, 0.3, 0.1) read one way, and (0.4, 0.4, 0.2) the other, which is (0.2, 0.4, 0.4) turned back.
    result = mean_of_orders(np.log([[0.6, 0.3, 0.1], [0.4, 0.4, 0.2]]))
    assert result == pytest.approx(np.array([[0.4, 0.35, 0.25]]))
    assert mean_of_orders(np.array([[1000.0, 0, 0], [0, 0, 1000.0]])) == pytest.approx(np.array([[1.0, 0, 0]]))


# Thresholds ---------------------------------------------------------------------------------------------------------


def rows(*values: tuple[float, float]) -> object:
    return np.array([(forward, 1 - forward - backward, backward) for forward, backward in values])


def test_the_threshold_is_the_one_with_the_best_f1() -> None:
    # By falling probability: right, right, wrong direction, no edge, right. F1 after each: 2/5, 4/6, 4/7, 4/8, 6/9.
    probabilities = rows((0.9, 0), (0.05, 0.8), (0.7, 0.1), (0.6, 0), (0.2, 0.5))
    labels = np.array([0, 2, 2, 1, 2])
    chosen = best_threshold(probabilities, labels)  # type: ignore[arg-type]
    assert (chosen.precision, chosen.recall) == (1.0, 0.5)
    assert chosen.f1 == pytest.approx(4 / 6)
    assert chosen.threshold == pytest.approx((0.8 + 0.7) / 2), "of two as good, the higher"
    assert (chosen.pairs, chosen.edges) == (5, 4)


def test_pairs_of_equal_probability_are_taken_together() -> None:
    chosen = best_threshold(rows((0.6, 0), (0.6, 0), (0.3, 0)), np.array([0, 1, 0]))  # type: ignore[arg-type]
    assert chosen.f1 == pytest.approx(2 * 2 / (3 + 2))
    assert chosen.threshold == pytest.approx(0.15)


def test_a_validation_without_edges_still_has_a_threshold() -> None:
    chosen = best_threshold(rows((0.6, 0), (0.4, 0)), np.array([1, 1]))  # type: ignore[arg-type]
    assert (chosen.f1, chosen.recall, chosen.edges) == (0.0, 0.0, 0)


def test_edges_point_from_the_dependent_to_the_prerequisite() -> None:
    pairs = np.array([[0, 1], [0, 2], [1, 2]], dtype=np.int32)
    probabilities = rows((0.9, 0.05), (0.1, 0.8), (0.4, 0.3))
    assert edges_above(pairs, probabilities, 0.5).tolist() == [[0, 1], [2, 0]]  # type: ignore[arg-type]
    assert edges_above(pairs, probabilities, 0.95).shape == (0, 2)  # type: ignore[arg-type]
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2]], "the pairs stay as they are"


def test_the_labels_are_those_of_the_paper() -> None:
    assert LABELS == ("a depends on b", "neither", "b depends on a")

"""A small dataset whose words the small models know, and trainings that are cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.once import Once

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Split, Tables, Tool
from bench.lab.training.train import trainer_class
from bench.lab.training.trainer import Trainer
from bench.models.trainingcard import TrainingCard, read_card

_CARD = Card(id="lessons", title="Lessons", summary="", licence="CC0-1.0", redistribution=True, template="description")
_TOOLS = {
    "letter": ("send a letter", "Post"),
    "mail": ("send mail", "Post"),
    "rain": ("the weather: rain", "Weather"),
    "tomorrow": ("weather tomorrow", "Weather"),
    "ticket": ("book a train ticket", "Travel"),
    "train": ("find a train", "Travel"),
    "price": ("the price", "Money"),
    "stock": ("find the stock price", "Money"),
}


@pytest.fixture
def lessons() -> Dataset:
    """Eight tools of four parents; 32 train queries of one or two parents, 8 of dev, 2 of test."""
    names = list(_TOOLS)
    queries = []
    for number in range(42):
        first = names[number % 8]
        # Every second query takes a tool of another parent too, and says so.
        second = names[(number + 2 + 2 * (number // 8 % 3)) % 8] if number % 2 else first
        text = f"query {number}: {first}" + (f" and {second}" if second != first else "")
        split: Split = "train" if number < 32 else "dev" if number < 40 else "test"
        queries.append(Query(f"{number:02}", text, dict.fromkeys({first, second}, 1), split))
    tools = [Tool(name, name, text, "all", parent) for name, (text, parent) in _TOOLS.items()]
    return Dataset.build("lessons", _CARD, Tables(tools, queries))


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Make the training of a kind end as by Ctrl-C after so many steps, once."""

    def cut_off(kind: str, steps: int) -> None:
        result: type[Trainer] = trainer_class(kind)  # type: ignore[arg-type]
        whole = result.loss
        left = [steps]

        def loss(self: Trainer, examples: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt
            return whole(self, examples)  # type: ignore[arg-type]

        monkeypatch.setattr(result, "loss", loss)

    return cut_off


@pytest.fixture
def once_trained(once: Once) -> Callable[..., tuple[Path, TrainingCard]]:
    """Folder and card of a model that a function trains, once in a run: read it, or change a copy."""

    def once_trained(name: str, train: Callable[[Path], object]) -> tuple[Path, TrainingCard]:
        folder = once(f"trained-{name}", lambda folder: train(folder / "model")) / "model"
        card = read_card(folder)
        assert card is not None
        return folder, card

    return once_trained


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models are slower on several threads, and far slower when other tests keep the cores busy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

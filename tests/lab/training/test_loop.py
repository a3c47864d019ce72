"""The training loop on a tiny model: the same model with and without a kill, schedules, early stopping, cards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base.errors import StorageError, UsageError
from bench.base.progress import QUIET
from bench.lab.training import loop
from bench.lab.training.loop import State, rate_at, run_loop, write_checkpoint
from bench.lab.training.trainer import Trainer, TrainingSettings

TINY = '''
import sys, time
from pathlib import Path
import numpy as np
from bench.lab.training.trainer import TrainingSettings, Trainer

class Line(Trainer):
    """Fits a line through noisy points, with dropout, so that every random number counts."""

    kind = "retriever"
    measure = "minus the error"

    def __init__(self, parameters):
        super().__init__(parameters, "")
        import torch
        random = np.random.default_rng(7)
        self.x = torch.tensor(random.normal(size=(50, 8)), dtype=torch.float32)
        self.y = self.x.sum(1, keepdim=True)
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.epochs = []

    base_revision = ""

    def prepare(self, dataset, template, train, validation): ...

    @property
    def model(self):
        return self.net

    def __len__(self):
        return 50

    def begin_epoch(self, epoch, scratch):
        self.epochs.append(epoch)

    def loss(self, examples):
        return ((self.net(self.x[examples]) - self.y[examples]) ** 2).mean()

    def validate(self):
        return -float(((self.net(self.x) - self.y) ** 2).mean())

    def save(self, folder):
        import torch
        state = {name: value.tolist() for name, value in self.net.state_dict().items()}
        import json
        (folder / "weights.json").write_text(json.dumps(state))
'''

namespace: dict[str, type[Trainer]] = {}
exec(TINY, namespace)
Line = namespace["Line"]


def settings(**changed: object) -> TrainingSettings:
    return TrainingSettings(**{"epochs": 3, "batch_size": 8, "learning_rate": 0.01, **changed})


def trained(work: Path, **changed: object) -> tuple[State, str]:
    state = run_loop(Line(settings(**changed)), work, "same", QUIET)  # type: ignore[call-arg]
    return state, (work / "best" / "weights.json").read_text()


def test_every_example_is_seen_once_an_epoch_and_the_error_falls(tmp_path: Path) -> None:
    seen: list[NDArray[np.int64]] = []

    class Watched(Line):  # type: ignore[misc, valid-type]
        def loss(self, examples: NDArray[np.int64]) -> object:
            seen.append(examples)
            return super().loss(examples)

    trainer = Watched(settings())
    state = run_loop(trainer, tmp_path, "x", QUIET)
    assert state.step == 3 * 7
    for epoch in range(3):
        assert sorted(np.concatenate(seen[epoch * 7 : epoch * 7 + 7]).tolist()) == list(range(50))
    assert not np.array_equal(np.concatenate(seen[:7]), np.concatenate(seen[7:14]))
    assert [look.step for look in state.evaluations] == [7, 14, 21]
    assert state.evaluations[-1].value > state.evaluations[0].value
    assert trainer.epochs == [0, 1, 2]


@pytest.mark.parametrize("kill_at", [1, 6, 7, 8, 20])
def test_a_training_cut_off_anywhere_goes_on_to_the_same_model(tmp_path: Path, kill_at: int) -> None:
    whole_state, whole = trained(tmp_path / "whole", checkpoint_every=1)

    class Cut(Line):  # type: ignore[misc, valid-type]
        calls = 0

        def loss(self, examples: NDArray[np.int64]) -> object:
            Cut.calls += 1
            if Cut.calls == kill_at + 1:
                raise KeyboardInterrupt
            return super().loss(examples)

    with pytest.raises(KeyboardInterrupt):
        run_loop(Cut(settings(checkpoint_every=1)), tmp_path / "cut", "same", QUIET)
    state, weights = trained(tmp_path / "cut", checkpoint_every=1)
    assert state.resumed == 1
    assert weights == whole
    assert state.evaluations == whole_state.evaluations
    assert (state.step, state.best_step) == (whole_state.step, whole_state.best_step)


def test_a_killed_process_loses_at_most_the_step_that_was_running(tmp_path: Path) -> None:
    script = TINY + textwrap.dedent(
        f"""
        import os
        from bench.lab.training.loop import run_loop
        from bench.base.progress import QUIET
        begun = os.open({str(tmp_path / "begun")!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        class Slow(Line):
            def loss(self, examples):
                os.write(begun, b".")
                time.sleep(0.1)
                return super().loss(examples)
        settings = TrainingSettings(epochs=30, batch_size=8, learning_rate=0.01, checkpoint_every=1)
        run_loop(Slow(settings), Path({str(tmp_path / "work")!r}), "same", QUIET)
        """
    )
    mark = tmp_path / "begun"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        until = time.monotonic() + 300
        while not mark.is_file() or mark.stat().st_size < 12:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.06)
    finally:
        process.kill()
        process.wait()
    steps = 0

    class Counted(Line):  # type: ignore[misc, valid-type]
        def loss(self, examples: NDArray[np.int64]) -> object:
            nonlocal steps
            steps += 1
            return super().loss(examples)

    state = run_loop(Counted(settings(epochs=30, checkpoint_every=1)), tmp_path / "work", "same", QUIET)
    assert state.step == 30 * 7
    assert steps - (30 * 7 - mark.stat().st_size) in {0, 1}


@pytest.mark.parametrize(("seconds", "written"), [(0.0, 21), (600.0, 2)])
def test_by_default_a_checkpoint_is_written_when_the_one_before_cost_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, written: int
) -> None:
    # The clock of the loop: a step takes a second, a checkpoint that of the case.
    now = 0.0
    steps: list[int] = []

    def write(path: Path, record: loop.Record) -> None:
        nonlocal now
        now += seconds
        steps.append(json.loads(record["state"])["step"])
        write_checkpoint(path, record)

    class Timed(Line):  # type: ignore[misc, valid-type]
        def loss(self, examples: NDArray[np.int64]) -> object:
            nonlocal now
            now += 1
            return super().loss(examples)

    monkeypatch.setattr(loop, "write_checkpoint", write)
    monkeypatch.setattr("bench.lab.training.loop.time.perf_counter", lambda: now)
    run_loop(Timed(settings()), tmp_path, "same", QUIET)
    assert (len(steps), steps[0], steps[-1]) == (written, 1, 21)


def test_a_checkpoint_that_cannot_be_written_stops_the_training_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "checkpoint.pt").mkdir()
    with pytest.raises(StorageError, match="checkpoint"):
        trained(tmp_path / "work")


def test_a_checkpoint_of_another_training_is_not_continued(tmp_path: Path) -> None:
    trained(tmp_path, most_steps=5, checkpoint_every=1)
    state = run_loop(Line(settings()), tmp_path, "other", QUIET)  # type: ignore[call-arg]
    assert (state.step, state.resumed) == (21, 0)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense", None])
def test_a_damaged_checkpoint_costs_time_and_nothing_else(tmp_path: Path, damage: bytes | None) -> None:
    _, whole = trained(tmp_path / "whole")
    path = tmp_path / "damaged" / "checkpoint.pt"
    trained(tmp_path / "damaged", most_steps=5, checkpoint_every=1)
    path.write_bytes(path.read_bytes()[:2000] if damage is None else damage)
    state, weights = trained(tmp_path / "damaged")
    assert state.resumed == 0
    assert weights == whole


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    import pickle

    import torch

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    (tmp_path / "work").mkdir()
    torch.save({"identity": "same", "state": Evil()}, tmp_path / "work" / "checkpoint.pt", pickle_module=pickle)
    state, _ = trained(tmp_path / "work")
    assert state.resumed == 0
    assert not (tmp_path / "ran").exists()


def test_patience_stops_early_and_the_best_model_is_kept(tmp_path: Path) -> None:
    values = iter([0.1, 0.5, 0.4, 0.3, 0.9])

    class Falling(Line):  # type: ignore[misc, valid-type]
        def validate(self) -> float:
            return next(values)

    state = run_loop(Falling(settings(epochs=5, patience=2)), tmp_path, "x", QUIET)
    assert [look.value for look in state.evaluations] == [0.1, 0.5, 0.4, 0.3]
    assert (state.best_step, state.step) == (14, 28)


def test_the_rate_rises_then_falls_to_zero_or_stays() -> None:
    falling = settings(warmup=0.2, learning_rate=1.0)
    rates = [rate_at(step, 10, falling) for step in range(10)]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    constant = settings(warmup=0, schedule="constant", learning_rate=0.5)
    assert {rate_at(step, 10, constant) for step in range(10)} == {0.5}


def test_the_last_checkpoint_says_that_the_training_has_stopped(tmp_path: Path) -> None:
    trained(tmp_path)
    stored = tmp_path / "checkpoint.pt"
    import torch

    record = torch.load(stored, weights_only=True)
    assert json.loads(record["state"])["stopped"] is True


@pytest.mark.parametrize("part", ["optimizer", "model"])
def test_a_checkpoint_of_which_a_part_does_not_fit_changes_nothing(tmp_path: Path, part: str) -> None:
    import torch

    _, whole = trained(tmp_path / "whole")
    path = tmp_path / "work" / "checkpoint.pt"
    trained(tmp_path / "work", most_steps=5, checkpoint_every=1)
    record = torch.load(path, weights_only=True)
    if part == "optimizer":
        record["optimizer"]["param_groups"].pop()
    else:
        record["model"].popitem()
    torch.save(record, path)
    state, weights = trained(tmp_path / "work")
    assert state.resumed == 0
    assert weights == whole


@pytest.mark.parametrize("epochs", [1, 5])
def test_a_training_that_has_stopped_begins_no_epoch_that_it_did_not_have(tmp_path: Path, epochs: int) -> None:
    class Level(Line):  # type: ignore[misc, valid-type]
        def validate(self) -> float:
            return 0.5

    runs = [Level(settings(epochs=epochs, patience=1)) for _ in range(2)]
    states = [run_loop(trainer, tmp_path, "x", QUIET) for trainer in runs]
    last = min(epochs, 2) - 1
    assert runs[0].epochs == list(range(last + 1))
    assert runs[1].epochs == [last]
    assert states[0].step == states[1].step == 7 * (last + 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("what", ["loss", "measure"])
def test_a_training_that_runs_away_is_told_with_its_step(tmp_path: Path, what: str, value: float) -> None:
    class Wild(Line):  # type: ignore[misc, valid-type]
        steps = 0

        def loss(self, examples: NDArray[np.int64]) -> object:
            self.steps += 1
            return super().loss(examples) * (value if what == "loss" and self.steps == 2 else 1)

        def validate(self) -> float:
            return value if what == "measure" else super().validate()

    step = 2 if what == "loss" else 7
    sentence = rf"^the {what} is not finite at step {step}; lower learning_rate with --set\.$"
    with pytest.raises(UsageError, match=sentence):
        run_loop(Wild(settings()), tmp_path, "x", QUIET)

"""The training loop of all kinds of models: steps, checkpoints, validation, early stopping. `train_model` calls it.

A step depends only on the settings, the step's number and the state before it: the order of examples and the dropout
masks are seeded by them. A killed training resumes from its checkpoint to the same model as an uninterrupted one (on
the same machine; another processor sums in another order).

The trainers of transformers and sentence-transformers fix the number of steps of an epoch before the first one. Here
each epoch makes its own examples, and not always as many: two stages of pairs, the best drafts, newly mined negatives.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import shutil
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import StorageError, UsageError
from bench.base.paths import replacing, storage_errors
from bench.base.progress import Progress
from bench.lab.training.trainer import Trainer, TrainingSettings
from bench.models.trainingcard import Evaluation

if TYPE_CHECKING:
    import torch

_CHECKPOINT = "checkpoint.pt"
_BEST = "best"
#: By default, checkpoints take at most this share of the time.
_CHECKPOINT_SHARE = 0.1

Record = dict[str, Any]


@dataclass
class State:
    """The state of a training: `step` steps are done, `place` of them in this `epoch`."""

    step: int = 0
    epoch: int = 0
    place: int = 0
    best_step: int = -1
    stale: int = 0
    stopped: bool = False
    seconds: float = 0.0
    resumed: int = 0
    losses: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)


def run_loop(trainer: Trainer, work: Path, identity: str, progress: Progress) -> State:
    """Train to the end, from the checkpoint in `work` if there is one. The best model is saved in `work/best`.

    Args:
        trainer: prepared.
        work: a folder for this training; the caller removes it when everything is done.
        identity: everything that the training depends on; checkpoints with another identity are ignored.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the last checkpoint stays.
        UsageError: the loss or the measure is not finite.
    """
    import torch

    settings: TrainingSettings = trainer.parameters
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(settings.seed)
    trainer.model.to(device)
    optimizer = torch.optim.AdamW(_groups(trainer.model, settings.weight_decay), lr=settings.learning_rate)
    state = _resume(read_checkpoint(work / _CHECKPOINT), trainer.model, optimizer, identity)
    if state.step:
        state.resumed += 1
        progress.note(f"going on after step {state.step}")
    # Of this training alone: a model stored by another one must not be taken for its own.
    scratch = work / f"scratch-{identity[:12]}"
    if state.stopped:
        # All that remains is to move it into place; the card asks the trainer what its epochs were made of.
        trainer.begin_epoch(state.epoch if state.place else state.epoch - 1, scratch)
    begun, due = -1, 0.0
    with progress.stage("train", None, "steps") as bar:
        bar.advance(state.step)
        while not state.stopped:
            started = time.perf_counter()
            if begun != state.epoch:
                trainer.begin_epoch(state.epoch, scratch)
                begun = state.epoch
                order = np.random.default_rng([settings.seed, begun]).permutation(len(trainer))
                steps = math.ceil(len(trainer) / settings.batch_size)
                total = state.step - state.place + steps * (settings.epochs - begun)
                total = min(total, settings.most_steps) if settings.most_steps else total
            examples = order[state.place * settings.batch_size : (state.place + 1) * settings.batch_size]
            state.losses.append(_step(trainer, optimizer, examples, state.step, total, settings))
            state.step += 1
            state.place += 1
            at_end = state.step >= total
            every = settings.evaluate_every
            if at_end or (state.step % every == 0 if every else state.place == steps):
                _evaluate(trainer, state, work / _BEST, settings.patience, progress)
            if state.place >= steps:
                state.epoch, state.place = state.epoch + 1, 0
            state.stopped = state.stopped or at_end
            state.seconds += time.perf_counter() - started
            bar.advance()
            often = settings.checkpoint_every
            if state.stopped or (state.step % often == 0 if often else time.perf_counter() >= due):
                started = time.perf_counter()
                write_checkpoint(work / _CHECKPOINT, _record(trainer.model, optimizer, identity, state))
                ended = time.perf_counter()
                due = ended + (ended - started) / _CHECKPOINT_SHARE
    return state


def _groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices only, as usual for transformers."""
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in learnt if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in learnt if p.ndim <= 1], "weight_decay": 0.0},
    ]


def rate_at(step: int, total: int, settings: TrainingSettings) -> float:
    """The learning rate of a step (from 0): a linear rise over the warm-up, then constant or linear to zero."""
    warmup = round(settings.warmup * total)
    if step < warmup:
        return settings.learning_rate * (step + 1) / (warmup + 1)
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (total - step) / max(1, total - warmup)


def _step(
    trainer: Trainer,
    optimizer: torch.optim.Optimizer,
    examples: NDArray[np.int64],
    step: int,
    total: int,
    settings: TrainingSettings,
) -> float:
    import torch

    torch.manual_seed(int(np.random.SeedSequence([settings.seed, step]).generate_state(1)[0]))
    for group in optimizer.param_groups:
        group["lr"] = rate_at(step, total, settings)
    trainer.model.train()
    optimizer.zero_grad(set_to_none=True)
    loss = trainer.loss(examples)
    _check_finite(float(loss.detach()), "loss", step + 1)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), settings.clip)
    optimizer.step()
    return float(loss.detach())


def _check_finite(value: float, what: str, step: int) -> None:
    if not math.isfinite(value):
        raise UsageError(f"the {what} is not finite at step {step}; lower learning_rate with --set.")


def _evaluate(trainer: Trainer, state: State, best: Path, patience: int, progress: Progress) -> None:
    import torch

    trainer.model.eval()
    with torch.inference_mode(), progress.stage("validate"):
        value = trainer.validate()
    _check_finite(value, "measure", state.step)
    loss = float(np.mean(state.losses))
    state.losses = []
    before = max((seen.value for seen in state.evaluations), default=-math.inf)
    state.evaluations.append(Evaluation(step=state.step, loss=loss, value=value))
    progress.note(f"step {state.step}: loss {loss:.4f}, {trainer.measure} {value:.4f}")
    if value > before or not best.is_dir():
        state.best_step, state.stale = state.step, 0
        fresh = best.with_name(".saving")
        with storage_errors(str(best)):
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            trainer.save(fresh)
            shutil.rmtree(best, ignore_errors=True)
            fresh.rename(best)
    else:
        state.stale += 1
        state.stopped = bool(patience) and state.stale >= patience


def write_checkpoint(path: Path, record: Record) -> None:
    """Write a checkpoint in the place of the one before; raises `StorageError`, and that one stays."""
    import torch

    # Made in memory first: the archive is written with seeks, which a full disk turns into nonsense.
    buffer = io.BytesIO()
    torch.save(record, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path) -> Record | None:
    """The content of a checkpoint; None if there is none that can be read.

    Raises:
        StorageError: the disk cannot be read.
    """
    import torch

    if not path.is_file():
        return None
    try:
        # Weights only: a checkpoint is data, and must not be able to run anything.
        record = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise StorageError(f"cannot read the checkpoint {path}: {error.strerror}.") from None
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError, EOFError):
        return None
    except (pickle.UnpicklingError, zipfile.BadZipFile):
        return None
    return record if isinstance(record, dict) else None


def _record(model: torch.nn.Module, optimizer: torch.optim.Optimizer, identity: str, state: State) -> Record:
    return {
        "identity": identity,
        "state": json.dumps({**vars(state), "evaluations": [seen.model_dump() for seen in state.evaluations]}),
        "model": _learnt_state(model),
        "optimizer": optimizer.state_dict(),
    }


def _learnt_state(model: torch.nn.Module) -> Record:
    """The state of a model without its frozen parameters, which are those of its base."""
    frozen = {name for name, part in model.named_parameters(remove_duplicate=False) if not part.requires_grad}
    return {name: part for name, part in model.state_dict().items() if name not in frozen}


def _resume(record: Record | None, model: torch.nn.Module, optimizer: torch.optim.Optimizer, identity: str) -> State:
    """Restore a checkpoint's state; start from the beginning without a matching one."""
    try:
        if record is None or record["identity"] != identity:
            return State()
        fields = json.loads(record["state"])
        fields["evaluations"] = [Evaluation.model_validate(seen) for seen in fields["evaluations"]]
        state = State(**fields)
        # All or nothing: torch copies what fits before it reports what does not.
        held, kept = _learnt_state(model), record["model"]
        if {name: part.shape for name, part in held.items()} != {name: part.shape for name, part in kept.items()}:
            return State()
        optimizer.load_state_dict(record["optimizer"])
        model.load_state_dict(kept, strict=False)
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError):
        return State()
    return state

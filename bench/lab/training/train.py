"""`bench train`: train a model on a dataset and store it with its card. The command and reproduction call it."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import json
import os
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError, require
from bench.base.locks import lock, replace_folder
from bench.base.parameters import check_parameters, full_spec
from bench.base.paths import expand_path, storage_errors
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.tables import SPLITS
from bench.data.template import Template
from bench.evaluation.machine import hardware, package_versions
from bench.identity.reach import reach_modules
from bench.lab.training.loop import run_loop
from bench.lab.training.trainer import Trainer
from bench.models.files import model_folder
from bench.models.trainingcard import CARD, Kind, TrainingCard, read_card, text_digest, tool_digest, write_card

KINDS: tuple[Kind, ...] = get_args(Kind)
#: Share of the training queries kept for validation if the dataset has no dev split, and its maximum.
_VALIDATION_SHARE = 0.1
_MOST_VALIDATION = 500


def trainer_class(kind: Kind) -> type[Trainer]:
    """The class that trains a kind of model: the one subclass of `Trainer` in `bench.lab.training.KIND`."""
    module = importlib.import_module(f"bench.lab.training.{kind}")
    (trainer,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Trainer) and value.__module__ == module.__name__
    ]
    return trainer


def train_model(
    kind: Kind,
    dataset: Dataset,
    out: Path,
    *,
    base: str | None = None,
    settings: Spec | None = None,
    template: Template | None = None,
    command: str = "",
    replace: bool = False,
    progress: Progress = QUIET,
) -> TrainingCard:
    """Train a model and store it in `out`, with its card.

    An interrupted training resumes when the same one is requested again.

    Args:
        dataset: has train queries, and dev queries for validation; test queries are never used.
        out: the folder; must not exist, unless it contains an older training and `replace` is set.
        base: the initial model; by default that of the kind.
        settings: arguments that override the defaults of the kind's `Parameters`; the name is ignored.
        template: the tool text; by default the dataset's.
        command: the user's command, for the card.

    Raises:
        UnavailableError: the libraries that train models are not installed.
        UsageError: a wrong setting, an occupied folder, or a dataset without training queries.
        DataError: the base has a training card that cannot be read.
    """
    require("torch", "transformers", "sentence_transformers", "tokenizers", what="training")
    # Names of neighbouring folders are derived from it: `.` has none.
    out = Path(os.path.abspath(expand_path(out)))
    trainer_type = trainer_class(kind)
    parameters = check_parameters(
        trainer_type.Parameters, Spec(kind, settings.arguments if settings else ()), "training"
    )
    trainer = trainer_type(parameters, base or trainer_type.default_base, progress)
    text = template or dataset.card.template
    nothing = np.empty(0, dtype=np.int64)
    rows = training_rows(dataset, parameters.seed) if trainer_type.needs_queries else (nothing, nothing, "")
    train, validation, validated_on = rows
    _check_place(out, replace)
    with lock(out.with_name(f".{out.name}.lock"), f"training {out.name}", progress):
        # Again: another process may have finished it while this one waited.
        _check_place(out, replace)
        # A model's card includes what its base was trained on, recursively.
        before = read_card(model_folder(trainer.base)) if trainer.base_revision else None
        trainer.prepare(dataset, text, train, validation)
        if not len(trainer):
            raise UsageError(f"{dataset.spec} has no examples to train a {kind} on.")
        examples = trainer.examples()
        # Everything that a training depends on.
        parts = {
            "kind": kind,
            "parameters": str(full_spec(kind, parameters)),
            "base": trainer.base_revision,
            "data": dataset.content_hash,
            "template": text,
            "examples": examples.digest if examples else "",
            "others": trainer.revisions(),
            "code": [reach_modules(__name__, trainer_type.__module__).hash()],
        }
        identity = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        work = out.with_name(f".{out.name}.training")
        state = run_loop(trainer, work, identity, progress)
        seen = (
            examples.tools
            if examples
            else {tool_digest(dataset.tools[tool]) for tool in dataset.gold.take(train).tools}
        )
        card = TrainingCard(
            kind=kind,
            base=trainer.base,
            base_revision=trainer.base_revision,
            dataset=dataset.spec,
            content_hash=dataset.content_hash,
            split="tools" if examples else "train",
            template=text,
            examples=len(trainer),
            queries=sorted(
                {text_digest(dataset.queries[row].text) for row in train} | set(before.queries if before else ())
            ),
            tools=sorted(seen | set(before.tools if before else ())),
            settings={name: plain_setting(value) for name, value in parameters.model_dump().items()},
            validation=examples.validation if examples else validated_on,
            measure=trainer.measure,
            evaluations=state.evaluations,
            best_step=state.best_step,
            steps=state.step,
            seconds=round(state.seconds, 1),
            resumed=state.resumed,
            command=command,
            created=datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
            packages=package_versions(reach_modules(trainer_type.__module__).packages),
            hardware=hardware(),
            facts=trainer.facts(),
            before=[*before.before, before.dataset] if before else [],
        )
        with replace_folder(out) as fresh, storage_errors(str(out)):
            shutil.copytree(work / "best", fresh, dirs_exist_ok=True)
            write_card(fresh, card)
        shutil.rmtree(work, ignore_errors=True)
    return card


def training_rows(dataset: Dataset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Training queries, validation queries, and the source of the latter in words.

    The dev split if there is one; else a seeded part of train, which is not trained on.

    Raises:
        UsageError: the dataset has no train queries with gold.
    """
    judged = dataset.gold.counts > 0
    train = np.flatnonzero((dataset.splits == SPLITS.index("train")) & judged)
    dev = np.flatnonzero((dataset.splits == SPLITS.index("dev")) & judged)
    if len(train) < 2:
        raise UsageError(f"{dataset.spec} has no train queries to learn from; choose a dataset that has.")
    if len(dev):
        return train, dev, f"dev ({len(dev)} queries)"
    size = max(1, min(_MOST_VALIDATION, round(_VALIDATION_SHARE * len(train))))
    order = np.random.default_rng([seed, 1]).permutation(len(train))
    kept = np.zeros(len(train), dtype=np.bool_)
    kept[order[:size]] = True
    return train[~kept], train[kept], f"{size} queries of train, not learnt from (seed {seed})"


def _check_place(out: Path, replace: bool) -> None:
    with storage_errors(str(out)):
        if not out.exists() or (out.is_dir() and not any(out.iterdir())):
            return
    if not out.is_dir() or not (out / CARD).is_file():
        raise UsageError(f"{out} exists and is not a trained model; choose another --out.")
    if not replace:
        card = read_card(out)
        what = f"a {card.kind} trained on {card.dataset}" if card else "a model"
        raise UsageError(f"{out} already contains {what}; use --replace to replace it.")


def plain_setting(value: object) -> str | int | float | bool | None:
    """A setting for JSON; methods as their text."""
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)

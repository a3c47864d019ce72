"""`bench train`: what it lists, and where its data come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.config import current_session
from bench.base.errors import UsageError
from bench.lab.training.train import KINDS, trainer_class
from bench.models.trainingcard import Kind

Bench = Callable[..., Any]


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_of_a_training_are_listed(bench: Bench, kind: Kind) -> None:
    result = bench("train", kind, "--json").json
    fields = trainer_class(kind).Parameters.model_fields
    assert list(result) == list(fields)
    assert all(row["description"] for row in result.values())
    assert result["epochs"]["default"] == fields["epochs"].default
    if kind == "generator":
        assert result["retriever"]["default"] == "dense"
    assert all(f" {name} " in bench("train", kind).out for name in ("epochs", "seed"))


def test_the_mirror_of_a_training_holds_for_all_the_datasets_it_reads(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_MIRROR", "")
    seen: list[Path | None] = []

    def read(*arguments: object, **more: object) -> None:
        seen.append(current_session().mirror)
        raise UsageError("this is enough.")

    monkeypatch.setattr("bench.lab.training.command.train_model", read)
    for options, mirror in (((), None), (("--mirror", tmp_path), tmp_path)):
        bench("train", "discriminator", "-d", "starter", "--out", "model", *options, code=2)
        assert seen.pop() == mirror

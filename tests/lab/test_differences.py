"""What differs from the papers speaks of parameters, methods, datasets and metrics that exist."""

from __future__ import annotations

import re

import pytest

from bench.base.errors import BenchError
from bench.data.entries import dataset_entries
from bench.lab.training.classifier import ClassifierTrainer
from bench.lab.training.train import KINDS, trainer_class
from bench.metrics import parse_metric
from bench.registry import method_class, method_names
from bench.registry.datasets import resolve
from bench.registry.differences import differences, with_differences
from bench.registry.methods import build_method


def is_metric(text: str) -> bool:
    try:
        return bool(parse_metric(text))
    except BenchError:
        return False


@pytest.mark.parametrize("name", with_differences())
def test_what_is_said_of_this_method_names_what_there_is(name: str) -> None:
    table = differences(name)
    assert table is not None
    settings = {
        *method_class(name).Parameters.model_fields,
        *(field for kind in KINDS for field in trainer_class(kind).Parameters.model_fields),
        *(field for entry in dataset_entries().values() for field in entry.options().model_fields),
    }
    known = {*settings, *method_names(), *ClassifierTrainer.labels}
    checked = 0
    for code in (code for row in table.rows for code in re.findall(r"`([^`]+)`", row.here)):
        # Commands, files and options are looked at with the guides'.
        if re.match(r"bench(marks)?[ /]|--", code):
            continue
        if code.partition("(")[0] in dataset_entries():
            resolve(code)
        elif "(" in code:
            assert build_method(code).name == code.partition("(")[0]
        else:
            assert code.partition("=")[0] in known or is_metric(code), code
        checked += 1
    assert checked >= 5

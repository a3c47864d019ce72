"""Settings of a run are said once: what commands, the API, files and plans know of them is made of one record."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Callable
from typing import Any, get_type_hints

import click
import numpy as np
import pytest

import bench
from bench.base.errors import UsageError
from bench.base.spec import parse
from bench.cli.run import command
from bench.evaluation.experiment import Experiment
from bench.evaluation.plan import Plan
from bench.results.commands import (
    chosen,
    conditions_of,
    contradictions,
    print_command,
    settings_of,
    stored_settings,
)
from bench.results.manifest import StoredSettings
from bench.results.settings import (
    Keywords,
    RunSettings,
    check_settings,
    known_settings,
    option,
)
from bench.results.store import StoredResult

Run = Callable[..., StoredResult]
NAMES = [item.name for item in dataclasses.fields(RunSettings)]
#: A value of each that is not its default; a new setting needs one here.
OTHERS: dict[str, Any] = {
    "split": "all",
    "limit": 7,
    "template": "name_description",
    "depth": 50,
    "cut": "size",
    "cut_at": 3.0,
    "repeats": 2,
}


def test_type_checkers_are_told_the_same() -> None:
    values, told = get_type_hints(RunSettings), get_type_hints(Keywords)
    assert list(values.items()) == list(told.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_an_option_a_keyword_a_key_of_a_file_and_a_part_of_the_command(name: str) -> None:
    value = OTHERS[name]
    assert value != known_settings()[name].default
    (there,) = [part for part in command.params if part.name == name]
    assert isinstance(there, click.Option)
    assert there.opts == [option(name)]
    assert (there.help or "").startswith(known_settings()[name].help)
    assert there.default is None
    assert inspect.signature(bench.run).parameters["settings"].kind is inspect.Parameter.VAR_KEYWORD
    given = {"methods": ["bm25"], "datasets": ["starter"], name: value}
    (plan,) = Experiment.model_validate(given).plans()
    assert plan == Plan(parse("starter"), parse("bm25"), **vars(check_settings({name: value})))
    assert getattr(plan, name) == value
    assert name in Experiment.model_json_schema()["properties"]
    words = shlex.split(plan.command())
    assert words[-2:] == [option(name), str(value)]
    # What a manifest stores gives the same command, and the same plan again.
    stored = StoredSettings.model_validate_json(stored_settings("bm25", "starter", plan).model_dump_json())
    assert print_command(stored) == plan.command()
    assert chosen(stored) == plan.chosen() == {name: value}


def test_defaults_are_left_out_of_the_command() -> None:
    plan = Plan(parse("starter"), parse("bm25"))
    assert plan.command() == "bench run --method bm25 --dataset starter"
    assert plan.chosen() == {}


def test_numbers_of_numpy_are_numbers() -> None:
    result = check_settings({"limit": np.int64(3), "cut_at": np.float32(2.0), "depth": np.int8(5)})
    assert [(type(value), value) for value in (result.limit, result.cut_at, result.depth)] == [
        *((int, 3), (float, 2.0), (int, 5)),
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"limit": 0}, "limit is 0; it must be a whole number of 1 or more."),
        ({"limit": 2.5}, "limit is 2.5; it must be a whole number of 1 or more."),
        ({"depth": None}, "depth is None; it must be a whole number of 1 or more."),
        ({"cut": None}, "cut is None; it must be none, size, threshold or gap."),
        ({"cut_at": "x"}, "cut_at is 'x'; it must be a number."),
        ({"template": 3}, "template is 3; it must be a name or the path of a Jinja file, as a string."),
        ({"colour": 1}, "there is no setting 'colour' of a run; there are split, limit, template, depth, cut, cut_at"),
    ],
)
def test_what_a_setting_cannot_be_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_settings(given)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "plan",
    [
        {"split": "dev", "limit": 3, "depth": 5, "template": "description"},
        {"cut": "size", "cut_at": 3.0},
        {"cut": "threshold", "cut_at": 0.1 + 0.2},
        {"cut": "size"},
        {"repeats": 2},
    ],
)
def test_settings_that_an_older_manifest_does_not_have_follow_from_its_conditions(
    run: Run, plan: dict[str, Any]
) -> None:
    manifest = run("random" if "repeats" in plan else "bm25", **plan).manifest
    assert manifest.settings is not None
    older = manifest.model_copy(update={"settings": None})
    for each in (manifest, older):
        assert contradictions(each) == []
        assert conditions_of(each) == conditions_of(manifest)
    rebuilt = settings_of(older).model_dump() | {"split": None, "template": None}
    assert rebuilt == manifest.settings.model_dump() | {"split": None, "template": None}
    # Of a dataset that is not known here, nothing goes without saying.
    said = manifest.environment.model_copy(update={"command": print_command(settings_of(older))})
    assert contradictions(older.model_copy(update={"environment": said})) == []

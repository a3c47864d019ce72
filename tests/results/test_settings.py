"""Settings of a run are said once: what commands, the API, files and plans know of them is made of one record."""

from __future__ import annotations

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
from bench.lookup.consistency import contradictions, resolved_settings
from bench.results.commands import print_command, settings_of, stored_settings
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
NAMES = list(RunSettings.model_fields)


def other_value(name: str) -> Any:
    """A value of a setting that is not its default."""
    setting = known_settings()[name]
    if setting.choices:
        return next(choice for choice in setting.choices if choice != setting.default)
    return {int: 7, float: 3.0, str: "full"}[setting.kind]


def test_type_checkers_are_told_the_same() -> None:
    values = get_type_hints(RunSettings)
    assert [(name, values[name]) for name in NAMES] == list(get_type_hints(Keywords).items())


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_an_option_a_keyword_a_key_of_a_file_and_a_part_of_the_command(name: str) -> None:
    value = other_value(name)
    assert value != known_settings()[name].default
    (there,) = [part for part in command.params if part.name == name]
    assert isinstance(there, click.Option)
    assert there.opts == [option(name)]
    assert (there.help or "").startswith(known_settings()[name].help)
    assert there.default is None
    assert inspect.signature(bench.run).parameters["settings"].kind is inspect.Parameter.VAR_KEYWORD
    given = {"methods": ["bm25"], "datasets": ["starter"], name: value}
    (plan,) = Experiment.model_validate(given).plans()
    assert plan == Plan(parse("starter"), parse("bm25"), **check_settings({name: value}).non_defaults())
    assert getattr(plan, name) == value
    assert name in Experiment.model_json_schema()["properties"]
    words = shlex.split(plan.command())
    assert words[-2:] == [option(name), str(value)]
    # What a manifest stores gives the same command, and the same plan again.
    stored = StoredSettings.model_validate_json(stored_settings("bm25", "starter", plan).model_dump_json())
    assert print_command(stored) == plan.command()
    assert stored.non_defaults() == plan.non_defaults() == {name: value}


def test_defaults_are_left_out_of_the_command() -> None:
    plan = Plan(parse("starter"), parse("bm25"))
    assert plan.command() == "bench run --method bm25 --dataset starter"
    assert plan.non_defaults() == {}


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
        ({"cut_at": "x"}, "cut_at is 'x'; it must be a finite number."),
        ({"cut_at": float("nan")}, "cut_at is nan; it must be a finite number."),
        ({"repeats": 0}, "repeats is 0; it must be a whole number from 1 to 100."),
        ({"repeats": 101}, "repeats is 101; it must be a whole number from 1 to 100."),
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
        assert resolved_settings(each) == resolved_settings(manifest)
    rebuilt = settings_of(older).model_dump() | {"split": None, "template": None}
    assert rebuilt == manifest.settings.model_dump() | {"split": None, "template": None}
    # Of a dataset that is not known here, nothing goes without saying.
    said = manifest.environment.model_copy(update={"command": print_command(settings_of(older))})
    assert contradictions(older.model_copy(update={"environment": said})) == []

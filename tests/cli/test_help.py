"""`--help` of every verb: everyday options first, then the others, then those that most verbs have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from bench.cli import cli
from bench.cli.common import COMMON
from bench.cli.help import MoreOption, VerbCommand

Bench = Callable[..., Any]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(commands(cli))
COMMON_OPTIONS = [option for options in COMMON.values() for option in options]


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_option_is_listed_once_in_its_section(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    assert isinstance(command, VerbCommand), "made without cls=VerbCommand"
    text = command.get_help(click.Context(command, info_name=path[-1]))
    _, *parts = re.split(r"^(Options|More options|Common options):\n", text, flags=re.MULTILINE)
    listed = {
        title: re.findall(r"^  (-[^\s,]+)", part, re.MULTILINE)
        for title, part in zip(parts[::2], parts[1::2], strict=True)
    }
    assert [*listed] == [title for title in ("Options", "More options", "Common options") if title in listed]
    expected: dict[str, list[str]] = {}
    for parameter in command.get_params(click.Context(command)):
        record = parameter.get_help_record(click.Context(command))
        if record is not None and isinstance(parameter, click.Option):
            few = "More options" if isinstance(parameter, MoreOption) else "Options"
            title = "Common options" if parameter in COMMON_OPTIONS else few
            expected.setdefault(title, []).append(re.split(r"[ ,]", record[0])[0])
    assert listed == expected
    # No command has an option of its own that reads like a common one.
    words = {word for option in COMMON_OPTIONS for word in option.opts}
    own = [item for item in command.params if isinstance(item, click.Option) and item not in COMMON_OPTIONS]
    assert not words & {word for option in own for word in option.opts}


def test_what_a_first_run_needs_comes_first(bench: Bench) -> None:
    text = bench("run", "--help").out
    first, more, common = re.split("More options:|Common options:", text)
    assert all(name in first for name in ("--method", "--dataset", "--metric", "--limit"))
    assert all(name in more for name in ("--jobs", "--repeats", "--overwrite"))
    assert all(name in common for name in ("--results", "--json", "--offline", "--mirror", "--quiet"))

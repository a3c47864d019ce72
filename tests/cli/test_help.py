"""`--help`: everyday options first, the others below them, for every verb."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from bench.cli import cli
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


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_option_is_listed_once_in_its_section(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    assert isinstance(command, VerbCommand), "made without cls=VerbCommand"
    text = command.get_help(click.Context(command, info_name=path[-1]))
    everyday, _, more = text.partition("\nOptions:\n")[2].partition("\nMore options:\n")
    listed = [re.findall(r"^  (-[^\s,]+)", section, re.MULTILINE) for section in (everyday, more)]
    expected: list[list[str]] = [[], []]
    for parameter in command.get_params(click.Context(command)):
        record = parameter.get_help_record(click.Context(command))
        if record is not None and isinstance(parameter, click.Option):
            expected[isinstance(parameter, MoreOption)].append(re.split(r"[ ,]", record[0])[0])
    assert listed == expected
    assert "--help" not in more


def test_plain_commands_have_no_second_section() -> None:
    assert "More options" not in EVERY["metrics",].get_help(click.Context(EVERY["metrics",]))


def test_what_a_first_run_needs_comes_first(bench: Bench) -> None:
    text = bench("run", "--help").out
    first, more = text.split("More options:")
    assert all(name in first for name in ("--method", "--dataset", "--metric", "--limit", "--results", "--json"))
    assert all(name in more for name in ("--offline", "--mirror", "--jobs", "--repeats", "--overwrite"))

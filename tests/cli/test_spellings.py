"""Old spellings are answered by one sentence, which names a spelling that works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from bench.cli import cli
from bench.cli.spellings import _BECAME

Bench = Callable[..., Any]


@pytest.mark.parametrize("old", _BECAME)
def test_an_old_spelling_is_answered_by_one_sentence(bench: Bench, old: str) -> None:
    # Whatever else is typed, and whether the value follows after a space or after a sign.
    for more in ([], ["x", "--json"], ["="]):
        words = [*old.split()[:-1], f"{old.split()[-1]}=x"] if more == ["="] else [*old.split(), *more]
        if more == ["="] and ("--" not in old or old.endswith(" all")):
            continue
        # To a gate, a wrong command is a gate that has not run.
        said = bench(*words, code=3 if old.startswith("gate") else 2)
        assert said.err == f"Error: bench {old} {_BECAME[old]}.\n"
        assert said.out == ""


@pytest.mark.parametrize("sentence", _BECAME.values())
def test_the_spelling_that_is_named_exists(sentence: str) -> None:
    _, found, new = sentence.partition("is now bench ")
    words = new.split()
    command: click.Command = cli
    while found and words and isinstance(command, click.Group):
        child = command.get_command(click.Context(command), words.pop(0))
        assert child is not None, sentence
        command = child
    options = {word for parameter in command.params for word in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options, sentence


def test_a_value_that_reads_like_an_old_spelling_is_a_value(bench: Bench) -> None:
    assert "no result 'metrics'" in bench("show", "metrics", code=2).err
    assert "--nonsense" in bench("run", "--nonsense", code=2).err

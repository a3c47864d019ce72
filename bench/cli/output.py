"""Output of all verbs: JSON, fields, messages, and a console that fits the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from bench.base.secrets import mask
from bench.base.text import clean, terminal_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_NO_TERMINAL_WIDTH = 100


def console() -> Console:
    """A console for standard output, 100 columns wide if that is not a terminal."""
    from rich.console import Console

    class CleanConsole(Console):
        """Removes control characters: names come from run files and other people's results."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=clean(segment.text))

        def on_broken_pipe(self) -> None:
            """Raise instead of exiting with 1, as rich does: a closed pipe is not a failure."""
            raise BrokenPipeError

    width = None if sys.stdout is not None and sys.stdout.isatty() else _NO_TERMINAL_WIDTH
    # Brackets in texts of datasets and methods are not markup.
    return CleanConsole(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def whoever_reads() -> Iterator[None]:
    """Go on after output inside meets a closed pipe (`head`, a closed pager).

    A check must reach its own exit code: bench's main program ends with code 0 on a closed pipe.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(message: str) -> None:
    """Print a line for people to standard error; it may quote files and services."""
    click.echo(terminal_text(mask(message)), err=True)


def print_json(value: Any) -> None:
    """Print indented JSON."""
    click.echo(harmless_json(json.dumps(value, indent=1, ensure_ascii=False)))


def harmless_json(text: str) -> str:
    """Escape control characters in JSON for the terminal; the parsed values stay the same."""
    return "\n".join(line if line.isprintable() else "".join(map(_escape_sign, line)) for line in text.split("\n"))


def _escape_sign(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def print_field(name: str, value: str) -> None:
    """Print a line of a card: a bold name and a text, with indented continuation lines."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=max(13, len(name)), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, style="bold"), Text(value.strip()))
    console().print(grid)

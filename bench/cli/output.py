"""Output: JSON, fields and messages, and the console, which fits the terminal."""

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
    """Standard output; a hundred columns when it is not a terminal."""
    from rich.console import Console

    class CleanConsole(Console):
        """Names come from run files and other people's results: the terminal must not obey what is in them."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=clean(segment.text))

        def on_broken_pipe(self) -> None:
            """A reader who has gone is no failure; left to itself, rich ends the process with 1."""
            raise BrokenPipeError

    width = None if sys.stdout is not None and sys.stdout.isatty() else _NO_TERMINAL_WIDTH
    # Texts of datasets and methods are printed: their brackets are brackets, not markup.
    return CleanConsole(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def whoever_reads() -> Iterator[None]:
    """What is printed inside may lose its reader (`head`, a closed pager) without ending the command.

    A check must come to its exit code: to bench's main program a reader who has gone is an end like any other.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(message: str) -> None:
    """A line for people on standard error; what files and services say may be in it."""
    click.echo(terminal_text(mask(message)), err=True)


def print_json(value: Any) -> None:
    """Indented JSON."""
    click.echo(harmless_json(json.dumps(value, indent=1, ensure_ascii=False)))


def harmless_json(text: str) -> str:
    """JSON in which what a terminal would obey is escaped; a program reads the same values."""
    return "\n".join(line if line.isprintable() else "".join(map(_escape_sign, line)) for line in text.split("\n"))


def _escape_sign(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def print_field(name: str, value: str) -> None:
    """A line of a card: a bold name and a text, indented where it wraps."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=max(13, len(name)), no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, style="bold"), Text(value.strip()))
    console().print(grid)

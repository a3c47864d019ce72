"""The class of all commands: its help, the options that most commands share, and the reply to old spellings.

Every command module uses it. A command has `cls=VerbCommand` (a group `cls=Group`), and an option that few users need
is a `more_option`, which help lists in a separate section below the others. `common` names options of
`bench.cli.common`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from bench.base.keys import refuse
from bench.cli.common import COMMON, common_options, use_common
from bench.cli.spellings import became


class MoreOption(click.Option):
    """An option that few users need."""


more_option = partial(click.option, cls=MoreOption)


class VerbCommand(click.Command):
    """A command whose help has sections, and which refuses arguments that contain a key.

    Attributes:
        common: the names of its common options.
    """

    def __init__(self, *arguments: Any, common: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.common = tuple(common)
        self.params += common_options(self.common)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # For every verb: specs, names and reasons are stored.
        refuse("the command", *args)
        typed = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError:
            answer_old(ctx, typed)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Apply the common options and call the command."""
        use_common(ctx, self.common)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, without empty sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "More options": [], "Common options": []}
        common = {*common_options([*COMMON])}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # Newer versions of click also have help records for arguments.
            if record is not None and not isinstance(parameter, click.Argument):
                few = "More options" if isinstance(parameter, MoreOption) else "Options"
                sections["Common options" if parameter in common else few].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(click.Group):
    """A group of `VerbCommand`s."""

    command_class = VerbCommand
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed."""
        if args and self.get_command(ctx, args[0]) is None:
            answer_old(ctx, args)
        return super().resolve_command(ctx, args)


def answer_old(context: click.Context, words: Sequence[str]) -> None:
    """Raise a usage error if the words contain an old spelling."""
    _, _, command = context.command_path.partition(" ")
    if sentence := became(command, words):
        raise click.UsageError(sentence)

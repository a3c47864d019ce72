"""Help that begins with what is used every day.

A command is made with `cls=VerbCommand` (a group with `cls=Group`), and an option that few need with `more_option`:
help lists it in a section of its own, below the others.
"""

from __future__ import annotations

from functools import partial

import click

from bench.base.secrets import refuse


class MoreOption(click.Option):
    """An option that few need."""


more_option = partial(click.option, cls=MoreOption)


class VerbCommand(click.Command):
    """A command whose help lists the options that few need after the others, and whose words hold no key."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Whatever verb it is: specs, names and reasons are stored.
        refuse("the command", *args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both lists; an empty one is left out."""
        everyday: list[tuple[str, str]] = []
        more: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # Newer versions of click have a record of an argument, too.
            if record is not None and not isinstance(parameter, click.Argument):
                (more if isinstance(parameter, MoreOption) else everyday).append(record)
        for title, records in (("Options", everyday), ("More options", more)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(click.Group):
    """A group of such commands."""

    command_class = VerbCommand
    group_class = type

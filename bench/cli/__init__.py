"""The command line: one module per verb, imported on use, so that `bench --help` is fast."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import click

import bench
from bench.base.errors import EXIT_CODES
from bench.base.plugins import Verb, faults, verbs
from bench.cli.help import Group, answer_old

#: The first line of a verb's module: the verb and its line of help.
_FIRST_LINE = re.compile(r'"""`bench (\w+)`: (.+?)(?:""")?$')


@cache
def _built_in() -> dict[str, Verb]:
    """The verbs of this folder by name, read from the first lines of its modules, which are not imported."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        with path.open(encoding="utf-8") as file:
            match = _FIRST_LINE.match(file.readline())
        if match is not None:
            found[match[1]] = Verb(f"bench.cli.{path.stem}", match[2][0].upper() + match[2][1:])
    return found


class PluggedGroup(Group):
    """A group with the verbs of plug-ins besides its own (`bench.base.plugins`)."""

    #: The verb whose subcommands they are; empty for `bench` itself.
    below = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *verbs(self.below)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        built_in = super().get_command(ctx, cmd_name)
        plugged = verbs(self.below)
        if built_in is not None or cmd_name not in plugged:
            return built_in
        command: click.Command = importlib.import_module(plugged[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Don't import plug-ins just to print help.
        plugged = verbs(self.below)
        built_in = {name: super(PluggedGroup, self).get_command(ctx, name) for name in super().list_commands(ctx)}
        rows = {name: command.get_short_help_str(100) for name, command in built_in.items() if command is not None}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(({name: verb.help for name, verb in plugged.items()} | rows).items()))


class _LazyGroup(PluggedGroup):
    """A group that imports the module of a command when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lines()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _built_in():
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(_built_in()[cmd_name].module)
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._lines():
            answer_old(ctx, args)
            import difflib

            close = difflib.get_close_matches(args[0], self._lines(), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            also = "".join(f" {fault[0].upper()}{fault[1:]}" for fault in faults())
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}{also}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*self._lines().items()])

    def _lines(self) -> dict[str, str]:
        """Verb -> its line of help, in alphabetical order."""
        return {name: verb.help for name, verb in sorted({**verbs(), **_built_in()}.items())}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl(
                [
                    ("bench run", "runs tgr on starter, offline"),
                    ("bench run --method tgr --dataset apibank", "real data, downloaded on first use"),
                    ("bench run -m bm25 -m dense -d starter", "two methods side by side"),
                ]
            )
        with formatter.section("Environment"):
            formatter.write_dl(
                [
                    ("BENCH_RESULTS", "results folder (default: results)"),
                    ("BENCH_CACHE, BENCH_DATA", "folders for downloads and for added datasets"),
                    ("BENCH_MIRROR", "local mirror of upstream files, used instead of the network"),
                    ("BENCH_OFFLINE=1", "never use the network"),
                ]
            )
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="bench: an evaluation harness for tool retrieval.",
)
@click.version_option(bench.__version__, message="bench %(version)s")
def cli() -> None:
    """The root of all commands."""

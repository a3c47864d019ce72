"""`bench init`: write a starter example: tools, queries, policy, workflow."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from bench.cli.help import VerbCommand
from bench.example.source import find_source
from bench.example.write import FIRST_COMMAND, write_example
from bench.show.numbers import several


@click.command("init", cls=VerbCommand)
@click.argument("folder", default="tool-search", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Write an example to start from into FOLDER  [default: tool-search].

    It has the tools of two MCP servers, queries, a gate policy, jobs for GitHub and GitLab, and a README that leads to
    a gate failing on a worsened description. Nothing is overwritten.
    """
    written = write_example(folder)
    click.echo(f"wrote {several(len(written), 'file')} to {folder}: start with README.md, or with")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))}\n  "
    click.echo(f"  {enter}{FIRST_COMMAND}")
    if note := find_source().note:
        click.echo(f"before CI runs: {note}")

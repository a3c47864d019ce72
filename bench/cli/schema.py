"""`bench schema`: the JSON Schemas of the files that bench writes."""

from __future__ import annotations

import click

from bench.base.errors import UsageError
from bench.base.parameters import suggestion
from bench.cli.help import VerbCommand
from bench.cli.output import print_json
from bench.cli.schemas import schema_files, shipped_schema


@click.command("schema", cls=VerbCommand)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the schema of that name, or list the names."""
    names = list(schema_files())
    if name is None:
        for known in names:
            click.echo(known)
        return
    if name not in names:
        raise UsageError(f"there is no schema {name!r}{suggestion(name, names)}; there are {', '.join(names)}.")
    print_json(shipped_schema(name))

"""`bench data import`: import a catalogue of tools in the form that its owners use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import UsageError
from bench.base.text import one_line
from bench.cli.help import VerbCommand, more_option
from bench.cli.options import servers_option
from bench.cli.output import print_json, say
from bench.show.numbers import several

if TYPE_CHECKING:
    from bench.remote.servers import Server

#: The forms of `bench.importing.tools.forms`, repeated here because importing it would slow down `--help`.
_FORMS = ("mcp", "openai", "anthropic", "gemini", "openapi")
_SHOWN = 5


@click.command("import", cls=VerbCommand, common=("json",))
@click.argument("name")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...", type=click.Path())
@servers_option
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    help="CSV, JSON Lines or YAML file with query and tools, or a folder with queries.jsonl and qrels.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="FIELD=NAME",
    help="Name of a field in the query file: text=prompt, tools=expected.calls.name.",
)
@click.option("--as", "form", type=click.Choice(_FORMS), help="Form of all sources [default: detected].")
@more_option("--drop-duplicates", is_flag=True, help="If different tools have the same id, keep the first.")
@more_option("--drop-unknown-gold", is_flag=True, help="Drop gold that names tools outside the sources.")
@more_option("--replace", is_flag=True, help="Replace a dataset added under the same name.")
@click.option("--unit", help="What makes queries dependent, as in bench data add.  [default: gold]")
def command(
    name: str,
    sources: tuple[str, ...],
    servers: list[Server],
    queries: Path | None,
    fields: tuple[str, ...],
    unit: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Import your tools as the dataset NAME.

    SOURCE is a file or a folder: the reply of an MCP server to tools/list, functions for OpenAI, Anthropic or Gemini,
    or OpenAPI. Several sources are merged. SERVER=SOURCE names the server that the tools belong to.

    --mcp starts a server, or asks the one at a URL: --mcp 'python server.py', --mcp NAME=http://localhost:8000/mcp. It
    runs with your rights. Only servers you name are started.

    Without --queries, the dataset has tools but no queries: audit it, or import it again with queries.
    """
    from bench.data.units import parse_unit
    from bench.registry.catalogues import import_sources

    if not sources and not servers:
        raise UsageError("there is nothing to import; name a SOURCE, or a server with --mcp or --mcp-config.")
    if fields and queries is None:
        raise UsageError("--field names fields of the queries; name their file with --queries.")
    if wrong := next((each for each in fields if "=" not in each), ""):
        raise UsageError(f"--field {one_line(wrong, 60)!r} is not of the form FIELD=NAME, as in --field text=prompt.")
    notes: list[str] = []
    dataset = import_sources(
        name,
        sources,
        queries,
        servers=servers,
        unit=None if unit is None else parse_unit(unit),
        fields=[(field.strip(), path) for field, _, path in (each.partition("=") for each in fields)],
        notes=notes,
        **options,
    )
    of_servers = {tool.tool_id.removesuffix(tool.name) for tool in dataset.tools} - {""}
    if as_json:
        print_json(
            {
                "dataset": dataset.spec,
                "tools": len(dataset.tools),
                "servers": len(of_servers),
                "queries": len(dataset.queries),
                "content_hash": dataset.content_hash,
                "notes": notes,
                "dropped_gold": [list(pair) for pair in dataset.unknown_gold],
                "remarks": [{"place": place, "remark": remark} for place, remark in dataset.remarks],
            }
        )
        return
    of = f" of {len(of_servers)} servers" if len(of_servers) > 1 else ""
    sizes = f"{several(len(dataset.tools), 'tool')}{of}, {several(len(dataset.queries), 'query')}"
    click.echo(f"imported {name}: {sizes}; next: bench data audit {name}")
    for note in notes:
        say(f"{one_line(str(queries), 120)}: {note}")
    for query, tool in dataset.unknown_gold[:_SHOWN]:
        say(f"{one_line(query, 80)}: there is no tool {one_line(tool, 80)!r}; left out")
    if len(dataset.unknown_gold) > _SHOWN:
        say(f"and {len(dataset.unknown_gold) - _SHOWN} more unknown tools")
    for place, remark in dataset.remarks[:_SHOWN]:
        say(f"{place}: {remark}")
    if len(dataset.remarks) > _SHOWN:
        say(f"and {len(dataset.remarks) - _SHOWN} more remarks; --json lists all")

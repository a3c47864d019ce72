"""`bench data from-traffic`: queries with the tools that were called, out of logs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import UsageError
from bench.base.paths import storage_errors
from bench.base.text import one_line
from bench.cli.help import VerbCommand, more_option
from bench.cli.output import print_json, say
from bench.show.numbers import several

if TYPE_CHECKING:
    from bench.traces.traces import CalledName, Traffic

#: The formats in `bench.traces.forms`, which `--help` does not import.
_FORMS = ("otel", "openai", "langfuse", "langsmith", "agents", "mcp")
_SHOWN = 5
#: Maximum kinds of unread parts, and maximum places of each.
_KINDS, _OF_A_KIND = 10, 2
_NAMES = {"[email]": ("e-mail address", "e-mail addresses"), "[key]": ("key", "keys"), "[number]": ("long number", "")}


@click.command("from-traffic", cls=VerbCommand, common=("json",))
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--out", "output", required=True, type=click.Path(path_type=Path), help="File of queries to write, JSON Lines."
)
@click.option("--as", "form", type=click.Choice(_FORMS), help="Form of all records [default: recognised].")
@click.option(
    "--tools",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Catalogue, as for bench data import: calls of other tools are listed and left out.",
)
@more_option(
    "--search-tool",
    "search_tools",
    multiple=True,
    metavar="NAME",
    help="Another tool that searches for tools: its calls are no gold, what they searched for is kept.",
)
@more_option("--keep-personal-data", is_flag=True, help="Do not mask e-mail addresses, keys, tokens and long numbers.")
@more_option("--replace", is_flag=True, help="Replace the file of queries.")
def command(
    files: tuple[Path, ...], output: Path, sources: tuple[str, ...], replace: bool, as_json: bool, **options: Any
) -> None:
    """Write the requests in logs, with the tools that were called for each, as a file of queries.

    FILE is JSON Lines or JSON: OpenTelemetry spans and log records of generative AI, requests and answers of OpenAI and
    similar APIs, messages of agent frameworks, exports of Langfuse and LangSmith, or logs of MCP gateways. Each record
    is recognised by itself.

    A query is a user turn; its tools are those called until the next turn, except tools whose every call failed.
    Searches for tools, handoffs and a host's built-in tools are not gold; for a bridge such as call_tool, the tool
    inside counts. A tool of the catalogue always counts, whatever its name. A call is not always right: read the
    queries before you use them as gold.

    E-mail addresses, keys, tokens and long numbers are masked. Names of people are not.
    """
    from bench.traces.traces import read_traffic

    with storage_errors(str(output)):
        if output.is_dir():
            raise UsageError(f"{output} is a folder; name a file to write.")
        if output.exists() and not replace:
            raise UsageError(f"{output} exists; name another file, or replace it with --replace.")
    traffic = read_traffic(files, tools=sources, **options)
    traffic.write(output)
    if as_json:
        remarks = [{"place": place, "remark": remark} for place, remark in traffic.remarks]
        about = {"output": str(output), "queries": len(traffic.queries), "remarks": remarks}
        print_json(dataclasses.asdict(dataclasses.replace(traffic, queries=())) | about)
        return
    _tell(traffic, output)


def _tell(traffic: Traffic, output: Path) -> None:
    tools = len({tool for row in traffic.queries for tool in row["tools"]})
    records = ", ".join(f"{count} {form}" for form, count in traffic.records.items())
    click.echo(f"wrote {output}: {several(len(traffic.queries), 'query')} with {several(tools, 'tool')}")
    read = several(sum(traffic.records.values()), "record")
    click.echo(f"read: {several(traffic.requests, 'request')} in {read} ({records})")
    if traffic.from_searches:
        click.echo(f"{traffic.from_searches} are texts of tool searches, because the log has no request")
    if traffic.masked:
        counts = ", ".join(several(count, *_NAMES[placeholder]) for placeholder, count in traffic.masked.items())
        click.echo(f"masked: {counts}")
    click.echo("called is not the same as right: read them before you use them as gold")
    click.echo(f"next: bench data import NAME SOURCE --queries {output} --unit gold+group")
    if traffic.mapped_names:
        say(traffic.mapped_names)
    for reason, count in sorted(traffic.dropped.items(), key=lambda pair: (-pair[1], pair[0])):
        say(f"left out: {several(count, 'request')}: {reason}")
    if traffic.loose_calls:
        say(f"left out: {several(traffic.loose_calls, 'call')} for which the logs have no request")
    if traffic.ambiguous:
        say(f"{several(traffic.ambiguous, 'text')} in several queries, with different tools")
    if traffic.failed_calls:
        retries = f"{several(traffic.retries, 'retry')} (another call of the tool did not fail)"
        by_text = f"{traffic.failed_by_text} known only by the text of the result"
        parts = ((retries, traffic.retries), (by_text, traffic.failed_by_text))
        about = ", ".join(part for part, count in parts if count)
        say(several(traffic.failed_calls, "failed call") + (f": {about}" if about else ""))
    _say_first("is ambiguous", traffic.ambiguous_tools)
    _say_first("is not a known tool", traffic.unknown_tools, "near ")
    _say_first("is not gold", traffic.set_aside)
    for kind, count in list(traffic.skipped.items())[:_KINDS]:
        shown = [(place, remark) for place, remark in traffic.remarks if remark.startswith(kind)][:_OF_A_KIND]
        for place, remark in shown:
            say(f"{place}: {remark}")
        if count > len(shown):
            say(f"and {count - len(shown)} more: {kind}")
    if len(traffic.skipped) > _KINDS:
        say(f"and {len(traffic.skipped) - _KINDS} more kinds of records or parts that were not read; --json lists them")


def _say_first(what: str, names: tuple[CalledName, ...], hint: str = "") -> None:
    for each in names[:_SHOWN]:
        near = hint + ", ".join(one_line(tool, 80) for tool in each.near[:_SHOWN]) if each.near else ""
        about = f": {each.why or near}" if each.why or near else ""
        say(f"{each.name!r} {what} ({several(each.requests, 'request')}){about}")
    if len(names) > _SHOWN:
        say(f"and {len(names) - _SHOWN} more: {what}; --json lists all")

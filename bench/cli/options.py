"""Options of several verbs, besides the ones that most verbs share (`bench.cli.common`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from bench.base.errors import UsageError
from bench.base.paths import results_folder
from bench.base.text import one_line
from bench.cli.common import F
from bench.cli.help import more_option
from bench.cli.output import say
from bench.data.template import TEMPLATES, read_template
from bench.results.settings import Setting, known_settings, option


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: method names."""
    from bench.registry import method_names

    return [name for name in method_names() if name.startswith(incomplete)]


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: dataset ids."""
    from bench.data.entries import dataset_entries

    return [name for name in dataset_entries() if name.startswith(incomplete)]


def complete_results(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: names and ids of stored results."""
    from bench.results.store import StoredResult, find_results

    stored = [item.manifest for item in find_results(results_folder()) if isinstance(item, StoredResult)]
    names = [name for item in stored for name in (item.method.alias, item.result_id) if name is not None]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def servers_option(function: F) -> F:
    """`--mcp`, `--mcp-config` and `--skip-failed`; the command receives `servers`, which are not started yet."""

    @click.option(
        "--mcp", multiple=True, metavar="SERVER", help="Command or URL of an MCP server to list the tools of."
    )
    @click.option(
        "--mcp-config",
        multiple=True,
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A client's mcp.json: start and list all its servers.",
    )
    @more_option("--skip-failed", is_flag=True, help="Leave out MCP servers that do not list their tools.")
    @wraps(function)
    def command(*arguments: Any, mcp: tuple[str, ...], mcp_config: tuple[Path, ...], **options: Any) -> Any:
        from bench.remote.servers import server_of, servers_in

        servers = [server_of(text) for text in mcp] + [
            server for file in mcp_config for server in servers_in(file, say)
        ]
        return function(*arguments, servers=servers, **options)

    return cast(F, command)


class _TemplateType(click.ParamType[str]):
    """A named template, or a Jinja file; the value is its source."""

    name = "template"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(TEMPLATES)}|FILE.j2]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return read_template(value)
        except ValueError as error:
            # Jinja reads numbers as Python does, which refuses numbers with thousands of digits.
            where, why = one_line(Path(str(value)).name, 60), one_line(str(error), 160)
            raise UsageError(f"the template {where} is not Jinja: {why}.") from None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        named = [CompletionItem(name) for name in TEMPLATES if name.startswith(incomplete)]
        return named or [CompletionItem(incomplete, type="file")]


#: Settings that `--help` lists before the others.
_EVERYDAY = {"split", "limit"}


def settings_options(*names: str) -> Callable[[F], F]:
    """Options for settings of a run (`bench.results.settings`): the named ones, or all."""

    def decorated(function: F) -> F:
        for name, setting in reversed(known_settings().items()):
            if not names or name in names:
                usual = f" [default: {setting.option.usual}]" if setting.option.usual else ""
                made = click.option if name in _EVERYDAY else more_option
                function = made(
                    option(name),
                    type=_type_of(setting),
                    default=None,
                    metavar=setting.option.metavar,
                    help=f"{setting.help}{usual}.",
                )(function)
        return function

    return decorated


def _type_of(setting: Setting) -> click.ParamType[Any]:
    if setting.option.read is not None:
        return _TemplateType()
    if setting.choices:
        return click.Choice(setting.choices)
    return click.IntRange(setting.least, setting.most) if setting.kind is int else click.FLOAT

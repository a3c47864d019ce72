"""`bench completion`: shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from bench.base.errors import UsageError
from bench.cli.help import VerbCommand


@click.command("completion", cls=VerbCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script.

    bash: eval "$(bench completion bash)"  in ~/.bashrc;  zsh: the same in ~/.zshrc;
    fish: bench completion fish > ~/.config/fish/completions/bench.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}.")
    root = ctx.find_root().command
    click.echo(kind(root, {}, "bench", "_BENCH_COMPLETE").source())

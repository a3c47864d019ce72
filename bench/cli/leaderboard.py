"""`bench leaderboard`: a static page of stored results."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from bench.cli.options import FOLDER, json_option, results_option
from bench.cli.output import print_json
from bench.paths import results_folder


@click.group("leaderboard")
def command() -> None:
    """Build a static page of stored results."""


@command.command("build")
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Folder of the site.")
@results_option
@json_option
def build(out: Path, results: Path | None, as_json: bool) -> None:
    """Write the page; open index.html in a browser, no server is needed."""
    # The folder stands beside the package in a checkout; only the name `bench.leaderboard` holds everywhere.
    site = importlib.import_module("bench.leaderboard.site")
    boards, rejected = site.build_site(results or results_folder(), out)
    if as_json:
        found = {"page": str(out / "index.html"), "boards": len(boards), "left_out": rejected}
        print_json({**found, "results": sum(len(board.rows) for board in boards)})
        return
    for reason in rejected:
        click.echo(f"left out: {reason}", err=True)
    click.echo(f"{len(boards)} boards, {sum(len(board.rows) for board in boards)} results: {out / 'index.html'}")

"""`bench leaderboard`: build a static site of stored results."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import click

from bench.cli.bars import progress
from bench.cli.options import FOLDER, json_option, results_option
from bench.cli.output import print_json, say
from bench.errors import UnavailableError
from bench.storage.paths import results_folder

_REPORT = click.Path(path_type=Path, dir_okay=False)
_baselines_option = click.option(
    "--baselines",
    type=click.Path(path_type=Path),
    default=None,
    help="Baselines (a folder or a file) to show over time, with the gate's verdicts.",
)
_policy_option = click.option(
    "--policy", type=_REPORT, default=None, help="The gate's policy [default: gate.toml next to the baselines]."
)


@click.group("leaderboard")
def command() -> None:
    """Build a static site of stored results, or preview it."""


@command.command("build")
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Site folder.")
@click.option("--reproduction", type=_REPORT, default=None, help="A reproduction.json to publish with the results.")
@click.option(
    "--downloads/--no-downloads",
    default=None,
    help="Write rankings and per-query values for download [default: up to a million lines per result].",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Number of processes [default: one per core].")
@click.option(
    "--ranking-set",
    type=_REPORT,
    default=None,
    help="TOML file with the datasets to rank on [default: the public set].",
)
@_baselines_option
@_policy_option
@click.option("--strict", is_flag=True, help="Fail with code 4 if a ranking or a dataset is missing.")
@results_option
@json_option
def build(
    out: Path,
    reproduction: Path | None,
    downloads: bool | None,
    jobs: int | None,
    ranking_set: Path | None,
    baselines: Path | None,
    policy: Path | None,
    strict: bool,
    results: Path | None,
    as_json: bool,
) -> None:
    """Build the site. Open index.html in a browser; no server is needed.

    Unchanged pages are not rewritten. Pages of deleted results are removed.
    """
    folder = results or results_folder()
    site = _module("site").build_site(
        folder, out, reproduction, downloads, jobs, progress(), ranking_set, baselines, policy
    )
    if as_json:
        print_json(
            {
                "page": str(out / "index.html"),
                "boards": len(site.boards),
                "results": site.results,
                "rejected": [{"where": item.where, "reason": item.reason} for item in site.rejected],
                "incomplete": list(site.incomplete),
                "written": len(site.files.written),
                "unchanged": len(site.files.unchanged),
                "removed": len(site.files.removed),
            }
        )
    else:
        for item in site.rejected:
            say(f"rejected: {item.where}: {item.reason}")
        for sentence in site.incomplete:
            say(f"incomplete: {sentence}")
        click.echo(f"{_summary(site)}: {out / 'index.html'}")
    if strict and site.incomplete:
        first, more = site.incomplete[0], len(site.incomplete) - 1
        also = f" ({more} more)" if more else ""
        raise UnavailableError(f"the site is incomplete: {first.rstrip('.')}{also}; do not publish it.")


@command.command("serve")
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Folder of the site.")
@click.option("--reproduction", type=_REPORT, default=None, help="A reproduction.json to publish with the results.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 selects a free port.")
@_baselines_option
@_policy_option
@results_option
def serve(
    out: Path,
    reproduction: Path | None,
    port: int,
    baselines: Path | None,
    policy: Path | None,
    results: Path | None,
) -> None:
    """Serve the site on localhost, and build it again whenever a result changes.

    A site that was built before is served at once, while it is being brought up to date.
    """
    site, server_module = _module("site"), _module("serve")
    folder = results or results_folder()
    server = server_module.open_server(out, port)
    told = f"http://127.0.0.1:{server.server_address[1]}/ (press Ctrl-C to stop)"

    def again() -> None:
        click.echo(_summary(site.build_site(folder, out, reproduction, baselines=baselines, policy=policy)))

    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        built = (out / "index.html").is_file()
        if built:
            click.echo(f"{told}; until the new pages are ready, it has those of the last build")
        # Taken before the build: what changes while it runs is seen afterwards.
        before = server_module.state_of(folder)
        again()
        if not built:
            click.echo(told)
        server_module.watch(folder, before, again, say, threading.Event())
    except KeyboardInterrupt:
        click.echo("")
    finally:
        server.shutdown()
        server.server_close()


def _module(name: str) -> Any:
    # In a checkout the folder is next to the package; only the name `bench.leaderboard` holds everywhere.
    return importlib.import_module(f"bench.leaderboard.{name}")


def _summary(site: Any) -> str:
    files = site.files
    return (
        f"{len(site.boards)} boards, {site.results} results, {len(site.rejected)} rejected; "
        f"{len(files.written)} files written, {len(files.unchanged)} unchanged, {len(files.removed)} removed"
    )

"""`bench leaderboard`: build a static site of stored results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bench.base.bars import progress
from bench.base.errors import UnavailableError, UsageError
from bench.base.paths import results_folder
from bench.base.spec import parse
from bench.cli.help import Group, more_option
from bench.cli.options import FOLDER, complete_methods, json_option, results_option
from bench.cli.output import print_json, say
from bench.leaderboard.boards.rankingset import list_references, write_references
from bench.leaderboard.pages.registry import pages
from bench.leaderboard.serve import open_server, state_of, watch
from bench.leaderboard.site import Site, build_site
from bench.show.numbers import several

_REPORT = click.Path(path_type=Path, dir_okay=False)
_baselines_option = more_option(
    "--baselines",
    type=click.Path(path_type=Path),
    default=None,
    help="Baselines (a folder or a file) to show over time, with the gate's verdicts.",
)
_policy_option = more_option(
    "--policy", type=_REPORT, default=None, help="The gate's policy [default: gate.toml next to the baselines]."
)
_ranking_set_option = more_option(
    "--ranking-set",
    type=_REPORT,
    default=None,
    help="TOML file with the datasets to rank on and the reference systems [default: the public set, without any].",
)


F = TypeVar("F", bound=Callable[..., Any])


def _files_options(function: F) -> F:
    """An option for each page that is made of a file which the user names: `--reproduction` of the laboratory's."""
    for page in pages():
        if page.file:
            function = click.option(f"--{page.name}", type=_REPORT, default=None, help=page.file)(function)
    return function


@click.group("leaderboard", cls=Group)
def command() -> None:
    """Build a static site of stored results, or preview it."""


@command.command("build")
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Site folder.")
@_files_options
@click.option(
    "--downloads/--no-downloads",
    default=None,
    help="Write rankings and per-query values for download [default: up to a million lines per result].",
)
@more_option("--jobs", type=click.IntRange(1, 64), default=None, help="Number of processes [default: one per core].")
@_ranking_set_option
@_baselines_option
@_policy_option
@more_option("--strict", is_flag=True, help="Fail with code 4 if a ranking or a dataset is missing.")
@results_option
@json_option
def build(
    out: Path,
    downloads: bool | None,
    jobs: int | None,
    ranking_set: Path | None,
    baselines: Path | None,
    policy: Path | None,
    strict: bool,
    results: Path | None,
    as_json: bool,
    **files: Path | None,
) -> None:
    """Build the site. Open index.html in a browser; no server is needed.

    Unchanged pages are not rewritten. Pages of deleted results are removed.
    """
    folder = results or results_folder()
    site = build_site(folder, out, _given_files(files), downloads, jobs, progress(), ranking_set, baselines, policy)
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


@command.command("references")
@click.argument("path", metavar="FILE", type=_REPORT)
@click.argument("methods", metavar="[METHOD]...", nargs=-1, shell_complete=complete_methods)
@results_option
def references(path: Path, methods: tuple[str, ...], results: Path | None) -> None:
    """List the reference systems of a board in FILE, a ranking set. All other results are compared with these.

    They are the results of each METHOD with the usual settings; by default of all registered methods at their defaults.
    Nothing shows that a method made what has its name: use only results that you made, or that `bench submit check
    --rerun` accepted, and read the changes before you commit FILE.
    """
    folder = results or results_folder()
    listed, rejected = list_references(folder, [str(parse(text)) for text in methods])
    for item in rejected:
        say(f"rejected: {item.where}: {item.reason}")
    if not listed:
        raise UsageError(f"{folder} has no results of these methods with the usual settings; name other methods.")
    write_references(path, listed)
    click.echo(f"{several(len(listed), 'reference system')}: {path}")


@command.command("serve")
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Folder of the site.")
@_files_options
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 selects a free port.")
@_ranking_set_option
@_baselines_option
@_policy_option
@results_option
def serve(
    out: Path,
    port: int,
    ranking_set: Path | None,
    baselines: Path | None,
    policy: Path | None,
    results: Path | None,
    **files: Path | None,
) -> None:
    """Serve the site on localhost, and build it again whenever a result changes.

    A site that was built before is served at once, while it is being brought up to date.
    """
    folder = results or results_folder()
    server = open_server(out, port)
    told = f"http://127.0.0.1:{server.server_address[1]}/ (press Ctrl-C to stop)"

    def again() -> None:
        site = build_site(folder, out, _given_files(files), ranking_set=ranking_set, baselines=baselines, policy=policy)
        click.echo(_summary(site))

    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        built = (out / "index.html").is_file()
        if built:
            click.echo(f"{told}; until the new pages are ready, it has those of the last build")
        # Taken before the build: what changes while it runs is seen afterwards.
        before = state_of(folder)
        again()
        if not built:
            click.echo(told)
        watch(folder, before, again, say, threading.Event())
    except KeyboardInterrupt:
        click.echo("")
    finally:
        server.shutdown()
        server.server_close()


def _given_files(files: dict[str, Path | None]) -> dict[str, Path]:
    """Page's name -> the file that the user named for it."""
    return {name: path for name, path in files.items() if path is not None}


def _summary(site: Site) -> str:
    files = site.files
    return (
        f"{several(len(site.boards), 'board')}, {several(site.results, 'result')}, {len(site.rejected)} rejected; "
        f"{several(len(files.written), 'file')} written, {len(files.unchanged)} unchanged, {len(files.removed)} removed"
    )

"""`bench leaderboard`: build a static site of stored results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import click

from bench.base.bars import progress
from bench.base.errors import UnavailableError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.spec import parse
from bench.cli.common import FOLDER, F
from bench.cli.help import Group, more_option
from bench.cli.options import complete_methods
from bench.cli.output import print_json, say
from bench.leaderboard.boards.rankingset import list_references, write_references
from bench.leaderboard.pages.registry import pages
from bench.leaderboard.serve import open_server, state_of, watch
from bench.leaderboard.site import Site, build_site
from bench.show.numbers import several

_REPORT = click.Path(path_type=Path, dir_okay=False)


def _files_options(function: F) -> F:
    """Add an option for each page made from a file that the user names, such as the laboratory's `--reproduction`."""
    for page in pages():
        if page.file:
            function = click.option(f"--{page.name}", type=_REPORT, default=None, help=page.file)(function)
    return function


@click.group("leaderboard", cls=Group)
def command() -> None:
    """Build a static site of stored results, or preview it."""


@command.command("build", common=("results", "json"))
@click.option("--out", type=FOLDER, default=Path("site"), show_default=True, help="Site folder.")
@_files_options
@click.option(
    "--downloads/--no-downloads",
    default=None,
    help="Offer the files of results as a zip file per board [default: up to 10 MB per result].",
)
@more_option("--jobs", type=click.IntRange(1, 64), default=None, help="Number of processes [default: one per core].")
@more_option(
    "--ranking-set",
    type=_REPORT,
    default=None,
    help="TOML file with the datasets to rank on and the reference systems [default: the public set, without any].",
)
@more_option(
    "--baselines",
    type=click.Path(path_type=Path),
    default=None,
    help="Baselines (a folder or a file) to show over time, with the gate's verdicts.",
)
@more_option(
    "--policy", type=_REPORT, default=None, help="The gate's policy [default: gate.toml next to the baselines]."
)
@click.option(
    "--serve",
    "port",
    type=click.IntRange(0, 65535),
    metavar="[PORT]",
    is_flag=False,
    flag_value=8000,
    default=None,
    help="Serve the site on localhost at this port [default: 8000; 0 selects a free one], and build it again whenever "
    "a result changes.",
)
@more_option("--timings", is_flag=True, help="Also print the seconds of each stage.")
@more_option("--strict", is_flag=True, help="Fail with code 4 if a ranking or a dataset is missing.")
def build(
    out: Path,
    downloads: bool | None,
    jobs: int | None,
    ranking_set: Path | None,
    baselines: Path | None,
    policy: Path | None,
    port: int | None,
    timings: bool,
    strict: bool,
    results: Path,
    as_json: bool,
    **files: Path | None,
) -> None:
    """Build the site. Open index.html in a browser; no server is needed.

    Unchanged pages are not rewritten. Pages of deleted results are removed. With --serve, an existing site is served at
    once while it is updated.
    """
    given = {name: path for name, path in files.items() if path is not None}

    def made(progress: Progress) -> Site:
        return build_site(results, out, given, downloads, jobs, progress, ranking_set, baselines, policy)

    if port is not None:
        if strict or as_json or timings:
            raise UsageError("--serve runs until Ctrl-C; leave out --strict, --json and --timings.")
        _serve(out, port, results, lambda: made(QUIET))
        return
    site = made(progress())
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
                "seconds": site.seconds,
            }
        )
    else:
        for item in site.rejected:
            say(f"rejected: {item.where}: {item.reason}")
        for sentence in site.incomplete:
            say(f"incomplete: {sentence}")
        click.echo(f"{_summary(site)}: {out / 'index.html'}")
        for stage, seconds in site.seconds.items() if timings else ():
            say(f"{seconds:7.2f} s  {stage}")
    if strict and site.incomplete:
        first, more = site.incomplete[0], len(site.incomplete) - 1
        also = f" ({more} more)" if more else ""
        raise UnavailableError(f"the site is incomplete: {first.rstrip('.')}{also}; do not publish it.")


@command.command("references", common=("results",))
@click.argument("path", metavar="FILE", type=_REPORT)
@click.argument("methods", metavar="[METHOD]...", nargs=-1, shell_complete=complete_methods)
def references(path: Path, methods: tuple[str, ...], results: Path) -> None:
    """List reference systems in FILE, a ranking set. All other results are compared with these.

    By default, every registered method at its defaults is listed; name METHODs to list only these. Only results with
    the usual settings are used. bench cannot verify that a method made the result that has its name: use only results
    that you made or that `bench submit check --rerun` accepted, and read the changes before you commit FILE.
    """
    listed, rejected = list_references(results, [str(parse(text)) for text in methods])
    for item in rejected:
        say(f"rejected: {item.where}: {item.reason}")
    if not listed:
        raise UsageError(f"{results} has no results of these methods with the usual settings; name other methods.")
    write_references(path, listed)
    click.echo(f"{several(len(listed), 'reference system')}: {path}")


def _serve(out: Path, port: int, results: Path, build: Callable[[], Site]) -> None:
    """Serve the site until Ctrl-C and rebuild it whenever a result changes."""
    server = open_server(out, port)
    told = f"http://127.0.0.1:{server.server_address[1]}/ (press Ctrl-C to stop)"

    def again() -> None:
        click.echo(_summary(build()))

    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        built = (out / "index.html").is_file()
        if built:
            click.echo(f"{told}; it shows the last build until the new pages are ready")
        # Read before the build, so that changes during the build are noticed afterwards.
        before = state_of(results)
        again()
        if not built:
            click.echo(told)
        watch(results, before, again, say, threading.Event())
    except KeyboardInterrupt:
        click.echo("")
    finally:
        server.shutdown()
        server.server_close()


def _summary(site: Site) -> str:
    files = site.files
    return (
        f"{several(len(site.boards), 'board')}, {several(site.results, 'result')}, {len(site.rejected)} rejected; "
        f"{several(len(files.written), 'file')} written, {len(files.unchanged)} unchanged, {len(files.removed)} removed"
    )

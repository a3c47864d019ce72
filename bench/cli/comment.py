"""`bench comment`: put a gate's report on the pull or merge request of this job."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bench.base.errors import UsageError
from bench.base.reading import Reader
from bench.cli.help import VerbCommand

#: Bytes of a report: no comment of GitHub's may have more characters.
_LARGEST = 1 << 18


@click.command("comment", cls=VerbCommand)
@click.argument("report", type=click.Path(path_type=Path))
def command(report: Path) -> None:
    """Write REPORT, which `bench gate --markdown` made, as a comment on the pull or merge request of this job.

    It is for a job that holds a token and runs no code of the request; the token is in GITHUB_TOKEN or COMMENT_TOKEN.
    A comment that an earlier run wrote with the same token's account is written anew.
    """
    from bench.gating.comment import write_comment

    if not write_comment(Reader(f"the report {report}", UsageError).read_text(report, _LARGEST), os.environ):
        click.echo("this job runs for no pull or merge request: nothing is written.")

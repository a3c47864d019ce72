"""The report as a comment on the pull request (GitHub) or merge request (GitLab) whose job runs the gate.

What the job runs for comes from the variables that GitHub and GitLab set for every job. A later run finds its comment
by the report's last line, which no reader sees, and writes it anew.

Sources: https://docs.github.com/en/rest/issues/comments, https://docs.github.com/en/graphql/reference/queries and
https://docs.gitlab.com/api/notes/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from bench.base.config import current_session
from bench.base.errors import UnavailableError
from bench.base.http import BrokenOff, Connections, TooLong
from bench.base.paths import read_regular
from bench.base.secrets import keep
from bench.base.strict_json import loads
from bench.base.text import one_line

_SECONDS = 30.0
#: As `bench.gating.forms.marker` makes it. A report comes from a job that runs other people's code.
_MARKER = re.compile(r"<!-- bench gate [0-9a-f]{16} -->")
#: Bytes of what is read: a page of a hundred comments, each of 65,536 characters at most, or a job's event.
_LARGEST = 64 << 20
_PER_PAGE, _MOST_PAGES = 100, 100


@dataclass(frozen=True)
class _Request:
    """A pull or merge request, by where its comments are read and written.

    Attributes:
        comments: URL of its comments.
        comment: URL of one of them, without its id.
        edit: the HTTP method that edits one.
        commit: what is measured; empty where that is not known.
        headers: with the token.
        user: how to ask whose the token is: HTTP method, URL, body.
        writer: where the answer says it, and where a comment says who wrote it.
    """

    comments: str
    comment: str
    edit: str
    commit: str
    headers: dict[str, str]
    user: tuple[str, str, bytes | None]
    writer: tuple[tuple[str, ...], tuple[str, ...]]


def write_comment(report: str, variables: Mapping[str, str]) -> bool:
    """Write a report as a comment, in place of the one that an earlier run wrote.

    It names its commit: where a later job fails before its gate, the comment stays.

    Args:
        report: Markdown, whose last line is the same for each run of one gate.
        variables: of the environment.

    Returns:
        False if the job runs for no pull or merge request: there is nothing to comment on.

    Raises:
        UnavailableError: it cannot be written; one sentence.
    """
    request = _gitlab(variables) if variables.get("GITLAB_CI") else _github(variables)
    if request is None:
        return False
    if current_session().offline:
        raise UnavailableError("the comment needs the network, which is not used offline.")
    text, _, marker = report.rstrip().rpartition("\n")
    if not _MARKER.fullmatch(marker):
        raise UnavailableError(
            "the comment was not written: the report does not end as one of `bench gate --markdown`."
        )
    commit = f"Commit {request.commit}\n\n" if request.commit else ""
    client, headers = Connections(), {**request.headers, "Content-Type": "application/json"}

    def send(verb: str, url: str, **content: Any) -> bytes:
        answer = client.send(verb, url, headers=headers, seconds=_SECONDS, most=_LARGEST, **content)
        if not 200 <= answer.status < 300:
            said = one_line(answer.body.decode("utf-8", "replace"), 200)
            raise UnavailableError(f"the comment was not written ({verb} gives status {answer.status}: {said}).")
        return answer.body

    try:
        earlier = _earlier(send, request, marker)
        verb, url = ("POST", request.comments) if earlier is None else (request.edit, f"{request.comment}/{earlier}")
        send(verb, url, content=json.dumps({"body": f"{text}\n{commit}{marker}"}).encode())
    except (TimeoutError, TooLong, BrokenOff, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        said = one_line(str(error), 200) or type(error).__name__
        raise UnavailableError(f"the comment was not written ({said}).") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnavailableError("the comment was not written: the list of comments has no form that is known.") from None
    return True


_OF_GITHUB = (("data", "viewer", "login"), ("user", "login"))
_OF_GITLAB = (("id",), ("author", "id"))


def _gitlab(variables: Mapping[str, str]) -> _Request | None:
    number = variables.get("CI_MERGE_REQUEST_IID")
    if not number:
        return None
    api, project = _needed(variables, "CI_API_V4_URL"), quote(_needed(variables, "CI_PROJECT_ID"), safe="")
    notes = f"{api}/projects/{project}/merge_requests/{quote(number, safe='')}/notes"
    token = _needed(variables, "COMMENT_TOKEN", "a project access token with the scope api, in a masked variable")
    commit = variables.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or variables.get("CI_COMMIT_SHA", "")
    return _Request(notes, notes, "PUT", commit, {"PRIVATE-TOKEN": token}, ("GET", f"{api}/user", None), _OF_GITLAB)


def _github(variables: Mapping[str, str]) -> _Request | None:
    if "GITHUB_REPOSITORY" not in variables:
        raise UnavailableError(
            "the comment is for jobs of GitHub and GitLab: the environment has neither GITHUB_REPOSITORY nor GITLAB_CI."
        )
    event = _needed(variables, "GITHUB_EVENT_PATH")
    try:
        about = loads(read_regular(Path(event), _LARGEST)).get("pull_request")
        if about is None:
            return None
        number, commit = int(about["number"]), about.get("head", {}).get("sha", "")
    except OSError as error:
        raise UnavailableError(f"cannot read {one_line(event, 200)}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnavailableError(f"{one_line(event, 200)} does not say which pull request it is about.") from None
    token = _needed(variables, "GITHUB_TOKEN", "${{ github.token }} of a job with `pull-requests: write`")
    api = variables.get("GITHUB_API_URL") or "https://api.github.com"
    issues = f"{api}/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    # The token of a job belongs to no user that REST could name.
    user = ("POST", variables.get("GITHUB_GRAPHQL_URL") or f"{api}/graphql", b'{"query": "{viewer {login}}"}')
    return _Request(f"{issues}/{number}/comments", f"{issues}/comments", "PATCH", commit, headers, user, _OF_GITHUB)


def _needed(variables: Mapping[str, str], name: str, what: str = "") -> str:
    if value := variables.get(name, ""):
        if name.endswith("_TOKEN"):
            keep(value)
        return value
    raise UnavailableError(f"the comment needs the variable {name}" + (f" ({what})." if what else "."))


def _earlier(send: Callable[..., bytes], request: _Request, marker: str) -> int | None:
    """The id of the comment that an earlier run wrote. Anybody can write the marker, so its author counts, too."""
    verb, url, content = request.user
    ours, writer = request.writer
    name = reduce(getitem, ours, loads(send(verb, url, content=content)))
    for page in range(1, _MOST_PAGES + 1):
        asked = {"per_page": str(_PER_PAGE), "page": str(page)}
        comments = loads(send("GET", request.comments, params=asked))
        for comment in comments:
            if str(comment["body"] or "").rstrip().endswith(marker) and reduce(getitem, writer, comment) == name:
                return int(comment["id"])
        if len(comments) < _PER_PAGE:
            break
    return None
